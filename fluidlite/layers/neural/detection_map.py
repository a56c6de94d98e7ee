"""The layer of `fluid.metrics.DetectionMAP`."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = ["detection_map"]


def detection_map(
    detect_res: Variable,
    label: Variable,
    class_num: int | None,
    background_label: int = 0,
    overlap_threshold: float = 0.3,
    evaluate_difficult: bool = True,
    has_state: Variable | None = None,
    input_states: Sequence[Variable] | None = None,
    out_states: Sequence[Variable] | None = None,
    ap_version: str = "integral",
) -> Variable:
    """The mean average precision of `detect_res` (rows label, score, box), of shape [1]; `label` has rows
    label, (difficult), box.

    States are (objects counted, true positives, false positives); those in `input_states` count while
    `has_state` is not 0.
    """
    helper = LayerHelper("detection_map")
    out = helper.create_variable_for_type_inference(dtype="float32")
    after = out_states or [
        helper.create_variable_for_type_inference(dtype=dtype) for dtype in ("int32", "float32", "float32")
    ]
    inputs = {"Label": label, "DetectRes": detect_res, "HasState": has_state}
    if input_states is not None:
        inputs.update(zip(("PosCount", "TruePos", "FalsePos"), input_states, strict=True))
    helper.append_op(
        type="detection_map",
        inputs=inputs,
        outputs={"MAP": out, "AccumPosCount": after[0], "AccumTruePos": after[1], "AccumFalsePos": after[2]},
        attrs={
            "overlap_threshold": overlap_threshold,
            "evaluate_difficult": evaluate_difficult,
            "ap_type": ap_version,
            "class_num": class_num,
            "background_label": background_label,
        },
    )
    return out
