"""Convolutions, pools and what else moves a window over images, of the 2.x door."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws
from ops.draws.common_2x import FLOATS, either, sizes, word

LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _dims(name: str) -> int:
    """How many dimensions a name such as conv2d or Conv2DTranspose speaks of."""
    return next(int(letter) for letter in word(name) if letter in "123")


def _per_side(draw: Draw, count: int, low: int, high: int) -> Any:
    """A number for all dimensions, or one for each."""
    some = [draw.int(low, high) for _ in range(count)]
    return draw.choice(some[0], some, tuple(some)) if draw.flag() else some[0]


def _padding(draw: Draw, count: int, layout: str, words: bool = True) -> Any:
    """Paddings in all their forms."""
    pads = [draw.int(0, 2) for _ in range(2 * count)]
    pairs = [pads[2 * at : 2 * at + 2] for at in range(count)]
    forms: list[Any] = [pads[0], pads[0], pads[:count], tuple(pads[:count])]
    if count > 1:
        forms.append(pads)
        nothing = [0, 0]
        forms.append([nothing, nothing, *pairs] if layout[1] == "C" else [nothing, *pairs, nothing])
    if words:
        forms += ["SAME", "VALID", "same"]
    return draw.choice(*forms)


def _image(
    draw: Draw, count: int, channels: int, layout: str, kind: str, low: int = 3, high: int = 6
) -> Value:
    places = [draw.int(low, high) for _ in range(count)]
    batch = draw.size(high=2)
    shape = (batch, *places, channels) if layout[-1] == "C" else (batch, channels, *places)
    return draw.tensor(shape, kind, known=draw.flag())


def _conv(draw: Draw, count: int, transposed: bool) -> tuple[dict[str, Any], str, list[int]]:
    """Attributes of a convolution; its layout; its channels in and out."""
    layout = draw.choice(*LAYOUTS[count]) if draw.flag(0.4) else LAYOUTS[count][0]
    groups = draw.choice(1, 1, 2)
    inside, outside = groups * draw.int(1, 2), groups * draw.int(1, 2)
    given = {
        "stride": draw.maybe(_per_side(draw, count, 1, 2)),
        "padding": draw.maybe(_padding(draw, count, layout)),
        "dilation": draw.maybe(_per_side(draw, count, 1, 2), 0.3),
        "groups": groups if groups > 1 else draw.maybe(1),
        "data_format": layout if layout[-1] == "C" else draw.maybe(layout),
    }
    if transposed and given["stride"] == 2:
        given["output_padding"] = draw.maybe(draw.choice(0, 1), 0.3)
    return given, layout, [inside, outside]


def _sizes_out(draw: Draw, x: Value, kernel: list[int], given: dict[str, Any], layout: str) -> Any:
    """A size that a transposed convolution may give, in place of `output_padding`; or `OMIT`."""
    if not draw.flag(0.25) or not isinstance(given["padding"], (int, type(OMIT))):
        return OMIT
    given["output_padding"] = OMIT
    places = (x.shape or ())[1:-1] if layout[-1] == "C" else (x.shape or ())[2:]

    def each(key: str, usual: int) -> list[int]:
        found = usual if given[key] is OMIT else given[key]
        return [found] * len(places) if isinstance(found, int) else list(found)

    found = [
        (size - 1) * step - 2 * pad + apart * (reach - 1) + 1 + draw.int(0, step - 1)
        for size, step, pad, apart, reach in zip(
            places, each("stride", 1), each("padding", 0), each("dilation", 1), kernel, strict=True
        )
    ]
    return found[0] if len(set(found)) == 1 and draw.flag() else found


CONVS = [f"conv{count}d{end}" for count in (1, 2, 3) for end in ("", "_transpose")]


@draws(*(f"paddle.nn.functional.{name}" for name in CONVS))
def _(draw: Draw, name: str) -> Any:
    count, kind = _dims(name), draw.choice(*FLOATS)
    given, layout, (inside, outside) = _conv(draw, count, "transpose" in name)
    groups = given["groups"] if given["groups"] is not OMIT else 1
    x = _image(draw, count, inside, layout, kind)
    kernel = [draw.int(1, 3) for _ in range(count)]
    shape = (inside, outside // groups) if "transpose" in name else (outside, inside // groups)
    weight = draw.tensor((*shape, *kernel), kind, known=True)
    bias = draw.tensor((outside,), kind, known=True) if draw.flag() else OMIT
    if "transpose" in name:
        given["output_size"] = _sizes_out(draw, x, kernel, given, layout)
    return draw.call(name, x, weight, bias=bias, **given)


LAYERS = [f"Conv{count}D{end}" for count in (1, 2, 3) for end in ("", "Transpose")]


@draws(*(f"paddle.nn.{name}" for name in LAYERS))
def _(draw: Draw, name: str) -> Any:
    count, transposed = _dims(name), "Transpose" in name
    given, layout, (inside, outside) = _conv(draw, count, transposed)
    if not transposed and draw.flag(0.2) and not isinstance(given["padding"], (str, type(OMIT))):
        given["padding_mode"] = draw.choice("zeros", "reflect", "replicate", "circular")
        given["padding"] = draw.int(0, 1)
    given["weight_attr"] = draw.attr()
    given["bias_attr"] = draw.maybe(False, 0.3)
    reach, x = _per_side(draw, count, 1, 3), _image(draw, count, inside, layout, "float32")
    size = OMIT
    if transposed:
        size = _sizes_out(draw, x, [reach] * count if isinstance(reach, int) else list(reach), given, layout)
    layer = draw.call(name, inside, outside, reach, **given)
    return draw.call(layer.name, x, output_size=size)


# ---------------------------------------------------------------------- pools
def _pool(draw: Draw, name: str, count: int) -> tuple[dict[str, Any], str]:
    layout = LAYOUTS[count][0]
    if count > 1 and draw.flag(0.3):
        layout = LAYOUTS[count][1]
    given = {
        "kernel_size": _per_side(draw, count, 2, 3),
        "stride": draw.maybe(_per_side(draw, count, 1, 3)),
        "padding": draw.maybe(_padding_of_pool(draw, count, layout)),
        "ceil_mode": draw.maybe(draw.flag()),
    }
    if count > 1:
        given["data_format"] = layout if layout[-1] == "C" else draw.maybe(layout)
    if "max" in name.lower():
        given["return_mask"] = draw.maybe(draw.flag()) if layout[-1] != "C" else OMIT
        if given["return_mask"] is True and isinstance(given["padding"], str):
            given["padding"] = OMIT
    else:
        given["exclusive"] = draw.maybe(draw.flag())
        if count > 1:
            given["divisor_override"] = draw.maybe(draw.choice(2, 5), 0.2)
    return given, layout


def _padding_of_pool(draw: Draw, count: int, layout: str) -> Any:
    """Paddings of at most half a window."""
    pads = [draw.int(0, 1) for _ in range(2 * count)]
    forms: list[Any] = [pads[0], pads[:count], "SAME", "VALID"]
    if count > 1:
        forms.append(pads)
    return draw.choice(*forms)


POOLS = [f"{kind}_pool{count}d" for kind in ("avg", "max") for count in (1, 2, 3)]
POOL_LAYERS = [f"{kind}Pool{count}D" for kind in ("Avg", "Max") for count in (1, 2, 3)]


@draws(*(f"paddle.nn.functional.{name}" for name in POOLS), *(f"paddle.nn.{name}" for name in POOL_LAYERS))
def _(draw: Draw, name: str) -> Any:
    count = _dims(name)
    given, layout = _pool(draw, name, count)
    x = _image(draw, count, draw.size(high=2), layout, draw.choice(*FLOATS))
    return either(draw, name, [x], **given)


@draws(
    *(f"paddle.nn.functional.adaptive_{kind}_pool{count}d" for kind in ("avg", "max") for count in (1, 2, 3)),
    *(f"paddle.nn.Adaptive{kind}Pool{count}D" for kind in ("Avg", "Max") for count in (1, 2, 3)),
)
def _(draw: Draw, name: str) -> Any:
    count = _dims(name)
    given: dict[str, Any] = {"output_size": _per_side(draw, count, 1, 5) if count > 1 else draw.int(1, 5)}
    if count > 1 and draw.flag(0.15):
        given["output_size"] = [draw.choice(None, draw.int(1, 4)) for _ in range(count)]
    elif count == 2 and "avg" in name.lower() and draw.flag(0.15):
        given["output_size"] = sizes(draw, [draw.int(1, 5), draw.int(1, 5)], 1.0)
    layout = LAYOUTS[count][0]
    if "max" in name.lower():
        given["return_mask"] = draw.maybe(draw.flag())
    elif count > 1:
        layout = draw.choice(*LAYOUTS[count]) if draw.flag(0.3) else layout
        given["data_format"] = layout if layout[-1] == "C" else draw.maybe(layout)
    x = _image(draw, count, draw.size(high=2), layout, draw.choice(*FLOATS), low=2)
    return either(draw, name, [x], **given)


@draws(
    *(f"paddle.nn.functional.max_unpool{count}d" for count in (1, 2, 3)),
    *(f"paddle.nn.MaxUnPool{count}D" for count in (1, 2, 3)),
)
def _(draw: Draw, name: str) -> Any:
    count = _dims(name)
    batch, channels = draw.size(high=2), draw.size(high=2)
    places = [2 * draw.int(1, 3) for _ in range(count)]
    x = draw.tensor((batch, channels, *places), draw.choice(*FLOATS), distinct=True, known=True)
    stride, pads = draw.maybe(2), draw.maybe(0, 0.3)
    pooled = draw.call(f"paddle.nn.functional.max_pool{count}d", x, 2, stride=2, return_mask=True)
    shape = draw.maybe(draw.choice(places, tuple(places), [batch, channels, *places]), 0.4)
    more = {"padding": pads, "data_format": draw.maybe(LAYOUTS[count][0], 0.3)}
    return either(draw, name, [pooled[0], pooled[1]], kernel_size=2, stride=stride, output_size=shape, **more)


# ---------------------------------------------------------------------- resizing
def _resized(draw: Draw, name: str, count: int, mode: str) -> dict[str, Any]:
    layout = draw.choice(*{1: ("NCW",), 2: LAYOUTS[2], 3: LAYOUTS[3]}[count])
    given: dict[str, Any] = {"data_format": layout if layout[-1] == "C" else draw.maybe(layout)}
    if count == 1:
        given["data_format"] = "NCW"
    if draw.flag(0.6):
        given["size"] = [draw.int(1, 7) for _ in range(count)]
        if draw.flag(0.15):
            given["size"] = draw.variable(given["size"], "int32")
        elif draw.flag(0.15):
            given["size"] = [draw.variable(one, "int32") for one in given["size"]]
    else:
        some = [draw.choice(0.5, 1.5, 2, 2.0, 3) for _ in range(count)]
        given["scale_factor"] = draw.choice(some[0], some)
    given["mode"] = mode
    if mode not in ("nearest", "area"):
        given["align_corners"] = draw.maybe(draw.flag())
        given["align_mode"] = draw.maybe(draw.choice(0, 1)) if mode.endswith("linear") else OMIT
    return given


MODES = {
    1: ("linear", "nearest", "area"),
    2: ("nearest", "bilinear", "bicubic", "area"),
    3: ("nearest", "trilinear", "area"),
}


@draws("paddle.nn.functional.interpolate", "paddle.nn.functional.upsample", "paddle.nn.Upsample")
def _(draw: Draw, name: str) -> Any:
    count = draw.choice(1, 2, 2, 2, 3)
    mode = draw.choice(*MODES[count])
    if count == 1 and mode == "nearest":
        mode = "linear"
    given = _resized(draw, name, count, mode)
    layout = "NHWC" if given["data_format"] not in (OMIT, "NCW", "NCHW", "NCDHW") else "NCHW"
    x = _image(draw, count, draw.size(high=2), layout, draw.choice(*FLOATS), low=2, high=5)
    if count != 2 and given["data_format"] is OMIT:
        given["data_format"] = "NCDHW"
    return either(draw, name, [x], **given)


@draws("paddle.nn.UpsamplingNearest2D", "paddle.nn.UpsamplingBilinear2D")
def _(draw: Draw, name: str) -> Any:
    given = draw.choice({"size": [draw.int(1, 6), draw.int(1, 6)]}, {"scale_factor": draw.choice(2, 1.5, 3)})
    x = _image(draw, 2, draw.size(high=2), "NCHW", draw.choice(*FLOATS), low=2, high=5)
    return either(draw, name, [x], **given)


@draws(
    "paddle.nn.functional.pixel_shuffle",
    "paddle.nn.functional.pixel_unshuffle",
    "paddle.nn.functional.channel_shuffle",
    "paddle.nn.PixelShuffle",
    "paddle.nn.PixelUnshuffle",
    "paddle.nn.ChannelShuffle",
)
def _(draw: Draw, name: str) -> Any:
    factor, layout = draw.int(1, 3), draw.choice("NCHW", "NHWC")
    what = word(name).lower().replace("_", "")
    channels = {"pixelshuffle": factor**2, "pixelunshuffle": 1, "channelshuffle": factor}[what] * draw.int(
        1, 2
    )
    places = [draw.int(1, 3) * (factor if what == "pixelunshuffle" else 1) for _ in range(2)]
    batch = draw.size(high=2)
    shape = (batch, channels, *places) if layout == "NCHW" else (batch, *places, channels)
    key = {
        "pixelshuffle": "upscale_factor",
        "pixelunshuffle": "downscale_factor",
        "channelshuffle": "groups",
    }[what]
    given = {key: factor, "data_format": draw.maybe(layout) if layout == "NCHW" else layout}
    return either(draw, name, [draw.tensor(shape, FLOATS)], **given)


@draws("paddle.nn.functional.unfold", "paddle.nn.Unfold")
def _(draw: Draw, name: str) -> Any:
    given = {
        "kernel_sizes": _per_side(draw, 2, 1, 3),
        "strides": draw.maybe(_per_side(draw, 2, 1, 2)),
        "paddings": draw.maybe(
            draw.choice(draw.int(0, 2), [draw.int(0, 2) for _ in range(draw.choice(2, 4))])
        ),
        "dilations": draw.maybe(_per_side(draw, 2, 1, 2), 0.3),
    }
    x = _image(draw, 2, draw.size(high=2), "NCHW", draw.choice(*FLOATS), low=5)
    return either(draw, name, [x], **given)


@draws("paddle.nn.functional.fold", "paddle.nn.Fold")
def _(draw: Draw, name: str) -> Any:
    kernel, stride, pad, dilation = draw.int(1, 3), draw.int(1, 2), draw.int(0, 1), draw.choice(1, 1, 2)
    places = [draw.int(5, 7) for _ in range(2)]
    counts = [(size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size in places]
    channels = draw.int(1, 2) * kernel * kernel
    x = draw.tensor((draw.size(high=2), channels, int(np.prod(counts))), FLOATS)
    given = {"output_sizes": places, "kernel_sizes": draw.choice(kernel, [kernel, kernel])}
    given |= {"strides": stride, "paddings": pad, "dilations": dilation}
    return either(draw, name, [x], **given)


@draws("paddle.nn.functional.affine_grid")
def _(draw: Draw, name: str) -> Any:
    count, batch = draw.int(2, 3), draw.size(low=1)
    theta = draw.tensor((batch, count, count + 1), FLOATS)
    shape = [batch, draw.int(1, 2), *(draw.int(1, 4) for _ in range(count))]
    given = draw.variable(shape, "int32") if draw.flag(0.15) else shape
    return draw.call(name, theta, given, align_corners=draw.maybe(draw.flag()))


@draws("paddle.nn.functional.grid_sample")
def _(draw: Draw, name: str) -> Any:
    count, kind = draw.choice(2, 2, 3), draw.choice(*FLOATS)
    x = _image(draw, count, draw.size(high=2), "NCHW", kind, low=1, high=4)
    batch = (x.shape or (1,))[0]
    grid = draw.tensor((batch, *(draw.int(1, 3) for _ in range(count)), count), kind, -1.4, 1.4)
    return draw.call(
        name,
        x,
        grid,
        mode=draw.maybe(draw.choice("bilinear", "nearest")),
        padding_mode=draw.maybe(draw.choice("zeros", "border", "reflection")),
        align_corners=draw.maybe(draw.flag()),
    )


@draws("paddle.nn.functional.temporal_shift")
def _(draw: Draw, name: str) -> Any:
    parts, layout = draw.int(1, 3), draw.choice("NCHW", "NHWC")
    places = [draw.int(1, 3), draw.int(1, 3)]
    channels, batch = draw.int(1, 5), parts * draw.int(1, 2)
    shape = (batch, channels, *places) if layout == "NCHW" else (batch, *places, channels)
    x = draw.tensor(shape, FLOATS, known=True)
    return draw.call(name, x, parts, draw.maybe(draw.choice(0.25, 0.4, 0.1)), data_format=layout)
