"""Errors that name the file, the line and the op, where the system's or Python's own name nothing."""

from __future__ import annotations

import errno
import os
import pathlib
import resource
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hostile_text import described

import fluidlite as fluid
from fluidlite.distributed.checkpoint_files import CheckpointWriter
from fluidlite.errors import CommunicatorError, FormatError, KernelError, SlotError
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.reading.multi_slot import parse


# ------------------------------------------------------------------------------------------------ data sets
@pytest.mark.parametrize(
    "token", ["inf", "nan", "1e30", "1.9", "18446744073709551616", "-9223372036854775809", "1e400"]
)
def test_an_id_is_a_whole_number_of_64_bits(token: str) -> None:
    with pytest.raises(FormatError, match=r"f\.txt, line 2: .*not an id"):
        parse(f"1 5\n1 {token}\n".encode(), ["uint64"], "f.txt")


@pytest.mark.parametrize("token", ["9223372036854774784", "9223372036854775807", "nan", "inf", "1.5", "-1"])
def test_a_count_that_is_none(token: str) -> None:
    with pytest.raises(FormatError, match=r"f\.txt, line 2: a field has to begin with the number"):
        parse(f"1 5\n{token} 1\n".encode(), ["uint64"], "f.txt")


def test_ids_as_they_are() -> None:
    lines = {"18446744073709551615": -1, "-1": -1, "-9223372036854775808": -(2**63), "1e3": 1000}
    lines |= {str(2**53 + 1): 2**53 + 1, "18446744073709551614": -2}
    text = "".join(f"1 {token}\n" for token in lines).encode()
    assert parse(text, ["uint64"]).fields[0].values.tolist() == list(lines.values())


@pytest.mark.parametrize("text", ["name: 1 {", "slots { }", "\x00", "batch_size: 99999999999999"])
def test_a_description_of_fields(text: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "feed.prototxt"
    path.write_text(text, encoding="utf8")
    with pytest.raises(FormatError, match=r"feed\.prototxt describes no fields"):
        fluid.DataFeedDesc(str(path))


# ------------------------------------------------------------------------------------------------ programs
OPS: dict[str, Callable[[Any], Any]] = {
    "relu": fluid.layers.relu,
    "mul": lambda x: fluid.layers.fc(x, 3, bias_attr=False),
    "elementwise_add": lambda x: fluid.layers.elementwise_add(x, x),
    "layer_norm": fluid.layers.layer_norm,
    "cumsum": fluid.layers.cumsum,
    "fill_constant": lambda x: fluid.layers.fill_constant([2], "float32", 3.0),
    "conditional_block": lambda x: fluid.layers.cond(fluid.layers.mean(x) > 0.0, lambda: x, lambda: -x),
    "relu_grad": lambda x: fluid.gradients(fluid.layers.relu(x), x)[0],
}
"""Ops with rules of their own, with kernels, blocks or none of these, by the layers that append them."""


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("kind", OPS)
def test_an_output_by_an_unknown_slot(kind: str, is_known: bool, naive: bool) -> None:
    """In the place of a known one, or beside all of them."""
    x = fluid.data("x", [2, 3])
    x.stop_gradient = False
    OPS[kind](x)
    desc = described(fluid.default_main_program())
    op = next(op for op in desc.blocks[0].ops if op.type == kind.encode())
    if is_known:
        op.outputs.add(parameter=b"Bogus", arguments=[b"other"])
    else:
        op.outputs[0].parameter = b"Bogus"
    program = fluid.Program.parse_from_string(desc.SerializeToString())
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.naive = naive
    with pytest.raises(SlotError, match=f"op '{kind}' writes .* by the slot 'Bogus'(.|\n)*built at"):
        exe.run(program, feed={"x": np.ones((2, 3), "float32")})


@pytest.fixture
def little_memory() -> Iterator[None]:
    """An address space that holds this process and 4 GB more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = (
        int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    )
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.usefixtures("little_memory")
def test_no_memory(naive: bool) -> None:
    x = fluid.data("x", [2, 3])
    y = fluid.layers.scale(fluid.layers.expand(x, [1 << 17, 1 << 14]), 2.0)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    with pytest.raises(KernelError, match=r"op '(expand|scale)'(.|\n)*built at .*test_named_errors"):
        exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[y])


# ------------------------------------------------------------------------------------------------ the system
def test_a_full_disk_under_a_checkpoint(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = CheckpointWriter(tmp_path, 12)
    monkeypatch.setattr(os, "fsync", full)
    writer.put("w", [b"1"])
    with pytest.raises(OSError, match=r"No space left.*step_00000012"):
        writer.finish({})
    writer.abandon()
    assert os.listdir(tmp_path) == []


def test_a_key_that_others_may_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FLUIDLITE_JOB_KEY", raising=False)
    key = job_key()
    assert job_key() == key
    path = tmp_path / "fluidlite" / "job.key"
    path.chmod(0o666)
    with pytest.raises(CommunicatorError, match=r"job\.key is not private to this user: mode 666"):
        job_key()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommunicatorError, match="not private"):
        job_key()


def test_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLUIDLITE_JOB_KEY", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def nobody() -> Any:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(pathlib.Path, "home", nobody)
    with pytest.raises(CommunicatorError, match="set FLUIDLITE_JOB_KEY or XDG_CACHE_HOME"):
        job_key()
    monkeypatch.setattr(pathlib.Path, "home", lambda: pathlib.Path("/proc/nowhere"))
    with pytest.raises(CommunicatorError, match="nowhere"):
        job_key()
