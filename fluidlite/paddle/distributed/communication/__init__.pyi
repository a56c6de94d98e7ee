# written by tests/house/stubs.py
"""`paddle.distributed.communication`: groups of ranks, and what they exchange"""

from fluidlite.paddle.distributed.communication import calls as calls
from fluidlite.paddle.distributed.communication import group as group
from fluidlite.paddle.distributed.communication import objects as objects
from fluidlite.paddle.distributed.communication import stream as stream
from fluidlite.paddle.distributed.communication import tensors as tensors
