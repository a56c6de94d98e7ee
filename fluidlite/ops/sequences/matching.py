"""Ops of text matching: pairs of sequences as images of differing sizes, and convolutions over such images.

An image of a level of detail is a column: all its numbers in the order [channels, height, width], one image
after another.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.sequence_rows import lengths_lod, offsets_of_level, owners, padded_rows, spans

match_matrix_tensor = Op(
    "match_matrix_tensor",
    "X. Y. W. -> Out Tmp",
    attrs={"dim_t": 1},
    lod=None,
    makes_lod=True,
    alike=("X", "Y", "W"),
)


@match_matrix_tensor.shape
def _(X: Spec, Y: Spec, W: Spec, dim_t: int) -> tuple[Spec, Spec]:
    are_rows = len(X.shape) == 2 and len(Y.shape) == 2
    if not are_rows or not fits(W.shape, (X.shape[1], dim_t, Y.shape[1])):
        raise ShapeError(
            f"op 'match_matrix_tensor': W has shape {list(W.shape)}, but rows X{list(X.shape)} and "
            f"Y{list(Y.shape)} and {dim_t} channels need [columns of X, channels, columns of Y]"
        )
    return Spec((-1, 1), X.dtype, 1), X.with_shape((-1, 1))


class _Pairs:
    """Sequences of X beside those of Y, padded to the longest: [pairs, longest] rows, and which are there."""

    def __init__(self, xp: Any, X_lod: Lod, Y_lod: Lod) -> None:
        x = offsets_of_level("match_matrix_tensor", "X", X_lod)
        y = offsets_of_level("match_matrix_tensor", "Y", Y_lod)
        if len(x) != len(y):
            raise ShapeError(
                f"op 'match_matrix_tensor': X has {len(x) - 1} sequences but Y has {len(y) - 1}, "
                "wanted equal numbers"
            )
        self.sizes = np.diff(x) * np.diff(y)
        x_rows, x_there = padded_rows(x, int(np.diff(x).max(initial=0)))
        y_rows, y_there = padded_rows(y, int(np.diff(y).max(initial=0)))
        self.x_rows = xp.asarray(x_rows)
        self.y_rows = xp.asarray(y_rows)
        self.x_there = xp.asarray(x_there)
        self.y_there = xp.asarray(y_there)
        self.there = self.x_there[:, None, :, None] & self.y_there[:, None, None, :]

    def mask(self, xp: Any, channels: int) -> Any:
        """[pairs, channels, longest X, longest Y]: which numbers belong to an image."""
        shape = (self.there.shape[0], channels, *self.there.shape[2:])
        return xp.broadcast_to(self.there, shape)


@match_matrix_tensor.kernel
def _(xp: Any, X: Array, Y: Array, W: Array, X_lod: Lod, Y_lod: Lod, dim_t: int) -> tuple[WithLod, Array]:
    pairs = _Pairs(xp, X_lod, Y_lod)
    product = (X @ W.reshape(X.shape[1], -1)).reshape(len(X), dim_t, -1)
    left = product[pairs.x_rows].transpose(0, 2, 1, 3)
    whole = left @ Y[pairs.y_rows].transpose(0, 2, 1)[:, None]
    out = whole[pairs.mask(xp, dim_t)].reshape(-1, 1)
    return WithLod(out, lengths_lod(pairs.sizes * dim_t)), product.reshape(-1, 1)


@match_matrix_tensor.grad("X Y W", makes_lod=True)
def _(
    xp: Any, X: Array, Y: Array, W: Array, Tmp: Array, dOut: Array, X_lod: Lod, Y_lod: Lod, dim_t: int
) -> tuple[WithLod, WithLod, Array]:
    pairs = _Pairs(xp, X_lod, Y_lod)
    mask = pairs.mask(xp, dim_t)
    d = xp.zeros(mask.shape, dOut.dtype)
    d[mask] = dOut.ravel()
    left = Tmp.reshape(len(X), dim_t, -1)[pairs.x_rows].transpose(0, 2, 1, 3)
    d_left = (d @ Y[pairs.y_rows][:, None]).transpose(0, 2, 1, 3)
    d_right = (d.transpose(0, 1, 3, 2) @ left).sum(1)
    # each row is in one sequence, so that the rows that are there come in their order
    d_product = d_left[pairs.x_there].reshape(len(X), -1)
    dX = d_product @ W.reshape(X.shape[1], -1).T
    return WithLod(dX, X_lod), WithLod(d_right[pairs.y_there], Y_lod), (X.T @ d_product).reshape(W.shape)


# ---------------------------------------------------------------------- images of differing sizes
var_conv_2d = Op(
    "var_conv_2d",
    "X. ROW. COLUMN. W. -> Out Col",
    attrs={"InputChannel": 1, "OutputChannel": 1, "StrideH": 1, "StrideW": 1, "KernelH": 1, "KernelW": 1},
    lod=None,
    blas_threads=True,
    makes_lod=True,
    alike=("X", "ROW", "COLUMN", "W"),
)


@var_conv_2d.shape
def _(
    X: Spec, W: Spec, InputChannel: int, OutputChannel: int, KernelH: int, KernelW: int
) -> tuple[Spec, Spec]:
    wanted = (OutputChannel, InputChannel * KernelH * KernelW)
    if len(X.shape) != 2 or W.shape != wanted:
        raise ShapeError(
            f"op 'var_conv_2d': X has shape {list(X.shape)}, wanted a column; W has {list(W.shape)}, wanted "
            f"{list(wanted)}"
        )
    return Spec((-1, 1), X.dtype, 0), Spec((-1, 1), X.dtype, 0)  # as declared by PaddlePaddle


class _Images:
    """Positions in X that the windows of all images look at, and those that results go to.

    `source` is [windows, channels x kernel], one behind the end of X for what lies outside of the image; a
    window is one number of an output image, image by image, row by row.
    """

    def __init__(
        self, rows: Lod, columns: Lod, channels: int, kernel: tuple[int, int], stride: tuple[int, int]
    ) -> None:
        high = np.diff(offsets_of_level("var_conv_2d", "ROW", rows))
        wide = np.diff(offsets_of_level("var_conv_2d", "COLUMN", columns))
        if len(high) != len(wide):
            raise ShapeError(
                f"op 'var_conv_2d': ROW has {len(high)} sequences but COLUMN has {len(wide)}, "
                "wanted equal numbers"
            )
        self.sizes = high * wide * channels
        out_high, out_wide = (
            (size + step - 1) // step for size, step in zip((high, wide), stride, strict=True)
        )
        self.windows = out_high * out_wide
        image = owners(self.windows)
        place = spans(np.zeros_like(self.windows), self.windows)
        centre_y = place // out_wide[image] * stride[0]
        centre_x = place % out_wide[image] * stride[1]
        # even kernels reach further up and left, as PaddlePaddle's
        y = (centre_y[:, None] + np.arange(kernel[0]) - kernel[0] // 2)[:, :, None]
        x = (centre_x[:, None] + np.arange(kernel[1]) - kernel[1] // 2)[:, None, :]
        tall = high[image][:, None, None]
        broad = wide[image][:, None, None]
        start = (np.cumsum(self.sizes) - self.sizes)[image][:, None, None]
        inside = ((y >= 0) & (y < tall) & (x >= 0) & (x < broad)).reshape(len(image), 1, -1)
        first = (start + y * broad + x).reshape(len(image), 1, -1)
        channel = np.arange(channels)[:, None] * (high * wide)[image][:, None, None]
        source = np.where(inside, first + channel, self.sizes.sum())
        self.source = source.reshape(len(image), channels * kernel[0] * kernel[1])
        self._orders: dict[int, Array] = {}

    def unfolded(self, xp: Any, X: Array) -> Array:
        """[windows, channels x kernel] numbers of X."""
        padded = xp.concatenate([X.ravel(), xp.zeros(1, X.dtype)])
        return padded.take(xp.asarray(self.source))

    def order(self, per_window: int) -> Array:
        """Positions, in [windows, per_window] numbers, in the order in which images keep them: all windows of
        an image for the first of its numbers, then for the second.
        """
        if per_window not in self._orders:
            repeated = self.windows.repeat(per_window)
            first = (np.cumsum(self.windows) - self.windows).repeat(per_window)
            number = np.tile(np.arange(per_window), len(self.windows))
            self._orders[per_window] = spans(first, repeated) * per_window + number.repeat(repeated)
        return self._orders[per_window]


@functools.lru_cache(maxsize=4)  # the gradient asks for what the op had; making it takes as long as the rest
def _images(ROW_lod: Lod, COLUMN_lod: Lod, sizes: tuple[int, int, int, int, int]) -> _Images:
    channels, high, wide, down, right = sizes
    return _Images(ROW_lod, COLUMN_lod, channels, (high, wide), (down, right))


@var_conv_2d.kernel
def _(
    xp: Any,
    X: Array,
    W: Array,
    ROW_lod: Lod,
    COLUMN_lod: Lod,
    InputChannel: int,
    OutputChannel: int,
    KernelH: int,
    KernelW: int,
    StrideH: int,
    StrideW: int,
) -> tuple[WithLod, WithLod]:
    images = _images(ROW_lod, COLUMN_lod, (InputChannel, KernelH, KernelW, StrideH, StrideW))
    if images.sizes.sum() != len(X):
        raise ShapeError(
            f"op 'var_conv_2d': X has {len(X)} numbers, but images of the heights and widths of ROW and "
            f"COLUMN with {InputChannel} channels have {images.sizes.sum()}"
        )
    unfolded = images.unfolded(xp, X)
    out = (unfolded @ W.T).ravel().take(xp.asarray(images.order(OutputChannel)))
    kept = unfolded.ravel().take(xp.asarray(images.order(W.shape[1])))
    return (
        WithLod(out.reshape(-1, 1), lengths_lod(images.windows * OutputChannel)),
        WithLod(kept.reshape(-1, 1), lengths_lod(images.windows * W.shape[1])),
    )


@var_conv_2d.grad("X W", blas_threads=True, makes_lod=True)
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    ROW: Array,
    COLUMN: Array,
    W: Array,
    Out: Array,
    Col: Array,
    dOut: Array,
    ROW_lod: Lod,
    COLUMN_lod: Lod,
    InputChannel: int,
    OutputChannel: int,
    KernelH: int,
    KernelW: int,
    StrideH: int,
    StrideW: int,
) -> tuple[WithLod, Array]:
    images = _images(ROW_lod, COLUMN_lod, (InputChannel, KernelH, KernelW, StrideH, StrideW))
    count = len(images.source)
    d = xp.empty(dOut.size, dOut.dtype)
    d[xp.asarray(images.order(OutputChannel))] = dOut.ravel()
    d = d.reshape(count, -1)
    # what Col holds in another order: reading X again takes half as long as putting it back into this one
    unfolded = images.unfolded(xp, X)
    # one number more, for what windows see outside of their image
    sums = xp.bincount(xp.asarray(images.source.ravel()), (d @ W).ravel(), len(X) + 1)
    return WithLod(sums[: len(X)].astype(X.dtype).reshape(X.shape), X_lod), d.T @ unfolded
