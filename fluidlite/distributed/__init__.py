"""Jobs of many processes: here, all of them as threads of one (`verify`), to prove a job right before it costs anything."""
from __future__ import annotations

from fluidlite.distributed.cluster import Proof, verify

__all__ = ["Proof", "verify"]
