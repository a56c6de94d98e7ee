"""Rings of CUDA devices: everything but NCCL itself, with an NCCL made of threads; on a device, a ring of
one.
"""

from __future__ import annotations

import ast
import inspect
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_nccl import DeviceArray, device, modules

import fluidlite as fluid
from fluidlite.errors import CommunicatorError, MissingExtraError
from fluidlite.executor.comm import current
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.executor.comm.nccl import rings as nccl


@pytest.fixture()
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = modules()
    monkeypatch.setattr(nccl, "cupy_and_nccl", lambda: found)
    return found


def together(size: int, work: Callable[[nccl.NcclRing, int], Any], named: bool = True) -> list[Any]:
    """The results of `work(ring, rank)` in each of `size` threads."""
    places = [f"gpu{rank}:1" for rank in range(size)]

    def body(rank: int) -> Any:
        session: Any = current()
        name = session.agree_on_id(places, rank, nccl.unique_id) if named else b""
        session.join(0, rank, size, name)
        return work(nccl.NcclRing(session.ring(0), name), rank)

    found = run_roles(LocalNetwork(), [(f"rank{rank}", lambda rank=rank: body(rank)) for rank in range(size)])
    return [found[f"rank{rank}"] for rank in range(size)]


def example(rank: int, dtype: Any = "float32", shape: tuple[int, ...] = (4, 3)) -> Any:
    return device(np.random.RandomState(rank).randint(0, 4, shape).astype(dtype))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "int16", "bool"]
)
def test_reductions(fake: Any, dtype: str, named: bool) -> None:
    def work(ring: nccl.NcclRing, rank: int) -> None:
        values = [np.array(example(number, dtype)) for number in range(2)]
        for how, function in (
            ("sum", np.add),
            ("max", np.maximum),
            ("min", np.minimum),
            ("prod", np.multiply),
        ):
            want = function(*values).astype(dtype)
            assert (ring.all_reduce(example(rank, dtype), how) == want).all()
            place = example(rank, dtype)
            ring.start_all_reduce(place, place, how).wait()
            assert (place == want).all()
            assert (ring.reduce(example(rank, dtype), how, 1) == (want if rank == 1 else values[0])).all()
        assert (
            ring.reduce_scatter(example(rank, dtype))
            == np.add(*values).astype(dtype)[2 * rank : 2 * rank + 2]
        ).all()

    together(2, work, named)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int16"])
def test_moving(fake: Any, dtype: str) -> None:
    def work(ring: nccl.NcclRing, rank: int) -> None:
        values = [np.array(example(number, dtype)) for number in range(2)]
        found = ring.broadcast(example(rank, dtype), 1)
        assert isinstance(found, DeviceArray) and (found == values[1]).all()
        assert all(
            (one == two).all() for one, two in zip(ring.all_gather(example(rank, dtype)), values, strict=True)
        )
        assert (ring.scatter(example(rank, dtype), 1) == values[1][2 * rank : 2 * rank + 2]).all()
        ring.send(example(rank, dtype), 1 - rank)
        assert (ring.receive(1 - rank) == values[1 - rank]).all()
        ring.barrier()

    together(2, work)


def test_what_lies_on_the_host_goes_over_the_ring_beneath(fake: Any) -> None:
    def work(ring: nccl.NcclRing, rank: int) -> None:
        assert ring.all_reduce(np.array([1.0]), "sum")[0] == 2 and ring.reduce(np.array([1.0]), "sum", 0)[
            0
        ] == (1 if rank else 2)
        assert (
            ring.broadcast(np.array([rank]), 1)[0] == 1 and len(ring.all_gather(np.zeros(rank + 1))[1]) == 2
        )
        assert ring.scatter(np.arange(2), 0)[0] == rank and ring.reduce_scatter(np.arange(2))[0] == 2 * rank
        ring.send(np.array([rank]), 1 - rank)
        assert ring.receive(1 - rank)[0] == 1 - rank
        assert ring.made is None  # nobody needed NCCL

    together(2, work)


def test_a_reduction_is_tied_to_the_plan_by_events(fake: Any) -> None:
    def work(ring: nccl.NcclRing, rank: int) -> None:
        value = example(rank)
        waits = len(fake[0].main.waits)
        request: Any = ring.start_all_reduce(value, value, "sum")
        assert ring.stream.waits[-1].recorded is fake[0].main and request.event.recorded is ring.stream
        request.poll()
        request.wait()
        assert fake[0].main.waits[waits:] and request.memory == ()

    together(1, work)


def test_errors(fake: Any) -> None:
    def work(ring: nccl.NcclRing, rank: int) -> None:
        with pytest.raises(CommunicatorError, match="root 2 is not a rank"):
            ring.broadcast(example(rank), 2)
        with pytest.raises(CommunicatorError, match="cannot be its own peer"):
            ring.send(example(rank), rank)
        with pytest.raises(CommunicatorError, match=r"arrays of complex64 cannot be sent"):
            ring.send(device(np.zeros(2, "complex64")), 1 - rank)
        with pytest.raises(CommunicatorError, match=rf"NCCL, rank {rank} of ring 0: ranks call"):
            ring.all_reduce(example(rank), "sum" if rank else "max")

    together(2, work)


def test_nothing_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cupy"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match="rings of CUDA devices need CuPy"):
        nccl.cupy_and_nccl()


def test_only_names_that_cupy_has() -> None:
    known = json.loads((pathlib.Path(__file__).parent / "cupy_nccl_names.json").read_text())
    used: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(nccl))):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "nccl"
        ):
            used.add(f"nccl.{node.attr}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "comm":
            used.add(f"NcclCommunicator.{node.attr}")
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "cupy"
        ):
            used.add(f"cupy.{node.attr}")
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "cuda"
        ):
            used.add(f"cupy.cuda.{node.attr}")
    used |= {f"nccl.{name}" for name in (*nccl._TYPES.values(), *nccl._REDUCE_OPS.values())}
    assert len(used) > 25
    assert not used - set(known)


@pytest.mark.gpu
def test_a_ring_of_one_device() -> None:
    def body() -> Any:
        session: Any = current()
        exe, startup, main = fluid.Executor(fluid.CUDAPlace(0)), fluid.Program(), fluid.Program()
        startup.global_block().append_op(type="c_comm_init_all", attrs={"ring_id": 0})
        exe.run(startup)
        with fluid.program_guard(main, fluid.Program()):
            x = fluid.data("x", [4, 3])
            grad = fluid.layers.scale(x, 2.0)
            main.global_block().append_op(
                type="c_allreduce_sum", inputs={"X": [grad]}, outputs={"Out": [grad]}, attrs={"ring_id": 0}
            )
            out = fluid.layers.scale(grad, 3.0)
        found = [
            exe.run(main, feed={"x": np.full((4, 3), step, "float32")}, fetch_list=[out])[0]
            for step in range(4)
        ]  # captured by then
        assert isinstance(session.ring(0), nccl.NcclRing)
        return found

    found = run_roles(LocalNetwork(), [("rank0", body)])["rank0"]
    assert [value[0, 0] for value in found] == [0, 6, 12, 18]
