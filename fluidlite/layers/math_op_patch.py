"""Operators on Variables: `x + y`, `x * 2`, `x > y`, `-x`, `x[:, 0]` append ops, the ones that fluid 1.8
appends.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType, is_integer, to_numpy, to_vartype
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import guard
from fluidlite.ir.no_values import items_of
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user

__all__ = ["COMPARISONS", "SCALED", "astype", "constant", "monkey_patch_variable", "scaled", "temporary"]

FAR = 10000000  # fluid's "to the end" of a slice


def _block(var: Variable) -> Any:
    return var.block.program.current_block()


def temporary(var: Variable, dtype: VarType) -> Variable:
    """A new variable `tmp_N` of the block that is being written."""
    result: Variable = _block(var).create_var(name=unique_name.generate("tmp"), dtype=dtype)
    return result


def scaled(var: Variable, scale: float, bias: float) -> Variable:
    """var * scale + bias, as one `scale`."""
    out = temporary(var, var.dtype)
    _block(var).append_op(
        type="scale", inputs={"X": [var]}, outputs={"Out": [out]}, attrs={"scale": scale, "bias": bias}
    )
    return out


def astype(self: Variable, dtype: Any) -> Variable:
    """This variable in another dtype."""
    out = temporary(self, to_vartype(dtype))
    _block(self).append_op(
        type="cast",
        inputs={"X": [self]},
        outputs={"Out": [out]},
        attrs={"in_dtype": self.dtype, "out_dtype": out.dtype},
    )
    return out


def constant(var: Variable, value: float, shape: tuple[int, ...]) -> Variable:
    """A number as a tensor of var's dtype: of `shape`, or of the batch that var turns out to have.

    Further dimensions that are not known become ones, along which the op broadcasts.
    """
    out = temporary(var, var.dtype)
    at = shape.index(-1) if -1 in shape else -1
    dims = [1 if dim < 0 and index != at else dim for index, dim in enumerate(shape)]
    attrs = {"shape": dims, "value": float(value), "dtype": var.dtype, "force_cpu": False}
    if at >= 0:
        _block(var).append_op(
            type="fill_constant_batch_size_like",
            inputs={"Input": [var]},
            outputs={"Out": [out]},
            attrs={**attrs, "input_dim_idx": at, "output_dim_idx": at},
        )
    else:
        _block(var).append_op(type="fill_constant", outputs={"Out": [out]}, attrs=attrs)
    out.stop_gradient = True
    return out


SCALED: dict[str, Callable[[Variable, float], Variable]] = {
    "__add__": lambda var, value: scaled(var, 1.0, value),
    "__radd__": lambda var, value: scaled(var, 1.0, value),
    "__sub__": lambda var, value: scaled(var, 1.0, -value),
    "__rsub__": lambda var, value: scaled(var, -1.0, value),
    "__mul__": lambda var, value: scaled(var, value, 0.0),
    "__rmul__": lambda var, value: scaled(var, value, 0.0),
    "__div__": lambda var, value: scaled(var, 1.0 / value, 0.0),
    "__truediv__": lambda var, value: scaled(var, 1.0 / value, 0.0),
}
_BINARY = {
    "__add__": "elementwise_add",
    "__radd__": "elementwise_add",
    "__sub__": "elementwise_sub",
    "__rsub__": "elementwise_sub",
    "__mul__": "elementwise_mul",
    "__rmul__": "elementwise_mul",
    "__div__": "elementwise_div",
    "__truediv__": "elementwise_div",
    "__rdiv__": "elementwise_div",
    "__rtruediv__": "elementwise_div",
    "__pow__": "elementwise_pow",
    "__rpow__": "elementwise_pow",
    "__floordiv__": "elementwise_floordiv",
    "__mod__": "elementwise_mod",
    "__eq__": "equal",
    "__ne__": "not_equal",
    "__lt__": "less_than",
    "__le__": "less_equal",
    "__gt__": "greater_than",
    "__ge__": "greater_equal",
}
COMPARISONS = frozenset(("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"))


def _operator(method: str, op_type: str) -> Callable[[Variable, Any], Variable]:
    """The method `method`, which appends `op_type` (or a `scale`, for a number)."""
    swapped = method.startswith("__r")

    def apply(self: Variable, other: Any) -> Variable:
        integer = is_integer(self.dtype)
        if isinstance(other, (int, float)) and method in SCALED and not (integer and "div" in method):
            assert not integer or other == int(other), f"float value {other} cannot convert to integer"
            return SCALED[method](self, float(other))
        if not isinstance(other, Variable):
            other = constant(self, _number(self, other, method), self.shape if swapped else (1,))
        if other.dtype != self.dtype:
            if integer and _has_fractions(other):
                warn_user(
                    f"{_shown(other)} is truncated to integers: the left operand {_shown(self)} "
                    "determines the dtype"
                )
            other = astype(other, self.dtype)
        elif integer and "truediv" in method:
            warn_user(f"{_shown(self)} is divided as integers, as in 1.8.5: cast it to float32 first")
        x, y = (other, self) if swapped else (self, other)
        out = temporary(self, VarType.BOOL if op_type in COMPARISONS else self.dtype)
        axis = 0 if y.shape and y.shape[0] == -1 else -1
        _block(self).append_op(
            type=op_type, inputs={"X": [x], "Y": [y]}, outputs={"Out": out}, attrs={"axis": axis}
        )
        return out

    apply.__name__ = method
    apply.__doc__ = f"Append `{op_type}`."
    return apply


def _has_fractions(var: Variable) -> bool:
    if is_integer(var.dtype) or var.dtype == VarType.BOOL:
        return False
    made_of = var.op.attrs.get("value", 0.5) if var.op is not None and "fill_constant" in var.op.type else 0.5
    return not float(made_of).is_integer()


def _shown(var: Variable) -> str:
    return f"{var.name!r} ({to_numpy(var.dtype)})"


def _number(var: Variable, value: Any, method: str) -> float:
    """`value` as the number that an operator takes; ArgumentError for anything else."""
    try:
        number = float(value.item() if isinstance(value, np.ndarray) else value)
    except (TypeError, ValueError):
        text = f"array of shape {list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        raise ArgumentError(
            f"{method} of {_shown(var)}{list(var.shape)} takes a number or a Variable, not {text}; "
            "layers.assign(array) adds an array to the program"
        ) from None
    if is_integer(var.dtype) and math.isfinite(number) and number != int(number):
        warn_user(
            f"{number} combined with {_shown(var)} is used as {int(number)}, as in 1.8.5: cast it "
            "to float32 first"
        )
    return number


def _negative(self: Variable) -> Variable:
    """Append a `scale` by -1."""
    return scaled(self, -1.0, 0.0)


# ---------------------------------------------------------------------- slicing
class _Ranges:
    """The range of each dimension in an index like `[1, 2:5, ::-1]`."""

    def __init__(self, var: Variable) -> None:
        self.var = var
        self.axes: list[int] = []
        self.starts: list[Any] = []
        self.ends: list[Any] = []
        self.steps: list[int] = []
        self.dropped: list[int] = []
        self.reversed: list[int] = []

    def take(self, axis: int, item: Any) -> None:
        """One entry of the index."""
        if isinstance(item, slice):
            self._range(axis, item)
            return
        if isinstance(item, Variable):
            end: Any = _next_index(item)
        elif hasattr(item, "__index__"):  # NumPy's integers too
            item = operator.index(item)
            end = item + 1 if item != -1 else FAR
            _check_inside(self.var, axis, item)
        else:
            raise TypeError(f"a Variable is indexed by integers, slices and Variables, not by {item!r}")
        self._add(axis, item, end, 1)
        self.dropped.append(axis)

    def _range(self, axis: int, item: slice) -> None:
        if item.start is None and item.stop is None and item.step is None:
            return
        step = 1 if item.step is None else item.step
        if not isinstance(step, int) or step == 0:
            raise ValueError(f"a slice of a Variable takes a step other than 0, not {step!r}")
        if step == -1 and item.start is None and item.stop is None:
            self.reversed.append(axis)
            return
        if step < -1 and item.start is None and item.stop is None:
            raise ArgumentError(
                f"a slice of a Variable by {step} needs a start and an end: the op counts its steps from the "
                f"end"
            )
        if step < 0:
            start, end = (
                (-1 if item.start is None else item.start),
                (-FAR if item.stop is None else item.stop),
            )
        else:
            start, end = (0 if item.start is None else item.start), (FAR if item.stop is None else item.stop)
        self._add(axis, start, end, step)

    def _add(self, axis: int, start: Any, end: Any, step: int) -> None:
        self.axes.append(axis)
        self.starts.append(start)
        self.ends.append(end)
        self.steps.append(step)


def _check_inside(var: Variable, axis: int, index: int) -> None:
    size = var.shape[axis]
    if size >= 0 and not -size <= index < size:
        raise IndexError(f"index {index} is outside dimension {axis} of {var.name}{list(var.shape)}")


def _next_index(item: Variable) -> Variable:
    """item + 1, for the end of a range that starts at a Variable."""
    block = _block(item)
    one = _index(item, 1)
    out: Variable = block.create_var(dtype=item.dtype)
    block.append_op(
        type="elementwise_add", inputs={"X": item, "Y": one}, outputs={"Out": out}, attrs={"axis": -1}
    )
    return out


def _index(like: Variable, value: Any) -> Variable:
    """A bound of a slice as a one-element tensor, an int32 one unless it is a Variable already."""
    var: Variable = value
    if not isinstance(value, Variable):
        var = _block(like).create_var(dtype="int32")
        _block(like).append_op(
            type="fill_constant",
            outputs={"Out": [var]},
            attrs={"shape": [1], "dtype": var.dtype, "value": float(value), "force_cpu": True},
        )
    var.stop_gradient = True
    return var


def _entries(var: Variable, index: Any) -> list[tuple[int, Any]]:
    """(axis, entry) pairs, an ellipsis filled in."""
    items = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if dots:
        items[dots[0] : dots[0] + 1] = [slice(None)] * (len(var.shape) - len(items) + 1)
    if len(items) > len(var.shape):
        raise IndexError(
            f"{len(items)} indices for the {len(var.shape)} dimensions of {var.name}{list(var.shape)}"
        )
    return list(enumerate(items))


def _getitem(self: Variable, index: Any) -> Variable:
    """Append `slice`, `strided_slice` or `reverse`."""
    ranges = _Ranges(self)
    for axis, item in _entries(self, index):
        ranges.take(axis, item)
    out = self
    if ranges.axes:
        out = _slice(self, ranges)
    if ranges.reversed:
        axes = [axis - sum(gone < axis for gone in ranges.dropped) for axis in ranges.reversed]
        source = out
        out = _block(self).create_var(
            name=unique_name.generate_with_ignorable_key(self.name + "_slice_reverse"), dtype=self.dtype
        )
        _block(self).append_op(
            type="reverse", inputs={"X": [source]}, outputs={"Out": [out]}, attrs={"axis": axes}
        )
    return out


def _slice(var: Variable, ranges: _Ranges) -> Variable:
    strided = any(step != 1 for step in ranges.steps)
    inputs: dict[str, Any] = {"Input": [var]}
    attrs: dict[str, Any] = {
        "axes": ranges.axes,
        "decrease_axis": ranges.dropped,
        "infer_flags": [1] * len(ranges.axes),
    }
    for name, values in (("starts", ranges.starts), ("ends", ranges.ends)):
        attrs[name] = [-1 if isinstance(value, Variable) else value for value in values]
        if any(isinstance(value, Variable) for value in values):
            inputs[name.capitalize() + "TensorList"] = [_index(var, value) for value in values]
            attrs["infer_flags"] = [
                -1 if isinstance(value, Variable) else flag
                for value, flag in zip(values, attrs["infer_flags"], strict=True)
            ]
    if strided:
        attrs["strides"] = ranges.steps
    op_type = "strided_slice" if strided else "slice"
    out: Variable = _block(var).create_var(
        name=unique_name.generate_with_ignorable_key(f"{var.name}_{op_type}"), dtype=var.dtype
    )
    _block(var).append_op(type=op_type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def monkey_patch_variable() -> None:
    """Give Variable its operators (the IR itself knows no layers)."""
    methods: dict[str, Any] = {method: _operator(method, op_type) for method, op_type in _BINARY.items()}
    # without a length a loop over a Variable would never end
    methods.update(__neg__=_negative, __getitem__=_getitem, __iter__=items_of, astype=astype)
    for name, method in methods.items():
        setattr(Variable, name, guard(method, __name__, "Variable"))
    Variable.__hash__ = object.__hash__  # type: ignore[assignment]  # `__eq__` took it away


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
