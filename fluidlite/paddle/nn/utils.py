"""`paddle.nn.utils`: layers whose weights are a length times a direction."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, named
from fluidlite.paddle.nn.functional.norm import normalize
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.tensor.creation import assign
from fluidlite.paddle.tensor.manipulation import reshape, squeeze, transpose
from fluidlite.paddle.tensor.math import sqrt, square
from fluidlite.paddle.tensor.reduction import sum

_REFUSED = Refusals(
    "paddle.nn.utils",
    "changes the values of parameters or of their gradients in imperative mode; in programs optimizers take "
    "grad_clip, and paddle.nn.SpectralNorm normalises a weight",
    functions=("clip_grad_norm_ clip_grad_value_ parameters_to_vector spectral_norm vector_to_parameters"),
)
__all__ = ["remove_weight_norm", "weight_norm", *_REFUSED.names]

_EPSILON = 1e-12


def weight_norm(layer: Layer, name: str = "weight", dim: int | None = 0) -> Layer:
    """The layer, whose parameter `name` becomes <name>_g * <name>_v / |<name>_v|: the norm is taken over all
    dimensions but `dim`, or over all of them where it is None or -1 (Salimans and Kingma, 2016).

    As in 2.6.2, each run of the program that is at hand sets both parts from the weight that the layer has
    had, so that this is what is trained. AssertionError for a `dim` that the weight lacks, RuntimeError where
    the weight is normalised already.
    """
    if _hook_of(layer, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    weight = layer._parameters[name]
    rank = len(weight.shape)
    if dim is not None and not -rank <= dim < rank:
        raise AssertionError(f"dim must be from {-rank} to {rank - 1} for {weight.name!r}, but it is {dim}")
    hook = _WeightNorm(name, None if dim in (None, -1) else dim % rank)
    hook.divide(layer, weight)
    layer.register_forward_pre_hook(hook)
    return layer


def remove_weight_norm(layer: Layer, name: str = "weight") -> Layer:
    """The layer with a parameter `name` again, which is what `weight_norm` computed; ValueError where it is
    not normalised.
    """
    found = _hook_of(layer, name)
    if found is None:
        raise ValueError(f"weight_norm of '{name}' not found in {layer}")
    key, hook = found
    whole = hook.product(layer)
    for held in (layer.__dict__, layer._parameters):
        for gone in (name, f"{name}_g", f"{name}_v"):
            held.pop(gone, None)
    weight = layer.create_parameter(whole.shape, dtype=whole.dtype)
    layer.add_parameter(name, weight)
    assign(whole, weight)
    del layer._pre_hooks[key]
    return layer


def _hook_of(layer: Layer, name: str) -> tuple[int, _WeightNorm] | None:
    """The hook that computes the weight `name`, with its key; None where there is none."""
    hooks = layer._pre_hooks.items()
    return next(
        ((key, hook) for key, hook in hooks if isinstance(hook, _WeightNorm) and hook.name == name), None
    )


class _WeightNorm:
    """Computes a layer's weight from a length and a direction before each call; `dim` is None for one length
    in all.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.product(layer))

    def divide(self, layer: Layer, weight: Variable) -> None:
        """Let the layer have two parameters in the place of `weight`."""
        del layer._parameters[self.name]
        length = self._length(weight)
        values = {"_v": weight, "_g": length}
        for suffix, value in values.items():
            made = layer.create_parameter(value.shape, dtype=weight.dtype)
            layer.add_parameter(self.name + suffix, made)
        for suffix, value in values.items():
            assign(value, layer._parameters[self.name + suffix])
        self(layer, ())

    def product(self, layer: Layer) -> Variable:
        """The length times the direction."""
        v, g = (layer._parameters[self.name + suffix] for suffix in ("_v", "_g"))
        if self.dim is None:
            direction = v / (sqrt(sum(square(v))) + _EPSILON)
        else:
            rows, axis = self._rows(v)
            shape = self._swapped(v.shape)
            direction = reshape(normalize(rows, axis=axis, epsilon=_EPSILON), shape)
            direction = self._transposed(direction)
        attrs = {"axis": -1 if self.dim is None else self.dim}
        out = named("elementwise_mul", direction, v.dtype)
        return append("elementwise_mul", {"X": [direction], "Y": [g]}, attrs, dtype=v.dtype, out=out)

    def _length(self, weight: Variable) -> Variable:
        if self.dim is None:
            return sqrt(sum(square(weight)) + _EPSILON)
        rows, axis = self._rows(weight)
        attrs = {"axis": axis, "epsilon": _EPSILON}
        extra = {"Norm": weight.dtype}
        unit = append("norm", {"X": [rows]}, attrs, dtype=weight.dtype, layer="l2_normalize", extra=extra)
        length = unit.block.var(unit.block.ops[-1].output("Norm")[0])
        return squeeze(length, axis=[axis])

    def _rows(self, x: Variable) -> tuple[Variable, int]:
        """x as a matrix, and the axis of it that the norm is taken over."""
        assert self.dim is not None
        if self.dim and self.dim == len(x.shape) - 1:
            return reshape(x, [-1, x.shape[-1]]), 0
        return reshape(self._transposed(x), [x.shape[self.dim], -1]), 1

    def _transposed(self, x: Variable) -> Variable:
        """x with `dim` in front, where it is neither first nor last."""
        order = self._swapped(list(range(len(x.shape))))
        return x if order == sorted(order) else transpose(x, order)

    def _swapped(self, items: Any) -> list[Any]:
        found = list(items)
        if self.dim is not None and self.dim < len(found) - 1:
            found[0], found[self.dim] = found[self.dim], found[0]
        return found


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
