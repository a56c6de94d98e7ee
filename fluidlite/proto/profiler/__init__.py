"""`fluid.proto.profiler`: the messages of a recorded timeline."""

from __future__ import annotations
