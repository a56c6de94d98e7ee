"""`fluid.proto`: Paddle's messages, for programs that read and write them by themselves."""

from __future__ import annotations

from fluidlite.proto import framework_pb2

__all__ = ["framework_pb2"]
