"""Normalizations of the 2.x door."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import FLOATS, either, word

FORMATS = {2: ("NC", "NCHW"), 3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def _input(draw: Draw, rank: int, layout: str, kind: str, channels: int = 0) -> tuple[Any, int]:
    """A tensor in a format, and its number of channels."""
    channels = channels or draw.int(1, 4)
    places = [draw.int(1, 3) for _ in range(rank - 2)]
    last = layout[-1] == "C" and rank > 2
    shape = (draw.int(2, 3), *places, channels) if last else (draw.int(2, 3), channels, *places)
    return draw.tensor(shape, kind), channels


@draws("paddle.nn.functional.batch_norm")
def _(draw: Draw, name: str) -> Any:
    rank, kind = draw.int(2, 5), draw.choice(*FLOATS)
    layout = draw.choice(*FORMATS[rank]) if rank > 2 else "NC"
    x, channels = _input(draw, rank, layout, kind)
    mean, variance = (
        draw.tensor((channels,), kind, known=True),
        draw.tensor((channels,), kind, 0.3, 2, known=True),
    )
    affine = draw.flag(0.7)
    return draw.call(
        name,
        x,
        mean,
        variance,
        weight=draw.tensor((channels,), kind, known=True) if affine else OMIT,
        bias=draw.tensor((channels,), kind, known=True) if affine else OMIT,
        training=draw.maybe(draw.flag(0.3)),
        momentum=draw.maybe(draw.choice(0.5, 0.9)),
        epsilon=draw.maybe(draw.choice(1e-3, 1e-4), 0.3),
        data_format=layout if layout != "NC" else OMIT,
        use_global_stats=draw.maybe(draw.flag(), 0.3),
    )


def _of_batches(draw: Draw) -> dict[str, Any]:
    """Arguments that both forms of the old batch_norm take beside the usual."""
    return {
        "moving_mean_name": draw.maybe("mean_kept", 0.2),
        "moving_variance_name": draw.maybe("variance_kept", 0.2),
        "in_place": draw.maybe(draw.flag(), 0.1),
        "do_model_average_for_mean_and_var": draw.maybe(draw.flag(), 0.2),
    }


@draws(*(f"paddle.nn.{name}" for name in ["BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "BatchNorm"]))
def _(draw: Draw, name: str) -> Any:
    last = word(name)[-2:]
    rank = {"1D": draw.choice(2, 3), "2D": 4, "3D": 5}.get(last, 4)
    layout = draw.choice(*FORMATS[rank]) if rank > 2 else "NCL"
    x, channels = _input(draw, rank, layout, "float32")
    given: dict[str, Any] = {"momentum": draw.maybe(draw.choice(0.5, 0.99))}
    given["epsilon"] = draw.maybe(draw.choice(1e-3, 1e-4), 0.3)
    if word(name) == "BatchNorm":
        given |= {"act": draw.act(), "is_test": draw.maybe(draw.flag()), "data_layout": layout}
        given |= {"param_attr": draw.attr(), "bias_attr": draw.attr(), **_of_batches(draw)}
    else:
        given["data_format"] = layout if layout != "NC" else OMIT
        given["use_global_stats"] = draw.maybe(draw.flag(), 0.3)
        given["weight_attr"] = draw.choice(OMIT, OMIT, False)
        given["bias_attr"] = draw.choice(OMIT, OMIT, False)
    layer = draw.call(name, channels, **given)
    if draw.flag(0.3):
        draw.call(f"{layer.name}.eval")
    return draw.call(layer.name, x)


@draws("paddle.nn.functional.layer_norm", "paddle.nn.LayerNorm")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*FLOATS) if name.endswith("_norm") else "float32"
    shape = draw.shape((2, 4))
    count = draw.int(1, len(shape) - 1)
    tail = list(shape[-count:])
    normal = tail[0] if count == 1 and draw.flag() else draw.choice(tail, tuple(tail))
    x = draw.tensor(shape, kind)
    epsilon = draw.maybe(draw.choice(1e-3, 1e-4), 0.3)
    if name.endswith("LayerNorm"):
        layer = draw.call(
            name, normal, epsilon=epsilon, weight_attr=draw.choice(OMIT, OMIT, False), bias_attr=draw.attr()
        )
        return draw.call(layer.name, x)
    flat = (int(np.prod(tail)),)
    pair = {
        key: draw.tensor(flat, kind, known=True) if draw.flag(0.7) else OMIT for key in ("weight", "bias")
    }
    return draw.call(name, x, normal, **pair, epsilon=epsilon)


@draws("paddle.nn.functional.instance_norm")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*FLOATS)
    x, channels = _input(draw, draw.int(3, 5), "NCHW", kind)
    affine = draw.flag()
    pair = {key: draw.tensor((channels,), kind, known=True) if affine else OMIT for key in ("weight", "bias")}
    more: dict[str, Any] = {"momentum": draw.maybe(0.5, 0.2), "data_format": draw.maybe("NCHW", 0.2)}
    if draw.flag(0.2):
        more["running_mean"] = draw.tensor((channels,), kind, known=True)
        more["running_var"] = draw.tensor((channels,), kind, 0.3, 2, known=True)
    more["use_input_stats"] = draw.maybe(True, 0.3)
    return draw.call(name, x, **pair, **more, eps=draw.maybe(draw.choice(1e-3, 1e-4), 0.3))


@draws(*(f"paddle.nn.InstanceNorm{count}D" for count in (1, 2, 3)))
def _(draw: Draw, name: str) -> Any:
    x, channels = _input(draw, int(name[-2]) + 2, "NCHW", "float32")
    attr = draw.choice(OMIT, OMIT, False)
    more = {"momentum": draw.maybe(0.5, 0.2), "epsilon": draw.maybe(1e-3, 0.3)}
    layer = draw.call(name, channels, **more, weight_attr=attr, bias_attr=attr)
    return draw.call(layer.name, x)


@draws("paddle.nn.GroupNorm")
def _(draw: Draw, name: str) -> Any:
    rank, groups = draw.int(2, 5), draw.int(1, 3)
    layout = draw.choice("NCHW", "NHWC") if rank > 2 else "NCHW"
    x, channels = _input(draw, rank, layout, "float32", groups * draw.int(1, 2))
    attrs = {key: draw.choice(OMIT, OMIT, False) for key in ("weight_attr", "bias_attr")}
    layer = draw.call(name, groups, channels, epsilon=draw.maybe(1e-3, 0.3), **attrs, data_format=layout)
    return draw.call(layer.name, x)


@draws("paddle.nn.functional.local_response_norm", "paddle.nn.LocalResponseNorm")
def _(draw: Draw, name: str) -> Any:
    rank, size = draw.int(3, 5), draw.int(1, 5)
    layout = draw.choice(*FORMATS[rank])
    x, _ = _input(draw, rank, layout, "float32")
    given = {"alpha": draw.maybe(0.1), "beta": draw.maybe(0.5), "k": draw.maybe(2.0), "data_format": layout}
    return either(draw, name, [x], size=size, **given)


@draws("paddle.nn.SpectralNorm", "paddle.static.nn.spectral_norm")
def _(draw: Draw, name: str) -> Any:
    shape = draw.shape((2, 5), low=1)
    given = {
        "dim": draw.maybe(draw.choice(0, 1)),
        "power_iters": draw.maybe(draw.int(0, 3)),
        "eps": draw.maybe(1e-6),
    }
    if name.endswith("SpectralNorm"):
        kind = draw.choice("float32", "float64")
        x = draw.tensor(shape, kind, known=True)
        layer = draw.call(name, list(shape), **given, dtype=kind if kind == "float64" else draw.maybe(kind))
        return draw.call(layer.name, x)
    x = draw.tensor(shape, "float32", known=True)
    return draw.call(name, x, **given)


# ---------------------------------------------------------------------- paddle.static.nn's
@draws("paddle.static.nn.batch_norm")
def _(draw: Draw, name: str) -> Any:
    rank = draw.int(2, 5)
    layout = draw.choice(*FORMATS[rank]) if rank > 2 else "NCHW"
    x, _ = _input(draw, rank, layout, draw.choice(*FLOATS))
    test = draw.maybe(draw.flag(0.3))
    given = {
        "act": draw.act(),
        "is_test": test,
        "momentum": draw.maybe(0.5),
        "epsilon": draw.maybe(1e-3, 0.3),
    }
    given |= {"param_attr": draw.attr(), "bias_attr": draw.maybe(False, 0.1), **_of_batches(draw)}
    given["data_layout"] = {"NC": OMIT}.get(layout, "NHWC" if layout[-1] == "C" else "NCHW")
    return draw.call(name, x, **given, use_global_stats=draw.maybe(draw.flag(), 0.2))


@draws("paddle.static.nn.layer_norm")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(2, 4), known=True)
    given = {key: draw.maybe(draw.flag()) for key in ("scale", "shift")}
    begin = draw.maybe(draw.int(1, x.rank - 1))
    given |= {"param_attr": draw.attr(), "bias_attr": draw.attr(), "act": draw.act()}
    return draw.call(name, x, **given, begin_norm_axis=begin, epsilon=draw.maybe(1e-3, 0.3))


@draws("paddle.static.nn.group_norm", "paddle.static.nn.instance_norm", "paddle.static.nn.data_norm")
def _(draw: Draw, name: str) -> Any:
    what, rank, groups = word(name), draw.int(3, 5), draw.int(1, 3)
    kind = draw.choice(*FLOATS)
    layout = draw.choice(*FORMATS[rank]) if what == "group_norm" else "NCHW"
    if what == "data_norm":
        x = draw.tensor((draw.int(2, 3), draw.int(1, 4)), kind)
        return draw.call(
            name,
            x,
            act=draw.act(),
            epsilon=draw.maybe(1e-3, 0.3),
            param_attr=draw.maybe({"batch_size": 10.0, "batch_sum": 1.0, "batch_square": 30.0}, 0.2),
            enable_scale_and_shift=draw.maybe(draw.flag(), 0.3),
            summary_decay_rate=draw.maybe(0.5, 0.2),
            do_model_average_for_mean_and_var=draw.maybe(draw.flag(), 0.2),
            slot_dim=draw.maybe(-1, 0.2),
        )
    x, _ = _input(draw, rank, layout, kind, groups * draw.int(1, 2))
    epsilon = draw.maybe(1e-3, 0.3)
    if what == "instance_norm":
        attr = draw.choice(OMIT, OMIT, False)
        return draw.call(name, x, epsilon=epsilon, param_attr=attr, bias_attr=attr)
    attrs = {"param_attr": draw.choice(OMIT, False, draw.attr()), "bias_attr": draw.maybe(False, 0.2)}
    layout = "NHWC" if layout[-1] == "C" else "NCHW"
    return draw.call(name, x, groups, epsilon=epsilon, act=draw.act(), data_layout=layout, **attrs)
