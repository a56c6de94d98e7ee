"""`fluid.incubate.fleet.base.mode`: the kinds of fleet."""

from __future__ import annotations

__all__ = ["Mode"]


class Mode:
    """Ways in which the processes of a job work together."""

    TRANSPILER = 1  # servers keep the parameters, by DistributeTranspiler
    PSLIB = 2  # servers of Baidu's own library, which was never published
    COLLECTIVE = 3  # trainers reduce their gradients
