"""Differentiation of kernels: arrays that record what is computed with them; the derivative of each step."""

from fluidlite.base.differentiation import places, products, rules
from fluidlite.base.differentiation.array_module import TracedModule
from fluidlite.base.differentiation.arrays import GradientTape, NoDerivative, Traced, plain, pull

__all__ = [
    "NoDerivative",
    "GradientTape",
    "Traced",
    "TracedModule",
    "places",
    "plain",
    "products",
    "pull",
    "rules",
]
