"""`paddle.distributed.entry_attr`: which rows of a sparse table are kept."""

from __future__ import annotations

from fluidlite.paddle.distributed.datasets import CountFilterEntry, ProbabilityEntry, ShowClickEntry

__all__ = ["CountFilterEntry", "ProbabilityEntry", "ShowClickEntry"]
