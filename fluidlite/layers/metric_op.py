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
    """The share of rows whose label is among the `k` largest scores.

    Parameters
    ----------
    input: scores or probabilities [N, classes].
    label: the right class, an int32 or int64 Variable [N, 1].
    k: how many of the largest scores count.
    correct: an int32 Variable [1] that receives the number of right rows.
    total: an int32 Variable [1] that receives the number of rows.

    Returns
    -------
    A float32 Variable [1].

    >>> scores = fluid.layers.assign(np.array([[0.1, 0.9], [0.8, 0.2]], "float32"))
    >>> label = fluid.layers.assign(np.array([[1], [1]], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.accuracy(scores, label)])[0]
    array([0.5], dtype=float32)
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
    """The area under the ROC curve, of all samples so far and of the last batches.

    Samples are counted in `num_thresholds` + 1 bins by their probability.

    Parameters
    ----------
    input: probabilities of both classes [N, 2]; the last column is read.
    label: 0 or 1, an int64 Variable [N, 1].
    curve: has no effect, as in PaddlePaddle.
    num_thresholds: the number of bins, less one.
    topk: has no effect, as in PaddlePaddle.
    slide_steps: the number of batches of the second result.

    Returns
    -------
    A tuple: a float64 Variable [1] of all samples, another of the last batches, and the list of the four
    persistable Variables that hold the counts. Set these to zeros to begin again.

    >>> both = fluid.layers.assign(np.array([[0.9, 0.1], [0.2, 0.8]], "float32"))
    >>> label = fluid.layers.assign(np.array([[0], [1]], "int64"))
    >>> area, of_batch, counts = fluid.layers.auc(both, label)
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exe.run(fetch_list=[area])[0]
    array([1.])
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
