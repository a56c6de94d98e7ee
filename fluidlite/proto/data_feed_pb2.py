"""`fluid.proto.data_feed_pb2`: the messages that describe the lines of a job's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.data_feed_desc import feed_messages

__all__ = ["DataFeedDesc", "MultiSlotDesc", "Slot"]

_messages = feed_messages()
DataFeedDesc, MultiSlotDesc, Slot = (_messages[name] for name in ("DataFeedDesc", "MultiSlotDesc", "Slot"))

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
