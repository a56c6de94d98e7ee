"""Optimizers that ask a function for the loss again and again within a step: refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.optimizer",
    "asks a function of imperative mode for the loss several times a step; scipy.optimize.minimize can ask "
    "an executor for loss and gradients",
    classes="LBFGS",
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
