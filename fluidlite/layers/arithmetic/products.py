"""Layers around a matrix product: fc, embedding, mul, matmul and the bilinear product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.base.errors import ShapeError
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import one_op
from fluidlite.layers.tensors.strict import lookup

__all__ = ["bilinear_tensor_product", "bmm", "dot", "embedding", "fc", "matmul", "mul"]

_FLOATS = ["float16", "float32", "float64"]


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """act(sum of input_i x w_i + b), with `size` columns.

    Dimensions from `num_flatten_dims` on count as columns of an input; -1 keeps all but the last as they are.
    Several inputs have a weight each (give `param_attr` as a list to name them) and share the bias.
    """
    if size == 0:
        raise ShapeError("fc: size must be at least 1, but is 0")
    helper = LayerHelper("fc", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    check_type(input, "input", (list, tuple, Variable), "fc")
    if isinstance(input, (list, tuple)):
        for i, item in enumerate(input):
            check_type(item, f"input[{i}]", Variable, "fc")
    dtype = helper.input_dtype()
    check_dtype(dtype, "input", _FLOATS, "fc")
    products = []
    for item, attr in helper.iter_inputs_and_params():
        if num_flatten_dims == -1:
            num_flatten_dims = len(item.shape) - 1
        weight = helper.create_parameter(
            attr=attr, shape=[math.prod(item.shape[num_flatten_dims:]), size], dtype=dtype
        )
        product = helper.create_variable_for_type_inference(dtype)
        helper.append_op(
            type="mul",
            inputs={"X": item, "Y": weight},
            outputs={"Out": product},
            attrs={"x_num_col_dims": num_flatten_dims, "y_num_col_dims": 1},
        )
        products.append(product)
    total = products[0] if len(products) == 1 else _sum(helper, products, dtype)
    return helper.append_activation(helper.append_bias_op(total, dim_start=num_flatten_dims))


def _sum(helper: LayerHelper, terms: list[Variable], dtype: DTypeLike) -> Variable:
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(type="sum", inputs={"X": terms}, outputs={"Out": out}, attrs={"use_mkldnn": False})
    return out


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Rows of a table of `size` [rows, columns] for ids of shape [..., 1], whose last dimension the columns
    replace.

    `padding_idx` (negative: counted from the end) reads as zeros. `is_sparse` makes the table's gradient a
    SelectedRows.
    """
    return lookup(
        "lookup_table",
        "fluid.layers.embedding",
        input,
        size,
        is_sparse,
        is_distributed,
        padding_idx,
        param_attr,
        dtype,
    )


def mul(
    x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None
) -> Variable:
    """The matrix product of x and y, each seen as a matrix whose columns begin at dimension
    `*_num_col_dims`.
    """
    attrs = {"x_num_col_dims": x_num_col_dims, "y_num_col_dims": y_num_col_dims}
    helper = LayerHelper("mul", x=x, y=y, name=name)
    check_variable_and_dtype(x, "x", _FLOATS, "mul")
    check_variable_and_dtype(y, "y", _FLOATS, "mul")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="mul", inputs={"X": x, "Y": y}, attrs=attrs, outputs={"Out": out})
    return out


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """alpha * x @ y over the last two dimensions; the dimensions before them must be the same, or absent in
    one operand.

    A vector on the left is a row, on the right a column, and its dimension of 1 goes away again.
    """
    _check_matmul(x, y, transpose_x, transpose_y)
    helper = LayerHelper("matmul", x=x, y=y, name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="matmul",
        inputs={"X": x, "Y": y},
        outputs={"Out": out},
        attrs={"transpose_X": transpose_x, "transpose_Y": transpose_y, "alpha": float(alpha)},
    )
    return out


def _check_matmul(x: Variable, y: Variable, transpose_x: bool, transpose_y: bool) -> None:
    for name, var in (("x", x), ("y", y)):
        check_variable_and_dtype(var, name, _FLOATS, "matmul")
    left = [1, *x.shape] if len(x.shape) == 1 else list(x.shape)
    right = [*y.shape, 1] if len(y.shape) == 1 else list(y.shape)
    if transpose_x:
        left[-2], left[-1] = left[-1], left[-2]
    if transpose_y:
        right[-2], right[-1] = right[-1], right[-2]
    if left[-1] != right[-2] and left[-1] != -1 and right[-2] != -1:
        raise AssertionError(
            f"layers.matmul: x has {left[-1]} columns but y {right[-2]} rows, as matrices {left} and {right}"
        )
    if len(left) > 2 and len(right) > 2:
        for i, (a, b) in enumerate(zip(left[:-2], right, strict=False)):
            if a != b and a >= 0 and b >= 0:
                raise ValueError(
                    f"layers.matmul: dimension {i} is {a} in x but {b} in y (x{left}, y{right}); the "
                    "dimensions before the last two must be the same"
                )


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Variable:
    """act(x W_i y' + b_i) for i in range(size): x [N, M], y [N, K], weight [size, M, K], result [N, size]."""
    helper = LayerHelper(
        "bilinear_tensor_product", x=x, act=act, name=name, param_attr=param_attr, bias_attr=bias_attr
    )
    dtype = helper.input_dtype("x")
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[size, x.shape[1], y.shape[1]], dtype=dtype, is_bias=False
    )
    out = helper.create_variable_for_type_inference(dtype=dtype)
    inputs = {"X": x, "Y": y, "Weight": weight}
    if helper.bias_attr:
        inputs["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=[1, size], dtype=dtype, is_bias=True
        )
    helper.append_op(type="bilinear_tensor_product", inputs=inputs, outputs={"Out": out})
    return helper.append_activation(out)


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The matrix products of two stacks of matrices, [batch, n, k] and [batch, k, m]."""
    return one_op("bmm", {"X": x, "Y": y}, dtype=x.dtype, name=name)


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The inner product of two vectors, or of the rows of two matrices, of shape [1] or [rows, 1]."""
    for var_name, var in (("x", x), ("y", y)):
        check_variable_and_dtype(var, var_name, ["float32", "float64", "int32", "int64"], "dot")
    helper = LayerHelper("dot", name=name)
    out = (
        helper.create_variable_for_type_inference(dtype=x.dtype)
        if name is None
        else helper.create_variable(name=name, dtype=x.dtype, persistable=False)
    )
    helper.append_op(type="dot", inputs={"X": x, "Y": y}, attrs={}, outputs={"Out": out})
    return out
