"""Metrics inside a program: accuracy and AUC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.initializer import Constant
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensors.search import topk

__all__ = ["accuracy", "auc"]


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """The share of rows of `input` whose `label` [N, 1] is among the `k` largest, of shape [1], float32.

    `correct` and `total` ([1]) receive the counts it is made of.
    """
    helper = LayerHelper("accuracy")
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64"], "accuracy")
    top, indices = topk(input, k=k)
    share = helper.create_variable_for_type_inference(dtype="float32")
    correct = helper.create_variable_for_type_inference(dtype="int32") if correct is None else correct
    total = helper.create_variable_for_type_inference(dtype="int32") if total is None else total
    declared = [var.dtype for var in (correct, total)]
    helper.append_op(
        type="accuracy",
        inputs={"Out": [top], "Indices": [indices], "Label": [label]},
        outputs={"Accuracy": [share], "Correct": [correct], "Total": [total]},
    )
    # the counts are int32 whatever the variables say, and the program goes on saying it
    correct.dtype, total.dtype = declared
    return share


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
) -> tuple[Variable, Variable, list[Variable]]:
    """(AUC since the start, AUC of the last `slide_steps` batches, [the four states of both]).

    The last column of `input` [N, 2] is the probability of label 1; it is counted in `num_thresholds` + 1
    bins. The AUCs are float64 [1]; `curve` and `topk` change nothing, as in Paddle. The states are
    persistable: set them to zeros to start anew.
    """
    helper = LayerHelper("auc")
    check_variable_and_dtype(input, "input", ["float32", "float64"], "auc")
    check_variable_and_dtype(label, "label", ["int32", "int64"], "auc")
    overall = helper.create_variable_for_type_inference(dtype="float64")
    recent = helper.create_variable_for_type_inference(dtype="float64")
    bins = num_thresholds + 1
    shapes = [[(1 + slide_steps) * bins + 1], [(1 + slide_steps) * bins + 1], [1, bins], [1, bins]]
    states = [helper.create_global_variable(persistable=True, dtype="int64", shape=shape) for shape in shapes]
    for state in states:
        helper.set_variable_initializer(state, Constant(value=0.0, force_cpu=False))
    for out, pair, steps in ((recent, states[:2], slide_steps), (overall, states[2:], 0)):
        helper.append_op(
            type="auc",
            inputs={"Predict": [input], "Label": [label], "StatPos": [pair[0]], "StatNeg": [pair[1]]},
            attrs={"curve": curve, "num_thresholds": num_thresholds, "slide_steps": steps},
            outputs={"AUC": [out], "StatPosOut": [pair[0]], "StatNegOut": [pair[1]]},
        )
    return overall, recent, states


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
