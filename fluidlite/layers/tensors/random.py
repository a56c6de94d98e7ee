"""Layers that draw random numbers; a seed other than 0 gives the same numbers in every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.errors import ArgumentError
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype, convert_dtype
from fluidlite.ir.program import device_guard
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers import utils
from fluidlite.layers.tensors.constants import fill_constant, single, whole

__all__ = [
    "gaussian_random",
    "gaussian_random_batch_size_like",
    "randint",
    "randn",
    "random_crop",
    "randperm",
    "sampling_id",
    "uniform_random",
    "uniform_random_batch_size_like",
]

Shape: TypeAlias = "Variable | Sequence[int | Variable]"


def uniform_random(
    shape: Shape, dtype: DTypeLike = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0
) -> Variable:
    """Random numbers, evenly distributed from `min` to `max`; each run draws anew.

    Parameters
    ----------
    shape: the sizes: a list, which may hold Variables of one element, or a one-dimensional Variable.
    dtype: "float32" or "float64".
    min: the smallest number.
    max: the bound above, which is not reached.
    seed: a number other than 0 gives the same numbers in each process; 0 takes that of the program.

    Returns
    -------
    A Variable of this shape.

    >>> x = exe.run(fetch_list=[fluid.layers.uniform_random([100], min=0.0, max=1.0)])[0]
    >>> x.shape, bool((x >= 0).all() and (x < 1).all())
    ((100,), True)
    """
    check_type(shape, "shape", (list, tuple, Variable), "uniform_random")
    check_dtype(dtype, "dtype", ("float32", "float64"), "uniform_random")
    helper = LayerHelper("uniform_random")
    attrs: dict[str, Any] = {"seed": seed, "min": min, "max": max, "dtype": int(to_vartype(dtype))}
    inputs = _shape_inputs(helper, shape, attrs)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(type="uniform_random", inputs=inputs, attrs=attrs, outputs={"Out": out})
    return out


def _shape_inputs(helper: LayerHelper, shape: Shape, attrs: dict[str, Any]) -> dict[str, Any]:
    """The shape as attribute or as input slots, its dimensions as int64 Variables where one of them is a
    Variable.
    """
    if isinstance(shape, Variable):
        shape.stop_gradient = True
        return {"ShapeTensor": shape}
    if not shape:
        raise ArgumentError("The size of argument(shape) can't be zero.")
    for dim in shape:
        if not isinstance(dim, Variable) and dim <= 0:
            raise ArgumentError(
                f"Each dimension size given in shape must be positive, but received {list(map(str, shape))}"
            )
    attrs["shape"] = [-1 if isinstance(dim, Variable) else whole(dim) for dim in shape]
    if not any(isinstance(dim, Variable) for dim in shape):
        return {}
    return {"ShapeTensorList": [_dimension(helper, dim) for dim in shape]}


def _dimension(helper: LayerHelper, dim: int | Variable) -> Variable:
    if not isinstance(dim, Variable):
        return fill_constant(
            [1], "int64", dim, force_cpu=True, out=helper.create_variable_for_type_inference("int64")
        )
    dim.stop_gradient = True
    return dim


def gaussian_random(
    shape: Shape, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: DTypeLike = "float32"
) -> Variable:
    """Normal numbers; `shape` is a list, which may hold Variables, or an integer Variable."""
    helper = LayerHelper("gaussian_random")
    return _normal(helper, helper.create_variable_for_type_inference(dtype), shape, mean, std, seed)


def _normal(helper: LayerHelper, out: Variable, shape: Shape, mean: float, std: float, seed: int) -> Variable:
    check_type(shape, "shape", (tuple, list, Variable), helper.layer_type)
    attrs = {"mean": mean, "std": std, "seed": seed, "dtype": int(out.dtype), "use_mkldnn": False}
    inputs = utils._get_shape_tensor_inputs(
        inputs={}, helper=helper, attrs=attrs, shape=shape, op_type="gaussian_random"
    )
    helper.append_op(type="gaussian_random", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def randn(
    shape: Sequence[int],
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """Normal numbers with mean 0 and standard deviation 1, the same in every run: NumPy's global generator
    draws the seed.
    """
    helper = LayerHelper("randn", name=name)
    dtype = "float32" if dtype is None else dtype
    check_dtype(dtype, "create data type", ["float32", "float64"], "randn")
    check_type(shape, "shape", (list, tuple), "randn")
    for dim in shape:
        check_type(dim, "item of shape", (int, float, np.integer), "randn")
    out = _output(helper, out, dtype, None)
    out.stop_gradient = stop_gradient
    with device_guard(device):
        return _normal(helper, out, shape, 0.0, 1.0, int(np.random.randint(0, 100)))


def uniform_random_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: DTypeLike = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Variable:
    """Uniform numbers in `shape`, whose dimension `output_dim_idx` is dimension `input_dim_idx` of
    `input`.
    """
    check_variable_and_dtype(input, "Input", ("float32", "float64"), "uniform_random_batch_size_like")
    check_type(shape, "shape", (list, tuple), "uniform_random_batch_size_like")
    check_dtype(dtype, "dtype", ("float32", "float64"), "uniform_random_batch_size_like")
    return _batch_size_like(
        "uniform_random_batch_size_like",
        input,
        dtype,
        {
            "shape": list(shape),
            "input_dim_idx": input_dim_idx,
            "output_dim_idx": output_dim_idx,
            "min": min,
            "max": max,
            "seed": seed,
        },
    )


def gaussian_random_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Normal numbers in `shape`, whose dimension `output_dim_idx` is dimension `input_dim_idx` of `input`."""
    where = "fluid.layers.gaussian_random_batch_size_like"
    check_type(input, "input", Variable, where)
    check_type(shape, "shape", (list, tuple), where)
    check_dtype(dtype, "dtype", ["float16", "float32", "int"], where)
    return _batch_size_like(
        "gaussian_random_batch_size_like",
        input,
        dtype,
        {
            "shape": list(shape),
            "input_dim_idx": input_dim_idx,
            "output_dim_idx": output_dim_idx,
            "mean": mean,
            "std": std,
            "seed": seed,
        },
    )


def _batch_size_like(op_type: str, input: Variable, dtype: DTypeLike, attrs: dict[str, Any]) -> Variable:
    helper = LayerHelper(op_type)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type=op_type, inputs={"Input": input}, outputs={"Out": out}, attrs={**attrs, "dtype": int(out.dtype)}
    )
    return out


def sampling_id(
    x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: DTypeLike = "float32"
) -> Variable:
    """A column number for each row of `x` [batch, probabilities]: the first at which the running sum
    reaches a number in [min, max).
    """
    helper = LayerHelper("sampling_id")
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type="sampling_id",
        inputs={"X": x},
        outputs={"Out": out},
        attrs={"min": min, "max": max, "seed": seed},
    )
    return out


def randint(
    low: int,
    high: int | None = None,
    shape: Shape | None = None,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Integers in [low, high), or in [0, low) without `high`; `shape` is [1] by default, `dtype` int64."""
    low, high = (0, low) if high is None else (low, high)
    dtype = "int64" if dtype is None else dtype
    check_dtype(dtype, "dtype", ["int32", "int64"], "randint")
    if low >= high:
        raise ValueError(f"randint's low must less then high, but received low = {low}, high = {high}")
    if shape is not None:
        check_type(shape, "shape", (list, tuple, Variable), "randint")
    helper = LayerHelper("randint", name=name)
    attrs: dict[str, Any] = {"low": low, "high": high, "seed": seed}
    inputs = _shape_inputs(helper, [1] if shape is None else shape, attrs)
    if inputs:
        attrs.pop("shape", None)
    out = _output(helper, out, dtype, name)
    out.stop_gradient = stop_gradient
    attrs["dtype"] = int(out.dtype)
    with device_guard(device):
        helper.append_op(type="randint", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def _output(helper: LayerHelper, out: Variable | None, dtype: DTypeLike, name: str | None) -> Variable:
    if out is not None:
        check_variable_and_dtype(out, "out", [convert_dtype(dtype)], helper.layer_type)
        return out
    if name is None:
        return helper.create_variable_for_type_inference(dtype)
    return helper.create_variable(name=name, dtype=dtype, persistable=False)


def randperm(
    n: int,
    out: Variable | None = None,
    dtype: DTypeLike = "int64",
    device: str | None = None,
    stop_gradient: bool = True,
    seed: int = 0,
) -> Variable:
    """The numbers 0 to n - 1 in random order."""
    n = single(n)
    if n < 1:
        raise ValueError("The input n should be greater than 0 in randperm op.")
    check_dtype(dtype, "dtype", ["int64", "int32"], "randperm")
    check_type(stop_gradient, "stop_gradient", bool, "randperm")
    helper = LayerHelper("randperm")
    out = _output(helper, out, dtype, None)
    out.stop_gradient = stop_gradient
    with device_guard(device):
        helper.append_op(
            type="randperm", outputs={"Out": out}, attrs={"n": n, "dtype": int(out.dtype), "seed": seed}
        )
    return out


def random_crop(x: Variable, shape: Sequence[int], seed: int | Variable | None = None) -> Variable:
    """A window of `shape` (the trailing dimensions) at a random place, another one for each instance of the
    batch.

    seed: a number, an int64 Variable, or None: then NumPy's global generator draws it.
    """
    check_variable_and_dtype(x, "x", ["float32", "float64", "uint8", "int16", "int32"], "random_crop")
    check_type(shape, "shape", (list, Variable), "random_crop")
    helper = LayerHelper("random_crop", x=x, shape=shape, seed=seed)
    out = helper.create_variable_for_type_inference(x.dtype)
    if seed is None:
        seed = int(np.random.randint(-65536, 65536))
    attrs: dict[str, Any] = {"shape": list(shape)}
    if isinstance(seed, int):
        attrs["startup_seed"] = seed
        seed = helper.create_variable(
            name=unique_name.generate("random_crop_seed"), dtype=VarType.INT64, persistable=True
        )
    elif not isinstance(seed, Variable):
        raise ValueError("'seed' must be a Variable or an int.")
    helper.append_op(
        type="random_crop", inputs={"X": x, "Seed": seed}, outputs={"Out": out, "SeedOut": seed}, attrs=attrs
    )
    return out
