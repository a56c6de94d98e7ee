"""Variables with the operators and methods that PaddlePaddle 2.x gives them: `x + 1`, `x @ y`, `x[0]`,
`x.reshape([2, 3])`.

Fluid's Variables keep fluid's: which ones a program has, the program says (`fluidlite.paddle.programs`).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, to_numpy
from fluidlite.base.registry import ZERO_DIM_ATTR
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.guarded import guard
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.layers.math_op_patch import SCALED, astype, constant, dtype_of_result, scaled, temporary
from fluidlite.paddle.promotion import beside_number, common_dtype, divisible
from fluidlite.paddle.tensor.names import METHODS

__all__ = ["ParameterTensor", "Tensor"]

_DIVISIONS = ("__div__", "__rdiv__", "__truediv__", "__rtruediv__")


def _block(var: Variable) -> Any:
    return var.block.program.current_block()


def _operands(self: Variable, other: Any, method: str) -> tuple[Variable, Any]:
    """Both sides of an operator, in dtypes that go together."""
    divides = method in _DIVISIONS
    if isinstance(other, Variable):
        kinds = [divisible(var.dtype) if divides else var.dtype for var in (self, other)]
        common = common_dtype(*kinds)
        return _in(self, common), _in(other, common)
    if isinstance(other, (np.generic, np.ndarray)) and np.size(other) == 1:
        other = other.item()
    if isinstance(other, bool) and method in ("__sub__", "__rsub__"):
        other = int(other)  # there is no difference of truth values
    if isinstance(other, Real):
        dtype = beside_number(self.dtype, other)
        self = _in(self, divisible(dtype) if divides else dtype)
    return self, other


def _in(var: Variable, dtype: VarType) -> Variable:
    return var if var.dtype == dtype else astype(var, dtype)


def _operator(method: str, op_type: str) -> Callable[[Variable, Any], Variable]:
    """The method `method`, which appends `op_type` (or a `scale`, for a number)."""
    swapped = method.startswith("__r")

    def apply(self: Variable, other: Any) -> Variable:
        self, other = _operands(self, other, method)
        if isinstance(other, Real) and method in SCALED:
            return SCALED[method](self, float(other))
        if not isinstance(other, Variable):
            other = constant(self, other, self.shape if swapped else ())
        x, y = (other, self) if swapped else (self, other)
        out = temporary(self, dtype_of_result(self, op_type))
        attrs = {} if op_type == "matmul_v2" else {"axis": -1}
        _block(self).append_op(type=op_type, inputs={"X": [x], "Y": [y]}, outputs={"Out": out}, attrs=attrs)
        return out

    apply.__name__ = method
    apply.__doc__ = f"Append `{op_type}`."
    return guard(apply, __name__, "Tensor")


def _function(module: str, name: str) -> Any:
    # start-up time: a program uses a few of 300 functions
    return guard(getattr(importlib.import_module(module), name), "fluidlite.paddle.tensor")


def _bitwise(op_type: str) -> Callable[..., Any]:
    """The method that is the function `op_type`: of booleans, or of the bits of integers."""

    def apply(self: Variable, *other: Any) -> Any:
        return _function("fluidlite.paddle.tensor.special", op_type)(self, *other)

    apply.__name__ = apply.__doc__ = op_type
    return apply


class Tensor(Variable):
    """A named value of a block, with 2.x's operators; functions of `paddle.tensor` are its methods."""

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return functools.partial(_function(*METHODS[name]), self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    __add__ = _operator("__add__", "elementwise_add")
    __radd__ = _operator("__radd__", "elementwise_add")
    __sub__ = _operator("__sub__", "elementwise_sub")
    __rsub__ = _operator("__rsub__", "elementwise_sub")
    __mul__ = _operator("__mul__", "elementwise_mul")
    __rmul__ = _operator("__rmul__", "elementwise_mul")
    __truediv__ = _operator("__truediv__", "elementwise_div")
    __rtruediv__ = _operator("__rtruediv__", "elementwise_div")
    __div__, __rdiv__ = __truediv__, __rtruediv__
    __pow__ = _operator("__pow__", "elementwise_pow")
    __rpow__ = _operator("__rpow__", "elementwise_pow")
    __floordiv__ = _operator("__floordiv__", "elementwise_floordiv")
    __mod__ = _operator("__mod__", "elementwise_mod")
    __matmul__ = _operator("__matmul__", "matmul_v2")
    __eq__ = _operator("__eq__", "equal")  # type: ignore[assignment]  # a Variable, not a bool
    __ne__ = _operator("__ne__", "not_equal")  # type: ignore[assignment]
    __lt__ = _operator("__lt__", "less_than")
    __le__ = _operator("__le__", "less_equal")
    __gt__ = _operator("__gt__", "greater_than")
    __ge__ = _operator("__ge__", "greater_equal")
    __hash__ = Variable.__hash__

    __and__, __or__, __xor__ = _bitwise("bitwise_and"), _bitwise("bitwise_or"), _bitwise("bitwise_xor")
    __invert__ = _bitwise("bitwise_not")

    def __neg__(self) -> Variable:
        return scaled(self, -1.0, 0.0)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *METHODS})

    @short_tracebacks
    def __iter__(self) -> Iterator[Variable]:
        """The parts along the first dimension, whose size must be known."""
        if not self.shape or self.shape[0] < 0:
            raise TypeError(
                f"variable {self.name!r} of shape {list(self.shape)} cannot be iterated: its first "
                "dimension is unknown until the program runs"
            )
        return (self[index] for index in range(self.shape[0]))

    @short_tracebacks
    def __contains__(self, item: Any) -> bool:
        raise TypeError(
            f"whether {item!r} is in variable {self.name!r} is only known when the program runs: "
            "use paddle.any(x == y)"
        )

    @short_tracebacks
    def __getitem__(self, item: Any) -> Variable:
        return importlib.import_module("fluidlite.paddle.indexing").item_of(self, item)

    @short_tracebacks
    def __setitem__(self, item: Any, value: Any) -> None:
        raise RuntimeError(
            f"variable {self.name!r} cannot be changed in place, because gradients need its old "
            "value: write x = paddle.static.setitem(x, index, value)"
        )

    def astype(self, dtype: DTypeLike) -> Variable:
        """This variable in another dtype."""
        return astype(self, dtype)

    @property
    def T(self) -> Variable:
        """The dimensions in reverse order."""
        if len(self.shape) == 1:
            return self
        block = _block(self)
        out, shape = (
            block.create_var(name=unique_name.generate(self.name + ".tmp"), dtype=self.dtype)
            for _ in range(2)
        )
        block.append_op(
            type="transpose2",
            inputs={"X": [self]},
            outputs={"Out": [out], "XShape": [shape]},
            attrs={"axis": list(range(len(self.shape)))[::-1]},
        )
        return out

    def set_value(self, value: Any, scope: Any = None) -> None:
        """Write an array or a tensor into a scope, by default the global one."""
        _function("fluidlite.paddle.methods", "set_value")(self, value, scope)

    @property
    def is_view_var(self) -> bool:
        """False: each variable has values of its own."""
        return False

    def size(self) -> Variable:
        """The number of elements when the program runs."""
        out: Variable = _block(self).create_var(
            name=unique_name.generate(f"{self.name}_size"), dtype=VarType.INT64
        )
        attrs = {ZERO_DIM_ATTR: ["Out"]}
        _block(self).append_op(type="size", inputs={"Input": [self]}, outputs={"Out": [out]}, attrs=attrs)
        return out

    def element_size(self) -> int:
        """The bytes of an element."""
        return int(to_numpy(self.dtype).itemsize)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    ndimension = dim

    def clone(self) -> Variable:
        """A copy, through which gradients flow."""
        return self._copied("assign", f"{self.name}_clone")

    def detach(self) -> Variable:
        """The same values, through which no gradients flow."""
        out = self._copied("share_data", f"detach_{self.name}")
        out.stop_gradient = True
        return out

    def _copied(self, op_type: str, key: str) -> Variable:
        block = _block(self)
        out: Variable = block.create_var(name=unique_name.generate(key), dtype=self.dtype)
        block.append_op(type=op_type, inputs={"X": [self]}, outputs={"Out": [out]})
        return out

    def cpu(self) -> Variable:
        """This variable: where a program runs, its executor says."""
        return self

    def cuda(self, device_id: int | None = None, blocking: bool = True) -> Variable:
        """This variable: where a program runs, its executor says."""
        return self


class ParameterTensor(Tensor, Parameter):
    """A parameter with 2.x's operators."""

    may_be_number = True
