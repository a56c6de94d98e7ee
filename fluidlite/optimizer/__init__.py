"""Optimizers under fluid 1.8's names: `fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import guarded
from fluidlite.optimizer.adaptive import (
    AdadeltaOptimizer,
    AdagradOptimizer,
    AdamaxOptimizer,
    AdamOptimizer,
    DecayedAdagradOptimizer,
    FtrlOptimizer,
    LambOptimizer,
    RMSPropOptimizer,
)
from fluidlite.optimizer.averaging import ExponentialMovingAverage, ModelAverage
from fluidlite.optimizer.base import Optimizer as Optimizer
from fluidlite.optimizer.descent import DpsgdOptimizer, LarsMomentumOptimizer, MomentumOptimizer, SGDOptimizer
from fluidlite.optimizer.dgc import DGCMomentumOptimizer
from fluidlite.optimizer.gradient_merge import GradientMergeOptimizer as GradientMergeOptimizer
from fluidlite.optimizer.lookahead import LookaheadOptimizer
from fluidlite.optimizer.pipeline import PipelineOptimizer
from fluidlite.optimizer.recompute import RecomputeOptimizer

SGD = SGDOptimizer
Momentum = MomentumOptimizer
LarsMomentum = LarsMomentumOptimizer
Dpsgd = DpsgdOptimizer
Adagrad = AdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
Ftrl = FtrlOptimizer
Lamb = LambOptimizer

__all__ = [
    "SGD",
    "Adadelta",
    "AdadeltaOptimizer",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "Adamax",
    "AdamaxOptimizer",
    "DGCMomentumOptimizer",
    "DecayedAdagrad",
    "DecayedAdagradOptimizer",
    "Dpsgd",
    "DpsgdOptimizer",
    "ExponentialMovingAverage",
    "Ftrl",
    "FtrlOptimizer",
    "LambOptimizer",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "LookaheadOptimizer",
    "ModelAverage",
    "Momentum",
    "MomentumOptimizer",
    "PipelineOptimizer",
    "RMSPropOptimizer",
    "RecomputeOptimizer",
    "SGDOptimizer",
]

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
