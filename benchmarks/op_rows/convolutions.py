"""Convolutions in two and three dimensions, and back."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, layers, normal, sized


def conv(name: str, size: int, **options: Any) -> Any:
    """`groups` may be "all": one filter a channel."""

    def row(filters: int, *shape: int) -> Row:
        chosen = {**options, "groups": shape[1]} if options.get("groups") == "all" else options
        return layers(
            lambda fluid, x: getattr(fluid.layers, name)(x, filters, filter_size=size, **chosen),
            x=normal(*shape),
        )

    return row


def bent(filters: int, *shape: int) -> Row:
    """Without weights for the places."""
    batch, _, high, wide = shape
    return layers(
        lambda fluid, x, offset: fluid.layers.deformable_conv(
            x, offset, None, filters, 3, padding=1, im2col_step=1, modulated=False
        ),
        x=normal(*shape),
        offset=normal(batch, 18, high, wide),
    )


def deformable(filters: int, *shape: int) -> Row:
    batch, _, high, wide = shape
    return layers(
        lambda fluid, x, offset, mask: fluid.layers.deformable_conv(
            x, offset, mask, filters, 3, padding=1, im2col_step=1
        ),
        x=normal(*shape),
        offset=normal(batch, 18, high, wide),
        mask=normal(batch, 9, high, wide),
    )


PLANES = (4, 1, 3, 8, 8), (16, 8, 16, 14, 14), (64, 16, 64, 28, 28)
GROUPS = (4, 1, 4, 8, 8), (32, 8, 32, 14, 14), (64, 16, 64, 28, 28)
VOLUMES = (4, 1, 3, 4, 6, 6), (8, 2, 8, 8, 14, 14), (32, 4, 16, 8, 28, 28)
ROWS = {
    "conv2d 3x3": sized(conv("conv2d", 3, padding=1), *PLANES),
    "conv2d 1x1": sized(conv("conv2d", 1), *PLANES),
    "conv2d 5x5 stride 2": sized(conv("conv2d", 5, padding=2, stride=2), *PLANES),
    "conv2d dilation 2": sized(conv("conv2d", 3, padding=2, dilation=2), *PLANES),
    "conv2d 4 groups": sized(conv("conv2d", 3, padding=1, groups=4), *GROUPS),
    "depthwise_conv2d": sized(conv("conv2d", 3, padding=1, groups="all", use_cudnn=False), *GROUPS),
    "conv3d": sized(conv("conv3d", 3, padding=1), *VOLUMES),
    "conv2d_transpose": sized(conv("conv2d_transpose", 4, padding=1, stride=2), *PLANES),
    "depthwise_conv2d_transpose": sized(
        conv("conv2d_transpose", 4, padding=1, stride=2, groups="all", use_cudnn=False), *GROUPS
    ),
    "conv3d_transpose": sized(conv("conv3d_transpose", 3), *VOLUMES),
    "deformable_conv": sized(deformable, (4, 1, 3, 8, 8), (16, 2, 16, 14, 14), (32, 4, 32, 28, 28)),
    "deformable_conv_v1": sized(bent, (4, 1, 3, 8, 8), (16, 2, 16, 14, 14), (32, 4, 32, 28, 28)),
    "row_conv": sized(
        lambda *shape: layers(lambda fluid, x: fluid.layers.row_conv(x, 3), x=normal(*shape)),
        (2, 4, 8),
        (16, 32, 64),
        (32, 128, 256),
    ),
}
