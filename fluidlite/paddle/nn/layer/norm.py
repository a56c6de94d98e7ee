"""Normalisations as layers, with scales, shifts and running figures of their own."""

from __future__ import annotations

import math
from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import check_groups
from fluidlite.paddle import defaults
from fluidlite.paddle.attributes import ParamAttr
from fluidlite.paddle.build import append
from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.initializer import Constant, Normal
from fluidlite.paddle.nn.layer.base import Function, Layer
from fluidlite.paddle.tensor.shapes import as_list

__all__ = [
    "BatchNorm",
    "BatchNorm1D",
    "BatchNorm2D",
    "BatchNorm3D",
    "GroupNorm",
    "InstanceNorm1D",
    "InstanceNorm2D",
    "InstanceNorm3D",
    "LayerNorm",
    "LocalResponseNorm",
    "SpectralNorm",
    "SyncBatchNorm",
]


def _figures(dtype: VarType) -> VarType:
    """The dtype of parameters, means and variances of batches: halves are too coarse."""
    return VarType.FP32 if dtype in (VarType.FP16, VarType.BF16) else dtype


class _BatchNorm(Layer):
    """Scale, shift, and the running mean and variance, which no optimizer moves."""

    # number of dimensions of the input -> allowed; None for any
    ranks: tuple[int, ...] | None = None

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
        mean_name: str | None = None,
        variance_name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self._kind = _figures(defaults.dtype_or_default(dtype))
        self._num_features, self._momentum, self._epsilon = num_features, momentum, epsilon
        self._data_format, self._use_global_stats, self._name = data_format, use_global_stats, name
        shape = [num_features]
        self.weight = self.create_parameter(shape, weight_attr, self._kind, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(shape, bias_attr, self._kind, is_bias=True)
        # a layer's name is that of its running figures alone; parameters are called by their attributes
        self._mean = self._running(f"{name}_mean" if name else mean_name, 0.0)
        self._variance = self._running(f"{name}_variance" if name else variance_name, 1.0)

    def _running(self, name: str | None, value: float) -> Any:
        attr = ParamAttr(name, Constant(value), trainable=False)
        made = self.create_parameter([self._num_features], attr, self._kind)
        made.stop_gradient = True
        return made

    def forward(self, input: Any) -> Any:
        """`input` normalised: by the batch while the layer trains, by the running figures after `eval()`."""
        if self.ranks is not None and len(input.shape) not in self.ranks:
            wanted = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {wanted} input (got {len(input.shape)}D input)")
        return F.batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            self._momentum,
            self._epsilon,
            self._data_format,
            self._use_global_stats,
            self._name,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}"


def _batch_norm_of(dims: int, layout: str, ranks: tuple[int, ...]) -> type[_BatchNorm]:
    """The class of batch normalisations over `dims` dimensions, which differ in the layout they assume."""

    class Norm(_BatchNorm):
        def __init__(
            self,
            num_features: int,
            momentum: float = 0.9,
            epsilon: float = 1e-5,
            weight_attr: Any = None,
            bias_attr: Any = None,
            data_format: str = layout,
            use_global_stats: bool | None = None,
            name: str | None = None,
        ) -> None:
            attrs = (weight_attr, bias_attr)
            super().__init__(num_features, momentum, epsilon, *attrs, data_format, use_global_stats, name)

    Norm.ranks = ranks
    Norm.__name__ = Norm.__qualname__ = f"BatchNorm{dims}D"
    Norm.__doc__ = "Normalisation by the batch's mean and variance of a channel (Ioffe and Szegedy, 2015)."
    return Norm


BatchNorm1D = _batch_norm_of(1, "NCL", (2, 3))
BatchNorm2D = _batch_norm_of(2, "NCHW", (4,))
BatchNorm3D = _batch_norm_of(3, "NCDHW", (5,))


class BatchNorm(_BatchNorm):
    """Batch normalisation of any input with two or more dimensions, and an activation named by `act`."""

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: DTypeLike = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        # without it, the running figures are those of inference alone
        frozen = True if use_global_stats else None
        super().__init__(
            num_channels,
            momentum,
            epsilon,
            param_attr,
            bias_attr,
            data_layout,
            frozen,
            mean_name=moving_mean_name,
            variance_name=moving_variance_name,
            dtype=dtype,
        )
        self._act, self._by_batch = act, not is_test or trainable_statistics
        self._name = self._full_name  # what the layer computes is called by it, and counts no further layer

    def forward(self, input: Any) -> Any:
        """`input` normalised, then activated: by the batch's figures unless the layer was made for tests,
        whatever `eval()` says; `trainable_statistics` takes the batch's figures always.
        """
        training = self.training
        self.training = self._by_batch
        out = super().forward(input)
        self.training = training
        if not self._act:
            return out
        return LayerHelper("batch_norm", act=self._act, name=self._name).append_activation(out)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes."""

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, None, name)

    def forward(self, x: Any) -> Any:
        """`x` normalised."""
        last = self._data_format.endswith("C") and len(self._data_format) > 2
        slots = {"X": x, "Scale": self.weight, "Bias": self.bias}
        slots |= {"Mean": self._mean, "Variance": self._variance}
        attrs = {
            "momentum": self._momentum,
            "epsilon": self._epsilon,
            "is_test": not self.training,
            "data_layout": "NHWC" if last else "NCHW",
            "use_global_stats": False,
            "trainable_statistics": False,
        }
        return append(
            "sync_batch_norm",
            {slot: [var] for slot, var in slots.items()},
            attrs,
            dtype=x.dtype,
            slot="Y",
            extra={"SavedMean": "float32", "SavedVariance": "float32"},
            written={"MeanOut": self._mean, "VarianceOut": self._variance},
        )

    @classmethod
    def convert_sync_batchnorm(cls, layer: Layer) -> Layer:
        """`layer` with a SyncBatchNorm, of the same parameters, in the place of each BatchNorm in it."""
        if isinstance(layer, _BatchNorm) and not isinstance(layer, SyncBatchNorm):
            new = cls.__new__(cls)
            new.__dict__.update(layer.__dict__)
            return new
        for name, inside in list(layer.named_children()):
            layer._sub_layers[name] = cls.convert_sync_batchnorm(inside)
        return layer


class LayerNorm(Layer):
    """Normalisation over the last dimensions, those of `normalized_shape` (Ba et al., 2016)."""

    def __init__(
        self,
        normalized_shape: Any,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        shape = [int(size) for size in as_list(normalized_shape)]
        self._normalized_shape, self._epsilon, self._name = shape, epsilon, name
        size = [math.prod(shape)]
        self.weight = self.create_parameter(size, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        """`input` normalised."""
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon, self._name)

    def extra_repr(self) -> str:
        """The settings."""
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(Layer):
    """Normalisation over the pixels of `num_groups` groups of channels (Wu and He, 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError(f"unsupported data layout: {data_format}")
        self._num_groups, self._num_channels, self._epsilon = num_groups, num_channels, epsilon
        self._data_format = data_format
        self.weight = self._for_each(num_channels, weight_attr, 1.0)
        self.bias = self._for_each(num_channels, bias_attr, 0.0)

    def _for_each(self, channels: int, attr: Any, value: float) -> Any:
        """A parameter that begins as `value`; where `attr` is False one that nothing moves."""
        initial = Constant(value)
        if attr is not False:
            return self.create_parameter([channels], attr, is_bias=value == 0, default_initializer=initial)
        made = self.create_parameter([channels], ParamAttr(None, initial), is_bias=value == 0)
        made.stop_gradient = True
        return made

    def forward(self, input: Any) -> Any:
        """`input` normalised."""
        check_groups(input.shape[1 if self._data_format == "NCHW" else -1], self._num_groups)
        return append(
            "group_norm",
            {"X": [input], "Scale": [self.weight], "Bias": [self.bias]},
            {"epsilon": self._epsilon, "groups": self._num_groups, "data_layout": self._data_format},
            dtype=input.dtype,
            slot="Y",
            name=self._full_name,
            extra={"Mean": input.dtype, "Variance": input.dtype},
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"num_groups={self._num_groups}, num_channels={self._num_channels}, epsilon={self._epsilon}"


class _InstanceNorm(Layer):
    """Normalisation over the pixels of each channel of each sample (Ulyanov et al., 2016)."""

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        if (weight_attr is False) != (bias_attr is False):
            raise ValueError("weight_attr and bias_attr must be set to False together")
        self._num_features, self._epsilon, self._name = num_features, epsilon, name
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        """`input` normalised."""
        return F.instance_norm(input, weight=self.scale, bias=self.bias, eps=self._epsilon, name=self._name)

    def extra_repr(self) -> str:
        """The settings."""
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


def _instance_norm_of(dims: int, layout: str) -> type[_InstanceNorm]:
    """The class of instance normalisations over `dims` dimensions, which differ in the layout they assume."""

    class Norm(_InstanceNorm):
        def __init__(
            self,
            num_features: int,
            epsilon: float = 1e-5,
            momentum: float = 0.9,
            weight_attr: Any = None,
            bias_attr: Any = None,
            data_format: str = layout,
            name: str | None = None,
        ) -> None:
            super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format, name)

    Norm.__name__ = Norm.__qualname__ = f"InstanceNorm{dims}D"
    Norm.__doc__ = _InstanceNorm.__doc__
    return Norm


InstanceNorm1D = _instance_norm_of(1, "NCL")
InstanceNorm2D = _instance_norm_of(2, "NCHW")
InstanceNorm3D = _instance_norm_of(3, "NCDHW")


class LocalResponseNorm(Function, takes="input"):
    """x / (k + alpha * mean of x**2 over `size` channels around)**beta (Krizhevsky et al., 2012)."""

    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            F.local_response_norm, name, size=size, alpha=alpha, beta=beta, k=k, data_format=data_format
        )


class SpectralNorm(Layer):
    """Weights divided by an estimate of their largest singular value, from `power_iters` steps of the power
    iteration (Miyato et al., 2018).
    """

    def __init__(
        self,
        weight_shape: Any,
        dim: int = 0,
        power_iters: int = 1,
        eps: float = 1e-12,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        self._attrs = {"dim": dim, "power_iters": power_iters, "eps": eps}
        rows = weight_shape[dim]
        self.weight_u = self._vector(rows)
        self.weight_v = self._vector(math.prod(weight_shape) // rows)

    def _vector(self, size: int) -> Any:
        made = self.create_parameter([size], dtype=self._dtype, default_initializer=Normal(0.0, 1.0))
        made.stop_gradient = True
        return made

    def forward(self, x: Any) -> Any:
        """The normalised weights."""
        inputs = {"Weight": [x], "U": [self.weight_u], "V": [self.weight_v]}
        return append("spectral_norm", inputs, self._attrs, dtype=x.dtype, name=self._full_name)
