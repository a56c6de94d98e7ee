"""Functions of single elements."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws

ANY = (
    "abs atan ceil cos erf exp floor logsigmoid reciprocal relu round sigmoid sign sin "
    "softplus softsign square tanh tanh_shrink"
)
BOUNDED = "acos asin"
POSITIVE = "log rsqrt sqrt log1p"
ATTRS: dict[str, dict[str, tuple[float, float]]] = {
    "brelu": {"t_min": (-1, 0), "t_max": (0.1, 1.5)},
    "elu": {"alpha": (0.2, 2)},
    "hard_shrink": {"threshold": (0, 1)},
    "hard_sigmoid": {"slope": (0.1, 1), "offset": (-0.5, 1)},
    "hard_swish": {"threshold": (1, 6), "scale": (1, 6), "offset": (0, 3)},
    "leaky_relu": {"alpha": (-0.5, 1.5)},
    "mish": {"threshold": (-1, 21)},
    "relu6": {"threshold": (0.5, 2)},
    "selu": {"scale": (1, 2), "alpha": (0.5, 2)},
    "soft_relu": {"threshold": (0.5, 40)},
    "softshrink": {"alpha": (0, 1)},
    "stanh": {"scale_a": (-1, 1), "scale_b": (-2, 2)},
    "swish": {"beta": (-1, 2)},
    "thresholded_relu": {"threshold": (-1, 1)},
}


@draws(*(f"fluid.layers.{name}" for name in ANY.split()))
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 6)))


@draws(*(f"fluid.layers.{name}" for name in BOUNDED.split()))
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 6), low=-0.95, high=0.95))


@draws(*(f"fluid.layers.{name}" for name in POSITIVE.split()))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 6), low=draw.choice(0.1, 0.1, 0.1, -0.5), high=3)
    return draw.call(name, x, out=draw.out(x.dtype) if name.endswith("log1p") else OMIT)


@draws(*(f"fluid.layers.{name}" for name in ATTRS))
def _(draw: Draw, name: str) -> Any:
    attrs = ATTRS[name.rpartition(".")[2]].items()
    return draw.call(
        name, draw.tensor(rank=(1, 5)), **{key: draw.maybe(draw.real(*limits)) for key, limits in attrs}
    )


@draws("fluid.layers.gelu")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 5)), approximate=draw.maybe(draw.flag()))


@draws("fluid.layers.pow")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), low=draw.choice(0.2, -2))
    factor = draw.choice(2, 3.0, 0.5, -1.0, 0.0, 1, OMIT)
    if isinstance(factor, float) and draw.flag():
        factor = draw.variable(factor, "float32")
    return draw.call(name, x, factor=factor)


@draws("fluid.layers.scale")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=("float32", "float64", "int32", "int64", "uint8", "int8", "int16"))
    factor = draw.choice(OMIT, 0.0, 1, -1.5, 2, 3.0)
    if factor is not OMIT and x.dtype == "float32" and draw.flag(0.3):
        factor = draw.variable(factor, "float32")
    return draw.call(
        name,
        x,
        scale=factor,
        bias=draw.maybe(draw.choice(0.0, 1, -0.5, 2.25)),
        bias_after_scale=draw.maybe(draw.flag()),
        act=draw.act() if x.dtype.startswith("float") else OMIT,
    )


@draws("fluid.layers.clip")
def _(draw: Draw, name: str) -> Any:
    low = draw.real(-1.5, 0.5)
    return draw.call(name, draw.tensor(rank=(1, 5)), low, low + draw.real(0.1, 2))


@draws("fluid.layers.clamp")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5))
    low = draw.real(-1.5, 0.5)
    bounds: dict[str, Any] = {"min": low, "max": abs(low) + draw.real(0.1, 2)}
    if x.dtype == "float32":
        bounds = {
            key: draw.variable(value, "float32") if draw.flag(0.3) else value for key, value in bounds.items()
        }
    if draw.flag():
        del bounds[draw.choice("min", "max")]
    output = draw.call("fluid.layers.assign", draw.tensor(x.shape, x.dtype)) if draw.flag(0.2) else OMIT
    return draw.call(name, x, output=output, **bounds)


@draws("fluid.layers.clip_by_norm")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 4), dtype="float32"), draw.choice(0.1, 1.0, 2.0, 100.0))


@draws("fluid.layers.prelu")
def _(draw: Draw, name: str) -> Any:
    mode = draw.choice("all", "channel", "element")
    rank = (1, 5) if mode == "all" else (2, 5)
    x = draw.tensor(rank=rank, dtype="float32", known=mode == "element")
    return draw.call(name, x, mode, param_attr=draw.attr())


@draws("fluid.layers.maxout")
def _(draw: Draw, name: str) -> Any:
    groups, kept = draw.int(2, 3), draw.int(1, 3)
    axis = draw.choice(OMIT, 1, -1, 3)
    shape = list(draw.shape(4))
    shape[1 if axis is OMIT else axis] = groups * kept
    return draw.call(name, draw.tensor(shape), groups, axis=axis)


@draws("fluid.layers.add_position_encoding")
def _(draw: Draw, name: str) -> Any:
    width = 2 * draw.int(1, 4)
    x = draw.sequences((width,)) if draw.flag(0.4) else draw.tensor((draw.size(), draw.size(), width))
    return draw.call(name, x, draw.real(0, 2), draw.real(0, 2))
