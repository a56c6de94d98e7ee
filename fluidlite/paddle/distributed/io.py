"""`paddle.distributed.io`: the persistable variables of a job's programs as files."""

from __future__ import annotations

from fluidlite.io import is_persistable, load_persistables, save_persistables

__all__ = ["is_persistable", "load_persistables", "save_persistables"]
