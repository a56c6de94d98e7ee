"""The functions of CuPy, with CuPy's parameters (`signatures.json`): what it lacks is lacking here."""

from __future__ import annotations

import functools
import inspect
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_sim.arrays import allocated, call, check_scatter, from_host, ndarray
from gpu_sim.streams import current, host_reads

__all__ = ["FUNCTIONS", "Generator", "Ufunc", "namespace"]

SIGNATURES = json.loads(pathlib.Path(__file__).with_name("signatures.json").read_text(encoding="utf8"))
# these find out on the host how large their result is
COUNTING = {"nonzero", "flatnonzero", "argwhere", "unique", "bincount", "extract", "compress", "trim_zeros"}
# and these make arrays of host values
CREATING = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"}


class Ufunc:
    """An element-wise function."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refused = set(kwargs) - {"out", "dtype", "casting"}
        if refused:
            raise TypeError(f"Wrong arguments {sorted(refused)} of cupy.{self.__name__}")
        if not any(isinstance(item, ndarray) for item in (*args, kwargs.get("out"))):
            args = tuple(item if isinstance(item, np.ndarray) else from_host(item) for item in args)
        return call(self.__name__, self.function, args, kwargs)

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """The reduction along axes."""
        return call(
            self.__name__, self.function.reduce, (array, axis, dtype), {"out": out, "keepdims": keepdims}
        )

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """The running reduction along an axis."""
        return call(self.__name__, self.function.accumulate, (array, axis, dtype), {"out": out})

    def at(self, array: Any, indices: Any, values: Any = None) -> None:
        """In place, with every repetition of an index."""
        if self.__name__ == "add":
            array.scatter_add(indices, values)
            return
        if self.__name__ not in ("maximum", "minimum"):
            raise NotImplementedError(f"cupy.{self.__name__}.at")
        check_scatter(self.__name__, array, {"int32", "float32", "float64", "uint32", "uint64"})
        call(self.__name__, self.function.at, (array, indices, values), {}, writes=[array])

    def outer(self, x: Any, y: Any) -> Any:
        """All pairs."""
        return call(self.__name__, self.function.outer, (x, y), {})

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Reductions of segments."""
        if self.function is not np.add:
            raise ValueError("CuPy has `reduceat` of add alone")
        return call(self.__name__, self.function.reduceat, (array, indices, axis, dtype), {"out": out})


def _signature(parameters: list[Any]) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                name, inspect._ParameterKind(kind), default=None if default else inspect.Parameter.empty
            )
            for name, kind, default in parameters
        ]
    )


def _function(name: str, parameters: list[Any]) -> Callable[..., Any]:
    signature = _signature(parameters)
    own = getattr(np, name)

    @functools.wraps(own, assigned=("__name__",), updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        signature.bind(*args, **kwargs)  # TypeError for what CuPy does not take
        if name in COUNTING or (name == "where" and len(args) == 1):
            host_reads(name, args[0].range)
        return call(name, own, args, kwargs)

    return function


def _empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """New memory; its bytes are those of no number, so that who reads them first is found out."""
    values = np.empty(shape, dtype)
    values.view(np.uint8 if values.ndim and values.size else values.dtype)[...] = 0xFF if values.size else 0
    return allocated(values)


def _empty_like(
    like: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    return _empty(like.shape if shape is None else shape, dtype or like.dtype)


def _made(name: str) -> Callable[..., Any]:
    """A function that makes an array from numbers and shapes."""

    def function(*args: Any, **kwargs: Any) -> Any:
        plain = [item.item() if isinstance(item, ndarray) and not item.ndim else item for item in args]
        return allocated(getattr(np, name)(*plain, **kwargs))

    return function


def _array(obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", **_: Any) -> ndarray:
    layout = "K" if order is None else order
    if isinstance(obj, ndarray):
        return call("array", lambda values: np.array(values, dtype, order=layout), (obj,), {}, order="K")
    if isinstance(obj, (list, tuple)) and any(isinstance(item, ndarray) for item in obj):
        return call("array", lambda values: np.array(values, dtype), (obj,), {})
    return from_host(obj, dtype, layout)


def _asarray(a: Any, dtype: Any = None, order: Any = None, **_: Any) -> ndarray:
    is_ready = isinstance(a, ndarray) and (dtype is None or a.dtype == np.dtype(dtype))
    if is_ready and order == "C":
        is_ready = a.flags.c_contiguous
    return a if is_ready else _array(a, dtype, order=order)


def _ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    found = _asarray(a, dtype)
    if found.flags.c_contiguous and found.ndim:
        return found
    return _array(found.reshape(found.shape or (1,)), order="C")


def _asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, **_: Any) -> Any:
    return a.get(stream, out=out) if isinstance(a, ndarray) else np.asarray(a)


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    if not isinstance(repeats, (int, np.integer, list, tuple)):
        raise ValueError("'repeats' should be int or sequence")
    return call("repeat", np.repeat, (a, repeats, axis), {})


def _lexsort(keys: Any) -> Any:
    if not isinstance(keys, ndarray):
        raise AttributeError("keys of lexsort are one device array")
    return call("lexsort", lambda values: np.lexsort(tuple(values)), (keys,), {})


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    if isinstance(src, np.ndarray):
        raise TypeError("copyto takes a host array")
    mask = True if where is None else where
    call(
        "copyto",
        lambda values, new, chosen: np.copyto(values, new, casting, where=chosen),  # type: ignore[arg-type]
        (dst, src, mask),
        {},
        writes=[dst],
    )


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    if out is not None:
        if np.result_type(a.dtype, b.dtype) != out.dtype:
            raise ValueError("Not supported dtype combination.")
        if not out.flags.c_contiguous:
            raise ValueError("Output array must be C-contiguous")
    return call("dot", np.dot, (a, b), {"out": out})


def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None) -> Any:
    at = indices if isinstance(indices, ndarray) else from_host(indices)
    if out is not None and out.dtype != a.dtype:
        raise TypeError("Output dtype mismatch")
    return call(
        "take", lambda values, i, **more: np.take(values, i, axis, mode="wrap", **more), (a, at), {"out": out}
    )


SPECIAL: dict[str, Callable[..., Any]] = {
    "array": _array,
    "asarray": _asarray,
    "asanyarray": _asarray,
    "ascontiguousarray": _ascontiguousarray,
    "asnumpy": _asnumpy,
    "copyto": _copyto,
    "dot": _dot,
    "empty": _empty,
    "empty_like": _empty_like,
    "lexsort": _lexsort,
    "repeat": _repeat,
    "take": _take,
    **{
        name: _made(name)
        for name in ("arange", "eye", "full", "identity", "linspace", "ones", "tri", "zeros")
    },
}


class Generator:
    """Random numbers on the device: the distributions that CuPy's generators have."""

    _HAS = (
        "beta binomial exponential gamma integers poisson random standard_exponential standard_normal uniform"
    )

    def __init__(self, seed: Any = None) -> None:
        self._source = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._HAS.split():
            raise AttributeError(f"'Generator' object has no attribute {name!r}")
        return functools.partial(self._drawn, name)

    def _drawn(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if current().is_capturing:
            raise NotImplementedError("calling cuRAND API during stream capture is currently unsupported")
        return from_host(getattr(self._source, name)(*args, **kwargs))


def namespace() -> dict[str, Any]:
    """Name -> function, for all of CuPy's functions that NumPy has too."""
    found: dict[str, Any] = {}
    for name in SIGNATURES["ufuncs"]:
        if isinstance(getattr(np, name, None), np.ufunc):
            found[name] = Ufunc(getattr(np, name))
    for name, parameters in SIGNATURES["functions"].items():
        if callable(getattr(np, name, None)):
            found[name] = _function(name, parameters)
    found.update(SPECIAL)
    return found


FUNCTIONS = namespace()
