"""`paddle.amp.debugging`: NaN and infinite numbers in programs."""

from __future__ import annotations

import enum
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.flags import set_flags
from fluidlite.base.records import dataclass
from fluidlite.base.refusals import Refusals
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append_several, need_float

_REFUSED = Refusals(
    "paddle.amp.debugging",
    "looks at the ops of imperative mode; paddle.static.amp.debugging.collect_operator_stats counts those of "
    "a program, and FLAGS_check_nan_inf stops at the op that makes the first NaN",
    functions=(
        "check_layer_numerics collect_operator_stats compare_accuracy "
        "disable_operator_stats_collection enable_operator_stats_collection"
    ),
)
__all__ = [
    "DebugMode",
    "TensorCheckerConfig",
    "check_numerics",
    "disable_tensor_checker",
    "enable_tensor_checker",
    *_REFUSED.names,
]


class DebugMode(enum.Enum):
    """Reactions to NaN and infinite numbers: stop, print, print what half precision could not hold as well,
    or print all.
    """

    CHECK_NAN_INF_AND_ABORT = 0
    CHECK_NAN_INF = 1
    CHECK_ALL_FOR_OVERFLOW = 2
    CHECK_ALL = 3


@dataclass
class TensorCheckerConfig:
    """Settings of executors that look at what ops make: they stop at a NaN. The others are those of 2.6.2."""

    enable: bool
    debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT
    output_dir: str | None = None
    checked_op_list: list[str] | None = None
    skipped_op_list: list[str] | None = None
    debug_step: Any = None
    stack_height_limit: int = 1


def enable_tensor_checker(checker_config: TensorCheckerConfig) -> None:
    """Let executors stop at the op that makes the first NaN or infinite number, if the settings say so."""
    set_flags({"FLAGS_check_nan_inf": checker_config.enable})


def disable_tensor_checker() -> None:
    """Let executors look at no values."""
    set_flags({"FLAGS_check_nan_inf": False})


def check_numerics(
    tensor: Variable, op_type: str, var_name: str, debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT
) -> tuple[Variable, Variable]:
    """(how many elements are NaN, infinite and 0; the largest one, the smallest one, the mean)."""
    need_float(tensor, "check_numerics")
    attrs = {"op_type": op_type, "var_name": var_name, "check_nan_inf_level": debug_mode.value}
    attrs |= {"stack_height_limit": -1, "output_dir": ""}
    kinds = {"stats": VarType.INT64, "values": VarType.FP32}
    stats, values = append_several("check_numerics", {"tensor": [tensor]}, attrs, kinds)
    stats.stop_gradient = values.stop_gradient = True
    return stats, values


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
