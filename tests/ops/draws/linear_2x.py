"""Products and linear algebra of the 2.x door."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws
from ops.draws.common_2x import FLOATS, functions, kinds, narrowed, word

MULTIPLIED = kinds("float32 float64 complex64 complex128")


def _matrices(draw: Draw, rows: int, columns: int, kind: str = "", **options: Any) -> Value:
    """Matrices, in a batch of up to two dimensions."""
    batch = draw.shape((0, 2), low=1, high=2)
    return draw.tensor((*batch, rows, columns), kind or draw.choice(*FLOATS), **options)


@draws(*functions("matmul"), "paddle.Tensor.__matmul__")
def _(draw: Draw, name: str) -> Any:
    kind, inner = draw.choice(*MULTIPLIED), draw.size()
    batch = draw.shape((0, 2))
    flips = [draw.flag(0.3) for _ in range(2)] if not name.endswith("__") else [False, False]
    one, two = [draw.size(), inner], [inner, draw.size()]
    shapes = [
        (*narrowed(draw, batch, 0.3), *(pair[::-1] if flip else pair))
        for pair, flip in zip((one, two), flips, strict=True)
    ]
    if draw.flag(0.2):
        at = draw.int(0, 1)
        shapes[at] = (inner,)
    x, y = (draw.tensor(shape, kind) for shape in shapes)
    if name.endswith("__"):
        return draw.call("op.matmul", x, y)
    given = [flip or draw.maybe(False) for flip in flips]
    return draw.call(name, x, y, transpose_x=given[0], transpose_y=given[1])


@draws(*functions("mm bmm mv addmm"))
def _(draw: Draw, name: str) -> Any:
    kind, inner = draw.choice(*FLOATS), draw.size()
    batch = {"bmm": (draw.size(),)}.get(word(name), ())
    x = draw.tensor((*batch, draw.size(), inner), kind)
    if word(name) == "mv":
        return draw.call(name, x, draw.tensor((inner,), kind))
    y = draw.tensor((*batch, inner, draw.size()), kind)
    if word(name) != "addmm":
        return draw.call(name, x, y)
    assert x.shape is not None and y.shape is not None
    full = (x.shape[0], y.shape[1])
    shapes = [full] if name.endswith("_") else [full, full, (1, full[1]), (full[0], 1), (full[1],), (1,)]
    given = draw.tensor(draw.choice(*shapes), kind)
    return draw.call(name, given, x, y, beta=draw.maybe(draw.real()), alpha=draw.maybe(draw.real()))


@draws(*functions("tensordot"))
def _(draw: Draw, name: str) -> Any:
    kind, shared = draw.choice(*FLOATS), list(draw.shape((0, 2)))
    count = len(shared)
    x = draw.tensor((*draw.shape((0, 2)), *shared), kind)
    rest = draw.shape((0, 2))
    if draw.flag():
        return draw.call(name, x, draw.tensor((*shared, *rest), kind), axes=count)
    y = draw.tensor((*rest, *shared), kind)
    axes = [list(range(item.rank - count, item.rank)) for item in (x, y)]
    given = draw.choice(axes, tuple(axes)) if count else 0
    return draw.call(name, x, y, axes=given)


EQUATIONS = [
    "ij,jk->ik",
    "ij,jk",
    "ij->ji",
    "ij->",
    "ij->i",
    "ij->j",
    "ii->i",
    "ii",
    "i,i",
    "i,j->ij",
    "bij,bjk->bik",
    "bij,jk->bik",
    "ij,kj->ik",
    "...ij,...jk->...ik",
    "...i,...i->...",
    "ijk->kji",
    "ij,ij->ij",
    "i,ij,j",
    "ij,jk,kl->il",
    "bhqd,bhkd->bhqk",
    "ijk,jil->kl",
    "a...,a...->...",
    "ij,j->i",
    ",ij->ij",
]


@draws("paddle.einsum")
def _(draw: Draw, name: str) -> Any:
    equation, kind = draw.choice(*EQUATIONS), draw.choice(*FLOATS)
    lengths = {letter: draw.int(1, 3) for letter in "abcdefghijklmnopqrstuvwxyz"}
    more = draw.shape((0, 2), low=1)
    items = []
    for term in equation.partition("->")[0].split(","):
        front, dots, back = term.partition("...")
        shape = [lengths[one] for one in front] + [*(more if dots else ())] + [lengths[one] for one in back]
        items.append(draw.tensor(shape, kind))
    return draw.call(name, equation, *items)


@draws("paddle.linalg.multi_dot")
def _(draw: Draw, name: str) -> Any:
    kind, ends = draw.choice(*FLOATS), [draw.size(low=1) for _ in range(draw.int(3, 5))]
    shapes = [list(pair) for pair in zip(ends, ends[1:], strict=False)]
    if draw.flag(0.2):
        shapes[0] = shapes[0][1:]
    if draw.flag(0.2):
        shapes[-1] = shapes[-1][:1]
    return draw.call(name, [draw.tensor(shape, kind) for shape in shapes])


@draws("paddle.nn.functional.linear", "paddle.nn.Linear")
def _(draw: Draw, name: str) -> Any:
    wide, out = draw.size(), draw.size()
    kind = draw.choice(*FLOATS) if name.endswith("linear") else "float32"
    x = draw.tensor((*draw.shape((0, 3)), wide), kind)
    if name.endswith("linear"):
        bias = draw.tensor((out,), kind) if draw.flag() else OMIT
        return draw.call(name, x, draw.tensor((wide, out), kind, known=True), bias=bias)
    layer = draw.call(name, wide, out, weight_attr=draw.attr(), bias_attr=draw.maybe(False, 0.3))
    return draw.call(layer.name, x)


# ---------------------------------------------------------------------- linear algebra
def _square(draw: Draw, definite: bool = False, most: int = 3) -> Value:
    """Square matrices far from singular ones."""
    size, batch = draw.int(1, most), draw.shape((0, 2), low=1, high=2)
    array = draw.numbers((*batch, size, size), "float64")
    if definite:
        array = array @ np.swapaxes(array, -1, -2) + 0.5 * np.eye(size)
    else:
        array = array + 4 * np.diag([1.0 if at % 2 else -1.0 for at in range(size)])
    return draw.feed(array.round(3).astype(draw.choice(*FLOATS)), fixed=True, known=draw.flag())


def _of_full_rank(draw: Draw, rows: int, columns: int) -> Value:
    """Matrices with singular values far from 0: those below have derivatives."""
    batch = draw.shape((0, 2), low=1, high=2)
    array = draw.numbers((*batch, rows, columns), "float64", -1, 1)
    array = array + 3 * np.eye(rows, columns) * (1 + np.arange(columns))
    return draw.feed(array.round(3).astype(draw.choice(*FLOATS)), fixed=True, known=True)


def _symmetric(draw: Draw) -> Value:
    """Symmetric matrices with distinct eigenvalues."""
    size, batch = draw.int(1, 3), draw.shape((0, 1), low=1, high=2)
    array = draw.numbers((*batch, size, size), "float64", -0.5, 0.5)
    array = array + np.swapaxes(array, -1, -2) + np.diag(np.arange(size) * 3.0 + 1)
    return draw.feed(array.round(3).astype(draw.choice(*FLOATS)), fixed=True, known=draw.flag())


@draws(*functions("inv det slogdet", "paddle.linalg"), "paddle.Tensor.inverse")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, _square(draw))


@draws(*functions("matrix_power cond", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    x = _square(draw)
    if word(name) == "matrix_power":
        return draw.call(name, x, draw.int(-3, 4))
    p = draw.choice(OMIT, None, 1, -1, 2, -2, "fro", "nuc", float("inf"), float("-inf"))
    return draw.call(name, x, p=p)


@draws(*functions("cholesky", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, _square(draw, definite=True), upper=draw.maybe(draw.flag()))


@draws(*functions("eigvalsh eigh", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    found = draw.call(name, _symmetric(draw), UPLO=draw.maybe(draw.choice("L", "U")))
    if word(name) == "eigvalsh":
        return found
    return [draw.call("paddle.assign", found[0]), draw.call("paddle.abs", found[1])]


@draws(*functions("eigvals eig", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    x = _symmetric(draw) if draw.flag(0.7) else _square(draw)
    found = draw.call(name, x)
    draw.gradients = False
    values = found if word(name) == "eigvals" else found[0]
    return draw.call("paddle.sort", draw.call("paddle.abs", values))


@draws(*functions("svd qr", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    x = _of_full_rank(draw, draw.int(1, 3), draw.int(1, 3))
    if word(name) == "svd":
        found = draw.call(name, x, full_matrices=draw.maybe(draw.flag()))
        return [draw.call("paddle.assign", found[1]), draw.call("paddle.abs", found[0])]
    mode = draw.maybe(draw.choice("reduced", "complete", "r"))
    found = draw.call(name, x, mode=mode)
    return found if mode == "r" else [draw.call("paddle.assign", found[at]) for at in range(2)]


@draws(*functions("pinv matrix_rank", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    hermitian = draw.flag(0.3)
    x = (
        _symmetric(draw)
        if hermitian
        else _matrices(draw, draw.int(1, 3), draw.int(1, 3), known=True, fixed=True)
    )
    if word(name) == "pinv":
        return draw.call(name, x, rcond=draw.maybe(1e-3, 0.3), hermitian=hermitian)
    tolerance = draw.maybe(draw.choice(0.5, 1e-3), 0.4)
    return draw.call(name, x, tol=tolerance, hermitian=hermitian)


@draws(*functions("solve", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    x = _square(draw)
    assert x.shape is not None
    shape = (x.shape[-1],) if x.rank == 2 and draw.flag(0.3) else (*x.shape[:-1], draw.size(low=1))
    return draw.call(name, x, draw.tensor(shape, x.dtype or ""))


@draws(*functions("cholesky_solve triangular_solve", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    y = _square(draw, definite=True)
    assert y.shape is not None
    x = draw.tensor((*y.shape[:-1], draw.size(low=1)), y.dtype or "")
    upper = draw.maybe(draw.flag())
    if word(name) == "cholesky_solve":
        return draw.call(name, x, y, upper=upper)
    return draw.call(
        name, y, x, upper=upper, transpose=draw.maybe(draw.flag()), unitriangular=draw.maybe(draw.flag())
    )


@draws(*functions("lstsq", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    columns = draw.int(1, 3)
    rows = columns + draw.int(0, 2)
    x = draw.tensor((rows, columns), FLOATS, distinct=True, fixed=True, known=True)
    y = draw.tensor((rows, draw.int(1, 2)), x.dtype or "", known=True)
    draw.gradients = False
    driver = draw.maybe(draw.choice("gels", "gelsy", "gelsd", "gelss"))
    # by "gelsy", the usual one, 2.6.2 finds ranks that depend on what memory held
    least = draw.choice(OMIT, OMIT, 1e-4, 0.3) if driver in ("gels", "gelsd", "gelss") else OMIT
    found = draw.call(name, x, y, rcond=least, driver=driver)
    some = [found[0]]
    if rows > columns:
        some.append(found[1])
    if driver in ("gelsd", "gelss"):
        some += [found[2], found[3]]
    return [draw.call("paddle.assign", one) for one in some]


@draws(*functions("lu lu_unpack", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    x = _of_full_rank(draw, draw.int(1, 3), draw.int(1, 3))
    flag = draw.maybe(draw.flag()) if word(name) == "lu" else OMIT
    found = draw.call("paddle.linalg.lu", x, get_infos=flag)
    if word(name) == "lu":
        return found
    wanted = {key: draw.maybe(draw.flag(), 0.3) for key in ("unpack_ludata", "unpack_pivots")}
    return (
        draw.call(name, found[0], found[1], **wanted)
        if ".Tensor." not in name
        else draw.call("paddle.linalg.lu_unpack", found[0], found[1], **wanted)
    )


@draws(*functions("cov corrcoef", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    shape = draw.shape((1, 2), low=2)
    x = draw.tensor(shape, FLOATS, distinct=True, known=draw.flag())
    rows = draw.flag(0.7)
    if word(name) == "corrcoef":
        return draw.call(name, x, rowvar=draw.maybe(rows))
    count = shape[-1] if rows else shape[0]
    weights = {"fweights": draw.tensor((count,), "int64", 1, 3, fixed=True) if draw.flag(0.05) else OMIT}
    weights["aweights"] = draw.tensor((count,), x.dtype or "", 0.5, 1) if draw.flag(0.05) else OMIT
    return draw.call(
        name, x, rowvar=draw.maybe(True) if rows else False, ddof=draw.maybe(draw.flag()), **weights
    )


@draws(*functions("householder_product", "paddle.linalg"))
def _(draw: Draw, name: str) -> Any:
    columns = draw.int(1, 3)
    x = _matrices(draw, columns + draw.int(0, 2), columns, known=True)
    assert x.shape is not None
    return draw.call(name, x, draw.tensor((*x.shape[:-2], columns), x.dtype or "", known=True))


@draws("paddle.nn.functional.cosine_similarity", "paddle.nn.CosineSimilarity")
def _(draw: Draw, name: str) -> Any:
    full = draw.shape((2, 4))
    axis = draw.axis(len(full))
    kind = draw.choice(*FLOATS)
    inputs = [draw.tensor(full, kind), draw.tensor(full, kind)]
    given = {"axis": axis, "eps": draw.maybe(1e-3, 0.3)}
    if name.endswith("Similarity"):
        return draw.call(draw.call(name, **given).name, *inputs)
    return draw.call(name, *inputs, **given)


@draws("paddle.nn.functional.pairwise_distance", "paddle.nn.PairwiseDistance")
def _(draw: Draw, name: str) -> Any:
    full, kind = draw.shape((1, 2)), draw.choice(*FLOATS)
    inputs = [draw.tensor(full, kind), draw.tensor(full, kind)]
    given = {
        "p": draw.maybe(draw.choice(1.0, 2.0, 3.0, float("inf"), 0)),
        "epsilon": draw.maybe(draw.choice(0.0, 1e-3), 0.3),
        "keepdim": draw.maybe(draw.flag()),
    }
    if name.endswith("PairwiseDistance"):
        return draw.call(draw.call(name, **given).name, *inputs)
    return draw.call(name, *inputs, **given)


@draws("paddle.nn.functional.bilinear", "paddle.nn.Bilinear")
def _(draw: Draw, name: str) -> Any:
    rows, one, two, out = draw.size(), draw.size(), draw.size(), draw.size()
    kind = draw.choice(*FLOATS) if name.endswith("bilinear") else "float32"
    inputs = [draw.tensor((rows, one), kind), draw.tensor((rows, two), kind)]
    if name.endswith("Bilinear"):
        layer = draw.call(name, one, two, out, bias_attr=draw.maybe(False, 0.3))
        return draw.call(layer.name, *inputs)
    bias = draw.tensor((1, out), kind) if draw.flag() else OMIT
    return draw.call(name, *inputs, draw.tensor((out, one, two), kind, known=True), bias=bias)


@draws("paddle.nn.functional.normalize")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(1, 4))
    axis = draw.axis(x)
    return draw.call(
        name, x, p=draw.maybe(draw.choice(1, 2, 3, 1.5)), axis=axis, epsilon=draw.maybe(1e-3, 0.3)
    )
