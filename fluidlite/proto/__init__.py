"""`fluid.proto`: Paddle's messages, for programs that read and write them by themselves."""

from __future__ import annotations

from fluidlite.proto import data_feed_pb2, framework_pb2

__all__ = ["data_feed_pb2", "framework_pb2"]
