"""Parts that fluid keeps beside its core."""

from __future__ import annotations

from fluidlite.contrib import memory_usage_calc, mixed_precision, op_frequence, reader
from fluidlite.contrib.extend_optimizer import extend_with_decoupled_weight_decay
from fluidlite.contrib.memory_usage_calc import memory_usage
from fluidlite.contrib.op_frequence import op_freq_statistic
from fluidlite.contrib.reader import distributed_batch_reader

__all__ = [
    "distributed_batch_reader",
    "extend_with_decoupled_weight_decay",
    "memory_usage",
    "memory_usage_calc",
    "mixed_precision",
    "op_freq_statistic",
    "op_frequence",
    "reader",
]
