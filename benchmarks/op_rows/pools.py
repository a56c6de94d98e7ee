"""Pools, and what moves pieces of images."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_rows.made import Row, below, layers, normal, sized, uniform


def image(build: Any, grad: bool = True) -> Any:
    return lambda *shape: layers(build, grad=grad, x=normal(*shape))


def of(name: str, *args: Any, **options: Any) -> Any:
    return image(lambda fluid, x: getattr(fluid.layers, name)(x, *args, **options))


def resize(name: str, **options: Any) -> Any:
    def row(*shape: int) -> Row:
        size = [dim * 3 // 2 for dim in shape[2:]]
        return layers(
            lambda fluid, x: getattr(fluid.layers, name)(x, out_shape=size, **options), x=normal(*shape)
        )

    return row


def unpooled(*shape: int) -> Row:
    """Largest elements back at the places where a pool of 2x2 has found them."""
    high, wide = shape[2:]
    corners = 2 * np.arange(high)[:, None] * (2 * wide) + 2 * np.arange(wide)
    places = np.broadcast_to(corners, shape) + below(2, *shape)
    return {
        "op": "unpool",
        "inputs": {"X": normal(*shape), "Indices": places.astype("int32")},
        "outputs": ["Out"],
        "attrs": {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0], "unpooling_type": "max"},
        "grad": ["X"],
    }


PLANES = (2, 4, 8, 8), (8, 16, 28, 28), (16, 64, 56, 56)
VOLUMES = (1, 4, 4, 8, 8), (4, 8, 8, 14, 14), (8, 16, 8, 28, 28)
ROWS = {
    "pool2d max 2x2": sized(of("pool2d", 2, "max", 2), *PLANES),
    "pool2d max 3x3 stride 2": sized(of("pool2d", 3, "max", 2, 1), *PLANES),
    "pool2d avg 2x2": sized(of("pool2d", 2, "avg", 2), *PLANES),
    "pool2d avg 3x3 stride 1": sized(of("pool2d", 3, "avg", 1, 1), *PLANES),
    "pool2d global": sized(of("pool2d", pool_type="avg", global_pooling=True), *PLANES),
    "pool3d max": sized(of("pool3d", 2, "max", 2), *VOLUMES),
    "pool3d avg": sized(of("pool3d", 2, "avg", 2), *VOLUMES),
    "adaptive_pool2d avg": sized(of("adaptive_pool2d", 3, "avg"), *PLANES),
    "adaptive_pool2d max": sized(of("adaptive_pool2d", 3, "max"), *PLANES),
    "max_pool2d_with_index": sized(
        image(lambda fluid, x: fluid.layers.adaptive_pool2d(x, 4, "max", require_index=True)), *PLANES
    ),
    "unpool": sized(unpooled, *PLANES),
    "resize_bilinear": sized(resize("resize_bilinear"), *PLANES),
    "resize_nearest": sized(resize("resize_nearest"), *PLANES),
    "resize bicubic": sized(resize("interpolate", resample="BICUBIC"), *PLANES),
    "resize_trilinear": sized(resize("resize_trilinear"), *VOLUMES),
    "pixel_shuffle": sized(of("pixel_shuffle", 2), *PLANES),
    "shuffle_channel": sized(of("shuffle_channel", 2), *PLANES),
    "space_to_depth": sized(of("space_to_depth", 2), *PLANES),
    "temporal_shift": sized(of("temporal_shift", 2), *PLANES),
    "unfold": sized(of("unfold", 3), *PLANES),
    "im2sequence": sized(of("im2sequence", 3, 1), *PLANES),
    "pad2d constant": sized(of("pad2d", [1, 1, 2, 2]), *PLANES),
    "pad2d reflect": sized(of("pad2d", [1, 1, 2, 2], "reflect"), *PLANES),
    "pad2d edge": sized(of("pad2d", [1, 1, 2, 2], "edge"), *PLANES),
    "affine_grid": sized(
        lambda batch, size: layers(
            lambda fluid, theta: fluid.layers.affine_grid(theta, [batch, 3, size, size]),
            theta=normal(batch, 2, 3),
        ),
        (2, 8),
        (8, 28),
        (16, 112),
    ),
    "grid_sampler": sized(
        lambda *shape: layers(
            lambda fluid, x, grid: fluid.layers.grid_sampler(x, grid),
            x=normal(*shape),
            grid=uniform(shape[0], shape[2], shape[3], 2) * 1.8 - 1,
        ),
        *PLANES,
    ),
    "random_crop": sized(
        lambda *shape: layers(
            lambda fluid, x: fluid.layers.random_crop(x, [shape[1], 6, 6], seed=3),
            grad=False,
            x=normal(*shape),
        ),
        *PLANES,
    ),
}
