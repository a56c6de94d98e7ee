"""Convolutions."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws
from ops.draws.forms import each, image, layout, listed_for, padding


def filters_of(draw: Draw) -> tuple[int, int, Any]:
    """Channels, filters and groups."""
    groups = draw.choice(1, 1, 1, 2, 3)
    if draw.flag(0.15):  # one group a channel
        groups = draw.int(2, 3)
        return groups, groups * draw.int(1, 2), groups
    channels, filters = groups * draw.int(1, 3), groups * draw.int(1, 3)
    return channels, filters, draw.choice(OMIT, 1) if groups == 1 else groups


@draws("fluid.layers.conv2d", "fluid.layers.conv3d")
def _(draw: Draw, name: str) -> Any:
    count = 2 if name.endswith("2d") else 3
    channels, filters, groups = filters_of(draw)
    last, data_format = layout(draw, count)
    size, dilation = each(draw, count, 1, 3), draw.choice(OMIT, OMIT, each(draw, count, 1, 2))
    spread = listed_for(1 if dilation is OMIT else dilation, count)
    reach = [step * (one - 1) + 1 for step, one in zip(spread, listed_for(size, count), strict=True)]
    x = image(draw, channels, [draw.int(one, one + 3) for one in reach], last)
    return draw.call(
        name,
        x,
        filters,
        size,
        stride=draw.maybe(each(draw, count, 1, 3)),
        padding=padding(draw, count, last, cuts=True),
        dilation=dilation,
        groups=groups,
        param_attr=draw.attr(0.15),
        bias_attr=draw.choice(OMIT, OMIT, False),
        use_cudnn=draw.maybe(draw.flag(), 0.2),
        act=draw.act(),
        data_format=data_format,
    )


@draws("fluid.layers.conv2d_transpose", "fluid.layers.conv3d_transpose")
def _(draw: Draw, name: str) -> Any:
    count = 2 if "2d" in name else 3
    channels, filters, groups = filters_of(draw)
    last, data_format = layout(draw, count)
    size, dilation = each(draw, count, 1, 3), draw.choice(OMIT, OMIT, each(draw, count, 1, 2))
    stride = draw.maybe(each(draw, count, 1, 3))
    pads = padding(draw, count, last, most=1, cuts=True)
    sizes = [draw.int(2, 4) for _ in range(count)]
    x = image(draw, channels, sizes, last)
    output_size: Any = OMIT
    if pads is OMIT and draw.flag(0.4):
        steps = listed_for(1 if stride is OMIT else stride, count)
        spread = listed_for(1 if dilation is OMIT else dilation, count)
        least = [
            (one - 1) * step + wide * (kernel - 1) + 1
            for one, step, wide, kernel in zip(sizes, steps, spread, listed_for(size, count), strict=True)
        ]
        output_size = [one + draw.int(0, step - 1) for one, step in zip(least, steps, strict=True)]
    return draw.call(
        name,
        x,
        filters,
        output_size=output_size,
        filter_size=size,
        padding=pads,
        stride=stride,
        dilation=dilation,
        groups=groups,
        param_attr=draw.attr(0.15),
        bias_attr=draw.choice(OMIT, OMIT, False),
        use_cudnn=draw.maybe(draw.flag(), 0.2),
        act=draw.act(),
        data_format=data_format,
    )


@draws("fluid.layers.deformable_conv")
def _(draw: Draw, name: str) -> Any:
    channels, filters, groups = filters_of(draw)
    size, stride, pad, dilation = draw.int(1, 3), draw.int(1, 2), draw.int(0, 1), draw.int(1, 2)
    deformable = draw.choice(1, channels) if groups in (OMIT, 1) else 1
    reach = dilation * (size - 1) + 1
    batch, height, width = draw.int(1, 2), draw.int(reach, reach + 3), draw.int(reach, reach + 3)
    rows, columns = ((one + 2 * pad - reach) // stride + 1 for one in (height, width))
    places = deformable * size * size
    modulated = draw.choice(True, OMIT, False)
    x = draw.tensor((batch, channels, height, width), "float32")
    offset = draw.tensor((batch, 2 * places, rows, columns), "float32")
    mask = draw.tensor((batch, places, rows, columns), "float32", 0, 1)
    return draw.call(
        name,
        x,
        offset,
        None if modulated is False else mask,
        filters,
        size,
        stride=stride,
        padding=pad,
        dilation=dilation,
        groups=groups,
        deformable_groups=deformable,
        param_attr=draw.attr(0.15),
        im2col_step=1,
        bias_attr=draw.choice(OMIT, False),
        modulated=modulated,
    )


@draws("fluid.layers.row_conv")
def _(draw: Draw, name: str) -> Any:
    width = draw.int(1, 4)
    x = (
        draw.sequences((width,), "float32")
        if draw.flag(0.6)
        else draw.tensor((*draw.shape(2), width), "float32")
    )
    return draw.call(name, x, draw.int(0, 3), act=draw.act(), param_attr=draw.attr(0.15))


@draws("fluid.layers.im2sequence")
def _(draw: Draw, name: str) -> Any:
    size = each(draw, 2, 1, 2)
    x = draw.tensor((draw.int(1, 3), draw.int(1, 3), draw.int(3, 5), draw.int(3, 5)), "float32")
    pads = draw.choice(OMIT, 1, [1, 0], [1, 0, 2, 1])
    kwargs: dict[str, Any] = {}
    if draw.flag(0.3):
        assert x.shape is not None
        real = draw.numbers((x.shape[0], 2), "float32", 3, 5).round().astype("float32")
        kwargs = {"input_image_size": draw.feed(real, fixed=True), "out_stride": draw.choice(OMIT, 1, [1, 1])}
        draw.feeds[kwargs["input_image_size"].name]["stop"] = True
    stride = draw.maybe(each(draw, 2, 1, 2))
    return draw.call(name, x, filter_size=size, stride=stride, padding=pads, **kwargs)
