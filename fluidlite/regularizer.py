"""Weight decay: terms that are added to the gradients before the updates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import name_scope
from fluidlite.ir.variable import Variable

__all__ = [
    "L1Decay",
    "L1DecayRegularizer",
    "L2Decay",
    "L2DecayRegularizer",
    "WeightDecayRegularizer",
    "append_regularization_ops",
]

ParamsGrads = list[tuple[Any, Any]]


class WeightDecayRegularizer:
    """A penalty of `regularization_coeff` on the weights; called with a parameter, it writes the ops of
    its gradient.
    """

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        if regularization_coeff is None:
            raise ArgumentError(f"{type(self).__name__}: regularization_coeff must not be None")
        self._regularization_coeff = regularization_coeff

    def __call__(self, param: Variable, grad: Variable, block: Block) -> Variable:
        """Append the ops that compute the term to add to `grad`; gives the variable that holds it."""
        raise TypeError(f"{type(self).__name__} does not define its term for {grad.name!r}")

    def __str__(self) -> str:
        kind = type(self).__name__.removesuffix("Regularizer")
        return f"{kind}, regularization_coeff={self._regularization_coeff:f}"


def _term(param: Variable, block: Block) -> Variable:
    return block.create_var(dtype=param.dtype, shape=param.shape, lod_level=param.lod_level)


class L2DecayRegularizer(WeightDecayRegularizer):
    """Adds coefficient * param: the gradient of coefficient / 2 * sum(param ** 2)."""

    def __call__(self, param: Variable, grad: Variable, block: Block) -> Variable:
        """Append one `scale`."""
        term = _term(param, block)
        block.append_op(
            type="scale",
            inputs={"X": param},
            outputs={"Out": term},
            attrs={"scale": self._regularization_coeff},
        )
        return term


class L1DecayRegularizer(WeightDecayRegularizer):
    """Adds coefficient * sign(param): the gradient of coefficient * sum(|param|)."""

    def __call__(self, param: Variable, grad: Variable, block: Block) -> Variable:
        """Append `sign` and `scale`."""
        term = _term(param, block)
        block.append_op(type="sign", inputs={"X": param}, outputs={"Out": term})
        block.append_op(
            type="scale",
            inputs={"X": term},
            outputs={"Out": term},
            attrs={"scale": self._regularization_coeff},
        )
        return term


def append_regularization_ops(
    parameters_and_grads: Iterable[tuple[Any, Any]], regularization: Any = None
) -> ParamsGrads:
    """Add to each gradient the term of its parameter's own regulariser, or of `regularization`; gives the
    new pairs.
    """
    pairs: ParamsGrads = []
    with name_scope("regularization"):
        for param, grad in parameters_and_grads:
            # a gradient that stays inside a loop of which only lengths are used
            if grad is None:
                pairs.append((param, None))
                continue
            with param.block.program._optimized_guard([param, grad]):
                pairs.append((param, _regularized(param, grad, regularization)))
    return pairs


def _regularized(param: Any, grad: Any, regularization: Any) -> Any:
    regularizer = param.regularizer if param.regularizer is not None else regularization
    if regularizer is None:
        return grad
    term = regularizer(param, grad, grad.block)
    out = grad
    if grad.type == VarType.SELECTED_ROWS:  # every row decays, so the sum is dense
        out = grad.block.create_var(
            name=grad.name + "@NEWGRAD@",
            dtype=param.dtype,
            shape=param.shape,
            lod_level=param.lod_level,
            type=VarType.LOD_TENSOR,
        )
    grad.block.append_op(type="sum", inputs={"X": [grad, term]}, outputs={"Out": out})
    return out


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
