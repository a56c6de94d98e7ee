"""An op is one block in one family: no two families declare it."""

from __future__ import annotations

import json
import pathlib

import pytest

from fluidlite.base import registry


def test_an_op_that_is_declared_twice_is_refused() -> None:
    registry.get("mul")  # is loaded when it is asked for
    with pytest.raises(ValueError, match="op 'mul' is declared twice"):
        registry.Op("mul", "X -> Out")


# recorded from 1.8.5: each slot was given int64 values, and stopped the run. Slots of which an op reads no
# more than the shape are left out
_REFUSED = pathlib.Path(__file__).parents[1] / "golden" / "floating_slots.json"


def test_the_slots_that_refuse_whole_numbers_are_those_of_paddle() -> None:
    ops = {op_type: registry.get(op_type) for op_type in registry.known_types()}
    found = {op_type: set(op.floating) for op_type, op in ops.items() if op.floating}
    recorded = {op_type: set(text.split()) for op_type, text in json.loads(_REFUSED.read_text()).items()}
    # ops of 2.x, whose programs are not asked, with the slots of their kin
    of_2x = {"adamw": recorded["adam"], "celu": recorded["elu"], "unpool3d": recorded["unpool"]}
    of_2x |= {"fused_softmax_mask": {"X", "Mask"}, "identity_loss": {"X"}, "nms": {"Boxes"}}
    of_2x |= {"viterbi_decode": {"Transition", "Input"}, "warprnnt": {"input"}}
    of_2x["multiclass_nms3"] = recorded["multiclass_nms"]
    for type in ("fake_quantize_dequantize_abs_max", "fake_channel_wise_quantize_dequantize_abs_max"):
        of_2x[type] = recorded["fake_quantize_abs_max"]
    for type in ("quantize_linear", "dequantize_linear"):
        of_2x[type] = {"Scale", "InAccum", "InState"}
    for type in ("dropout_nd", "fused_seqpool_cvm", "fused_softmax_mask_upper_triangle", "linear_interp"):
        of_2x[type] = {"X"}
    of_2x["multi_gru"] = {"X", "WeightX", "WeightH", "Bias"}
    # nor are those that 1.8.5 has on devices alone
    of_2x["dgc_clip_by_norm"] = {"X"}
    of_2x["generate_proposals_v2"] = recorded["generate_proposals"] - {"ImInfo"} | {"ImShape"}
    assert found == recorded | of_2x
