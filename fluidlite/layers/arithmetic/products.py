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
    """A fully connected layer: act(sum of input_i x w_i + b).

    An input of more than two dimensions is read as a matrix: dimensions before `num_flatten_dims` are rows,
    the others are columns. With `num_flatten_dims=-1` only the last dimension is columns.

    Parameters
    ----------
    input: a Variable [N, ...], or a list of them. Each has a weight of its own; they share one bias.
    size: the number of columns of the result.
    num_flatten_dims: how many leading dimensions are kept; -1 keeps all but the last.
    param_attr: name, initializer and other settings of the weight [columns, size], as a `ParamAttr` or a
        name; a list of them for several inputs. The default initializer is Xavier's.
    bias_attr: the same for the bias [size], which begins with zeros; False for no bias.
    act: the name of an activation, such as "relu" or "softmax".
    name: the prefix of the names of parameters and results.

    Returns
    -------
    A Variable [N, size], or with the kept dimensions in place of N.

    >>> x = fluid.data("x", [None, 4])
    >>> fluid.layers.fc(x, size=2, act="relu").shape
    (-1, 2)
    >>> steps = fluid.data("steps", [None, 7, 4])
    >>> fluid.layers.fc(steps, size=2, num_flatten_dims=2).shape
    (-1, 7, 2)
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
    """Rows of a table, chosen by ids.

    `fluid.layers.embedding` takes ids of the shape [..., 1] and drops that dimension; `fluid.embedding` takes
    any shape and adds one.

    Parameters
    ----------
    input: ids, an int64 Variable [..., 1], possibly with sequences.
    size: [number of rows, width of a row].
    is_sparse: the gradient has only the rows that were read. Jobs with parameter servers then exchange only
        these.
    is_distributed: in such jobs the table stays on the servers.
    padding_idx: an id whose row reads as zeros and is never updated; negative numbers count from the end.
    param_attr: settings of the table; the default initializer is Xavier's.
    dtype: of the table: "float32" or "float64".

    Returns
    -------
    A Variable [..., width], with the sequences of `input`.

    >>> words = fluid.data("words", [None, 1], "int64")
    >>> fluid.layers.embedding(words, size=[1000, 16]).shape
    (-1, 16)
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
    """The product of matrices over the last two dimensions, times `alpha`.

    A one-dimensional operand is a row on the left and a column on the right, and that dimension of 1 is
    removed from the result. Dimensions before the last two must be the same, or absent in one operand.

    Parameters
    ----------
    x: a Variable [..., m, k], or [..., k, m] with `transpose_x`.
    y: a Variable [..., k, n], or [..., n, k] with `transpose_y`.
    transpose_x: exchange the last two dimensions of `x` first.
    transpose_y: the same for `y`.
    alpha: a factor of the result.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable [..., m, n].

    >>> x = fluid.layers.assign(np.array([[1, 2], [3, 4]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.matmul(x, x, transpose_y=True)])[0]
    array([[ 5., 11.],
           [11., 25.]], dtype=float32)
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
