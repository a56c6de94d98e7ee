"""Losses: how far predictions are from what they should be."""
from __future__ import annotations

from typing import Any

from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = ["cross_entropy", "softmax_with_cross_entropy", "square_error_cost"]

_FLOATS = ["float16", "float32", "float64"]
IGNORED = -100


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = IGNORED) -> Variable:
    """Minus the logarithm of the probability that `input` [..., C] gives to the label.

    `label` is int64 [..., 1], or, with `soft_label`, a distribution of the shape of `input`. A row whose label is
    `ignore_index` costs nothing. A probability of 0 costs 1e20, not infinity.
    """
    if not soft_label:
        return cross_entropy2(input, label, ignore_index)
    helper = LayerHelper("cross_entropy")
    check_variable_and_dtype(input, "input", _FLOATS, "cross_entropy")
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(type="cross_entropy", inputs={"X": [input], "Label": [label]}, outputs={"Y": [out]},
                     attrs={"soft_label": soft_label, "ignore_index": ignore_index})
    return out


def cross_entropy2(input: Variable, label: Variable, ignore_index: int = IGNORED) -> Variable:
    """`cross_entropy` with integer labels, keeping what its gradient needs instead of `input`."""
    check_variable_and_dtype(input, "input", _FLOATS, "cross_entropy2")
    helper = LayerHelper("cross_entropy2")
    out, x_shape, picked = (helper.create_variable_for_type_inference(input.dtype) for _ in range(3))
    helper.append_op(type="cross_entropy2", inputs={"X": [input], "Label": [label]},
                     outputs={"Y": [out], "MatchX": [picked], "XShape": [x_shape]}, attrs={"ignore_index": ignore_index})
    return out


def softmax_with_cross_entropy(logits: Variable, label: Variable, soft_label: bool = False, ignore_index: int = IGNORED,
                               numeric_stable_mode: bool = True, return_softmax: bool = False, axis: int = -1) -> Any:
    """The cross entropy of softmax(logits) over dimension `axis`; with `return_softmax` the pair (loss, softmax).

    `label` has the shape of `logits` with 1 in dimension `axis`, or, with `soft_label`, the whole shape. A row whose
    label is `ignore_index` costs nothing; its gradient is 1.8.5's: that of any other row if the label is a class, else 0.
    No gradient flows through the returned softmax.
    """
    helper = LayerHelper("softmax_with_cross_entropy")
    softmax = helper.create_variable_for_type_inference(dtype=logits.dtype)
    loss = helper.create_variable_for_type_inference(dtype=logits.dtype)
    helper.append_op(type="softmax_with_cross_entropy", inputs={"Logits": logits, "Label": label},
                     outputs={"Softmax": softmax, "Loss": loss},
                     attrs={"soft_label": soft_label, "ignore_index": ignore_index,
                            "numeric_stable_mode": numeric_stable_mode, "axis": axis})
    return (loss, softmax) if return_softmax else loss


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)^2, element by element."""
    check_variable_and_dtype(input, "input", ["float32", "float64"], "square_error_cost")
    check_variable_and_dtype(label, "label", ["float32", "float64"], "square_error_cost")
    helper = LayerHelper("square_error_cost")
    difference = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(type="elementwise_sub", inputs={"X": [input], "Y": [label]}, outputs={"Out": [difference]})
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(type="square", inputs={"X": [difference]}, outputs={"Out": [out]})
    return out
