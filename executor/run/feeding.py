"""Feeds: checking them once by name, turning each into the array and level of detail that a plan takes."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.cores import own_cores
from fluidlite.base.dtypes import DTypeLike, VarType, to_numpy, to_vartype
from fluidlite.base.errors import FeedError, did_you_mean
from fluidlite.base.place import Place
from fluidlite.executor.plan.plan import FeedSpec
from fluidlite.executor.run.fed_dtypes import check_fed_dtypes
from fluidlite.executor.run.fed_shapes import doubt_shapes
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.structure import check_depth
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, host

__all__ = ["Form", "Signature", "blas_threads"]

_MOST_SHAPES = 256  # of a feed that are remembered

Form = tuple[tuple[Any, Any, bool], ...]


class Signature:
    """The names fed to, and fetched from, one version of a program. All runs that feed and fetch them share
    it, and what it names cannot be changed.
    """

    def __init__(self, block: Block, names: Sequence[str], fetches: Sequence[str], xp: Any) -> None:
        check_depth(block.program)
        known = {name: var for name in names if (var := _variable(block, name)) is not None}
        self.names = tuple(known)
        self.variables = tuple(known.values())
        self.fetches = tuple(fetches)
        self.xp = xp
        self.dtypes = tuple(map(_declared_dtype, self.variables))
        # (feed, dimension) that the program leaves open
        self.free = tuple(
            (feed, axis)
            for feed, var in enumerate(self.variables)
            if var.type == VarType.LOD_TENSOR
            for axis, dim in enumerate(var.shape)
            if dim < 0
        )
        self.block = block
        self.kept = frozenset(
            name for name, var in known.items() if var.persistable and var.type == VarType.LOD_TENSOR
        )
        self._fitting: list[set[tuple[int, ...]]] = [set() for _ in self.variables]
        """For each feed the shapes that are known to fit its variable."""
        self._checked: set[tuple[Any, ...]] = set()
        """Types of feeds, other than declared, that the program is known to take."""

    def arguments(self, feed: Mapping[str, Any]) -> tuple[list[Any], Form]:
        """The plan's arguments, and their form (shape, dtype, whether there is a level of detail): the key
        of a plan.
        """
        arguments: list[Any] = []
        form: list[tuple[Any, Any, bool]] = []
        are_ready = True
        feeds = zip(self.names, self.variables, self.dtypes, self._fitting, strict=True)
        for name, var, dtype, fitting in feeds:
            value = feed[name]
            # the usual feed goes through as it is; `is` will do, since NumPy has one object a built-in dtype
            given = value.array if type(value) is LoDTensor and not value._lod else value
            is_ready = type(given) is np.ndarray and given.dtype is dtype and given.flags.c_contiguous
            if is_ready and given.shape in fitting:
                arguments.append(given)
                form.append((given.shape, dtype, False))
                continue
            are_ready = False
            array, lod = self._convert(var, dtype, value)
            if is_ready and array is given and len(fitting) < _MOST_SHAPES:
                fitting.add(given.shape)
            arguments.append(array)
            if lod:
                arguments.append(lod)
            shape = getattr(array, "shape", None)
            # the number of rows of sequences changes from batch to batch: such feeds share one form
            form.append((None if lod else shape, getattr(array, "dtype", None), bool(lod)))
        if not are_ready:
            self._check_dtypes(tuple(dtype for _, dtype, _ in form))
        return arguments, tuple(form)

    def doubt_shapes(self, form: Form) -> None:
        """Warn of shapes that are let through and hardly meant; called for forms that are new."""
        doubt_shapes(self.block.ops, self.variables, [shape for shape, _, _ in form])

    def _check_dtypes(self, found: tuple[Any, ...]) -> None:
        """Refuse types of feeds that the program's ops cannot take, where they are not those declared."""
        if found in self._checked:
            return
        pairs = zip(self.names, found, self.dtypes, strict=True)
        fed = {name: dtype for name, dtype, declared in pairs if declared is not None and dtype != declared}
        if fed:
            check_fed_dtypes(self.block, self.block.ops, fed)
        self._checked.add(found)

    def _convert(self, var: Variable, dtype: Any, value: Any) -> tuple[Any, Any]:
        lod: Any = ()
        if isinstance(value, LoDTensor):
            lod = value._lod
            value = value.array
            if value is None:
                raise _feed_error(var, f"the LoDTensor fed to {var.name!r} holds no data")
        if (isinstance(value, (SelectedRows, list)) and dtype is None) or isinstance(value, SelectedRows):
            return value, ()
        array = self._array(var, dtype, value)
        check_feed_shape_type(var, LoDTensor(array, lod) if lod else array)
        return array, lod

    def _array(self, var: Variable, dtype: Any, value: Any) -> Any:
        if isinstance(value, (self.xp.ndarray, np.ndarray)):
            array = value
        else:
            array = _from_python(var, value)
        if array.dtype == object and array.size and not any(map(np.ndim, array.flat)):
            raise _feed_error(
                var,
                f"cannot feed {var.name!r}: it is an array of dtype object, which begins with "
                f"{array.flat[0]!r}; convert it to a numeric dtype, for example with "
                "array.astype('float32')",
            )
        if array.dtype == object:
            raise _feed_error(
                var,
                f"cannot feed {var.name!r}: the rows differ in length; feed a LoDTensor "
                f"(fluid.create_lod_tensor)",
            )
        # `fluid.data` refuses another dtype (`check_feed_shape_type`); `fluid.layers.data` takes it as it is.
        # A persistable variable keeps its own: what updates it was built for that
        if dtype is not None and array.dtype != dtype and var.persistable and not var.need_check_feed:
            array = array.astype(dtype)
        # what is the host's stays there: a captured step copies it beside the step before
        xp = np if isinstance(array, np.ndarray) else self.xp
        return xp.asarray(array, order="C")

    def keep(self, feed: dict[str, Any], scope: Scope) -> dict[str, Any]:
        """Put what is fed to persistable variables into the scope, where later runs and the user find it; the
        other feeds.
        """
        for name, var, dtype in zip(self.names, self.variables, self.dtypes, strict=True):
            if name in self.kept:
                array, lod = self._convert(var, dtype, feed[name])
                check_declared_size(var, array)
                tensor = (scope.find_var(name) or scope.var(name)).get_tensor()
                tensor.set(host(array))
                tensor._lod = lod
        return {name: value for name, value in feed.items() if name not in self.kept}

    def specs(self, form: Form) -> dict[str, FeedSpec]:
        """The facts that a plan may take for granted."""
        return {name: FeedSpec(*entry) for name, entry in zip(self.names, form, strict=True)}


def _feed_error(var: Variable, text: str) -> FeedError:
    """The error for a value that does not fit a variable, with the user's line that declared it."""
    return FeedError(text if var.declared_at is None else f"{text}\n  declared at {var.declared_at}")


def _declared_dtype(var: Variable) -> Any:
    """The NumPy dtype that a tensor declares; None for what declares none, or is no tensor."""
    return to_numpy(var.dtype) if var.type == VarType.LOD_TENSOR and var._dtype is not None else None


def _variable(block: Block, name: str) -> Variable | None:
    var = block._find_var_recursive(name)
    if var is None:
        near = did_you_mean(name, list(block.vars)) if isinstance(name, str) else ""
        warn_user(
            f"The variable {name} is not found in program. It is not declared or is pruned.{near}",
            category=UserWarning,
        )
    return var


def _from_python(var: Variable, value: Any) -> Any:
    """An array from numbers and lists of them, in the variable's dtype; a bare number becomes one of shape
    [1], but for a variable of shape [].
    """
    wanted = to_numpy(var.dtype) if var._dtype is not None else None
    try:
        if value is None:
            raise TypeError("no value was given")
        return np.asarray([value] if np.isscalar(value) and var.shape != () else value, dtype=wanted)
    except (ValueError, TypeError) as error:
        raise _feed_error(
            var,
            f"cannot feed {var.name!r} (shape {list(var.shape)}, dtype {var._dtype}) with "
            f"{type(value).__name__}: {error}",
        ) from None


# ---------- checks, under fluid's names
def dtype_is_compatible_with(first: DTypeLike, second: DTypeLike) -> bool:
    """True if both are the same dtype."""
    return to_vartype(first) == to_vartype(second)


def dimension_is_compatible_with(first: Sequence[int], second: Sequence[int]) -> bool:
    """True if two shapes can be the same, where a negative dimension stands for any."""
    return len(first) == len(second) and all(
        a == b or a < 0 or b < 0 for a, b in zip(first, second, strict=True)
    )


def check_feed_shape_type(var: Variable, feed: Any, num_places: int = 1) -> bool:
    """True where what is fed to a `fluid.data` variable on `num_places` devices fits it; ValueError
    otherwise.

    As in 1.8.5, trailing dimensions may be missing: [N] fits a variable of shape [-1, 1]; and a tensor with a
    level of detail may have any shape, since its rows are those of all sequences.
    """
    if not var.need_check_feed:
        return True
    array = feed.array if isinstance(feed, LoDTensor) else feed
    if not (isinstance(feed, LoDTensor) and feed._lod):
        _check_shape(var, list(array.shape), num_places)
    if array.dtype != to_numpy(var.dtype):
        wanted = to_numpy(var.dtype)
        raise _feed_error(
            var,
            f"The data type of fed Variable {var.name!r} must be '{wanted}', but received '{array.dtype}'; "
            f'feed array.astype("{wanted}")',
        )
    return True


def _check_shape(var: Variable, shape: list[int], num_places: int) -> None:
    declared = list(var.shape)
    if not shape and not declared:  # a single number, as 2.x has it
        return
    if shape and num_places > 1:
        # rounded up, as 1.8.5 shares an uneven batch out: the largest part is the one that is checked
        shape[0] = -(-shape[0] // num_places)
    if not 0 < len(shape) <= len(declared) or not dimension_is_compatible_with(shape, declared[: len(shape)]):
        raise _feed_error(
            var,
            f"The fed Variable {var.name!r} should have dimensions = {len(declared)}, shape = {var.shape}, "
            f"but received fed shape {shape} on each device",
        )


def check_declared_size(var: Variable, array: Any) -> None:
    """FeedError where a persistable variable that is not a data layer, such as a learning rate, gets another
    number of elements: ops that were built for its size would broadcast what does not belong together.
    """
    if not var.is_data and var.spec.static and array.size != math.prod(var.shape):
        raise _feed_error(
            var,
            f"variable {var.name!r} is persistable and of shape {list(var.shape)}, but is fed an array of "
            f"shape {list(array.shape)} on each device",
        )


def _has_operators(block: Block, kind: str, slot: str, wanted: Sequence[str], holder: str) -> bool:
    ops = [op for op in block.ops if op.type == kind]
    if not ops:
        return False
    found = [(op.input(slot) if kind == "fetch" else op.output(slot))[0] for op in ops]
    missing = next((name for name in found if name not in wanted), None)
    if missing is not None:
        raise Exception(f"'{kind}_targets' does not have {missing} variable")
    if len(ops) != len(wanted):
        raise Exception(f"{kind.capitalize()} operators in program desc do not match '{kind}_targets'")
    holders = {(op.input("X") if kind == "feed" else op.output("Out"))[0] for op in ops}
    assert holders == {holder}, f"the {kind} operators go through {sorted(holders)}, not through {holder!r}"
    return True


def has_feed_operators(block: Block, feed_targets: Mapping[str, Any], feed_holder_name: str) -> bool:
    """True if the block has feed ops; an Exception where they are not for exactly the names in
    `feed_targets`.
    """
    return _has_operators(block, "feed", "Out", list(feed_targets), feed_holder_name)


def has_fetch_operators(block: Block, fetch_targets: Sequence[Any], fetch_holder_name: str) -> bool:
    """True if the block has fetch ops; an Exception where they are not for exactly `fetch_targets`."""
    return _has_operators(
        block, "fetch", "X", [_to_name_str(target) for target in fetch_targets], fetch_holder_name
    )


def _to_name_str(var: Any) -> str:
    if isinstance(var, tuple):
        # what `minimize` returned stands for its ops
        var = var[0]
    if isinstance(var, list):
        return ",".join(_to_name_str(item) for item in var)
    if isinstance(var, (Variable, str)):
        return var if isinstance(var, str) else var.name
    if isinstance(var, Operator):
        return str(id(var))
    raise TypeError(f"{var} should be Variable, Operator or str")


def _get_program_cache_key(feed: Any, fetch_list: Sequence[Any]) -> str:
    parts = feed if isinstance(feed, (list, tuple)) else [feed or {}]
    return str([*(name for part in parts for name in part), *map(_to_name_str, fetch_list)])


def _get_strong_program_cache_key(program: Any, feed: Any, fetch_list: Sequence[Any]) -> str:
    return str(id(program)) + _get_program_cache_key(feed, fetch_list)


def _as_lodtensor(data: Any, place: Place, dtype: DTypeLike | None = None) -> LoDTensor:
    """The tensor that fluid 1.8 makes of a value that is fed; a bare number needs a dtype, and a list is
    an error.
    """
    if isinstance(data, list):
        raise RuntimeError(
            "Some of your feed data hold LoD information. They can not be completely cast from a list of "
            "Python "
            "ndarray to LoDTensor. Please convert data to LoDTensor directly before feeding the data."
        )
    if np.isscalar(data):
        assert dtype is not None, "dtype should be given when casting python scalar to tensor"
        data = np.array([data]).astype(to_numpy(dtype))
    tensor = LoDTensor()
    tensor.set(data, place)
    return tensor


@functools.cache
def blas_threads() -> int:
    """The number of threads that BLAS may use here, and so a plan's own loops."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    return own_cores(os.environ)
