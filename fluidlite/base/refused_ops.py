"""Op types of 1.8.5 that FluidLite leaves out on purpose, each with its reason."""

from __future__ import annotations

__all__ = ["why_refused"]

_REASONS = {
    "belongs to imperative mode, and FluidLite runs static graphs only": "run_program",
    "belongs to Paddle's closed parameter servers (pslib, BoxPS)": (
        "pull_box_extended_sparse pull_box_sparse pull_sparse pull_sparse_v2 push_box_extended_sparse "
        "push_box_sparse push_dense push_sparse push_sparse_v2"
    ),
    "belongs to federated learning, which 1.8.5 does not finish": "fl_listen_and_serv",
    "compresses gradients for NCCL on CUDA devices only": "dgc",
    "runs an engine of another vendor": (
        "anakin_engine conv2d_inception_fusion lite_engine ngraph_engine tensorrt_engine"
    ),
    "exists on CUDA devices with cuDNN only": "conv2d_fusion fusion_group fusion_transpose_flatten_concat",
}
_REASON_OF = {op_type: reason for reason, types in _REASONS.items() for op_type in types.split()}


def why_refused(op_type: str) -> str:
    """The reason as a clause, "" for a type that is not refused; a gradient op's is that of its op."""
    stem = op_type
    while stem.endswith("_grad") and stem not in _REASON_OF:
        stem = stem.removesuffix("_grad")
    return _REASON_OF.get(stem, "")
