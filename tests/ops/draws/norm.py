"""Normalisations."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws
from ops.draws.forms import FLOATS


def affine(draw: Draw) -> dict[str, Any]:
    """Attributes of scale and shift, some of them absent."""
    return {"param_attr": draw.attr(0.2), "bias_attr": draw.choice(OMIT, OMIT, "shift")}


def spatial(draw: Draw, channels: int, last: bool, rank: tuple[int, int]) -> list[int]:
    """The shape of a batch with channels."""
    sizes = [draw.int(1, 4) for _ in range(draw.int(*rank) - 2)]
    return [draw.int(2, 3), *sizes, channels] if last else [draw.int(2, 3), channels, *sizes]


@draws("fluid.layers.batch_norm", "fluid.layers.inplace_abn")
def _(draw: Draw, name: str) -> Any:
    last = draw.flag(0.3)
    shape = spatial(draw, draw.int(1, 4), last, (2, 5))
    x = draw.tensor(shape, ("float32", "float32", "float64"))
    abn = name.endswith("abn")
    kwargs: dict[str, Any] = {"in_place": draw.maybe(draw.flag(), 0.2)}
    if abn:
        # what is overwritten must not be a feed
        x = draw.call("fluid.layers.scale", x, scale=1.0)
        kwargs = {"act_alpha": draw.choice(OMIT, 0.5, 0.9)}
    acts = ("leaky_relu", "elu", "identity") if abn else ("relu", "tanh", "sigmoid")
    return draw.call(
        name,
        x,
        act=draw.act(*acts),
        is_test=draw.maybe(draw.flag(), 0.4),
        momentum=draw.choice(OMIT, 0.5, 0.0, draw.variable(0.7, "float32") if draw.flag(0.2) else 1.0),
        epsilon=draw.choice(OMIT, 1e-3, 1e-4),
        data_layout="NHWC" if last else draw.choice(OMIT, "NCHW"),
        use_global_stats=draw.maybe(draw.flag(), 0.3),
        do_model_average_for_mean_and_var=draw.maybe(draw.flag(), 0.2),
        moving_mean_name=draw.maybe("means", 0.15),
        moving_variance_name=draw.maybe("variances", 0.15),
        **affine(draw),
        **kwargs,
    )


@draws("fluid.layers.layer_norm")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((2, 5)), FLOATS)
    begin = draw.int(1, x.rank - 1)
    return draw.call(
        name,
        x,
        scale=draw.maybe(draw.flag(), 0.4),
        shift=draw.maybe(draw.flag(), 0.4),
        param_attr=draw.attr(0.15),
        bias_attr=draw.maybe("shift", 0.15),
        begin_norm_axis=OMIT if begin == 1 and draw.flag() else begin,
        epsilon=draw.choice(OMIT, 1e-3, 1e-4),
        act=draw.act(),
    )


@draws("fluid.layers.group_norm")
def _(draw: Draw, name: str) -> Any:
    last, groups = draw.flag(0.3), draw.int(1, 3)
    x = draw.tensor(spatial(draw, groups * draw.int(1, 3), last, (3, 5)), FLOATS)
    return draw.call(
        name,
        x,
        groups,
        epsilon=draw.choice(OMIT, 1e-3, 0.1),
        param_attr=draw.choice(OMIT, OMIT, False),
        bias_attr=draw.choice(OMIT, OMIT, False),
        act=draw.act(),
        data_layout="NHWC" if last else OMIT,
    )


@draws("fluid.layers.instance_norm")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor([*draw.shape(2, low=1), *(draw.int(2, 4) for _ in range(draw.int(0, 3)))], "float32")
    return draw.call(name, x, epsilon=draw.choice(OMIT, 1e-3), **affine(draw))


@draws("fluid.layers.data_norm")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor((draw.int(1, 4), draw.int(1, 4)), FLOATS)
    start = {key: 2.0 + at for at, key in enumerate(("batch_size", "batch_sum", "batch_square"))}
    return draw.call(
        name,
        x,
        act=draw.act(),
        epsilon=draw.choice(OMIT, 1e-3),
        param_attr=draw.choice(OMIT, OMIT, start),
        slot_dim=draw.choice(OMIT, OMIT, -1, 1, 2),
        data_layout=draw.choice(OMIT, OMIT, "NCHW"),
        do_model_average_for_mean_and_var=draw.maybe(draw.flag(), 0.2),
        in_place=draw.maybe(draw.flag(), 0.3),
        summary_decay_rate=draw.choice(OMIT, OMIT, 0.9),
        enable_scale_and_shift=draw.maybe(draw.flag(), 0.3),
    )


@draws("fluid.layers.lrn")
def _(draw: Draw, name: str) -> Any:
    last = draw.flag(0.3)
    x = draw.tensor(spatial(draw, draw.int(1, 6), last, (4, 4)), "float32")
    return draw.call(
        name,
        x,
        n=draw.choice(OMIT, 1, 3, 5),
        k=draw.choice(OMIT, 2.0),
        alpha=draw.choice(OMIT, 0.01, 0.5),
        beta=draw.choice(OMIT, 0.5, 1.0),
        data_format="NHWC" if last else draw.choice(OMIT, "NCHW"),
    )


@draws("fluid.layers.spectral_norm")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((2, 5), low=2), FLOATS)
    return draw.call(
        name,
        x,
        dim=draw.choice(OMIT, 0, 1),
        power_iters=draw.choice(OMIT, 0, 1, 3),
        eps=draw.choice(OMIT, 1e-6),
    )


@draws("fluid.layers.affine_channel")
def _(draw: Draw, name: str) -> Any:
    last, channels = draw.flag(0.3), draw.int(1, 4)
    dtype = draw.choice(*FLOATS)
    x = draw.tensor(spatial(draw, channels, last, (2, 4) if not last else (4, 4)), dtype)
    scale, bias = (draw.tensor((channels,), dtype) for _ in range(2))
    return draw.call(
        name,
        x,
        scale=scale,
        bias=bias,
        data_layout="NHWC" if last else draw.choice(OMIT, "NCHW"),
        act=draw.act(),
    )
