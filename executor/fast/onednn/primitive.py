"""Memory descriptors and primitives of oneDNN as Python objects that free what they hold."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Mapping, Sequence
from ctypes import c_int64, c_void_p
from typing import Any, ClassVar

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.onednn.library import checked, engine, library, stream

__all__ = ["Attributes", "Desc", "Primitive", "PrimitiveDesc", "aligned", "dims", "reorder", "scratch"]

_F32 = 3
_ANY = 1  # format_tag_any: the primitive chooses the layout
_USER_SCRATCHPAD = 1
_RELU = 32
_ADD = 0x1FFF0

SRC, DST, WEIGHTS, BIAS = 1, 17, 33, 41
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 129, 145, 161
MEAN, VARIANCE, SCALE, SHIFT, DIFF_SCALE, DIFF_SHIFT = 49, 50, 51, 52, 255, 256
WORKSPACE, SCRATCHPAD = 64, 80
TERM = 1 << 15 | 2  # the other operand of the first post-op
_QUERY_ARGUMENT, _QUERY_SCRATCHPAD, _QUERY_NAME = 255, 136, 8
_ALIGNMENT = 64


def dims(numbers: Sequence[int]) -> Any:
    """Numbers as the array of int64 that the library takes."""
    return (c_int64 * len(numbers))(*numbers)


class _Handle(c_void_p):
    """An object of the library, which is freed when nothing refers to its handle.

    A finalizer for each took a tenth of the first step of a network of 130 convolutions.
    """

    kind: ClassVar[str]

    def __del__(self) -> None:
        # at exit the library may be gone before the objects are
        if self.value and not sys.is_finalizing():
            getattr(library(), f"dnnl_{self.kind}_destroy")(self)


class _DescHandle(_Handle):
    kind = "memory_desc"


class _MemoryHandle(_Handle):
    kind = "memory"


class _AttributesHandle(_Handle):
    kind = "primitive_attr"


class _DescribedHandle(_Handle):
    kind = "primitive_desc"


class _PrimitiveHandle(_Handle):
    kind = "primitive"


class Desc:
    """A memory descriptor: dimensions of float32, with strides or in a layout to be chosen."""

    def __init__(self, handle: _DescHandle) -> None:
        self.handle = handle

    @classmethod
    def strided(cls, shape: Sequence[int], strides: Sequence[int]) -> Desc:
        """An array of that shape with strides, which count elements."""
        made = _DescHandle()
        status = library().dnnl_memory_desc_create_with_strides(
            ctypes.byref(made), len(shape), dims(shape), _F32, dims(strides)
        )
        checked(status, f"descriptor of {tuple(shape)} with strides {tuple(strides)}")
        return cls(made)

    @classmethod
    def any(cls, shape: Sequence[int]) -> Desc:
        """An array of that shape in the layout that a primitive likes best."""
        made = _DescHandle()
        status = library().dnnl_memory_desc_create_with_tag(
            ctypes.byref(made), len(shape), dims(shape), _F32, _ANY
        )
        checked(status, f"descriptor of {tuple(shape)}")
        return cls(made)

    @property
    def nbytes(self) -> int:
        """The size of such an array."""
        return int(library().dnnl_memory_desc_get_size(self.handle))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Desc) and bool(library().dnnl_memory_desc_equal(self.handle, other.handle))

    __hash__ = None  # type: ignore[assignment]


def aligned(nbytes: int) -> Array:
    """Bytes that begin at a line of the cache."""
    raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -address_of(raw) % _ALIGNMENT
    return raw[start : start + nbytes]


_kept = threading.local()


def scratch(use: str, nbytes: int) -> int:
    """The address of bytes that last until this thread asks for such of the same use again: primitives run
    one after the other, so that one piece, as large as the largest, does for all of them.
    """
    held = _kept.__dict__.get(use)
    if held is None or held[0] < nbytes:
        piece = aligned(nbytes)
        held = _kept.__dict__[use] = nbytes, address_of(piece), piece
    return int(held[1])


class Attributes:
    """Attributes of a primitive: its scratchpad is given to it; post-ops change what it has computed, in the
    order `add` (an array of that layout, the argument `TERM`), `sum` (what the output held), `relu`.
    """

    def __init__(self, sum: bool = False, relu: bool = False, add: Desc | None = None) -> None:
        self.handle = _AttributesHandle()
        checked(library().dnnl_primitive_attr_create(ctypes.byref(self.handle)), "attributes")
        library().dnnl_primitive_attr_set_scratchpad_mode(self.handle, _USER_SCRATCHPAD)
        if sum or relu or add is not None:
            self._append(sum, relu, add)

    def _append(self, sum: bool, relu: bool, add: Desc | None) -> None:
        steps = c_void_p()
        checked(library().dnnl_post_ops_create(ctypes.byref(steps)), "post-ops")
        if add is not None:
            checked(library().dnnl_post_ops_append_binary(steps, _ADD, add.handle), "post-op add")
        if sum:
            checked(library().dnnl_post_ops_append_sum(steps, 1.0, 0, 0), "post-op sum")
        if relu:
            checked(library().dnnl_post_ops_append_eltwise(steps, _RELU, 0.0, 0.0), "post-op relu")
        checked(library().dnnl_primitive_attr_set_post_ops(self.handle, steps), "post-ops")
        library().dnnl_post_ops_destroy(steps)


class PrimitiveDesc:
    """The description of a primitive, with the implementation that the library has chosen."""

    def __init__(self, kind: str, what: str, *arguments: Any) -> None:
        self.what = what
        self.handle = _DescribedHandle()
        function = getattr(library(), f"dnnl_{kind}_primitive_desc_create")
        plain = [_plain(item) for item in arguments]
        stream()  # what is made now is made for one thread
        checked(function(ctypes.byref(self.handle), *plain), f"{kind} of {what}")

    @functools.cached_property
    def primitive(self) -> c_void_p:
        """The handle of the primitive: its scratchpad is given to it, so any thread may run it."""
        stream()
        made = _PrimitiveHandle()
        checked(library().dnnl_primitive_create(ctypes.byref(made), self.handle), self.what)
        return made

    @property
    def name(self) -> str:
        """The name of the implementation, such as `brgconv:avx512_core`."""
        found = ctypes.c_char_p()
        library().dnnl_primitive_desc_query(self.handle, _QUERY_NAME, 0, ctypes.byref(found))
        return (found.value or b"").decode()

    def layout(self, argument: int) -> Desc:
        """The descriptor of an argument."""
        return self._described(_QUERY_ARGUMENT, argument)

    def scratchpad(self) -> Desc:
        """The descriptor of the scratchpad."""
        return self._described(_QUERY_SCRATCHPAD, 0)

    def _described(self, query: int, index: int) -> Desc:
        borrowed = library().dnnl_primitive_desc_query_md(self.handle, query, index)
        made = _DescHandle()
        checked(library().dnnl_memory_desc_clone(ctypes.byref(made), borrowed), self.what)
        return Desc(made)


def _plain(item: Any) -> Any:
    return item.handle if isinstance(item, (Desc, Attributes, PrimitiveDesc)) else item


class _Passed(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("memory", c_void_p))


class _Arguments:
    """A memory object for each argument of a call, in order."""

    def __init__(self, descs: Mapping[int, Desc], what: str) -> None:
        self.handles = [self._memory(desc, what) for desc in descs.values()]
        self.addresses = [0] * len(descs)
        self.passed = (_Passed * len(descs))(
            *(_Passed(number, memory.value) for number, memory in zip(descs, self.handles, strict=True))
        )

    @staticmethod
    def _memory(desc: Desc, what: str) -> _MemoryHandle:
        made = _MemoryHandle()
        status = library().dnnl_memory_create(ctypes.byref(made), desc.handle, engine(), None)
        checked(status, what)
        return made


class Primitive:
    """A primitive whose `run` takes the addresses of its arguments; threads, and layers that are alike, may
    share it.
    """

    def __init__(self, described: PrimitiveDesc, arguments: Mapping[int, Desc]) -> None:
        self.described = described
        self.handle = described.primitive
        scratchpad = described.scratchpad()
        self.scratch_bytes = scratchpad.nbytes
        self._every = {**arguments, SCRATCHPAD: scratchpad}
        self._free: list[_Arguments] = []
        """Those that no thread is computing with."""
        self._execute = library().dnnl_primitive_execute
        self._set = library().dnnl_memory_set_data_handle

    def run(self, *addresses: int) -> None:
        """Compute, on the calling thread alone, with the arguments at these addresses, in their order; that
        of the scratchpad, the last, may be left out.
        """
        if self.scratch_bytes and len(addresses) < len(self._every):
            addresses = (*addresses, scratch("scratchpad", self.scratch_bytes))
        held = self.take(addresses)
        status = self._execute(self.handle, stream(), len(held.passed), held.passed)
        if status:
            checked(status, self.described.what)
        self.give_back(held)

    def take(self, addresses: Sequence[int]) -> _Arguments:
        """Arguments at these addresses, for the caller alone; the last is that of the scratchpad, if any."""
        # taking from a list is one step for other threads: who finds none makes one
        try:
            held = self._free.pop()
        except IndexError:
            held = _Arguments(self._every, self.described.what)
        for index, address in enumerate(addresses):
            if held.addresses[index] != address:
                self._set(held.handles[index], address)
                held.addresses[index] = address
        return held

    def give_back(self, held: _Arguments) -> None:
        """Let others have arguments that nothing computes with."""
        self._free.append(held)


def reorder(source: Desc, target: Desc, what: str) -> Primitive:
    """A primitive that copies (from, to) between two layouts."""
    described = PrimitiveDesc("reorder", what, source, engine(), target, engine(), Attributes())
    return Primitive(described, {SRC: source, DST: target})
