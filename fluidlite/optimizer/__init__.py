"""Optimizers under fluid 1.8's names: `fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)`."""
from __future__ import annotations

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
from fluidlite.optimizer.base import Optimizer
from fluidlite.optimizer.descent import DpsgdOptimizer, LarsMomentumOptimizer, MomentumOptimizer, SGDOptimizer

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

__all__ = ["SGD", "Adadelta", "AdadeltaOptimizer", "Adagrad", "AdagradOptimizer", "Adam", "AdamOptimizer", "Adamax", "AdamaxOptimizer",
           "DecayedAdagrad", "DecayedAdagradOptimizer", "Dpsgd", "DpsgdOptimizer", "Ftrl", "FtrlOptimizer", "Lamb", "LambOptimizer",
           "LarsMomentum", "LarsMomentumOptimizer", "Momentum", "MomentumOptimizer", "Optimizer", "RMSProp", "RMSPropOptimizer",
           "SGDOptimizer"]
