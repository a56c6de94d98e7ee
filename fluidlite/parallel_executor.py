"""`fluid.parallel_executor`: the older home of data-parallel runs."""
from __future__ import annotations

from fluidlite.compiler import BuildStrategy, ExecutionStrategy, ParallelExecutor

__all__ = ["BuildStrategy", "ExecutionStrategy", "ParallelExecutor"]
