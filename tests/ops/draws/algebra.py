"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws

FLOATS = ("float32", "float64")


@draws("fluid.layers.matmul")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*FLOATS)
    rows, inner, columns = draw.size(), draw.size(), draw.size()
    batch = draw.shape((1, 2)) if draw.flag() else ()
    left, right = draw.flag(0.3), draw.flag(0.3)
    x = (inner, rows) if left else (rows, inner)
    y = (columns, inner) if right else (inner, columns)
    kind = draw.rng.random()
    if kind < 0.12:
        shapes, left, right = [(inner,), (inner,)], OMIT, OMIT
    elif kind < 0.22:
        shapes, right = [(*batch, *x), (inner,)], OMIT
    elif kind < 0.32:
        shapes, left = [(inner,), (*batch, *y)], OMIT
    elif kind < 0.45:
        shapes = [(*batch, *x), y]
    else:
        shapes = [(*batch, *x), (*batch, *y)]
    tensors = [draw.tensor(shape, dtype) for shape in shapes]
    alpha = draw.maybe(draw.choice(1, 0.5, -2.0, 0.0), 0.4)
    return draw.call(name, *tensors, transpose_x=left or OMIT, transpose_y=right or OMIT, alpha=alpha)


@draws("fluid.layers.mul")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*FLOATS)
    rows, inner, columns = draw.shape((1, 2)), draw.shape((1, 2)), draw.shape((1, 2))
    same = draw.flag(0.3)
    x = draw.tensor((*rows, *inner), dtype)
    y = draw.tensor((*(inner if same else (_product(inner),)), *columns), dtype)
    split = len(inner) if same else 1
    return draw.call(
        name,
        x,
        y,
        x_num_col_dims=OMIT if len(rows) == 1 and draw.flag() else len(rows),
        y_num_col_dims=OMIT if split == 1 and draw.flag() else split,
    )


def _product(sizes: tuple[int, ...]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


@draws("fluid.layers.bmm")
def _(draw: Draw, name: str) -> Any:
    batch, rows, inner, columns = draw.shape(4)
    dtype = draw.choice(*FLOATS)
    return draw.call(
        name, draw.tensor((batch, rows, inner), dtype), draw.tensor((batch, inner, columns), dtype)
    )


@draws("fluid.layers.addmm")
def _(draw: Draw, name: str) -> Any:
    rows, inner, columns = draw.shape(3)
    dtype = draw.choice(*FLOATS)
    shape = draw.choice((rows, columns), (rows, columns), (1, columns), (rows, 1), (1, 1))
    tensors = [draw.tensor(one, dtype) for one in (shape, (rows, inner), (inner, columns))]
    return draw.call(
        name,
        *tensors,
        alpha=draw.maybe(draw.choice(0.5, -1.0, 2.0)),
        beta=draw.maybe(draw.choice(0.0, 0.5, 3.0)),
    )


@draws("fluid.layers.dot")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 2)), draw.choice(*FLOATS, "int32", "int64")
    return draw.call(name, draw.tensor(shape, dtype), draw.tensor(shape, dtype))


@draws("fluid.layers.kron")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*FLOATS, *FLOATS, "int32", "int64")
    tensors = [draw.tensor(draw.shape((1, 3), high=3), dtype) for _ in range(2)]
    return draw.call(name, *tensors, out=draw.out(dtype))


@draws("fluid.layers.cross")
def _(draw: Draw, name: str) -> Any:
    shape = list(draw.shape((1, 4)))
    axis = draw.int(0, len(shape) - 1)
    shape[axis] = 3
    dim = draw.choice(axis, axis - len(shape))
    dtype = draw.choice(*FLOATS, *FLOATS, "int32", "int64")
    return draw.call(name, draw.tensor(shape, dtype), draw.tensor(shape, dtype), dim=draw.maybe(dim, 0.7))


@draws("fluid.layers.dist")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*FLOATS)
    other = shape
    if draw.flag(0.4):
        other = tuple(1 if draw.flag(0.4) else size for size in shape)
    p = draw.choice(0.0, 1.0, 2.0, 3.0, 1.5, float("inf"), float("-inf"), 2, OMIT)
    return draw.call(name, draw.tensor(shape, dtype), draw.tensor(other, dtype), p=p)


@draws("fluid.layers.trace", "fluid.layers.diag_embed")
def _(draw: Draw, name: str) -> Any:
    embeds = name.endswith("embed")
    x = draw.tensor(rank=(1, 4) if embeds else (2, 5), dtype=(*FLOATS, "int64"))
    rank = x.rank + embeds
    one, two = draw.rng.sample(range(rank), 2)
    kwargs: dict[str, Any] = {"offset": draw.maybe(draw.int(-2, 2))}
    if not embeds:
        kwargs["out"] = draw.out(x.dtype)
    if draw.flag():
        kwargs.update(dim1=one - rank if draw.flag(0.3) else one, dim2=two - rank if draw.flag(0.3) else two)
    return draw.call(name, x, **kwargs)


@draws("fluid.layers.t")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 2)))


@draws("fluid.layers.tril", "fluid.layers.triu")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(2, 5), dtype=(*FLOATS, "int32", "int64"))
    return draw.call(name, x, diagonal=draw.maybe(draw.int(-4, 4)))


@draws("fluid.layers.diag")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=1, dtype=(*FLOATS, "int32", "int64")))


@draws("fluid.layers.bilinear_tensor_product")
def _(draw: Draw, name: str) -> Any:
    rows, left, right = draw.shape(3)
    dtype = draw.choice(*FLOATS)
    x, y = draw.tensor((rows, left), dtype), draw.tensor((rows, right), dtype)
    attrs = {"param_attr": draw.attr(0.15), "bias_attr": draw.maybe(False, 0.3)}
    return draw.call(name, x, y, draw.int(1, 4), act=draw.act(), **attrs)


@draws("fluid.layers.cos_sim")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = list(draw.shape((2, 4))), "float32"
    x = draw.tensor(shape, dtype)
    return draw.call(name, x, draw.tensor([1, *shape[1:]] if draw.flag(0.3) else shape, dtype))


@draws("fluid.layers.fsp_matrix")
def _(draw: Draw, name: str) -> Any:
    batch, height, width = draw.shape(3)
    dtype = draw.choice(*FLOATS)
    tensors = [draw.tensor((batch, draw.int(1, 4), height, width), dtype) for _ in range(2)]
    return draw.call(name, *tensors)


@draws("fluid.layers.fc")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*FLOATS)
    lead = draw.int(1, 3)
    front = draw.shape(lead)
    tensors = [
        draw.tensor((*front, *draw.shape((1, 2), low=2)), dtype, known=False)
        for _ in range(draw.choice(1, 1, 1, 2))
    ]
    return draw.call(
        name,
        tensors[0] if len(tensors) == 1 and draw.flag(0.8) else tensors,
        draw.int(1, 4),
        num_flatten_dims=OMIT if lead == 1 and draw.flag() else lead,
        param_attr=draw.attr() if len(tensors) == 1 else OMIT,
        bias_attr=draw.choice(OMIT, False, "b"),
        act=draw.act("relu", "tanh", "softmax"),
    )
