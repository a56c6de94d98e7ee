"""`paddle.distributed.fleet.utils`: file systems, and recomputation of a part of a network."""

from __future__ import annotations

from fluidlite.paddle.distributed.fleet.utils.fs import HDFSClient, LocalFS
from fluidlite.paddle.distributed.fleet.utils.recomputation import recompute

__all__ = ["HDFSClient", "LocalFS", "recompute"]
