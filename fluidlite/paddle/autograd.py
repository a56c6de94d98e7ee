"""`paddle.autograd`: matrices of derivatives, as Variables of a program; what works in imperative mode is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.base.refusals import Refusals
from fluidlite.ir.variable import Variable
from fluidlite.paddle.derivatives import Matrix, as_sequence, derivative
from fluidlite.paddle.static.nn.py_layer import static_pylayer

_REFUSED = Refusals(
    "paddle.autograd",
    "works in imperative mode, and FluidLite runs static graphs: paddle.static.gradients gives gradients",
    classes="saved_tensors_hooks",
    functions="backward",
)
__all__ = ["PyLayer", "PyLayerContext", "hessian", "jacobian", *_REFUSED.names]


def jacobian(ys: Any, xs: Any, batch_axis: int | None = None) -> Any:
    """The derivatives of ys [M] by xs [N] as a matrix [M, N], or those of [batch, M] by [batch, N] as
    [batch, M, N] with `batch_axis=0`; a tuple for several ys or xs, of tuples for both. Its rows are computed
    when they are asked for: `jacobian(y, x)[:]`.
    """
    batched = _is_batched(batch_axis)
    rows = [[Matrix([y], [x], batched, shaped=True) for x in as_sequence(xs)] for y in as_sequence(ys)]
    found = [tuple(row) if isinstance(xs, Sequence) else row[0] for row in rows]
    return tuple(found) if isinstance(ys, Sequence) else found[0]


def hessian(ys: Variable, xs: Any, batch_axis: int | None = None) -> Any:
    """The second derivatives of one number ys by xs, or of one number for each entry of a batch; a tuple of
    tuples for several xs.
    """
    batched = _is_batched(batch_axis)
    if any(size != 1 for size in ys.shape[int(batched) :]):
        raise ValueError(f"hessian: ys must be one number{' of each entry' * batched}, not {[*ys.shape]}")
    slopes = derivative([ys], as_sequence(xs))
    return (
        jacobian(tuple(slopes), xs, batch_axis)
        if isinstance(xs, Sequence)
        else jacobian(slopes[0], xs, batch_axis)
    )


class PyLayerContext:
    """Variables that the forward function of a `PyLayer` leaves for its backward function."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep Variables, which `saved_tensor` gives back."""
        self._saved = tensors

    def saved_tensor(self) -> tuple[Any, ...]:
        """The Variables that `save_for_backward` kept."""
        return self._saved

    def mark_not_inplace(self, *args: Any) -> None:
        """Do nothing: results are variables of their own."""

    def mark_non_differentiable(self, *args: Any) -> None:
        """Let no gradient come through these results."""
        for var in args:
            var.stop_gradient = True

    def set_materialize_grads(self, value: bool) -> None:
        """Do nothing: a gradient that does not exist is never asked for."""


class PyLayer:
    """A function with a gradient of its author's own: a subclass has static methods `forward(ctx, ...)` and
    `backward(ctx, ...)`, which gets the gradients of the results, and gives one for each Variable that
    `forward` takes. `apply` calls it.
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """The results; AbstractMethodError unless a subclass defines it."""
        abstract("You must implement the forward function for PyLayer.")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """The gradients; AbstractMethodError unless a subclass defines it."""
        abstract("You must implement the backward function for PyLayer.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """The results of `forward`, whose gradients are what `backward` gives."""
        context = PyLayerContext()
        places = [place for place, one in enumerate(args) if isinstance(one, Variable)]
        names = [name for name, one in kwargs.items() if isinstance(one, Variable)]
        inputs = [*(args[place] for place in places), *(kwargs[name] for name in names)]

        def forward(*variables: Any) -> Any:
            given, named = list(args), dict(kwargs)
            for place, var in zip(places, variables):
                given[place] = var
            named |= zip(names, variables[len(places) :])
            return cls.forward(context, *given, **named)

        def backward(*gradients: Any) -> Any:
            return cls.backward(context, *gradients)

        needs = any(not var.stop_gradient for var in inputs)
        return static_pylayer(forward, inputs, backward if needs else None)


def _is_batched(batch_axis: int | None) -> bool:
    if batch_axis not in (None, 0):
        raise ValueError(f"batch_axis is None or 0, but {batch_axis!r} was given")
    return batch_axis == 0


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
