"""Pools, and images of another size."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws
from ops.draws.forms import FLOATS, each, image, layout, listed_for, padding


@draws("fluid.layers.pool2d", "fluid.layers.pool3d")
def _(draw: Draw, name: str) -> Any:
    count = 2 if name.endswith("2d") else 3
    last, data_format = layout(draw, count)
    size = each(draw, count, 1, 3)
    kind = draw.choice("max", "avg")
    sizes = [draw.int(one, one + 4) for one in listed_for(size, count)]
    pads = padding(draw, count, last, most=1)
    if 1 in listed_for(size, count) and not isinstance(pads, str):
        pads = OMIT  # 1.8.5 wants a pool larger than its padding
    x = image(draw, draw.int(1, 3), sizes, last, distinct=kind == "max")
    everything = draw.flag(0.15)
    return draw.call(
        name,
        x,
        pool_size=OMIT if everything else size,
        pool_type=kind,
        pool_stride=draw.maybe(each(draw, count, 1, 3)),
        pool_padding=pads,
        global_pooling=True if everything else draw.maybe(False, 0.2),
        use_cudnn=draw.maybe(draw.flag(), 0.2),
        ceil_mode=draw.maybe(draw.flag(), 0.5),
        exclusive=draw.maybe(draw.flag(), 0.5),
        data_format=data_format,
    )


@draws("fluid.layers.adaptive_pool2d", "fluid.layers.adaptive_pool3d")
def _(draw: Draw, name: str) -> Any:
    count = 2 if name.endswith("2d") else 3
    kind = draw.choice("max", "avg")
    sizes = [draw.int(3, 6) for _ in range(count)]
    x = image(draw, draw.int(1, 3), sizes, False, distinct=kind == "max")
    index = draw.maybe(draw.flag(0.3)) if kind == "max" else OMIT
    return draw.call(name, x, each(draw, count, 1, 4), pool_type=kind, require_index=index)


WAYS = {"resize_bilinear": "BILINEAR", "resize_nearest": "NEAREST", "resize_trilinear": "TRILINEAR"}


@draws(*(f"fluid.layers.{name}" for name in (*WAYS, "image_resize", "interpolate")))
def _(draw: Draw, name: str) -> Any:
    last_name = name.rpartition(".")[2]
    way = WAYS.get(last_name) or draw.choice("BILINEAR", "NEAREST", "TRILINEAR")
    count = 3 if way == "TRILINEAR" else 2
    last, data_format = layout(draw, count)
    if count == 3 and last_name != "resize_trilinear" and data_format is OMIT:
        data_format = "NCDHW"
    sizes = [draw.int(1, 5) for _ in range(count)]
    x = image(draw, draw.int(1, 3), sizes, last, known=draw.flag(0.7))
    kwargs: dict[str, Any] = {"align_corners": draw.maybe(draw.flag())}
    if way != "NEAREST":
        kwargs["align_mode"] = draw.maybe(draw.int(0, 1))
    if last_name not in WAYS:
        kwargs["resample"] = way
    kind = draw.rng.random()
    if kind < 0.35:
        kwargs["scale"] = draw.choice(1.0, 2.0, 1.5, 3.0, 2)
    elif kind < 0.45:
        kwargs["scale"] = draw.variable(draw.choice(1.0, 2.0, 1.5), "float32")
    else:
        out = [draw.int(1, 7) for _ in range(count)]
        kwargs["out_shape"] = draw.variable(out, "int32") if draw.flag(0.2) else out
        if isinstance(kwargs["out_shape"], list) and draw.flag(0.15):
            at = draw.int(0, count - 1)
            kwargs["out_shape"] = [
                draw.variable(one, "int32") if k == at else one for k, one in enumerate(out)
            ]
        if draw.flag(0.15):
            kwargs["actual_shape"] = draw.variable([draw.int(1, 7) for _ in range(count)], "int32")
    return draw.call(name, x, data_format=data_format, **kwargs)


@draws("fluid.layers.image_resize_short")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor((draw.size(), draw.int(1, 3), draw.int(2, 6), draw.int(2, 6)), FLOATS, known=True)
    return draw.call(name, x, draw.int(1, 6), resample=draw.choice(OMIT, "BILINEAR", "NEAREST"))


@draws("fluid.layers.affine_grid")
def _(draw: Draw, name: str) -> Any:
    batch = draw.int(1, 3)
    shape = [batch, draw.int(1, 3), draw.int(2, 4), draw.int(2, 4)]
    size = draw.variable(shape, "int32") if draw.flag(0.3) else shape
    return draw.call(name, draw.tensor((batch, 2, 3), FLOATS), size)


@draws("fluid.layers.grid_sampler")
def _(draw: Draw, name: str) -> Any:
    batch, dtype = draw.int(1, 2), draw.choice(*FLOATS)
    x = draw.tensor((batch, draw.int(1, 3), draw.int(2, 5), draw.int(2, 5)), dtype)
    assert x.shape is not None
    return draw.call(name, x, draw.tensor((batch, *x.shape[2:], 2), dtype, -1.2, 1.2))
