"""The cores that a process may use, on machines that are folders."""

from __future__ import annotations

import os
import pathlib

import pytest

from fluidlite.base.cores import own_cores, usable_cores


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)


def machine(folder: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf8")
    return folder


V2 = {"proc/self/cgroup": "0::/system.slice/job\n"}
V1 = {"proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:memory:/\n0::/\n"}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, 8),
        (V2, 8),
        ({**V2, "sys/fs/cgroup/system.slice/job/cpu.max": "max 100000\n"}, 8),
        ({**V2, "sys/fs/cgroup/system.slice/job/cpu.max": "300000 100000\n"}, 3),
        ({**V2, "sys/fs/cgroup/system.slice/job/cpu.max": "150000 100000\n"}, 2),
        ({**V2, "sys/fs/cgroup/system.slice/job/cpu.max": "10000 100000\n"}, 1),
        # the group around it gives less
        (
            {
                **V2,
                "sys/fs/cgroup/system.slice/job/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/system.slice/cpu.max": "200000 100000\n",
            },
            2,
        ),
        # a container that sees its own group as the root, under the host's path
        ({**V2, "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ({**V2, "sys/fs/cgroup/cpu.max": "nonsense\n"}, 8),
        ({"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (V1, 8),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "0\n",
            },
            8,
        ),
    ],
)
def test_quotas(files: dict[str, str], wanted: int, tmp_path: pathlib.Path) -> None:
    assert usable_cores(machine(tmp_path, files)) == wanted


def test_affinity_counts_too(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    system = machine(tmp_path, {**V2, "sys/fs/cgroup/system.slice/job/cpu.max": "600000 100000\n"})
    assert usable_cores(system) == 2


def test_systems_without_affinity(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores(tmp_path) == 8


@pytest.mark.parametrize(
    "name", ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"]
)
def test_ranks_of_one_host_share_its_cores(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_cores({}, tmp_path) == 8
    assert own_cores({name: "3"}, tmp_path) == 2
    assert own_cores({name: "20"}, tmp_path) == 1
    assert own_cores({name: "0"}, tmp_path) == 8
    # bound by mpiexec already: not divided once more
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {6, 7}, raising=False)
    assert own_cores({name: "4"}, tmp_path) == 2
