"""`paddle.distributed.communication`: groups of ranks, and what they exchange"""

from __future__ import annotations
