"""Nested structures of Variables (lists, tuples, named tuples, dicts), and checks that layers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_dtype, convert_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layers.tensors.constants import fill_constant, has_variable
from fluidlite.layers.tensors.variables import cast

__all__ = [
    "assert_same_structure",
    "convert_to_list",
    "copy_mutable_vars",
    "flatten",
    "hold_mutable_vars",
    "is_sequence",
    "map_structure",
    "pack_sequence_as",
]


def convert_to_list(value: Any, n: int, name: str, dtype: type = int) -> list[Any]:
    """A single `dtype` repeated `n` times, or the `n` items of a sequence; ValueError where it is neither."""
    if isinstance(value, dtype):
        return [value] * n
    try:
        values = list(value)
    except TypeError:
        raise ValueError(f"The {name}'s type must be list or tuple. Received: {value}") from None
    if len(values) != n:
        raise ValueError(f"The {name}'s length must be {n}. Received: {value}")
    for item in values:
        try:
            dtype(item)
        except (ValueError, TypeError):
            raise ValueError(
                f"The {name}'s type must be a list or tuple of {n} {dtype}. Received: {value} including "
                f"element {item} of type {type(item)}"
            ) from None
    return values


# ---------------------------------------------------------------------- nested structures
def is_sequence(seq: Any) -> bool:
    """True if `seq` holds others: a dict, list or tuple, but no string."""
    return isinstance(seq, dict) or (isinstance(seq, Sequence) and not isinstance(seq, str))


def _items(nest: Any) -> list[Any]:
    """The items of one level; a dict's in the order of its sorted keys."""
    if not isinstance(nest, dict):
        return list(nest)
    try:
        return [nest[key] for key in sorted(nest)]
    except TypeError:
        raise TypeError(f"a nested dict needs keys that can be sorted, not {list(nest)}") from None


def _leaves(nest: Any) -> Iterator[Any]:
    if not is_sequence(nest):
        yield nest
        return
    for item in _items(nest):
        yield from _leaves(item)


def flatten(nest: Any) -> list[Any]:
    """All leaves of a nested structure, from left to right."""
    return list(_leaves(nest))


def _like(instance: Any, items: list[Any]) -> Any:
    """A container of the kind of `instance` that holds `items`."""
    if isinstance(instance, dict):
        by_key = dict(zip(sorted(instance), items, strict=True))
        return type(instance)((key, by_key[key]) for key in instance)
    if isinstance(instance, tuple) and hasattr(instance, "_fields"):
        return type(instance)(*items)
    return type(instance)(items)  # type: ignore[call-arg]


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_sequence(structure):
        return next(leaves)
    return _like(structure, [_packed(item, leaves) for item in _items(structure)])


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """`flat_sequence` in the form of `structure`; ValueError where the numbers of leaves differ."""
    if not is_sequence(flat_sequence):
        raise TypeError("flat_sequence must be a sequence")
    wanted = len(flatten(structure))
    if len(flat_sequence) != wanted:
        raise ValueError(
            f"Could not pack sequence. Structure had {wanted} elements, but flat_sequence had "
            f"{len(flat_sequence)} elements.  Structure: {structure}, flat_sequence: {flat_sequence}."
        )
    return _packed(structure, iter(flat_sequence))


def map_structure(func: Callable[..., Any], *structure: Any) -> Any:
    """`func` of the leaves at the same place in each structure, in the form of the first."""
    return pack_sequence_as(
        structure[0], [func(*leaves) for leaves in zip(*map(flatten, structure), strict=False)]
    )


def hold_mutable_vars(structure: Iterable[Any]) -> bool:
    """True if any item of `structure` is itself a container."""
    return any(is_sequence(item) for item in structure)


def copy_mutable_vars(structure: Any) -> Any:
    """The same leaves in new containers."""
    return pack_sequence_as(structure, flatten(structure))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """ValueError where the nesting differs; with `check_types`, TypeError where the kinds of containers
    differ.
    """
    count1, count2 = len(flatten(nest1)), len(flatten(nest2))
    if count1 != count2:
        raise ValueError(
            f"The two structures don't have the same number of elements.\n\nFirst structure ({count1} "
            f"elements): {nest1}\n\nSecond structure ({count2} elements): {nest2}"
        )
    _assert_same_nesting(nest1, nest2, check_types)


def _assert_same_nesting(nest1: Any, nest2: Any, check_types: bool) -> None:
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: {nest1}\n\nSecond structure: {nest2}."
        )
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(
            f"The two structures don't have the same sequence type. First structure has type {type(nest1)}, "
            f"while second structure has type {type(nest2)}."
        )
    if check_types and isinstance(nest1, dict) and set(nest1) != set(nest2):
        raise ValueError(
            f"The two dictionaries don't have the same set of keys. First structure has keys {set(nest1)}, "
            f"while second structure has keys {set(nest2)}."
        )
    for item1, item2 in zip(_items(nest1), _items(nest2), strict=False):
        _assert_same_nesting(item1, item2, check_types)


# ---------------------------------------------------------------------- shapes and padding
_contain_var = has_variable


def _is_symmetric_padding(padding: Sequence[int], data_dim: int) -> bool:
    """True if each dimension has the same padding before and after."""
    assert len(padding) in (data_dim, 2 * data_dim)
    return len(padding) == data_dim or all(
        padding[2 * dim] == padding[2 * dim + 1] for dim in range(data_dim)
    )


def _get_shape_tensor_inputs(
    inputs: dict[str, Any], helper: Any, attrs: dict[str, Any], shape: Any, op_type: str
) -> dict[str, Any]:
    """Put a shape that is, or holds, Variables into the slots ShapeTensor(List), else into the attribute
    `shape`.
    """
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        check_dtype(
            shape.dtype,
            "shape",
            ["int32", "int64"],
            "fill_constant",
            f"(When type of shape in{op_type} is Variable.)",
        )
        inputs["ShapeTensor"] = cast(shape, "int32") if convert_dtype(shape.dtype) == "int64" else shape
    elif isinstance(shape, (list, tuple)):
        assert len(shape) > 0, f"The size of 'shape' in {op_type} can't be zero, but received {len(shape)}."
        attrs["shape"] = [-1 if isinstance(dim, Variable) else dim for dim in shape]
        if has_variable(shape):
            inputs["ShapeTensorList"] = [_dimension(dim, index, op_type) for index, dim in enumerate(shape)]
    return inputs


def _dimension(dim: Any, index: int, op_type: str) -> Variable:
    """One dimension as an int32 Variable."""
    if not isinstance(dim, Variable):
        constant: Variable = fill_constant([1], "int32", dim, force_cpu=True)
        return constant
    dim.stop_gradient = True
    check_dtype(
        dim.dtype,
        f"shape[{index}]",
        ["int32", "int64"],
        op_type,
        f"(When type of shape in{op_type}is list or tuple.)",
    )
    return cast(x=dim, dtype="int32") if convert_dtype(dim.dtype) == "int64" else dim


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
