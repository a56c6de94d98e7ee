"""float16 as float32 and back by compiled code: the same numbers as NumPy's, whatever they are."""

from __future__ import annotations

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.fast.loops.compiler import cpu_flags, is_available
from fluidlite.executor.fast.loops.halves import CompiledHalves
from fluidlite.executor.run.half import HALVES, as_float16

pytestmark = pytest.mark.skipif(
    not is_available() or "f16c" not in cpu_flags(), reason="needs llvmlite, and a processor with F16C"
)


@pytest.fixture(autouse=True)
def _wait() -> None:
    fluid.set_flags({"FLAGS_fast_loops": "wait"})


def alike(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """The same bits, but that one NaN is as good as another."""
    kind = np.uint16 if ours.dtype == np.float16 else np.uint32
    same = (ours.view(kind) == theirs.view(kind)) | (np.isnan(ours) & np.isnan(theirs))
    return ours.dtype == theirs.dtype and bool(same.all())


def test_every_number_of_half_precision() -> None:
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    found = CompiledHalves().widen(every)
    assert found is not None and alike(found, every.astype(np.float32))


@pytest.mark.parametrize("count", [4096, 4097, 70_003])
def test_rounding(count: int) -> None:
    """Of any bits, of numbers about the ones between which half precision rounds, and of ties."""
    source = np.random.RandomState(count)
    bits = source.randint(0, 1 << 32, count, np.uint64).astype(np.uint32).view(np.float32)
    halves = source.randint(0, 1 << 16, count).astype(np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        near = np.nextafter(halves, source.choice([-np.inf, np.inf], count).astype(np.float32))
        beside = np.nextafter(halves.astype(np.float16), np.float16(np.inf)).astype(np.float32)
        ties = ((halves.astype(np.float64) + beside) / 2).astype(np.float32)
        for values in (bits, halves, near, ties):
            found = CompiledHalves().round(values)
            assert found is not None and alike(found, values.astype(np.float16))


def test_few_numbers_and_parts_of_arrays_are_numpys() -> None:
    code = CompiledHalves()
    wide = np.zeros((100, 100), np.float32)
    assert code.round(wide[0]) is None and code.round(wide[:, :50]) is None and code.round(wide) is not None


def test_a_program_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HALVES, "code", None)
    x = fluid.data("x", [64, 128], "float16")
    with pytest.warns(UserWarning, match="only support float16 in GPU"):
        y = fluid.layers.relu(x)
    value = np.random.RandomState(0).normal(size=(64, 128)).astype("float16")
    (found,) = fluid.Executor(fluid.CPUPlace()).run(feed={"x": value}, fetch_list=[y])
    assert isinstance(HALVES.code, CompiledHalves)
    assert alike(found, np.maximum(value, np.float16(0)))
    assert alike(as_float16(value.astype(np.float32)), value)
