"""The functions of cuDNN that are called directly, as `ctypes.CDLL` would give them: convolutions computed
plainly, and the mistakes found that cuDNN itself would answer with a wrong result or a crash.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpu_sim import arrays
from gpu_sim.streams import CaptureError, current, place_of, stream_of, submit

__all__ = ["VERSION", "Library"]

VERSION = 92800
BAD_PARAM, NOT_SUPPORTED = 2000, 3000
_int, _pointer, _size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
# as in cudnn_ops.h and cudnn_cnn.h of version 9.28
PROTOTYPES: dict[str, list[Any]] = {
    "cudnnGetVersion": [],
    "cudnnCreate": [_pointer],
    "cudnnSetStream": [_pointer, _pointer],
    "cudnnSetTensorNdDescriptor": [_pointer, _int, _int, _pointer, _pointer],
    "cudnnSetFilterNdDescriptor": [_pointer, _int, _int, _int, _pointer],
    "cudnnSetConvolutionNdDescriptor": [_pointer, _int, _pointer, _pointer, _pointer, _int, _int],
    "cudnnSetConvolutionGroupCount": [_pointer, _int],
    "cudnnSetConvolutionMathType": [_pointer, _int],
}
for _kind in ("Tensor", "Filter", "Convolution"):
    PROTOTYPES[f"cudnnCreate{_kind}Descriptor"] = [_pointer]
    PROTOTYPES[f"cudnnDestroy{_kind}Descriptor"] = [_pointer]
for _way in ("Forward", "BackwardData", "BackwardFilter"):
    PROTOTYPES[f"cudnnGetConvolution{_way}Algorithm_v7"] = [*[_pointer] * 5, _int, _pointer, _pointer]
    PROTOTYPES[f"cudnnGetConvolution{_way}WorkspaceSize"] = [*[_pointer] * 5, _int, _pointer]
    PROTOTYPES[f"cudnnConvolution{_way}"] = [
        *(_pointer, _pointer, _pointer, _pointer, _pointer, _pointer, _pointer),
        *(_int, _pointer, _size, _pointer, _pointer, _pointer),
    ]
# cudnnDataType_t -> elements, cudnnDataType_t of sums, the scalars in C
KINDS = {
    0: (np.float32, 0, ctypes.c_float),
    1: (np.float64, 1, ctypes.c_double),
    2: (np.float16, 0, ctypes.c_float),
}
# number, determinism, bytes of scratch memory: the first is not deterministic, the last one needs much
ALGORITHMS = ((0, 0, 0), (1, 1, 4096), (3, 1, 0), (5, 1, 1 << 34))


class _Performance(ctypes.Structure):
    _fields_ = (
        ("algo", _int),
        ("status", _int),
        ("time", ctypes.c_float),
        ("memory", _size),
        ("determinism", _int),
        ("mathType", _int),
        ("reserved", _int * 3),
    )


class _Function:
    """A function of the library: callers say what its parameters are, and have to be right."""

    def __init__(self, name: str, run: Callable[..., int]) -> None:
        self.name, self.run = name, run
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> int:
        prototype = PROTOTYPES[self.name]
        result = _size if self.name == "cudnnGetVersion" else _int
        if self.argtypes != prototype or self.restype is not result or len(arguments) != len(prototype):
            raise TypeError(f"{self.name} is called with other parameters than cuDNN has")
        return self.run(*arguments)


def _number(pointer: Any) -> int:
    return int(pointer.value if isinstance(pointer, _pointer) else pointer)


class Library:
    """Handles and descriptors by number."""

    failing: ClassVar[set[str]] = set()
    """Functions that give a status; of all libraries."""
    wrong = 0.0
    """Added to every result; of all libraries."""

    def __init__(self) -> None:
        self.things: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        for name in PROTOTYPES:
            setattr(self, name, _Function(name, self._answer(name)))

    def _answer(self, name: str) -> Callable[..., int]:
        for way in ("Forward", "BackwardData", "BackwardFilter"):
            for form, method in (("Algorithm_v7", self._search), ("WorkspaceSize", self._sizing)):
                if name == f"cudnnGetConvolution{way}{form}":
                    return self._guarded(name, lambda *given, method=method, way=way: method(way, *given))
            if name == f"cudnnConvolution{way}":
                return self._guarded(name, lambda *given, way=way: self._convolve(way, *given))
        for kind in ("Tensor", "Filter", "Convolution"):
            if name == f"cudnnCreate{kind}Descriptor":
                return self._guarded(name, lambda into, kind=kind: self._make(into, kind=kind))
            if name == f"cudnnDestroy{kind}Descriptor":
                return lambda made, kind=kind: self._drop(made, kind)
        return self._guarded(name, getattr(self, f"_{name}"))

    def _guarded(self, name: str, run: Callable[..., int]) -> Callable[..., int]:
        return lambda *given: NOT_SUPPORTED if name in self.failing else run(*given)

    # ------------------------------------------------------------------ handles and descriptors
    def _cudnnGetVersion(self) -> int:
        return VERSION

    def _make(self, into: Any, **facts: Any) -> int:
        number = next(self._numbers)
        self.things[number] = facts
        into._obj.value = number
        return 0

    def _drop(self, made: Any, kind: str) -> int:
        assert self.things.pop(_number(made))["kind"] == kind
        return 0

    def _cudnnCreate(self, into: Any) -> int:
        if current().is_capturing:
            raise CaptureError("cudnnCreate allocates while a stream is captured")
        return self._make(into, kind="handle", device=arrays.device(), stream=None)

    def _of(self, number: Any, kind: str) -> dict[str, Any]:
        found = self.things[_number(number)]
        assert found["kind"] == kind, f"a {found['kind']} in place of a {kind}"
        return found

    def _cudnnSetStream(self, handle: Any, stream: int) -> int:
        self._of(handle, "handle")["stream"] = stream_of(stream)
        return 0

    def _cudnnSetTensorNdDescriptor(self, made: Any, kind: int, rank: int, sizes: Any, strides: Any) -> int:
        if kind not in KINDS or not 4 <= rank <= 8 or min(sizes) < 1 or {len(sizes), len(strides)} != {rank}:
            return BAD_PARAM
        self._of(made, "Tensor").update(type=kind, shape=tuple(sizes), strides=tuple(strides))
        return 0

    def _cudnnSetFilterNdDescriptor(self, made: Any, kind: int, layout: int, rank: int, sizes: Any) -> int:
        if kind not in KINDS or layout not in (0, 1) or len(sizes) != rank or min(sizes) < 1:
            return BAD_PARAM
        shape = tuple(sizes)
        order = [0, *range(2, rank), 1] if layout else list(range(rank))
        strides = [0] * rank
        for place, axis in enumerate(order):
            strides[axis] = math.prod(shape[later] for later in order[place + 1 :])
        self._of(made, "Filter").update(type=kind, shape=shape, strides=tuple(strides), layout=layout)
        return 0

    def _cudnnSetConvolutionNdDescriptor(
        self, made: Any, rank: int, pads: Any, strides: Any, dilations: Any, mode: int, kind: int
    ) -> int:
        if {len(pads), len(strides), len(dilations)} != {rank} or kind not in (0, 1):
            return BAD_PARAM
        if min(pads) < 0 or min(*strides, *dilations) < 1:
            return BAD_PARAM
        assert mode == 1, "filters are turned around"
        facts = {"pads": tuple(pads), "steps": tuple(strides), "dilations": tuple(dilations)}
        self._of(made, "Convolution").update(facts, sums=kind, groups=1, math=0)
        return 0

    def _cudnnSetConvolutionGroupCount(self, made: Any, count: int) -> int:
        self._of(made, "Convolution")["groups"] = count
        return 0

    def _cudnnSetConvolutionMathType(self, made: Any, kind: int) -> int:
        self._of(made, "Convolution")["math"] = kind
        return 0 if kind in (0, 1, 2, 3) else BAD_PARAM

    # ------------------------------------------------------------------ convolutions
    def _parts(
        self, way: str, left: Any, right: Any, conv: Any, out: Any
    ) -> tuple[dict[str, Any], ...] | None:
        """The descriptors of images, filters, results and the convolution; None where they do not fit."""
        order = {"Forward": "xwd", "BackwardData": "wdx", "BackwardFilter": "xdw"}[way]
        named = dict(zip(order, (left, right, out), strict=True))
        x, w, d = (self._of(named[name], "Filter" if name == "w" else "Tensor") for name in "xwd")
        c = self._of(conv, "Convolution")
        g, size, kernel = c["groups"], x["shape"][2:], w["shape"][2:]
        fits = (
            x["type"] == w["type"] == d["type"]
            and KINDS[x["type"]][1] == c["sums"]
            and len(size) == len(c["pads"])
            and x["shape"][1] == w["shape"][1] * g
            and not w["shape"][0] % g
        )
        places = tuple(
            (n + 2 * p - ((k - 1) * step + 1)) // s + 1
            for n, p, k, step, s in zip(size, c["pads"], kernel, c["dilations"], c["steps"])
        )
        return (x, w, d, c) if fits and d["shape"] == (x["shape"][0], w["shape"][0], *places) else None

    def _search(self, way: str, handle: Any, *given: Any) -> int:
        *described, most, count, results = given
        self._of(handle, "handle")
        if self._parts(way, *described) is None:
            return BAD_PARAM
        found = ctypes.cast(results, ctypes.POINTER(_Performance))
        count._obj.value = min(most, len(ALGORITHMS) + 1)
        for place, (number, determinism, memory) in enumerate(ALGORITHMS[:most]):
            found[place].algo, found[place].status, found[place].time = number, 0, -1.0
            found[place].memory, found[place].determinism = memory, determinism
        if most > len(ALGORITHMS):
            found[len(ALGORITHMS)].status = NOT_SUPPORTED
        return 0

    def _sizing(self, way: str, handle: Any, *given: Any) -> int:
        *described, number, into = given
        if self._parts(way, *described) is None:
            return BAD_PARAM
        sizes = {each: memory for each, _, memory in ALGORITHMS}
        if number not in sizes:
            return NOT_SUPPORTED
        into._obj.value = sizes[number]
        return 0

    def _convolve(self, way: str, handle: Any, alpha: Any, *given: Any) -> int:
        left, at_left, right, at_right, conv, number, space, nbytes, beta, out, at_out = given
        held = self._of(handle, "handle")
        if held["device"] != arrays.device():
            raise arrays.DeviceError(f"a handle of device {held['device']} on device {arrays.device()}")
        parts = self._parts(way, left, right, conv, out)
        if parts is None or nbytes < {each: memory for each, _, memory in ALGORITHMS}[number]:
            return BAD_PARAM
        order = {"Forward": "xwd", "BackwardData": "wdx", "BackwardFilter": "xdw"}[way]
        facts = dict(zip("xwd", parts[:3], strict=True))
        addresses = dict(zip(order, (at_left, at_right, at_out), strict=True))
        looks = {name: _look(facts[name], addresses[name]) for name in "xwd"}
        scalar = KINDS[parts[0]["type"]][2]
        assert (scalar.from_buffer(alpha._obj).value, scalar.from_buffer(beta._obj).value) == (1.0, 0.0)
        assert type(alpha._obj) is type(beta._obj) is scalar, "scalars are of the type of sums"
        *operands, target = order
        wrong = self.wrong

        def run() -> None:
            made = COMPUTED[way](*(looks[name][0] for name in operands), parts)
            looks[target][0][...] = made + wrong

        scratch = [place_of(space, nbytes)] if nbytes else []
        reads = [looks[name][1] for name in operands]
        submit(f"cudnnConvolution{way}", reads, [looks[target][1], *scratch], run, held["stream"])
        return 0


def _look(facts: dict[str, Any], address: int) -> tuple[Any, Any]:
    """An array as a descriptor shows it, and the bytes that it lies in."""
    element = np.dtype(KINDS[facts["type"]][0])
    if address % 16:
        raise ValueError("memory that is not aligned")
    shape, strides = facts["shape"], facts["strides"]
    nbytes = (sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1) * element.itemsize
    flat = np.frombuffer((ctypes.c_char * nbytes).from_address(address), element)
    shown = as_strided(flat, shape, [step * element.itemsize for step in strides])
    return shown, place_of(address, nbytes)


# ---------------------------------------------------------------------- what they compute
def _windows(padded: Any, parts: Any) -> Any:
    """Each place of the kernel, with the elements of the padded images that meet it."""
    _, w, d, c = parts
    for place in itertools.product(*map(range, w["shape"][2:])):
        ranges = [
            slice(at * step, at * step + stride * (count - 1) + 1, stride)
            for at, step, stride, count in zip(place, c["dilations"], c["steps"], d["shape"][2:])
        ]
        yield (..., *place), padded[(..., *ranges)]


def _grouped(array: Any, axis: int, groups: int) -> Any:
    shape = array.shape
    return array.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _padded(parts: Any, x: Any = None) -> tuple[Any, Any]:
    """Images within zeros, by groups, and the part of them that is x."""
    shape, pads = parts[0]["shape"], parts[3]["pads"]
    wide = np.zeros((*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], pads))))
    inner = wide[(..., *(slice(p, p + n) for n, p in zip(shape[2:], pads)))]
    if x is not None:
        inner[...] = x
    return _grouped(wide, 1, parts[3]["groups"]), inner


def _forward(x: Any, w: Any, parts: Any) -> Any:
    groups = parts[3]["groups"]
    filters, total = _grouped(w.astype("d"), 0, groups), 0.0
    for place, window in _windows(_padded(parts, x)[0], parts):
        total = total + np.einsum("ngc...,goc->ngo...", window, filters[place])
    return np.reshape(total, parts[2]["shape"])


def _backward_data(w: Any, d: Any, parts: Any) -> Any:
    groups = parts[3]["groups"]
    filters, gradient = _grouped(w.astype("d"), 0, groups), _grouped(d.astype("d"), 1, groups)
    total, inner = _padded(parts)
    for place, window in _windows(total, parts):
        window += np.einsum("ngo...,goc->ngc...", gradient, filters[place])
    return inner


def _backward_filter(x: Any, d: Any, parts: Any) -> Any:
    groups = parts[3]["groups"]
    gradient = _grouped(d.astype("d"), 1, groups)
    made = np.zeros(parts[1]["shape"])
    filters = _grouped(made, 0, groups)
    for place, window in _windows(_padded(parts, x)[0], parts):
        both = np.multiply(gradient[:, :, :, None], window[:, :, None])
        filters[place] = both.sum(axis=(0, *range(4, both.ndim)))
    return made


COMPUTED: dict[str, Callable[..., Any]] = {
    "Forward": _forward,
    "BackwardData": _backward_data,
    "BackwardFilter": _backward_filter,
}
