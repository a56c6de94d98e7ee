"""`paddle.distributed.fleet.dataset`: data sets of lines of files."""

from __future__ import annotations

from fluidlite.paddle.distributed.datasets import InMemoryDataset, QueueDataset

__all__ = ["InMemoryDataset", "QueueDataset"]
