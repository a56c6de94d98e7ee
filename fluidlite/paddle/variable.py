"""Variables with the operators and methods that PaddlePaddle 2.x gives them: `x + 1`, `x @ y`, `x[0]`,
`x.reshape([2, 3])`.

Fluid's Variables keep fluid's: which ones a program has, the program says (`fluidlite.paddle.programs`).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.layers.math_op_patch import COMPARISONS, SCALED, astype, constant, scaled, temporary
from fluidlite.paddle.promotion import beside_number, common_dtype, divisible

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
    if isinstance(other, (int, float)):
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
        if isinstance(other, (int, float)) and method in SCALED:
            return SCALED[method](self, float(other))
        if not isinstance(other, Variable):
            other = constant(self, other, self.shape if swapped else ())
        x, y = (other, self) if swapped else (self, other)
        out = temporary(self, VarType.BOOL if op_type in COMPARISONS else self.dtype)
        attrs = {} if op_type == "matmul_v2" else {"axis": -1}
        _block(self).append_op(type=op_type, inputs={"X": [x], "Y": [y]}, outputs={"Out": out}, attrs=attrs)
        return out

    apply.__name__ = method
    apply.__doc__ = f"Append `{op_type}`."
    return apply


def _function(module: str, name: str) -> Any:
    # start-up time: a program uses a few of 300 functions
    return getattr(importlib.import_module(module), name)


_METHODS = """
abs acos acosh add add_n addmm all allclose amax amin any argmax argmin argsort asin asinh atan
atan2 atanh atleast_1d atleast_2d atleast_3d bernoulli bincount bitwise_and bitwise_not bitwise_or
bitwise_xor bmm broadcast_shape broadcast_tensors broadcast_to bucketize cast cdist ceil cholesky
chunk clip concat conj cos cosh count_nonzero cross cummax cummin cumprod cumsum
cumulative_trapezoid deg2rad diag diag_embed diagflat diagonal diff digamma dist divide dot equal
equal_all erf erfinv exp expand expand_as expm1 flatten flip floor floor_divide floor_mod fmax fmin
frac frexp gather gather_nd greater_equal greater_than heaviside histogram hypot i0 i0e i1 i1e imag
increment index_add index_fill index_put index_sample index_select inner inverse is_complex is_empty
is_floating_point is_integer is_tensor isclose isfinite isinf isnan kron kthvalue ldexp lerp
less_equal less_than lgamma log log10 log1p log2 logaddexp logcumsumexp logical_and logical_not
logical_or logical_xor logit logsumexp masked_fill masked_select matmul max maximum mean median min
minimum mm mod mode moveaxis multigammaln multinomial multiplex multiply mv nan_to_num nanmean
nanmedian nanquantile nansum neg nextafter nonzero norm not_equal numel outer polygamma pow prod
put_along_axis quantile rad2deg rank real reciprocal remainder renorm repeat_interleave reshape
reshape_ reverse roll rot90 round rsqrt scale scatter scatter_ scatter_nd scatter_nd_add sgn
shard_index sign sin sinh slice sort split sqrt square squeeze squeeze_ stack stanh std
strided_slice subtract sum t take take_along_axis tan tanh tanh_ tensordot tile topk trace transpose
trapezoid tril triu trunc unbind unflatten unique unique_consecutive unsqueeze unsqueeze_ unstack
var vsplit where
"""
_OF_LINALG = "cholesky_solve cond eigvalsh lstsq lu lu_unpack matrix_power multi_dot pinv qr solve"
LINEAR_METHODS = frozenset(_OF_LINALG.split())
"""The functions of `paddle.linalg` that Variables have as methods."""
METHODS = frozenset(_METHODS.split())
"""The functions of `paddle.tensor` that Variables have as methods."""


class Tensor(Variable):
    """A named value of a block, with 2.x's operators; functions of `paddle.tensor` are its methods."""

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return functools.partial(_function("fluidlite.paddle.tensor", name), self)
        if name in LINEAR_METHODS:
            return functools.partial(_function("fluidlite.paddle.linalg", name), self)
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

    def __neg__(self) -> Variable:
        return scaled(self, -1.0, 0.0)

    def __getitem__(self, item: Any) -> Variable:
        return importlib.import_module("fluidlite.paddle.indexing").item_of(self, item)

    def __setitem__(self, item: Any, value: Any) -> None:
        raise RuntimeError(
            f"variable {self.name!r} cannot change in place, as gradients need what it was: "
            "write x = paddle.static.setitem(x, index, value)"
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

    @property
    def size(self) -> int:
        """The number of elements, negative where a dimension is not known."""
        product = 1
        for dim in self.shape:
            product *= dim
        return product

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
