"""`fluid.proto.profiler.profiler_pb2`: a recorded timeline, as Paddle's profiler writes it to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.profiler import timeline_messages

__all__ = ["Event", "MemCopy", "MemEvent", "Profile"]

_messages = timeline_messages()
Event, MemCopy, MemEvent, Profile = (_messages[name] for name in ("Event", "MemCopy", "MemEvent", "Profile"))

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
