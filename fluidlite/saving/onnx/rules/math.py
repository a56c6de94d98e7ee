"""ONNX for ops of arithmetic: functions of elements, two operands, products of matrices."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.scalars import node_of


# ----------------------------------------------------------------------- functions of elements
@exports("clip")
def _clip(op: OpView) -> None:
    limits = []
    dtype = op.dtype()
    if dtype.kind in "iu":
        # limits need not be whole
        x = op.cast(op.x(), np.float64)
        dtype = np.dtype("float64")
    else:
        x = op.x()
    for slot, name in (("Min", "min"), ("Max", "max")):
        if op.has(slot):
            op.idle(name)
            shape = op.scalar_shape()
            reshaped = op.add("Reshape", op.x(slot), shape)
            cast = op.cast(reshaped, dtype)
            limits.append(cast)
        else:
            found = op.graph.constant(op.attr(name), dtype)
            limits.append(found)
    made = op.add("Clip", x, *limits)
    op.put(made if dtype == op.dtype() else op.cast(made, op.dtype()))


@exports("gelu")
def _gelu(op: OpView) -> None:
    x = op.x()
    if op.attr("approximate"):
        mul = op.add("Mul", x, x)
        cube = op.add("Mul", mul, x)
        product = op.add("Mul", cube, op.number(0.044715))
        inner = op.add("Add", x, product)
        wave = op.add("Tanh", op.add("Mul", inner, op.number(math.sqrt(2 / math.pi))))
    else:
        wave = op.add("Erf", op.add("Mul", x, op.number(math.sqrt(0.5))))
    half = op.add("Mul", x, op.number(0.5))
    total = op.add("Add", wave, op.number(1.0))
    made = op.add("Mul", half, total)
    op.put(made)


@exports("mish")
def _mish(op: OpView) -> None:
    # beyond a threshold of 15 its asymptote differs by less than float32 shows
    if op.attr("threshold") < 15:
        raise op.error(f"its threshold is {op.attr('threshold')}, and the rule knows those from 15 on")
    soft = op.add("Softplus", op.x())
    tanh = op.add("Tanh", soft)
    product = op.add("Mul", op.x(), tanh)
    op.put(product)


@exports("prelu")
def _prelu(op: OpView) -> None:
    mode = op.attr("mode")
    is_last = op.attr("data_format") == "NHWC"
    shape = {
        "all": op.ints(1),
        "channel": op.ints(-1, *([] if is_last else [1] * (op.rank() - 2))),
        "element": op.add("Concat", op.ints(1), op.dims(op.x(), 1, op.rank()), axis=0),
    }[mode]
    slopes = op.add("Reshape", op.x("Alpha"), shape)
    is_positive = op.add("Greater", op.x(), op.number(0.0))
    product = op.add("Mul", slopes, op.x())
    chosen = op.add("Where", is_positive, op.x(), product)
    op.put(chosen)


@exports("pow")
def _pow(op: OpView) -> None:
    if op.has("FactorTensor"):
        op.idle("factor")
        shape = op.scalar_shape()
        reshape = op.add("Reshape", op.x("FactorTensor"), shape)
        made = op.add("Pow", op.x(), reshape)
        op.put(made)
        return
    power = op.add("Pow", op.x(), op.number(op.attr("factor")))
    op.put(power)


@exports("scale")
def _scale(op: OpView) -> None:
    dtype = op.dtype()
    # numbers for whole ones are cut off, as C casts them
    scale, bias = (
        int(value) if dtype.kind in "iu" else value for value in (op.attr("scale"), op.attr("bias"))
    )
    if op.has("ScaleTensor"):
        shape = op.scalar_shape()
        reshape = op.add("Reshape", op.x("ScaleTensor"), shape)
        factor = op.cast(reshape, dtype)
    else:
        factor = op.number(scale)
    x = op.x()
    is_after = op.attr("bias_after_scale")
    if bias and not is_after:
        x = op.add("Add", x, op.number(bias))
    x = op.add("Mul", x, factor)
    if bias and is_after:
        x = op.add("Add", x, op.number(bias))
    op.put(x)


@exports("softmax", "log_softmax")
def _softmax(op: OpView) -> None:
    kind = "Softmax" if op.type == "softmax" else "LogSoftmax"
    made = op.add(kind, op.x(), axis=op.axes(int(op.attr("axis")))[0])
    op.put(made)


@exports("maxout")
def _maxout(op: OpView) -> None:
    """Channels in groups of neighbours, and of each group the largest."""
    groups = int(op.attr("groups"))
    axis = op.axes(int(op.attr("axis", 1)))[0]
    x = op.x()
    channels = op.shape()[axis]
    front = [op.dims(x, 0, axis)] if axis else []
    back = [op.dims(x, axis + 1, op.rank())] if axis + 1 < op.rank() else []
    shape = op.add("Concat", *front, op.ints(channels // groups, groups), *back, axis=0)
    reshaped = op.add("Reshape", x, shape)
    reduced = op.graph.reduce("ReduceMax", reshaped, [axis + 1])
    op.put(reduced)


# ----------------------------------------------------------------------- two operands


def _aligned(op: OpView) -> list[str]:
    """Both operands, the one of fewer dimensions with ones where it stands inside of the other at `axis`."""
    axis = int(op.attr("axis", -1))
    found = [op.x("X"), op.x("Y")]
    shapes = [op.shape("X"), op.shape("Y")]
    rank = max(map(len, shapes))
    for place, shape in enumerate(shapes):
        if len(shape) == rank or axis == -1:
            continue
        kept = len(shape)
        # ones at the end that there is no room for
        while kept > rank - axis and kept and shape[kept - 1] == 1:
            kept -= 1
        if kept < len(shape):
            found[place] = op.add("Squeeze", found[place], op.ints(*range(kept, len(shape))))
        behind = rank - axis - kept
        if behind > 0:
            found[place] = op.add("Unsqueeze", found[place], op.ints(*range(kept, kept + behind)))
    return found


@exports("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div")
@exports("elementwise_max", "elementwise_min", "elementwise_pow")
@exports("equal", "less_than", "less_equal", "greater_than", "greater_equal")
def _pair(op: OpView) -> None:
    x, y = _aligned(op)
    kind = node_of(op.type)
    if op.dtype().kind == "b" and kind not in ("Equal", "Pow"):
        x, y = (op.cast(value, np.int32) for value in (x, y))
        if op.dtype("Out").kind == "b" and op.type.startswith("elementwise"):
            raise op.error("arithmetic with booleans")
    if kind == "Pow" and op.dtype().kind in "iu":
        # by way of float64, rounded, as in Paddle
        cast = op.cast(x, np.float64)
        power = op.add("Pow", cast, op.cast(y, np.float64))
        rounded = op.add("Round", power)
        found = op.cast(rounded, op.dtype())
        op.put(found)
        return
    made = op.add(kind, x, y)
    op.put(made)


@exports("minus")
def _minus(op: OpView) -> None:
    sub = op.add("Sub", *_aligned(op))
    op.put(sub)


def _truth(op: OpView, slot: str) -> str:
    """The values in a slot as truth values."""
    return op.x(slot) if op.dtype(slot).kind == "b" else op.cast(op.x(slot), np.bool_)


@exports("logical_and", "logical_or", "logical_xor")
def _logic(op: OpView) -> None:
    made = op.add(node_of(op.type), _truth(op, "X"), _truth(op, "Y"))
    op.put(made)


@exports("logical_not")
def _not(op: OpView) -> None:
    made = op.add("Not", _truth(op, "X"))
    op.put(made)


@exports("not_equal")
def _not_equal(op: OpView) -> None:
    is_equal = op.add("Equal", *_aligned(op))
    others = op.add("Not", is_equal)
    op.put(others)


@exports("elementwise_mod", "elementwise_floordiv")
def _mod(op: OpView) -> None:
    x, y = _aligned(op)
    is_whole = op.dtype().kind in "iu"
    of_2x = op.attr("of_2x")
    if not is_whole:
        op.idle("of_2x")
        quotient = op.add("Div", x, y)
        floor = op.add("Floor", quotient)
        product = op.add("Mul", floor, y)
        rest = op.add("Sub", x, product)
    else:
        # fluid's rest has the sign of X, that of 2.x the sign of Y
        rest = op.add("Mod", x, y, fmod=int(not of_2x))
        difference = op.add("Sub", x, rest)
        floor = op.add("Div", difference, y)
    op.put(rest if op.type == "elementwise_mod" else floor)


@exports("sum")
def _sum(op: OpView) -> None:
    kinds = {op.var("X", place).type.name for place in range(len(op.op.inputs["X"]))}
    if kinds != {"LOD_TENSOR"}:
        raise op.error(f"it adds up {' and '.join(sorted(kinds))}")
    made, *others = op.all()
    for other in others:
        made = op.add("Add", made, other)
    same = op.add("Identity", made)
    op.put(same)


@exports("where")
def _where(op: OpView) -> None:
    made = op.add("Where", op.x("Condition"), op.x("X"), op.x("Y"))
    op.put(made)


@exports("increment")
def _increment(op: OpView) -> None:
    step = op.attr("step")
    step = int(step) if op.dtype().kind in "iu" else step
    made = op.add("Add", op.x(), op.number(step))
    op.put(made)


@exports("isnan_v2", "isinf_v2", "isfinite_v2", "isnan", "isinf", "isfinite")
def _kind(op: OpView) -> None:
    kind = op.type.removesuffix("_v2")
    is_taken = op.dtype() in (np.float32, np.float64)
    x = op.x() if is_taken else op.cast(op.x(), np.float32)
    found = op.add("IsInf" if kind == "isinf" else "IsNaN", x)
    if kind == "isfinite":
        is_infinite = op.add("IsInf", x)
        either = op.add("Or", is_infinite, found)
        found = op.add("Not", either)
    if op.type == kind:
        # one answer for the whole tensor
        reshaped = op.add("Reshape", found, op.ints(-1))
        whole = op.cast(reshaped, np.int32)
        whole = op.graph.reduce("ReduceMin" if kind == "isfinite" else "ReduceMax", whole, [0], keep=True)
        found = op.cast(whole, np.bool_)
    op.put(found)


# ----------------------------------------------------------------------- products
@exports("mul")
def _mul(op: OpView) -> None:
    op.idle("scale_x", "scale_y", "scale_out")
    kept = int(op.attr("x_num_col_dims"))
    rows = int(op.attr("y_num_col_dims"))
    y_shape = op.shape("Y")
    depth = math.prod(y_shape[:rows])
    x = op.x("X")
    y = op.x("Y")
    given = x
    if kept != op.rank("X") - 1:
        # 0 keeps a dimension
        x = op.add("Reshape", x, op.ints(*[0] * kept, depth))
    if len(y_shape) > 2:
        y = op.add("Reshape", y, op.ints(depth, -1))
    made = op.add("MatMul", x, y)
    if len(y_shape) - rows > 1:
        behind = op.dims(op.x("Y"), rows, len(y_shape))
        sizes = op.dims(given, 0, kept)
        together = op.add("Concat", sizes, behind, axis=0)
        made = op.add("Reshape", made, together)
    op.put(made)


def _times(op: OpView, product: str, factor: float, slot: str) -> str:
    """factor * product; zeros for 0, where the values do not count, whatever they are."""
    if factor == 1.0:
        return product
    number = op.number(factor, slot)
    if not factor:
        shape = op.add("Shape", product)
        return op.add("Expand", number, shape)
    return op.add("Mul", product, number)


@exports("matmul", "matmul_v2")
def _matmul(op: OpView) -> None:
    first = op.type == "matmul"
    names = (("X", "transpose_X"), ("Y", "transpose_Y")) if first else (("X", "trans_x"), ("Y", "trans_y"))
    operands = []
    for slot, name in names:
        value = op.x(slot)
        rank = op.rank(slot)
        if op.attr(name) and rank > 1:
            value = op.add("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])
        elif op.attr(name) and first:
            raise op.error(f"{slot} is a vector, and {name} is set")
        operands.append(value)
    if first:
        _check_stacks(op)
    # onnxruntime fuses transpositions into products, with a wrong result beside a vector: a matrix of one row
    vectors = [op.rank(slot) == 1 < op.rank(other) for slot, other in (("X", "Y"), ("Y", "X"))]
    made = _product(op, operands, vectors)
    if first:
        made = _times(op, made, op.attr("alpha"), "X")
    if op.rank("X") == op.rank("Y") == 1:
        made = op.add("Reshape", made, op.ints(1))
    op.put(made)


def _product(op: OpView, operands: list[str], vectors: list[bool]) -> str:
    """The product of two stacks of matrices, of which one may be a vector."""
    x, y = operands
    if vectors[0]:
        unsqueeze = op.add("Unsqueeze", x, op.ints(0))
        return str(op.add("Squeeze", op.add("MatMul", unsqueeze, y), op.ints(-2)))
    if vectors[1]:
        made = op.add("Unsqueeze", y, op.ints(1))
        return str(op.add("Squeeze", op.add("MatMul", x, made), op.ints(-1)))
    matmul = op.add("MatMul", x, y)
    return str(matmul)


def _check_stacks(op: OpView) -> None:
    """Stacks of equally many matrices are laid over each other by fluid, whatever their shapes."""
    stacks = [op.shape(slot)[:-2] for slot in ("X", "Y")]
    if all(stacks) and stacks[0] != stacks[1]:
        known = -1 not in (*stacks[0], *stacks[1])
        apart = len(stacks[0]) != len(stacks[1]) or any(
            a != b and -1 not in (a, b) for a, b in zip(*stacks, strict=True)
        )
        if apart and (not known or math.prod(stacks[0]) == math.prod(stacks[1])):
            raise op.error(f"it stacks {list(stacks[0])} and {list(stacks[1])} matrices")


@exports("bmm")
def _bmm(op: OpView) -> None:
    product = op.add("MatMul", op.x("X"), op.x("Y"))
    op.put(product)


@exports("mv")
def _mv(op: OpView) -> None:
    product = op.add("MatMul", op.x("X"), op.x("Vec"))
    op.put(product)


@exports("dot")
def _dot(op: OpView) -> None:
    product = op.add("Mul", op.x("X"), op.x("Y"))
    reduced = op.graph.reduce("ReduceSum", product, [op.rank() - 1], keep=not op.attr("of_2x"))
    op.put(reduced)


@exports("addmm")
def _addmm(op: OpView) -> None:
    product = op.add("MatMul", op.x("X"), op.x("Y"))
    scaled = _times(op, product, op.attr("Alpha"), "Input")
    if op.attr("Beta"):
        start = op.add("Mul", op.x("Input"), op.number(op.attr("Beta"), "Input"))
        scaled = op.add("Add", start, scaled)
    op.put(scaled)


@exports("bilinear_tensor_product")
def _bilinear(op: OpView) -> None:
    """Out[n, k] = X[n] W[k] Y[n], with one matrix W[k] for each number that comes out."""
    column = op.add("Unsqueeze", op.x("X"), op.ints(0))
    left = op.add("MatMul", column, op.x("Weight"))
    product = op.add("Mul", left, op.x("Y"))
    sums = op.graph.reduce("ReduceSum", product, [2])
    made = op.add("Transpose", sums, perm=[1, 0])
    op.put(op.add("Add", made, op.x("Bias")) if op.has("Bias") else made)


@exports("cos_sim")
def _cos_sim(op: OpView) -> None:
    rows = [op.add("Flatten", op.x(slot), axis=1) for slot in ("X", "Y")]

    def product(left: str, right: str) -> str:
        product = op.add("Mul", left, right)
        reduced = op.graph.reduce("ReduceSum", product, [1], keep=True)
        return reduced

    # a row of zeros is not divided by 0
    norms = [op.add("Sqrt", op.add("Max", product(row, row), op.number(1e-8))) for row in rows]
    op.put(norms[0], "XNorm")
    op.put(norms[1], "YNorm")
    mul = op.add("Mul", *norms)
    div = op.add("Div", product(*rows), mul)
    op.put(div)
