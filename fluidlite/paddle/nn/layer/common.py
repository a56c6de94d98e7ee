"""Layers that many models have: products, tables, random zeros, borders, sizes of images."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from fluidlite.data_feeder import convert_dtype
from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.layer.base import Function, Layer
from fluidlite.paddle.tensor.arranging import unflatten
from fluidlite.paddle.tensor.linalg import norm
from fluidlite.paddle.tensor.manipulation import flatten

__all__ = [
    "AlphaDropout",
    "Bilinear",
    "CosineSimilarity",
    "Dropout",
    "Dropout2D",
    "Dropout3D",
    "Embedding",
    "Flatten",
    "Identity",
    "Linear",
    "Pad1D",
    "Pad2D",
    "Pad3D",
    "PairwiseDistance",
    "PixelShuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2D",
    "UpsamplingNearest2D",
    "ChannelShuffle",
    "Fold",
    "PixelUnshuffle",
    "Unflatten",
    "ZeroPad2D",
]


class Identity(Layer):
    """Its input, whatever its arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """`input`."""
        return input


class Linear(Layer):
    """x @ weight + bias, with weights [in_features, out_features]."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.name = in_features, out_features, name
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        """[..., in_features] -> [..., out_features]."""
        return F.linear(input, self.weight, self.bias, self.name)

    def extra_repr(self) -> str:
        """The sizes."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, dtype={convert_dtype(self.weight.dtype)}"


class Bilinear(Layer):
    """x1 @ weight[k] @ x2 + bias[k] for each of `out_features` k."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._name = name
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)

    def forward(self, x1: Any, x2: Any) -> Any:
        """[batch, in1_features] and [batch, in2_features] -> [batch, out_features]."""
        return F.bilinear(x1, x2, self.weight, self.bias, self._name)


class Embedding(Layer):
    """A table of `num_embeddings` rows, of which the input names some; zeros for `padding_idx`. `sparse`
    gives a gradient of those rows alone.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        for what, size in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if size <= 0:
                raise ValueError(f"{what} must be greater than 0, but is {size}")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"padding_idx must be within [-{num_embeddings}, {num_embeddings}), but got {padding_idx}"
            )
        self._size = [num_embeddings, embedding_dim]
        self._padding_idx, self._sparse, self._name = padding_idx, sparse, name
        self.weight = self.create_parameter(self._size, weight_attr)

    def forward(self, x: Any) -> Any:
        """Numbers of rows [...] -> [..., embedding_dim]."""
        return F.embedding(x, self.weight, self._padding_idx, self._sparse, self._name)

    def extra_repr(self) -> str:
        """The sizes."""
        padding = "" if self._padding_idx is None else f", padding_idx={self._padding_idx}"
        return f"{self._size[0]}, {self._size[1]}{padding}, sparse={self._sparse}"


class Flatten(Layer):
    """The dimensions from `start_axis` to `stop_axis` as one."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Any) -> Any:
        """[batch, a, b] -> [batch, a * b]."""
        return flatten(input, self.start_axis, self.stop_axis)


# ---------------------------------------------------------------------- random zeros
class _Dropout(Function):
    """Random zeros while the layer trains."""

    def forward(self, input: Any) -> Any:
        """`input` with zeros; as it is (or scaled) after `eval()`."""
        return self._function(input, **self._settings, training=self.training, name=self._name)


class Dropout(_Dropout):
    """Zeros with the probability `p`, the rest divided by 1 - p (`mode` "upscale_in_train"); `axis` are the
    dimensions in which the zeros differ.
    """

    def __init__(
        self, p: Any = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None
    ) -> None:
        super().__init__(F.dropout, name, p=p, axis=axis, mode=mode)


class Dropout2D(_Dropout):
    """`Dropout` of whole channels of images."""

    def __init__(self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(F.dropout2d, name, p=p, data_format=data_format)


class Dropout3D(_Dropout):
    """`Dropout` of whole channels of volumes."""

    def __init__(self, p: float = 0.5, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(F.dropout3d, name, p=p, data_format=data_format)


class AlphaDropout(_Dropout):
    """`Dropout` that keeps mean and variance of what SELU gives."""

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__(F.alpha_dropout, name, p=p)


# ---------------------------------------------------------------------- borders and sizes
class _Pad(Function):
    """Borders: a number for all sides, or two a dimension from the last to the first."""

    def __init__(
        self, dims: int, padding: Any, mode: str, value: float, data_format: str, name: str | None
    ) -> None:
        sides = [padding] * (2 * dims) if isinstance(padding, Integral) else padding
        super().__init__(F.pad, name, pad=sides, mode=mode, value=value, data_format=data_format)


class Pad1D(_Pad):
    """[batch, channels, length] with borders of `value`, or as `mode` says; see `F.pad`."""

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(1, padding, mode, value, data_format, name)


class Pad2D(_Pad):
    """Images with borders of `value`, or as `mode` says; see `F.pad`."""

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(2, padding, mode, value, data_format, name)


class Pad3D(_Pad):
    """Volumes with borders of `value`, or as `mode` says; see `F.pad`."""

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(3, padding, mode, value, data_format, name)


class Upsample(Function):
    """Images in another size; see `F.interpolate`."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool = False,
        align_mode: int = 0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.interpolate,
            name,
            size=size,
            scale_factor=scale_factor,
            mode=mode.lower(),
            align_corners=align_corners,
            align_mode=align_mode,
            data_format=data_format,
        )


class UpsamplingNearest2D(Upsample):
    """Images in another size, of the nearest pixels."""

    def __init__(
        self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(size, scale_factor, "nearest", False, 0, data_format, name)


class UpsamplingBilinear2D(Upsample):
    """Images in another size, between four pixels; the corners stay where they are."""

    def __init__(
        self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(size, scale_factor, "bilinear", True, 0, data_format, name)


class PixelShuffle(Function):
    """Channels as pixels: [batch, c * r * r, h, w] -> [batch, c, h * r, w * r] (Shi et al., 2016)."""

    def __init__(self, upscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> None:
        if not isinstance(upscale_factor, int):
            raise TypeError("upscale factor must be int type")
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError(f"Data format should be 'NCHW' or 'NHWC'. But received {data_format}")
        super().__init__(F.pixel_shuffle, name, upscale_factor=upscale_factor, data_format=data_format)


class Unfold(Function, takes="input"):
    """The windows of images, [batch, channels * window, number of windows]."""

    def __init__(
        self,
        kernel_sizes: Any,
        dilations: Any = 1,
        paddings: Any = 0,
        strides: Any = 1,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.unfold, name, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, dilations=dilations
        )


# ---------------------------------------------------------------------- distances
class CosineSimilarity(Layer):
    """The cosine of the angle between two tensors along `axis`."""

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """The cosines."""
        return F.cosine_similarity(x1, x2, self._axis, self._eps)


class PairwiseDistance(Layer):
    """The p-norm of x - y + epsilon along the last dimension."""

    def __init__(
        self, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None
    ) -> None:
        super().__init__()
        self.p, self.epsilon, self.keepdim, self._name = p, epsilon, keepdim, name

    def forward(self, x: Any, y: Any) -> Any:
        """[..., size] twice -> [...]."""
        return norm(x - y + self.epsilon, float(self.p), -1, self.keepdim, self._name)


class PixelUnshuffle(Function):
    """Pixels as channels: [batch, c, h * r, w * r] -> [batch, c * r * r, h, w]."""

    def __init__(self, downscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(F.pixel_unshuffle, name, downscale_factor=downscale_factor, data_format=data_format)


class ChannelShuffle(Function):
    """The first channel of each group, then the second of each, and so on."""

    def __init__(self, groups: int, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(F.channel_shuffle, name, groups=groups, data_format=data_format)


class Fold(Function, takes="input"):
    """Windows as images, added up where they lie over each other."""

    def __init__(
        self,
        output_sizes: Any,
        kernel_sizes: Any,
        dilations: Any = 1,
        paddings: Any = 0,
        strides: Any = 1,
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.fold,
            name,
            output_sizes=output_sizes,
            kernel_sizes=kernel_sizes,
            strides=strides,
            paddings=paddings,
            dilations=dilations,
        )


class ZeroPad2D(Function):
    """Images within zeros."""

    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(F.zeropad2d, name, padding=padding, data_format=data_format)


class Unflatten(Function, takes="input"):
    """A dimension as several."""

    def __init__(self, axis: int, shape: Any, name: str | None = None) -> None:
        super().__init__(unflatten, name, axis=axis, shape=shape)
