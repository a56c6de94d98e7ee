"""`paddle.static.BuildStrategy`: fluid's options of compiling, and those that 2.x has added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fluidlite.base import strategies

__all__ = ["BuildStrategy"]

_ADDED = (
    "allow_cuda_graph_capture build_cinn_pass enable_addto fix_op_run_order fuse_adamw fuse_gemm_epilogue "
    "fused_attention fused_feedforward sequential_run"
)


class BuildStrategy(strategies.BuildStrategy):
    """Options of compiling under the names of 2.x. Those that 2.x has added say how its executor should do
    what a generated plan does anyway, or does by other kernels: they change nothing.
    """

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        **strategies.BuildStrategy._DEFAULTS,
        **dict.fromkeys(_ADDED.split(), False),
        "bkcl_comm_num": 1,
        "fuse_bn_add_act_ops": True,
    }
