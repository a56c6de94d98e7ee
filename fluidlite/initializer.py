"""Initialisers: called with a variable and a block, they prepend to the block the op that fills the
variable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ArgumentError, ShapeError
from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable

__all__ = [
    "MSRA",
    "Bilinear",
    "BilinearInitializer",
    "Constant",
    "ConstantInitializer",
    "Initializer",
    "MSRAInitializer",
    "Normal",
    "NormalInitializer",
    "NumpyArrayInitializer",
    "TruncatedNormal",
    "TruncatedNormalInitializer",
    "Uniform",
    "UniformInitializer",
    "Xavier",
    "XavierInitializer",
]

_FLOATS = ["float16", "float32", "float64"]


class Initializer:
    """Base of the initialisers; `initializer(var, block)` writes the op and gives it back."""

    def __call__(self, param: Variable, block: Block) -> Operator:
        """Write the op that fills `param` into `block`."""
        raise TypeError(f"{type(self).__name__} does not define how to fill {param.name!r}")

    def __repr__(self) -> str:
        given = ", ".join(f"{name.lstrip('_')}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"

    def _compute_fans(self, var: Variable) -> tuple[int, int]:
        """Inputs and outputs of one unit: of a filter, its channels times its receptive field."""
        shape = var.shape
        if len(shape) < 2:
            size = math.prod(shape)
            return size, size
        field = math.prod(shape[2:])
        return (shape[0], shape[1]) if len(shape) == 2 else (shape[1] * field, shape[0] * field)


def _require(condition: bool, initializer: str, message: str) -> None:
    if not condition:
        raise ArgumentError(f"{initializer}: {message}")


def _check(var: Variable, block: Block, name: str, dtypes: list[str] | None = None) -> None:
    _require(isinstance(block, Block), name, f"block must be a Block, but it is a {type(block).__name__}")
    _require(isinstance(var, Variable), name, f"var must be a Variable, but it is a {type(var).__name__}")
    if dtypes is not None:
        check_variable_and_dtype(var, "Out", dtypes, name)


def _fill(
    var: Variable, block: Block, op: str, attrs: Mapping[str, Any], hint: str, prepend: bool = True
) -> Operator:
    """Write `op` with output `var`; a float16 variable is filled in float32 and cast."""
    half = var.dtype == VarType.FP16
    out = (
        var
        if not half
        else block.create_var(
            name=unique_name.generate(".".join([hint, var.name, "tmp"])),
            shape=var.shape,
            dtype=VarType.FP32,
            type=VarType.LOD_TENSOR,
            persistable=False,
        )
    )
    # assign_value keeps a shape of its own: that of the array, not of the variable
    given = {"dtype": int(out.dtype), "shape": list(var.shape), **attrs}
    write = block._prepend_op if prepend else block.append_op
    made = write(type=op, outputs={"Out": out}, attrs=given)
    if half:
        block.append_op(
            type="cast",
            inputs={"X": out},
            outputs={"Out": var},
            attrs={"in_dtype": int(out.dtype), "out_dtype": int(var.dtype)},
        )
    var.op = made
    return made


class ConstantInitializer(Initializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        _require(value is not None, "Constant", "value must not be None")
        super().__init__()
        self._value = value
        self._force_cpu = force_cpu

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Prepend a fill_constant."""
        _check(var, block, "Constant")
        return _fill(
            var,
            block,
            "fill_constant",
            {"value": float(self._value), "force_cpu": self._force_cpu},
            "constant_init",
        )


class UniformInitializer(Initializer):
    """Uniform numbers in [low, high); `diag_num` elements, `diag_step` + 1 apart, are `diag_val` instead."""

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ) -> None:
        _require(None not in (low, high, seed), "Uniform", "low, high and seed must not be None")
        _require(high >= low, "Uniform", f"high must not be less than low, but they are {high} and {low}")
        _require(diag_num >= 0, "Uniform", f"diag_num must not be negative, but it is {diag_num}")
        super().__init__()
        self._low = low
        self._high = high
        self._seed = seed
        self._diag_num = diag_num
        self._diag_step = diag_step
        self._diag_val = diag_val

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Prepend a uniform_random; a seed of 0 becomes the program's."""
        _check(var, block, "Uniform", _FLOATS)
        self._seed = self._seed or block.program.random_seed
        return _fill(
            var,
            block,
            "uniform_random",
            {
                "min": self._low,
                "max": self._high,
                "seed": self._seed,
                "diag_num": self._diag_num,
                "diag_step": self._diag_step,
                "diag_val": self._diag_val,
            },
            "uniform_random",
        )


class NormalInitializer(Initializer):
    """Normal numbers with mean `loc` and standard deviation `scale`."""

    _op = "gaussian_random"

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        _require(None not in (loc, scale, seed), type(self).__name__, "loc, scale and seed must not be None")
        super().__init__()
        self._mean = loc
        self._std_dev = scale
        self._seed = seed

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Prepend the op that draws; a seed of 0 becomes the program's."""
        _check(var, block, type(self).__name__, _FLOATS if self._op == "gaussian_random" else None)
        self._seed = self._seed or block.program.random_seed
        return _fill(
            var, block, self._op, {"mean": self._mean, "std": self._std_dev, "seed": self._seed}, self._op
        )


class TruncatedNormalInitializer(NormalInitializer):
    """Normal numbers of which none is more than two standard deviations from the mean."""

    _op = "truncated_gaussian_random"


class _FanInitializer(Initializer):
    """Uniform or normal numbers whose spread follows from the number of a unit's inputs and outputs."""

    def __init__(self, uniform: bool, seed: int) -> None:
        _require(
            uniform is not None and seed is not None, type(self).__name__, "uniform and seed must not be None"
        )
        super().__init__()
        self._uniform = uniform
        self._seed = seed

    def _draw(self, var: Variable, block: Block, share: float, fans: float, hint: str) -> Operator:
        if not fans:
            raise ShapeError(
                f"{hint}: parameter {var.name!r} of shape {list(var.shape)} has no fan-in or "
                "fan-out to compute the scale from"
            )
        variance = share / fans
        self._seed = self._seed or block.program.random_seed
        if self._uniform:
            limit = math.sqrt(3 * variance)
            return _fill(
                var, block, "uniform_random", {"min": -limit, "max": limit, "seed": self._seed}, hint
            )
        return _fill(
            var, block, "gaussian_random", {"mean": 0.0, "std": math.sqrt(variance), "seed": self._seed}, hint
        )


class XavierInitializer(_FanInitializer):
    """Variance 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ) -> None:
        super().__init__(uniform, seed)
        self._fan_in = fan_in
        self._fan_out = fan_out

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Prepend a uniform_random or a gaussian_random; a seed of 0 becomes the program's."""
        _check(var, block, "xavier_init", _FLOATS)
        fans = self._compute_fans(var)
        fan_in = fans[0] if self._fan_in is None else self._fan_in
        fan_out = fans[1] if self._fan_out is None else self._fan_out
        return self._draw(var, block, 2.0, fan_in + fan_out, "xavier_init")


class MSRAInitializer(_FanInitializer):
    """Variance 2 / fan_in, for rectifiers (He et al., 2015)."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        super().__init__(uniform, seed)
        self._fan_in = fan_in

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Prepend a uniform_random or a gaussian_random; a seed of 0 becomes the program's."""
        _check(var, block, "masra_init")
        fan_in = self._compute_fans(var)[0] if self._fan_in is None else self._fan_in
        return self._draw(var, block, 2.0, fan_in, "masra_init")


class NumpyArrayInitializer(Initializer):
    """The numbers of a NumPy array, which become part of the program: at most 2 ** 30."""

    def __init__(self, value: Array) -> None:
        _require(
            isinstance(value, np.ndarray),
            "NumpyArray",
            f"value must be a numpy.ndarray, but it is a {type(value).__name__}",
        )
        super().__init__()
        self._value = value

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Prepend an assign_value."""
        _check(var, block, "NumpyArray")
        return _assign(var, block, self._value, "numpy_array_init", prepend=True)


class BilinearInitializer(Initializer):
    """Filters [channels out, channels in, k, k] with which a transposed convolution upsamples by
    interpolation.
    """

    def __call__(self, var: Variable, block: Block) -> Operator:
        """Append an assign_value."""
        _check(var, block, "Bilinear")
        if len(var.shape) != 4:
            raise ValueError("the length of shape must be 4.")
        if var.shape[2] != var.shape[3]:
            raise ValueError("shape[2] must be equal to shape[3].")
        size = var.shape[3]
        half = math.ceil(size / 2.0)
        center = (2 * half - 1 - half % 2) / (2.0 * half)
        index = np.arange(math.prod(var.shape), dtype=np.float64)
        # the row is not rounded down: so did PaddlePaddle 1.8.5, and its numbers are the reference
        x, y = index % size, (index / size) % size
        weights = (1 - abs(x / half - center)) * (1 - abs(y / half - center))
        return _assign(var, block, weights.reshape(var.shape), "bilinear_init", prepend=False)


_VALUE_ATTRS = {
    VarType.FP32: "fp32_values",
    VarType.INT32: "int32_values",
    VarType.INT64: "int64_values",
    VarType.BOOL: "bool_values",
}


def _assign(var: Variable, block: Block, value: Array, hint: str, prepend: bool) -> Operator:
    dtype = VarType.FP32 if var.dtype == VarType.FP16 else var.dtype
    if dtype not in _VALUE_ATTRS:
        wanted = ", ".join(kind.name for kind in _VALUE_ATTRS)
        raise ValueError(
            f"{hint}: Unsupported dtype {var.dtype} of {var.name!r}, wanted FP16 or one of {wanted}"
        )
    if value.size > 2**30:
        raise ValueError(
            f"The size of input is too big: {value.size} elements, at most {2**30}; save them and load them "
            f"instead"
        )
    flat = value.astype(to_numpy(dtype)).reshape(-1)
    return _fill(
        var,
        block,
        "assign_value",
        {"shape": list(value.shape), _VALUE_ATTRS[dtype]: flat.tolist()},
        hint,
        prepend,
    )


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
