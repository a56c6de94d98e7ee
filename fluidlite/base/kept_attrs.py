"""Attributes of Paddle's ops that steer libraries which are not here (`Op.kept`): programs may set and read
them, and nothing else happens. Convolutions on a device heed `use_cudnn`, `workspace_size_MB` and
`exhaustive_search`.

An op that is not given one does not store it either, so that the text of programs stays short. Its bytes have
it all the same: kernels of 1.8.5's gradients read it there, and know no default.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluidlite.base import registry
from fluidlite.base.registry import Attr

__all__ = ["LIBRARIES", "ONEDNN", "QUANTIZER", "kept_attrs"]

LIBRARIES = {"use_cudnn": False, "use_mkldnn": False}
"""Attributes of ops for which Paddle may call a library."""
ONEDNN = {"use_mkldnn": False}
QUANTIZER = {"use_quantizer": False}


def kept_attrs(op_type: str) -> Mapping[str, Attr]:
    """Name -> type and default of the attributes that ops of that type, and their gradients, keep for
    nothing.
    """
    # fluid's gradient ops take over the attributes of their forward ops
    op = registry.find(op_type.removesuffix("_grad"))
    return {} if op is None else op.kept_defs


IDLE = {
    "use_mkldnn": "chooses a library of Paddle's",
    "use_cudnn": "chooses a library on a device",
    "use_quantizer": "marks an op for a pass of Paddle's",
    "mkldnn_data_type": "chooses a library of Paddle's",
    "with_quant_attr": "marks an op for a pass of Paddle's",
    "workspace_size_MB": "limits the memory of a library",
    "exhaustive_search": "chooses an algorithm",
    "numeric_stable_mode": "chooses an algorithm: softmax is always stable here",
    "use_seq": "chooses an algorithm",
    "sorted": "allows another order",
    "x_data_format": "tells Paddle's library the layout in memory",
    "y_data_format": "tells Paddle's library the layout in memory",
    "output_format": "tells Paddle's library the layout in memory",
    "is_distributed": "tells of tables that lie on servers: the transpiler reads it",
    "remote_prefetch": "tells of tables that lie on servers: the transpiler reads it",
    "trainer_id": "tells of tables that lie on servers: the transpiler reads it",
    "epmap": "tells of tables that lie on servers: the transpiler reads it",
    "height_sections": "tells of tables that lie on servers: the transpiler reads it",
    "table_names": "tells of tables that lie on servers: the transpiler reads it",
    "skip_eager_deletion_vars": "keeps values in memory",
    "force_fp32_output": "belongs to a library's 8-bit numbers",
    "Scale_data": "belongs to a library's 8-bit numbers",
    "Shift_data": "belongs to a library's 8-bit numbers",
    "Scale_in": "belongs to a library's 8-bit numbers",
    "Scale_out": "belongs to a library's 8-bit numbers",
    "Scale_weights": "belongs to a library's 8-bit numbers",
    "force_cpu": "places a value: the executor does",
    "place_type": "places a value: the executor does",
    "dst_place_type": "places a value: the executor does",
    "device_id": "places a value: the executor does",
    "use_calc_stream": "chooses a stream",
    "in_dtype": "tells what the input declares",
    "grad_inplace": "allows to write over a value",
    "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": "is an order to Paddle's kernels",
    "multi_precision": "is refused by the optimizers of 2.x for weights of half precision",
}
"""Names of attributes that change no value in any op here, with what they do in Paddle."""
