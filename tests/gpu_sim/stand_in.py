"""The modules `cupy`, `cupy.cuda`, `cupy.cuda.nccl` and `cupyx` of a machine with several devices."""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpu_sim import arrays, cublas, functions, kernels, nccl, streams

__all__ = ["installed", "modules"]


class Device:
    """`with Device(1): ...`"""

    def __init__(self, number: int | None = None) -> None:
        self.id = arrays.device() if number is None else number
        self._before: list[int] = []
        self.compute_capability = "80"

    def __enter__(self) -> Device:
        self._before.append(arrays.device())
        arrays.use_device(self.id)
        return self

    def __exit__(self, *_: Any) -> None:
        arrays.use_device(self._before.pop())

    def use(self) -> Device:
        """Make it the current one."""
        arrays.use_device(self.id)
        return self

    def synchronize(self) -> None:
        """Wait for the current stream."""
        streams.current().synchronize()


def _module(name: str, **names: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(names)
    return module


def _special(name: str) -> Any:
    from scipy import special

    return functions.Ufunc(getattr(special, name))


class Grid:
    """`ogrid` and `mgrid`."""

    def __init__(self, grid: Any) -> None:
        self.grid = grid

    def __getitem__(self, index: Any) -> Any:
        found = self.grid[index]
        return [arrays.from_host(part) for part in found] if isinstance(found, (list, tuple)) else found


class Csr:
    """A matrix of compressed rows, which products take."""

    def __init__(self, given: Any, shape: tuple[int, int]) -> None:
        self.parts = given
        self.shape = shape
        self.is_transposed = False

    @property
    def T(self) -> Csr:
        """The transposed matrix."""
        found = Csr(self.parts, self.shape)
        found.is_transposed = not self.is_transposed
        return found

    def __matmul__(self, dense: Any) -> Any:
        from scipy import sparse

        def product(weights: Any, columns: Any, starts: Any, right: Any) -> Any:
            matrix = sparse.csr_matrix((weights, columns, starts), shape=self.shape)
            return (matrix.T if self.is_transposed else matrix) @ right

        return arrays.call("csr product", product, (*self.parts, dense), {})


def _linalg() -> types.ModuleType:
    names = {*arrays.BY_CUSOLVER, "matrix_power", "norm"}

    def function(name: str) -> Any:
        return lambda *args, **kwargs: arrays.call(name, getattr(np.linalg, name), args, kwargs)

    return _module("cupy.linalg", **{name: function(name) for name in names})


class MemoryPool:
    """A pool of its own for those who allocate from it."""

    def malloc(self, size: int) -> None:
        """Memory; here all is NumPy's."""


def _cuda(devices: int) -> types.ModuleType:
    runtime = _module(
        "cupy.cuda.runtime",
        getDeviceCount=lambda: devices,
        runtimeGetVersion=lambda: 12090,
        getDeviceProperties=lambda number: {"name": b"stand-in"},
        deviceSynchronize=lambda: streams.current().synchronize(),
        CUDARuntimeError=RuntimeError,
    )
    return _module(
        "cupy.cuda",
        Device=Device,
        Event=streams.Event,
        Stream=streams.Stream,
        get_elapsed_time=lambda begin, end: (end.moment - begin.moment) * 1e3,
        get_current_stream=streams.current,
        get_cublas_handle=lambda: 1,
        MemoryPool=MemoryPool,
        using_allocator=arrays.using_allocator,
        alloc_pinned_memory=bytearray,
        runtime=runtime,
        is_available=lambda: True,
        nccl=nccl.module(),
    )


def modules(devices: int) -> dict[str, types.ModuleType]:
    """Name -> module."""
    cuda = _cuda(devices)
    random = _module("cupy.random", default_rng=functions.Generator, Generator=functions.Generator)
    kinds = (
        "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
    )
    cupy = _module(
        "cupy",
        **functions.FUNCTIONS,
        **{name: getattr(np, name) for name in kinds.split()},
        **{
            name: getattr(np, name)
            for name in ("dtype", "newaxis", "pi", "e", "nan", "inf", "iinfo", "finfo")
        },
        __version__="of the tests",
        ndarray=arrays.ndarray,
        RawKernel=kernels.RawKernel,
        cuda=cuda,
        random=random,
        linalg=_linalg(),
        ogrid=Grid(np.ogrid),
        mgrid=Grid(np.mgrid),
    )
    of_elements = ["digamma", "erf", "erfinv", "gammaln", "i0", "i0e", "i1", "i1e", "polygamma", "zeta"]
    special = _module("cupyx.scipy.special", **{name: _special(name) for name in of_elements})
    sparse = _module("cupyx.scipy.sparse", csr_matrix=Csr)
    scipy = _module("cupyx.scipy", special=special, sparse=sparse)
    return {
        "cupy": cupy,
        "cupy.cuda": cuda,
        "cupy.cuda.nccl": cuda.nccl,
        "cupy.random": random,
        "cupyx": _module("cupyx", scipy=scipy),
        "cupyx.scipy": scipy,
        "cupyx.scipy.special": special,
        "cupyx.scipy.sparse": sparse,
    }


@contextmanager
def installed(devices: int = 1) -> Iterator[types.ModuleType]:
    """`import cupy` finds the stand-in."""
    made = modules(devices)
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    load, ctypes.CDLL = ctypes.CDLL, cublas.loaded
    try:
        yield made["cupy"]
    finally:
        ctypes.CDLL = load
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
