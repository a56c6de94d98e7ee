"""`paddle.optimizer.lr`: learning rates that follow a schedule.

`step` is called by the program's author, once a batch or once an epoch; each run of a program then feeds the
learning rate of the moment. The formulas are those of the papers that the classes name, or of 2.6.2.
"""

from __future__ import annotations

from fluidlite.paddle.optimizer.cycles import (
    CyclicLR,
    LinearWarmup,
    MultiplicativeDecay,
    OneCycleLR,
    ReduceOnPlateau,
)
from fluidlite.paddle.optimizer.schedules import (
    CosineAnnealingDecay,
    CosineAnnealingWarmRestarts,
    ExponentialDecay,
    InverseTimeDecay,
    LambdaDecay,
    LinearLR,
    LRScheduler,
    MultiStepDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    StepDecay,
)

__all__ = [
    "CosineAnnealingDecay",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LRScheduler",
    "LambdaDecay",
    "LinearLR",
    "LinearWarmup",
    "MultiStepDecay",
    "MultiplicativeDecay",
    "NaturalExpDecay",
    "NoamDecay",
    "OneCycleLR",
    "PiecewiseDecay",
    "PolynomialDecay",
    "ReduceOnPlateau",
    "StepDecay",
]
