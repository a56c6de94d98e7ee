"""Arrays on a device: they never become NumPy's by accident, and take no NumPy array beside them."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from gpu_sim.streams import CaptureError, Memory, Range, Stream, current, host_reads, submit

__all__ = ["BY_CUSOLVER", "DeviceError", "call", "check_scatter", "device", "from_host", "ndarray"]


class DeviceError(RuntimeError):
    """Work on a device with an array of another."""


_local = threading.local()


def device() -> int:
    """The current device of this thread."""
    return int(getattr(_local, "device", 0))


def has_own_pool() -> bool:
    """True where this thread allocates from a pool of its own."""
    return bool(getattr(_local, "allocators", None)) and _local.allocators[-1] is not None


@contextmanager
def using_allocator(allocator: Any = None) -> Iterator[None]:
    """`cupy.cuda.using_allocator`"""
    _local.allocators = [*getattr(_local, "allocators", ()), allocator]
    try:
        yield
    finally:
        _local.allocators = _local.allocators[:-1]


def use_device(number: int) -> None:
    """Make a device the current one of this thread."""
    _local.device = number


def _no_conversion(*_: Any, **__: Any) -> Any:
    raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")


class ndarray:
    """An array in the memory of a device, which here is NumPy's."""

    __array__ = _no_conversion
    __index__ = None
    __hash__ = None  # type: ignore[assignment]
    __cuda_array_interface__ = property(lambda self: {"shape": self.shape, "typestr": self.dtype.str})

    def __init__(self, values: Any, memory: Memory, base: ndarray | None = None) -> None:
        self.values = values
        self.memory = memory
        self.base = base

    # ------------------------------------------------------------------ facts
    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)
    ndim = property(lambda self: self.values.ndim)
    size = property(lambda self: self.values.size)
    nbytes = property(lambda self: self.values.nbytes)
    itemsize = property(lambda self: self.values.itemsize)
    strides = property(lambda self: self.values.strides)
    flags = property(lambda self: self.values.flags)

    @property
    def data(self) -> Any:
        """The pointer."""
        return types.SimpleNamespace(ptr=self.values.ctypes.data)

    @property
    def device(self) -> Any:
        """The device that it lies on."""
        return types.SimpleNamespace(id=self.memory.device)

    @property
    def range(self) -> Range:
        """Its bytes."""
        return (self.memory, *byte_bounds(self.values))

    @property
    def T(self) -> Any:
        """Reversed dimensions."""
        return self.transpose()

    real = property(lambda self: _view(self, self.values.real))
    imag = property(lambda self: _view(self, self.values.imag))

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"device array {self.shape} {self.dtype}"

    # ------------------------------------------------------------------ to and from the host
    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        """A NumPy array of the values."""
        with stream or current():
            host_reads("get", self.range)
        if out is None:
            return np.array(self.values, order="C")
        np.copyto(out, self.values)
        return out

    def set(self, values: Any, stream: Any = None) -> None:
        """Fill with the values of a NumPy array."""
        if not isinstance(values, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if values.dtype != self.dtype:
            raise TypeError(f"{values.dtype} array cannot be set to {self.dtype} array")
        if values.shape != self.shape:
            raise ValueError(f"{values.shape} is set into {self.shape}")
        if not self.flags.c_contiguous and not self.flags.f_contiguous:
            raise RuntimeError("Cannot set to non-contiguous array")
        held = values.copy() if stream is None else values
        submit("set", [], [self.range], lambda: np.copyto(self.values, held), stream)

    def item(self, *index: int) -> Any:
        """One value on the host."""
        host_reads("item", self.range)
        return self.values.item(*index)

    def tolist(self) -> Any:
        """The values as lists on the host."""
        return self.get().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """The values as bytes on the host."""
        return bytes(self.get().tobytes())

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    # ------------------------------------------------------------------ looks and elements
    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if _is_basic(index):
            # one element is a view too, and no number as of NumPy
            parts = index if isinstance(index, tuple) else (index,)
            return _view(self, self.values[parts if Ellipsis in parts else (*parts, Ellipsis)])
        if _has_mask(index):
            host_reads("the number of true elements of a mask", self.range)
        return call("getitem", lambda values, at: values[at], (self, _indices(index)), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            # whole pieces are filled with one number
            if _is_basic(index) and value.ndim:
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
            value = from_host(value)
        if not isinstance(value, (ndarray, int, float, bool, complex, np.generic)):
            raise ValueError(f"a {type(value).__name__} cannot be set into a device array")

        def put(values: Any, at: Any, new: Any) -> None:
            values[at] = new

        call("setitem", put, (self, _indices(index), value), {}, writes=[self])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            raise TypeError(f"numpy.{ufunc.__name__}.{method} of a device array")
        return call(ufunc.__name__, ufunc, inputs, kwargs)

    def __array_function__(self, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        return call(function.__name__, function, args, kwargs)

    def fill(self, value: Any) -> None:
        """Let every element be a number."""
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        held = value.values if isinstance(value, ndarray) else value
        submit("fill", [], [self.range], lambda: self.values.fill(held))

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> Any:
        """The values as another type."""
        if not copy and self.dtype == np.dtype(dtype):
            return self
        # columns stay columns
        return call("astype", lambda values: values.astype(dtype), (self,), {}, order="K")

    def scatter_add(self, index: Any, value: Any) -> None:
        """self[index] += value, with every repetition of an index."""
        check_scatter("scatter_add", self, {"int32", "float16", "float32", "float64", "uint32", "uint64"})
        call("scatter_add", np.add.at, (self, _indices(index), value), {}, writes=[self])


def check_scatter(who: str, array: ndarray, kinds: set[str]) -> None:
    """TypeError where CUDA has no atomic function for the type of an array."""
    if array.dtype.name not in kinds:
        raise TypeError(f"{who} only supports {', '.join(sorted(kinds))} as data type, not {array.dtype}")


# methods of NumPy's that CuPy's arrays have; the first give another look at the same memory
_VIEWS = ("reshape", "transpose", "swapaxes", "squeeze", "ravel", "view", "diagonal")
# functions that give another look at the memory of their argument, or a copy where that is not possible
_LOOKS = {
    *_VIEWS,
    "broadcast_to",
    "expand_dims",
    "moveaxis",
    "rollaxis",
    "split",
    "array_split",
    "atleast_1d",
}
_METHODS = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "choose",
    "clip",
    "compress",
    "conj",
    "copy",
    "cumprod",
    "cumsum",
    "dot",
    "flatten",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "put",
    "repeat",
    "round",
    "searchsorted",
    "sort",
    "std",
    "sum",
    "take",
    "trace",
    "var",
]


def _method(name: str) -> Callable[..., Any]:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        return call(
            name, lambda values, *rest, **more: getattr(values, name)(*rest, **more), (self, *args), kwargs
        )

    return method


for _name in (*_VIEWS, *_METHODS):
    setattr(ndarray, _name, _method(_name))


# ---------------------------------------------------------------------- operators
def _operator(ufunc: Any, is_reflected: bool = False) -> Callable[..., Any]:
    def operator(self: ndarray, other: Any) -> Any:
        return call(ufunc.__name__, ufunc, (other, self) if is_reflected else (self, other), {})

    return operator


def _in_place(ufunc: Any) -> Callable[..., Any]:
    def operator(self: ndarray, other: Any) -> Any:
        return call(ufunc.__name__, ufunc, (self, other), {"out": self})

    return operator


_OPERATORS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
for _name, _ufunc in _OPERATORS.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
    setattr(ndarray, f"__r{_name}__", _operator(_ufunc, True))
    setattr(ndarray, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
for _name, _ufunc in {
    "neg": np.negative,
    "abs": np.absolute,
    "invert": np.invert,
    "pos": np.positive,
}.items():
    setattr(ndarray, f"__{_name}__", lambda self, _ufunc=_ufunc: call(_ufunc.__name__, _ufunc, (self,), {}))


# ---------------------------------------------------------------------- calls
def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None
        or part is Ellipsis
        or (isinstance(part, (int, np.integer, slice)) and not isinstance(part, bool))
        for part in parts
    )


def _has_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, (ndarray, np.ndarray)) and part.dtype == bool for part in parts)


def _indices(index: Any) -> Any:
    """Host arrays and lists among the indices go to the device, as CuPy lets them."""
    if isinstance(index, tuple):
        return tuple(map(_indices, index))
    if isinstance(index, (np.ndarray, list)):
        return from_host(np.asarray(index))
    return index


def _view(base: ndarray, values: Any) -> ndarray:
    return ndarray(np.asarray(values), base.memory, base if base.base is None else base.base)


def from_host(values: Any, dtype: Any = None, order: Any = "C") -> ndarray:
    """A copy of host values on the current device."""
    capture = current().capture
    if capture is not None:
        # CuPy asks later whether the copy from page-locked memory has ended
        capture.refuse("host values are copied while a stream is captured")
    values = np.array(values, dtype, order=order)
    if values.dtype.kind in "OUSV":
        raise ValueError(f"Unsupported dtype {values.dtype}")
    return allocated(values, order)


def allocated(values: Any, order: Any = "C") -> ndarray:
    """New memory of the device, which holds these values after each launch of a graph; while a stream is
    captured it has to come from a pool that is not everybody's.
    """
    if current().is_capturing and not has_own_pool():
        raise CaptureError("memory of the pool that all share is allocated while a stream is captured")
    values = np.array(values, order=order)
    found = ndarray(values, Memory(device(), *byte_bounds(values)))
    held = values.copy() if current().is_capturing else values
    fill = (lambda: np.copyto(values, held)) if current().is_capturing else (lambda: None)
    submit("a new array", [], [found.range], fill)
    return found


def _unwrapped(item: Any, found: list[ndarray], who: str) -> Any:
    if isinstance(item, ndarray):
        if item.memory.device != device():
            raise DeviceError(f"{who} on device {device()} takes an array of device {item.memory.device}")
        found.append(item)
        return item.values
    if isinstance(item, np.ndarray):
        raise TypeError(f"Unsupported type {type(item)}: {who} takes a host array")
    if isinstance(item, (tuple, list)):
        parts = [_unwrapped(part, found, who) for part in item]
        return tuple(parts) if isinstance(item, tuple) else parts
    return item


def call(
    who: str,
    function: Callable[..., Any],
    args: Any,
    kwargs: dict[str, Any],
    writes: list[ndarray] | None = None,
    order: Any = "C",
) -> Any:
    """A NumPy function on the values of device arrays, as work of the current stream; a new array that it
    gives lies in `order`, which is rows first for most of CuPy's functions.
    """
    _refuse_in_capture(who)
    reads: list[ndarray] = []
    given = _unwrapped(tuple(args), reads, who)
    outs = list(writes or [])
    out = kwargs.get("out")
    if out is not None:
        places = out if isinstance(out, tuple) else (out,)
        if not all(isinstance(place, ndarray) for place in places):
            raise TypeError(f"{who}: out must be a device array, not {type(out).__name__}")
        outs += places
    named = {key: _unwrapped(value, reads if key != "out" else [], who) for key, value in kwargs.items()}
    if who in ("sort", "argsort"):
        if named.get("kind") not in (None, "stable"):
            raise ValueError(f"{who}: kind can only be None or 'stable', not {named['kind']!r}")
        named["kind"] = "stable"  # as CuPy's are
    ranges = [item.range for item in reads], [item.range for item in outs]
    if outs:
        submit(who, *ranges, lambda: function(*given, **named))
        return None if out is None else out
    return _result(who, lambda: function(*given, **named), reads, order)


# what CuPy's own wrappers of CUDA's libraries refuse while a stream is captured (cupy/cupy#6290), and
# what sorts by Thrust, which waits for the stream
_BY_CUBLAS = {"dot", "matmul", "matrix_power", "tensordot", "inner", "vdot", "einsum"}
BY_CUSOLVER = {"cholesky", "det", "eigh", "eigvalsh", "inv", "lstsq", "pinv", "qr", "slogdet", "solve", "svd"}
_BY_OTHERS = {"csr product", *BY_CUSOLVER}
_BY_THRUST = {"sort", "argsort", "lexsort", "partition", "argpartition", "unique", "median", "percentile"}


def _refuse_in_capture(who: str) -> None:
    capture = current().capture
    if capture is None:
        return
    if who in _BY_CUBLAS or who in _BY_OTHERS:
        raise NotImplementedError(f"{who}: calling cuBLAS API during stream capture is currently unsupported")
    if who in _BY_THRUST:
        capture.refuse(f"{who} waits for the stream while it is captured")


def _result(who: str, function: Callable[[], Any], reads: list[ndarray], order: Any) -> Any:
    with np.errstate(all="ignore"):
        result = function()
    if not isinstance(result, (tuple, list)):
        return _wrapped(who, result, reads, order, function)
    parts = [
        _wrapped(who, part, reads, order, lambda number=number: function()[number])
        for number, part in enumerate(result)
    ]
    return parts if isinstance(result, list) else tuple(parts)


def _wrapped(who: str, part: Any, reads: list[ndarray], order: Any, again: Callable[[], Any]) -> Any:
    if not isinstance(part, (np.ndarray, np.generic)):
        return part
    for item in reads:
        if isinstance(part, np.ndarray) and part.size and np.may_share_memory(part, item.values):
            return _view(item, part)
    # values had to be there before a new array of them is
    ranges = [item.range for item in reads]
    if not current().is_capturing:
        submit(who, ranges, [], lambda: None)
        return allocated(part, order)
    found = allocated(part, order)

    def compute() -> None:
        with np.errstate(all="ignore"):
            np.copyto(found.values, again())

    submit(who, ranges, [found.range], compute)
    return found


def submitted(who: str, stream: Stream | None, reads: list[ndarray], writes: list[ndarray], run: Any) -> None:
    """Work on arrays."""
    submit(who, [item.range for item in reads], [item.range for item in writes], run, stream)
