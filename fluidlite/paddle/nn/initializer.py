"""`paddle.nn.initializer`: what parameters hold before training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite import initializer as fluid
from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.data_feeder import check_type
from fluidlite.initializer import BilinearInitializer as Bilinear
from fluidlite.initializer import Initializer
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper_base import set_global_initializers

__all__ = [
    "Assign",
    "Bilinear",
    "Constant",
    "Dirac",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "Orthogonal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "calculate_gain",
    "set_global_initializer",
]


class Constant(fluid.ConstantInitializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__(value)


class Uniform(fluid.UniformInitializer):
    """Uniform numbers in [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        super().__init__(low, high)


class Normal(fluid.NormalInitializer):
    """Normal numbers with this mean and standard deviation."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        super().__init__(mean, std)


class TruncatedNormal(fluid.TruncatedNormalInitializer):
    """Normal numbers of which none is more than two standard deviations from the mean."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        super().__init__(mean, std)


class XavierNormal(fluid.XavierInitializer):
    """Normal numbers of variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(False, fan_in, fan_out)


class XavierUniform(fluid.XavierInitializer):
    """Uniform numbers of variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(True, fan_in, fan_out)


class _Kaiming(fluid.MSRAInitializer):
    """Numbers of variance gain ** 2 / fan_in (He et al., 2015)."""

    def __init__(self, uniform: bool, fan_in: float | None, slope: float, nonlinearity: str) -> None:
        super().__init__(uniform, fan_in)
        self._gain = calculate_gain(nonlinearity, slope)

    def __call__(self, var: Any, block: Any) -> Any:
        """Prepend a uniform_random or a gaussian_random; a seed of 0 becomes the program's."""
        fan_in = self._compute_fans(var)[0] if self._fan_in is None else self._fan_in
        return self._draw(var, block, self._gain**2, fan_in, "masra_init")


class KaimingNormal(_Kaiming):
    """Normal numbers of variance gain ** 2 / fan_in (He et al., 2015); the gain is `calculate_gain`'s."""

    def __init__(
        self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu"
    ) -> None:
        super().__init__(False, fan_in, negative_slope, nonlinearity)


class KaimingUniform(_Kaiming):
    """Uniform numbers of variance gain ** 2 / fan_in (He et al., 2015); the gain is `calculate_gain`'s."""

    def __init__(
        self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu"
    ) -> None:
        super().__init__(True, fan_in, negative_slope, nonlinearity)


class Assign(Initializer):
    """The numbers of an array, a list, or a Variable of the startup program."""

    def __init__(self, value: Any, name: str | None = None) -> None:
        super().__init__()
        if not isinstance(value, (np.ndarray, list, tuple)):
            raise TypeError(
                f"The type of 'value' in Assign must be an array or a list, but received {type(value)}"
            )
        self._value = np.array(value)

    def __call__(self, var: Any, block: Any) -> Any:
        """Prepend an assign_value."""
        if math.prod(var.shape) != self._value.size:
            raise ValueError(
                f"Assign: {self._value.size} numbers for {var.name!r}, whose shape is {list(var.shape)}"
            )
        return fluid.NumpyArrayInitializer(self._value)(var, block)


class _Steps:
    """Appends the ops of an initialiser to a block, where one op does not do."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def made(self, what: str, dtype: DTypeLike) -> Variable:
        """A temporary `what_N`."""
        return self.block.create_var(name=unique_name.generate(what), dtype=dtype)

    def add(self, op: str, x: Variable, out: Variable, **attrs: Any) -> Operator:
        """`op` of x; one that keeps the shape of x has a slot for it."""
        outputs = {"Out": [out]}
        if op in ("reshape2", "transpose2"):
            outputs["XShape"] = [self.made(f"{out.name}.XShape", out.dtype)]
        return self.block.append_op(type=op, inputs={"X": [x]}, outputs=outputs, attrs=attrs)

    def list(self, what: str, numbers: list[Any], dtype: VarType, slot: str) -> Variable:
        """A list of numbers as a tensor."""
        out = self.made(what, dtype)
        attrs = {"dtype": int(dtype), "shape": [len(numbers)], slot: numbers}
        self.block.append_op(type="assign_value", outputs={"Out": [out]}, attrs=attrs)
        return out


class Dirac(Initializer):
    """Filters [channels out, channels in, size, ...] that hand their channels on: in each of `groups` groups,
    filter i is 1 in the middle of channel i, and 0 elsewhere.
    """

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        if groups < 1 or not isinstance(groups, int):
            raise AssertionError(f"'groups' must be a positive integer, but it is {groups!r}")
        super().__init__()
        self._groups = groups

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Append zeros, and a scatter of the ones."""
        shape = list(var.shape)
        if len(shape) not in (3, 4, 5):
            raise AssertionError(f"Dirac fills tensors of 3, 4 or 5 dimensions, but {var.name!r} has {shape}")
        if shape[0] % self._groups:
            raise AssertionError(f"Dirac: dimension 0 of {shape} is not divisible by groups ({self._groups})")
        steps, places = _Steps(block), self._places(shape)
        zeros = {"value": 0.0, "shape": shape, "dtype": int(var.dtype)}
        block.append_op(type="fill_constant", outputs={"Out": [var]}, attrs=zeros)
        steps.add("reshape2", var, var, shape=[-1])
        ids = steps.list("scatter_index", places, VarType.INT64, "int64_values")
        ones = steps.list("scatter_value", [1.0] * len(places), VarType.FP32, "fp32_values")
        if var.dtype != VarType.FP32:
            given, ones = ones, steps.made("scatter_value_cast", var.dtype)
            steps.add("cast", given, ones, in_dtype=int(VarType.FP32), out_dtype=int(var.dtype))
        inputs = {"X": [var], "Ids": [ids], "Updates": [ones]}
        block.append_op(type="scatter", inputs=inputs, outputs={"Out": [var]}, attrs={"overwrite": True})
        var.op = steps.add("reshape2", var, var, shape=shape)
        return var.op

    def _places(self, shape: list[int]) -> list[int]:
        """The places of the ones, in the tensor as a row."""
        rows = shape[0] // self._groups
        middle = [size // 2 for size in shape[2:]]
        ones = [
            (group * rows + channel, channel, *middle)
            for group in range(self._groups)
            for channel in range(min(rows, shape[1]))
        ]
        return [int(np.ravel_multi_index(place, shape)) for place in ones]


class Orthogonal(Initializer):
    """Rows, or columns where these are fewer, of length `gain` and at right angles to each other; all
    dimensions but the first are columns (Saxe et al., 2014).
    """

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        if gain is None:
            raise AssertionError("gain should not be None")
        super().__init__()
        self._gain = gain

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Append the Q of normal numbers, with the signs of R's diagonal, so that all are equally likely."""
        shape = list(var.shape)
        if len(shape) < 2:
            raise AssertionError(
                f"Orthogonal fills tensors of two dimensions and more, but {var.name!r} has the shape {shape}"
            )
        rows, columns = shape[0], math.prod(shape[1:])
        steps = _Steps(block)
        names = ("gaussian_random.tmp", "qr.q.tmp", "qr.r.tmp", "diag.tmp")
        drawn, q, r, diagonal = (steps.made(name, var.dtype) for name in names)
        attrs: dict[str, Any] = {"mean": 0.0, "std": 1.0, "seed": block.program.random_seed}
        attrs["dtype"] = int(var.dtype)
        attrs["shape"] = [max(rows, columns), min(rows, columns)]
        block.append_op(type="gaussian_random", outputs={"Out": [drawn]}, attrs=attrs)
        outputs = {"Q": [q], "R": [r]}
        block.append_op(type="qr", inputs={"X": [drawn]}, outputs=outputs, attrs={"mode": "reduced"})
        steps.add("diag_v2", r, diagonal, offset=0, padding_value=0.0)
        steps.add("sign", diagonal, diagonal)
        inputs = {"X": [q], "Y": [diagonal]}
        block.append_op(type="elementwise_mul", inputs=inputs, outputs={"Out": [q]}, attrs={"axis": -1})
        if rows < columns:
            wide, q = q, steps.made("transpose.tmp", var.dtype)
            steps.add("transpose2", wide, q, axis=[1, 0])
        steps.add("reshape2", q, q, shape=shape)
        var.op = steps.add("scale", q, var, scale=float(self._gain), bias=0.0, bias_after_scale=True)
        return var.op


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Fill the weights and biases of layers that are made from now on by these, where their attributes name
    nothing; None for what these layers say themselves.
    """
    for value, what in ((weight_init, "weight_init"), (bias_init, "bias_init")):
        check_type(value, what, (Initializer, type(None)), "set_global_initializer")
    set_global_initializers(weight_init, bias_init)


_GAINS = {
    "sigmoid": 1.0,
    "linear": 1.0,
    **{f"conv{dims}d": 1.0 for dims in (1, 2, 3)},
    **{f"conv{dims}d_transpose": 1.0 for dims in (1, 2, 3)},
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights must grow so that variances stay the same through `nonlinearity`; `param`
    is the slope of leaky_relu.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"nonlinearity function {nonlinearity} is not supported now; known are "
            f"{', '.join(sorted([*_GAINS, 'leaky_relu']))}"
        )
    return _GAINS[nonlinearity]
