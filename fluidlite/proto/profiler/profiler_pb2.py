"""`fluid.proto.profiler.profiler_pb2`: a recorded timeline, as Paddle's profiler writes it to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.base.messages import declare_messages

__all__ = ["Event", "MemCopy", "MemEvent", "Profile"]

_messages = declare_messages(
    "paddle.platform.proto",
    {
        "MemCopy": "1 bytes UINT64 ?",
        "Event": "8 type Event.EventType ?, 1 name STRING ?, 2 start_ns UINT64 ?, 3 end_ns UINT64 ?, "
        "5 device_id INT64 ?, 6 sub_device_id INT64 ?, 7 memcopy MemCopy ?, 9 detail_info STRING ?",
        "MemEvent": "1 start_ns UINT64 ?, 2 end_ns UINT64 ?, 3 bytes UINT64 ?, 4 place MemEvent.Place ?, "
        "5 thread_id UINT64 ?, 6 device_id UINT32 ?, 7 alloc_in STRING ?, 8 free_in STRING ?",
        "Profile": "1 events Event *, 2 start_ns UINT64 ?, 3 end_ns UINT64 ?, 4 mem_events MemEvent *",
    },
    {"Event.EventType": "CPU GPUKernel", "MemEvent.Place": "CUDAPlace CPUPlace CUDAPinnedPlace"},
)
Event, MemCopy, MemEvent, Profile = (_messages[name] for name in ("Event", "MemCopy", "MemEvent", "Profile"))

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
