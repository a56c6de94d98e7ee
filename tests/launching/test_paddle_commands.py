"""The launchers under Paddle's names, as documents start them: `-m paddle.distributed.launch train.py`."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from mpi_jobs import MPIEXEC

ASKS = """\
import multiprocessing, os, subprocess, sys
import paddle.fluid as fluid

def child():
    import paddle
    print("process", paddle.fluid.__name__, flush=True)

if __name__ == "__main__":
    print("rank", os.environ["PADDLE_TRAINER_ID"], fluid.__name__, sys.argv[1:], flush=True)
    subprocess.run([sys.executable, "-c", "import paddle; print('child', paddle.fluid.__name__)"], check=True)
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""
SAID = ["child fluidlite", "process fluidlite"]
STARTS = """\
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-m", *sys.argv[1:]]).returncode)
"""
LAUNCHERS = ["paddle.distributed.launch", "paddle.distributed.fleet.launch"]
needs_mpi = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install 'fluidlite[mpi]'")


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "asks.py").write_text(ASKS)
    (folder / "starts.py").write_text(STARTS)
    return subprocess.run(
        [sys.executable, "-m", "fluidlite", *arguments],
        cwd=folder,
        env={**os.environ, "FLAGS_rpc_deadline": "200000"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("module", LAUNCHERS)
@pytest.mark.parametrize("by", ["-m", "starts.py"], ids=["the command", "a child of a script"])
def test_one_process(module: str, by: str, tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, by, module, "--nproc_per_node", "1", "asks.py", "--lr", "1")
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout.splitlines() == ["rank 0 fluidlite ['--lr', '1']", *SAID], done


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("module", LAUNCHERS)
def test_ranks(module: str, tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, "-m", module, "--nproc_per_node", "2", "asks.py")
    assert done.returncode == 0 and done.stderr == "", done
    logs = [(tmp_path / "log" / f"workerlog.{rank}").read_text().splitlines() for rank in range(2)]
    assert logs == [[f"rank {rank} fluidlite []", *SAID] for rank in range(2)]


@pytest.mark.parametrize("by", ["-m", "starts.py"], ids=["the command", "a child of a script"])
def test_servers_and_trainers(by: str, tmp_path: pathlib.Path) -> None:
    script = pathlib.Path(__file__).parents[1] / "distributed" / "fleet_script.py"
    text = script.read_text().replace("import fluidlite as fluid", "import paddle.fluid as fluid")
    (tmp_path / "fleet.py").write_text(text.replace("from fluidlite.", "from paddle.fluid."))
    done = run(tmp_path, by, "paddle.distributed.launch_ps", "fleet.py")
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout.splitlines()[-1] == "worker 0 of 2 is done"


@pytest.mark.parametrize("module", [*LAUNCHERS, "paddle.distributed.launch_ps"])
def test_help_and_mistakes(module: str, tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, "-m", module, "--help").stdout.startswith("usage:")
    done = run(tmp_path, "-m", module, "--nothing")
    assert done.returncode == 2 and "Traceback" not in done.stderr, done
