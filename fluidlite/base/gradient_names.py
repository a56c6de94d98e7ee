"""Names of gradients, and of the op types that make them."""

from __future__ import annotations

__all__ = ["AGAIN", "GRAD_SUFFIX", "OUTPUTS_GRAD", "grad_name", "variable_of"]

GRAD_SUFFIX = "@GRAD"
AGAIN = "grad/"
"""Stands in front of the name of a gradient as often as a program got gradients before."""
OUTPUTS_GRAD = "_outputs_grad"
"""The suffix of the op type for gradients of outputs that the declared gradient op does not take."""


def grad_name(name: str) -> str:
    """The name of the gradient of a variable or slot."""
    return name + GRAD_SUFFIX


def variable_of(gradient: str) -> str:
    """The variable that `gradient` belongs to by its name, also where a later pass put "grad/" in front of
    it; the name itself where it is not one of a gradient.
    """
    forward, suffix, _ = gradient.partition(GRAD_SUFFIX)
    while suffix and forward.startswith(AGAIN):
        forward = forward.removeprefix(AGAIN)
    return forward
