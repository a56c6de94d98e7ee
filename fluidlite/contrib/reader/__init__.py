"""Readers for processes that share their data."""

from __future__ import annotations

from fluidlite.contrib.reader.distributed_reader import distributed_batch_reader

__all__ = ["distributed_batch_reader"]
