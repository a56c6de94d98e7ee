"""Functions of single elements of the 2.x door, with their layers and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beside.draw import Draw, draws
from ops.draws.common_2x import ANY, FLOATS, REAL, either, functions, kinds, scalar, word

WITH_COMPLEX = kinds("float32 float64 complex64 complex128")
CAST = kinds("bool uint8 int16 int32 int64 float16 float32 float64")
HALF_TOO = kinds("int32 int64 float16 float32 float64 complex64 complex128")
# names -> dtypes, lowest and highest value
UNARY: dict[str, tuple[tuple[str, ...], float, float]] = {
    "abs": (kinds("int32 int64 float32 float64 complex64 complex128"), -2, 2),
    "conj": (kinds("int32 int64 float32 float64 complex64 complex128"), -2, 2),
    "angle asinh atan cos cosh sgn sin sinh tan": (WITH_COMPLEX, -2, 2),
    "acos asin atanh": (WITH_COMPLEX, -0.95, 0.95),
    "acosh": (WITH_COMPLEX, 1.05, 3),
    "ceil floor round i0 i0e i1 i1e tanh sigmoid": (FLOATS, -3, 3),
    "digamma lgamma rsqrt sqrt reciprocal": (FLOATS, 0.1, 4),
    "erfinv": (FLOATS, -0.9, 0.9),
    "erf": (kinds("float16 float32 float64"), -2, 2),
    "exp expm1": (HALF_TOO, -2, 2),
    "log log2 log10 log1p": (kinds("int32 int64 float32 float64"), 0.1, 4),
    "isfinite isinf isnan": (kinds("int32 int64 float16 float32 float64"), -2, 2),
    "deg2rad rad2deg frac square trunc": (REAL, -3, 3),
    "imag real": (kinds("complex64 complex128"), -2, 2),
    "logical_not": (kinds("bool int8 int16 int32 int64 float32 float64 complex64 complex128"), -1, 1),
    "bitwise_not": (kinds("bool uint8 int8 int16 int32 int64"), -3, 3),
    "neg": (kinds("uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"), -2, 2),
    "sign": (kinds("uint8 int8 int16 int32 int64 float32 float64"), -2, 2),
    "assign clone": (ANY, -2, 2),
}
TABLE = {name: row for names, row in UNARY.items() for name in names.split()}


@draws(*functions(" ".join(TABLE)))
def _(draw: Draw, name: str) -> Any:
    dtypes, low, high = TABLE[word(name)]
    if low > 0 and draw.flag(0.15):
        low = -high
    return draw.call(name, draw.tensor(dtype=dtypes, low=low, high=high, rank=(0, 6)))


@draws("paddle.Tensor.__neg__", "paddle.Tensor.__invert__")
def _(draw: Draw, name: str) -> Any:
    whole = name.endswith("invert__")
    dtypes = kinds("bool uint8 int8 int16 int32 int64") if whole else TABLE["neg"][0]
    return draw.call("op.invert" if whole else "op.neg", draw.tensor(dtype=dtypes, rank=(0, 5)))


@draws(*functions("frexp"))
def _(draw: Draw, name: str) -> Any:
    parts = draw.call(name, draw.tensor(dtype=FLOATS, rank=(0, 4), low=-9, high=9))
    return parts


# ---------------------------------------------------------------------- with attributes
ATTRIBUTES: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "logit": lambda draw: {"eps": draw.maybe(draw.choice(1e-3, 0.1, 0.0))},
    "nan_to_num": lambda draw: {
        "nan": draw.maybe(draw.real(), 0.3),
        "posinf": draw.maybe(draw.real(), 0.3),
        "neginf": draw.maybe(draw.real(), 0.3),
    },
    "stanh": lambda draw: {"scale_a": draw.maybe(draw.real(0.1)), "scale_b": draw.maybe(draw.real())},
    "polygamma": lambda draw: {"n": draw.int(0, 3)},
    "multigammaln": lambda draw: {"p": draw.int(1, 3)},
}


@draws(*functions("logit nan_to_num stanh polygamma multigammaln"))
def _(draw: Draw, name: str) -> Any:
    low, high = {"logit": (0.05, 0.95), "polygamma": (0.2, 4), "multigammaln": (1.6, 4)}.get(
        word(name), (-2.0, 2.0)
    )
    x = draw.tensor(dtype=FLOATS, rank=(0, 4), low=low, high=high)
    return draw.call(name, x, **ATTRIBUTES[word(name)](draw))


@draws(*functions("scale"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=TABLE["neg"][0], rank=(0, 4))
    return draw.call(
        name,
        x,
        scale=draw.maybe(scalar(draw, draw.choice(draw.real(), draw.int(-3, 3)), x.dtype or "", 0.15)),
        bias=draw.maybe(draw.choice(draw.real(), draw.int(-3, 3))),
        bias_after_scale=draw.maybe(draw.flag()),
        act=draw.maybe(draw.choice("relu", "tanh"), 0.1),
    )


@draws(*functions("clip"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 4), low=-3, high=3)
    kind = x.dtype or ""
    low, high = draw.choice(draw.real(-2, 0), draw.int(-2, 0)), draw.choice(draw.real(0, 2), draw.int(0, 2))
    return draw.call(
        name, x, min=draw.maybe(scalar(draw, low, kind)), max=draw.maybe(scalar(draw, high, kind))
    )


@draws(*functions("increment"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.choice((1,), (), (1, 1)), REAL)
    return draw.call(name, x, value=draw.maybe(draw.choice(1.0, 2.0, -1.0, draw.real())))


@draws(*functions("cast"), "paddle.Tensor.astype")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=CAST, rank=(0, 4), low=-3, high=3)
    return draw.call(name, x, draw.choice(*CAST, "int8"))


# ---------------------------------------------------------------------- paddle.nn's
NN: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "celu CELU": lambda draw: {"alpha": draw.maybe(draw.choice(0.5, 2.0, -1.0))},
    "elu ELU": lambda draw: {"alpha": draw.maybe(draw.choice(0.2, 1.0, 2.0, -0.5))},
    "gelu GELU": lambda draw: {"approximate": draw.maybe(draw.flag())},
    "hardshrink softshrink Hardshrink Softshrink": lambda draw: {
        "threshold": draw.maybe(draw.choice(0.0, 0.25, 1.0))
    },
    "hardtanh Hardtanh": lambda draw: {
        "min": draw.maybe(draw.real(-2, 0)),
        "max": draw.maybe(draw.real(0, 2)),
    },
    "hardsigmoid": lambda draw: {"slope": draw.maybe(draw.real(0.1, 1)), "offset": draw.maybe(draw.real())},
    "leaky_relu LeakyReLU": lambda draw: {"negative_slope": draw.maybe(draw.choice(0.0, 0.2, -0.5, 2.0))},
    "selu SELU": lambda draw: {
        "scale": draw.maybe(draw.choice(1.5, 1.01)),
        "alpha": draw.maybe(draw.choice(0.0, 1.5)),
    },
    "softplus Softplus": lambda draw: {
        "beta": draw.maybe(draw.choice(0.5, 2, 1.0)),
        "threshold": draw.maybe(draw.choice(1, 2.5, 20)),
    },
    "thresholded_relu ThresholdedReLU": lambda draw: {"threshold": draw.maybe(draw.choice(0.5, -0.5, 0.0))},
    "relu relu6 log_sigmoid sigmoid hardswish silu swish mish tanh tanhshrink softsign": lambda draw: {},
    "ReLU ReLU6 LogSigmoid Sigmoid Hardswish Silu Swish Mish Tanh Tanhshrink Softsign": lambda draw: {},
    "Hardsigmoid Identity": lambda draw: {},
}
NN_TABLE = {name: made for names, made in NN.items() for name in names.split()}


def _nn_names() -> list[str]:
    small = " ".join(name for name in NN_TABLE if name[0].islower())
    large = " ".join(name for name in NN_TABLE if name[0].isupper())
    return functions(small, "paddle.nn.functional") + functions(large, "paddle.nn")


@draws(*_nn_names())
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(0, 6), low=-3, high=3)
    return either(draw, name, [x], **NN_TABLE[word(name)](draw))


@draws("paddle.nn.functional.glu", "paddle.nn.GLU")
def _(draw: Draw, name: str) -> Any:
    shape = list(draw.shape((1, 4)))
    axis = draw.axis(len(shape))
    shape[axis] = 2 * draw.int(1, 2)
    return either(draw, name, [draw.tensor(shape, FLOATS, known=True)], axis=axis)


@draws("paddle.nn.functional.maxout", "paddle.nn.Maxout")
def _(draw: Draw, name: str) -> Any:
    groups, shape = draw.int(2, 3), list(draw.shape(4))
    axis = draw.choice(1, -1, 3)
    shape[axis] = groups * draw.int(1, 2)
    x = draw.tensor(shape, FLOATS, known=True)
    return either(draw, name, [x], groups=groups, axis=draw.maybe(axis) if axis == 1 else axis)


@draws("paddle.nn.functional.prelu")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(1, 5), known=True)
    layout = {3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}.get(x.rank, ("NC",))
    chosen = draw.choice(*layout)
    assert x.shape is not None
    sizes = (*x.shape, 1) if x.rank == 1 else x.shape
    channels = sizes[-1] if chosen[-1] == "C" else sizes[1]
    weight = draw.tensor((draw.choice(1, channels),), x.dtype or "", known=True)
    return draw.call(name, x, weight, data_format=chosen)


@draws("paddle.nn.functional.softmax_", "paddle.nn.Softmax", "paddle.nn.Softmax2D", "paddle.nn.LogSoftmax")
def _(draw: Draw, name: str) -> Any:
    if name.endswith("2D"):
        return either(draw, name, [draw.tensor(dtype=FLOATS, rank=(3, 4))])
    x = draw.tensor(dtype=FLOATS, rank=(0, 5))
    return either(draw, name, [x], axis=draw.maybe(draw.axis(x)))
