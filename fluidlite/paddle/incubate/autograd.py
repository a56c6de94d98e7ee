"""`paddle.incubate.autograd`: derivatives of functions of Variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.derivatives import Matrix, as_sequence, call, derivative, forward_product
from fluidlite.paddle.tensor.creation import ones_like

__all__ = ["Hessian", "Jacobian", "disable_prim", "enable_prim", "forward_grad", "grad", "jvp", "vjp"]


def enable_prim() -> None:
    """Do nothing: ops are not taken apart for the derivatives of this module."""


def disable_prim() -> None:
    """Do nothing, as `enable_prim`."""


def _like(given: Any, found: list[Variable]) -> Any:
    """One Variable for one, else a list."""
    return found if isinstance(given, Sequence) else found[0]


def vjp(func: Callable[..., Any], xs: Any, v: Any = None) -> tuple[Any, Any]:
    """(func(xs), v times its matrix of derivatives); v is 1 without being given."""
    ys = func(*as_sequence(xs))
    return ys, _like(xs, derivative(as_sequence(ys), as_sequence(xs), v))


def jvp(func: Callable[..., Any], xs: Any, v: Any = None) -> tuple[Any, Any]:
    """(func(xs), its matrix of derivatives times v); v is 1 without being given."""
    ys = func(*as_sequence(xs))
    return ys, forward_grad(ys, xs, v)


def forward_grad(outputs: Any, inputs: Any, grad_inputs: Any = None) -> Any:
    """Changes of `outputs` when `inputs` go into the directions `grad_inputs`, by default ones."""
    xs = as_sequence(inputs)
    directions = [ones_like(x) for x in xs] if grad_inputs is None else as_sequence(grad_inputs)
    ys = as_sequence(outputs)
    return _like(outputs, forward_product(ys, xs, directions))


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None) -> Any:
    """The gradients of `outputs`, weighted by `grad_outputs`, by `inputs`."""
    return _like(inputs, derivative(as_sequence(outputs), as_sequence(inputs), grad_outputs))


class Jacobian(Matrix):
    """The derivatives of func(*xs) by xs: [M, N], or [batch, M, N] with `is_batched`; see
    `paddle.autograd.jacobian`.
    """

    def __init__(self, func: Callable[..., Any], xs: Any, is_batched: bool = False) -> None:
        super().__init__(call(func, xs), as_sequence(xs), is_batched)


class Hessian(Matrix):
    """The second derivatives of one number func(*xs), or one for each entry of a batch, by xs."""

    def __init__(self, func: Callable[..., Any], xs: Any, is_batched: bool = False) -> None:
        ys = call(func, xs)
        if len(ys) != 1 or any(size != 1 for size in ys[0].shape[int(is_batched) :]):
            raise RuntimeError(
                "The function given to Hessian should return as single element Tensor or batched single "
                "element Tensor."
            )
        slopes = derivative(ys, as_sequence(xs))
        super().__init__(slopes, as_sequence(xs), is_batched)
