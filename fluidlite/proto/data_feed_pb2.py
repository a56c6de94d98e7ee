"""`fluid.proto.data_feed_pb2`: the messages that describe the lines of a job's files."""

from __future__ import annotations

from fluidlite.data_feed_desc import feed_messages

__all__ = ["DataFeedDesc", "MultiSlotDesc", "Slot"]

_messages = feed_messages()
DataFeedDesc, MultiSlotDesc, Slot = (_messages[name] for name in ("DataFeedDesc", "MultiSlotDesc", "Slot"))
