"""Values of a plan: what is known of each array before the plan runs, and where its memory comes from."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.records import dataclass
from fluidlite.executor.plan.once import computed_once

__all__ = ["Reshape", "Same", "Slices", "Storage", "Transpose", "Value", "ValueFactory", "View"]


class Storage(enum.Enum):
    """The origin of a value's memory."""

    BUFFER = "a slice of the plan's pool, placed by liveness"
    PARAM = "the array of a persistable variable, bound from the scope"
    TENSOR = "the tensor of a persistable variable, for a kernel that keeps its values in a layout of its own"
    FEED = "an argument of the step function"
    CONST = "an array made once"
    VIEW = "another value's memory, without a copy"
    LOCAL = "a name that a statement assigns anew in each step"
    FRESH = "an array of its own each time: it outlives the step of a loop that makes it"

    __hash__ = object.__hash__  # members are single objects; the hash of an Enum is computed in Python


@dataclass(frozen=True)
class Reshape:
    """A view with the same elements in the same order."""

    shape: tuple[int, ...]

    def of(self, array: Any) -> Any:
        """The view of an array."""
        return array.reshape(self.shape)


@dataclass(frozen=True)
class Transpose:
    """A view with the dimensions in another order."""

    axes: tuple[int, ...]

    def of(self, array: Any) -> Any:
        """The view of an array."""
        return array.transpose(self.axes)


@dataclass(frozen=True)
class Slices:
    """A view of [start, stop) along each of the leading dimensions; None stands for all of one."""

    ranges: tuple[tuple[int, int] | None, ...]

    def of(self, array: Any) -> Any:
        """The view of an array."""
        return array[self.index()]

    def index(self) -> tuple[slice, ...]:
        """The ranges as an array is indexed with them."""
        return tuple(slice(*bounds) if bounds else slice(None) for bounds in self.ranges)


@dataclass(frozen=True)
class Same:
    """The array itself, under another version."""

    def of(self, array: Any) -> Any:
        """The array."""
        return array


View: TypeAlias = "Reshape | Transpose | Slices | Same"


# compared by identity: two temporaries of the same shape look alike and are two arrays
@dataclass(eq=False)
class Value:
    """One version of a variable, or a temporary. `shape` is None where it is known only when the step
    runs.
    """

    number: int
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    storage: Storage
    name: str = ""
    """The program's variable; empty for a temporary."""
    base: Value | None = None
    view: View | None = None
    """How a VIEW shows its base."""
    alias: bool = False
    """True if a VIEW of a persistable variable is another variable, which may be read after that one has
    changed.
    """
    uniform: float | int | bool | None = None
    """The number that every element is, where that is known."""
    constant: Any = None
    """The array of a CONST."""
    optional: bool = False
    """True if a statement may leave the name without an array."""
    has_lod: bool = False
    """True if a level of detail goes with it, in a symbol of its own."""
    maker: Any = None
    """The `Bound` object that gives a FRESH array that was given before, where that pays."""
    entry: Value | None = None
    """For a list with an entry for each step of a loop: what those look like."""
    maybe: bool = False
    """True if it may be None: written in a branch, or in a loop that may run no step."""

    def __repr__(self) -> str:
        return f"v{self.number}"

    def fill(self, number: Any) -> None:
        """Note that every element is this number."""
        self.uniform = number

    def may_be_none(self) -> None:
        """Note that a step may leave it without an array."""
        self.maybe = True

    def named(self, name: str) -> None:
        """Note the variable that it is the value of, unless it is one already."""
        self.name = self.name or name

    def move_to(self, target: Value) -> None:
        """Show the memory of `target` instead of an own buffer: whoever writes the value writes there."""
        self.storage = Storage.VIEW
        self.base = target
        self.view = Same()

    @property
    def root(self) -> Value:
        """The value whose memory this one shows."""
        base = self.base
        if base is None:
            return self
        while base.base is not None:
            base = base.base
        return base

    @property
    def first_alias(self) -> Value | None:
        """The view, closest to the memory that this one shows, that is another variable."""
        found: Value | None = None
        value: Value | None = self
        while value is not None:
            if value.alias:
                found = value
            value = value.base
        return found

    @property
    def order(self) -> tuple[int, ...] | None:
        """The dimensions in the order in which they lie in memory, for a whole buffer that is shown
        transposed; None for all other values.
        """
        if not isinstance(self.view, Transpose) or self.base is None or not self.base.contiguous:
            return None
        axes = self.view.axes
        return tuple(sorted(range(len(axes)), key=lambda axis: axes[axis]))

    @property
    def memory(self) -> Any:
        """A key that two values share when they share memory: all versions of a parameter have one array."""
        root = self.root
        # two versions of a parameter are two values over one array: passes that move steps must see that
        return ("param", root.name) if root.storage is Storage.PARAM else root

    @property
    def known(self) -> bool:
        """True if shape and dtype are known before the step runs, and there is an array."""
        return self.shape is not None and self.dtype is not None and not self.maybe

    # these two are asked for most, ten times for each value of a plan; a shape never changes
    @computed_once
    def size(self) -> int:
        """The number of elements."""
        assert self.shape is not None
        return math.prod(self.shape)

    @computed_once
    def nbytes(self) -> int:
        """The number of bytes."""
        assert self.dtype is not None
        return self.size * self.dtype.itemsize

    @property
    def fixed(self) -> bool:
        """True if the array is the same object at every step, so that views of it are made once."""
        # feeds, locals and fresh arrays are other objects at each step, so views of them cannot be made ahead
        return self.root.storage in (Storage.BUFFER, Storage.PARAM, Storage.TENSOR, Storage.CONST)

    @property
    def persists(self) -> bool:
        """True for a persistable variable itself."""
        return self.storage in (Storage.PARAM, Storage.TENSOR)

    @property
    def contiguous(self) -> bool:
        """True if the plan can tell that the array is laid out in C order."""
        value = self
        while value.base is not None:
            if not isinstance(value.view, (Reshape, Same)):
                return False
            value = value.base
        # whatever has a shape is put in C order where it enters the plan: what is fed, held by a scope,
        # returned by a kernel (`KernelCall`) or handed from step to step (`keep`)
        return value.storage is not Storage.LOCAL or value.known

    @property
    def lies_in_order(self) -> bool:
        """True if the plan can tell that the array is laid out in C order: whole, or some of its rows."""
        if self.base is None:
            return self.contiguous
        are_rows = isinstance(self.view, Slices) and not any(self.view.ranges[1:])
        return (are_rows or isinstance(self.view, (Reshape, Same))) and self.base.lies_in_order


class ValueFactory:
    """Makes values with fresh numbers."""

    def __init__(self) -> None:
        self._next = 0

    def number(self) -> int:
        """A number that no value has."""
        # numbers only grow: of two versions of a variable the one with the higher number is the newer
        number = self._next
        self._next = self._next + 1
        return number

    def make(self, shape: Sequence[int] | None, dtype: Any, storage: Storage, **fields: Any) -> Value:
        """A new value."""
        return Value(
            self.number(),
            None if shape is None else tuple(shape),
            None if dtype is None else np.dtype(dtype),
            storage,
            **fields,
        )

    def local(
        self, like: Value | None = None, shape: Sequence[int] | None = None, dtype: Any = None, **fields: Any
    ) -> Value:
        """A new value that a statement assigns: with the shape and dtype of another, with given ones, or
        unknown.
        """
        if like is not None:
            shape = like.shape
            dtype = like.dtype
        return self.make(shape, dtype, Storage.LOCAL, **fields)
