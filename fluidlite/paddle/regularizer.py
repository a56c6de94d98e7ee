"""`paddle.regularizer`: penalties on parameters, for an optimizer's `weight_decay` or a `ParamAttr`."""

from __future__ import annotations

from fluidlite import regularizer as fluid

__all__ = ["L1Decay", "L2Decay"]


class L1Decay(fluid.L1DecayRegularizer):
    """`coeff` times the absolute values of the parameters."""

    def __init__(self, coeff: float = 0.0) -> None:
        super().__init__(coeff)


class L2Decay(fluid.L2DecayRegularizer):
    """Half of `coeff` times the squares of the parameters."""

    def __init__(self, coeff: float = 0.0) -> None:
        super().__init__(coeff)
