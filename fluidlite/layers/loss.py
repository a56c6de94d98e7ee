"""Losses: distances of predictions from what they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.initializer import Constant
from fluidlite.ir.guarded import guarded
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.compare import equal
from fluidlite.layers.arithmetic.products import matmul
from fluidlite.layers.arithmetic.reduce import reduce_mean, reduce_sum
from fluidlite.layers.neural.sampling import hsigmoid, nce, sampled_softmax_with_cross_entropy
from fluidlite.layers.ops import square
from fluidlite.layers.tensors.shaping import expand, reshape, transpose

__all__ = [
    "bpr_loss",
    "center_loss",
    "cross_entropy",
    "edit_distance",
    "hsigmoid",
    "huber_loss",
    "kldiv_loss",
    "margin_rank_loss",
    "mse_loss",
    "nce",
    "npair_loss",
    "rank_loss",
    "sampled_softmax_with_cross_entropy",
    "sigmoid_cross_entropy_with_logits",
    "softmax_with_cross_entropy",
    "square_error_cost",
    "teacher_student_sigmoid_loss",
    "warpctc",
]

_FLOATS = ["float16", "float32", "float64"]
_WIDE_FLOATS = ["float32", "float64"]
IGNORED = -100


# ---------------------------------------------------------------------- of class scores


def cross_entropy(
    input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = IGNORED
) -> Variable:
    """Minus the logarithm of the probability that `input` gives to the label.

    For scores instead of probabilities, `softmax_with_cross_entropy` is faster and more exact.

    Parameters
    ----------
    input: probabilities [..., classes], such as the result of `softmax`.
    label: the right class, an int64 Variable [..., 1], or with `soft_label` probabilities of the shape of
        `input`.
    soft_label: labels are probabilities.
    ignore_index: rows with this label cost nothing.

    Returns
    -------
    A Variable [..., 1]. A probability of 0 costs 1e20, not infinity.

    >>> probabilities = fluid.layers.assign(np.array([[0.25, 0.75], [0.5, 0.5]], "float32"))
    >>> label = fluid.layers.assign(np.array([[0], [0]], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.cross_entropy(probabilities, label)])[0].round(2)
    array([[1.39],
           [0.69]], dtype=float32)
    """
    _doubt_probabilities(input)
    if not soft_label:
        return cross_entropy2(input, label, ignore_index)
    helper = LayerHelper("cross_entropy")
    check_variable_and_dtype(input, "input", _FLOATS, "cross_entropy")
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(
        type="cross_entropy",
        inputs={"X": [input], "Label": [label]},
        outputs={"Y": [out]},
        attrs={"soft_label": soft_label, "ignore_index": ignore_index},
    )
    return out


def _doubt_probabilities(input: Variable) -> None:
    """Warn of the output of a layer without softmax, of which cross_entropy takes the logarithm."""
    op = getattr(input, "op", None)
    if op is None or not (_is_unbounded(op) or _is_biased_product(op)):
        return
    warn_user(
        f"cross_entropy takes probabilities, and {input.name!r} comes from {op.type!r} without a softmax: "
        "below 0 it costs 1e20 or nan; use softmax_with_cross_entropy"
    )


def _is_unbounded(op: Operator) -> bool:
    """True for products, and what usually stands behind one in a network without an activation at its end."""
    is_product = op.definition is not None and op.definition.flops_rule is not None
    return is_product or op.type == "batch_norm" or op.type == "relu"


def _is_biased_product(op: Operator) -> bool:
    if op.type != "elementwise_add":
        return False
    summand = op.block._find_var_recursive(op.input("X")[0])
    return summand is not None and summand.op is not None and _is_unbounded(summand.op)


def cross_entropy2(input: Variable, label: Variable, ignore_index: int = IGNORED) -> Variable:
    """`cross_entropy` with integer labels, keeping what its gradient needs instead of `input`."""
    check_variable_and_dtype(input, "input", _FLOATS, "cross_entropy2")
    helper = LayerHelper("cross_entropy2")
    out, x_shape, picked = (helper.create_variable_for_type_inference(input.dtype) for _ in range(3))
    helper.append_op(
        type="cross_entropy2",
        inputs={"X": [input], "Label": [label]},
        outputs={"Y": [out], "MatchX": [picked], "XShape": [x_shape]},
        attrs={"ignore_index": ignore_index},
    )
    return out


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = IGNORED,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of softmax(logits), in one op that is exact for large scores.

    Parameters
    ----------
    logits: scores, a Variable of floating-point numbers.
    label: the right class, an int64 Variable with size 1 in dimension `axis`, or with `soft_label`
        probabilities of the shape of `logits`.
    soft_label: labels are probabilities.
    ignore_index: rows with this label cost nothing and have no gradient.
    numeric_stable_mode: has no effect: the computation always subtracts the largest score.
    return_softmax: return the probabilities as well.
    axis: the dimension of the classes.

    Returns
    -------
    A Variable with size 1 in dimension `axis`, or a pair of it and the probabilities. A probability below
    exp(-64) counts as exp(-64), as in PaddlePaddle: no row costs more than 64.

    >>> scores = fluid.layers.assign(np.array([[0, 0], [0, 10]], "float32"))
    >>> label = fluid.layers.assign(np.array([[1], [0]], "int64"))
    >>> exe.run(fetch_list=[fluid.layers.softmax_with_cross_entropy(scores, label)])[0].round(2)
    array([[ 0.69],
           [10.  ]], dtype=float32)
    """
    check_type(logits, "logits", Variable, "softmax_with_cross_entropy")
    helper = LayerHelper("softmax_with_cross_entropy")
    if getattr(logits.op, "type", None) == "softmax":
        warn_user(
            f"softmax_with_cross_entropy takes logits, but {logits.name!r} is the output of a "
            "softmax, which would be applied twice; use cross_entropy, or remove the first softmax"
        )
    softmax = helper.create_variable_for_type_inference(dtype=logits.dtype)
    loss = helper.create_variable_for_type_inference(dtype=logits.dtype)
    helper.append_op(
        type="softmax_with_cross_entropy",
        inputs={"Logits": logits, "Label": label},
        outputs={"Softmax": softmax, "Loss": loss},
        attrs={
            "soft_label": soft_label,
            "ignore_index": ignore_index,
            "numeric_stable_mode": numeric_stable_mode,
            "axis": axis,
        },
    )
    return (loss, softmax) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(
    x: Variable,
    label: Variable,
    ignore_index: int = IGNORED,
    name: str | None = None,
    normalize: bool = False,
) -> Variable:
    """The cross entropy of sigmoid(x) and the label, element by element, exact for large scores.

    Parameters
    ----------
    x: scores of any shape.
    label: probabilities of the same shape.
    ignore_index: elements with this label cost nothing and have no gradient.
    name: the prefix of the result's name.
    normalize: divide by the number of elements that are not ignored.

    Returns
    -------
    A Variable of the shape of `x`.

    >>> scores = fluid.layers.assign(np.array([[0, 100]], "float32"))
    >>> label = fluid.layers.assign(np.array([[1, 1]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.sigmoid_cross_entropy_with_logits(scores, label)])[0].round(2)
    array([[0.69, 0.  ]], dtype=float32)
    """
    check_variable_and_dtype(x, "input", _FLOATS, "sigmoid_cross_entropy_with_logits")
    helper = LayerHelper("sigmoid_cross_entropy_with_logits", name=name)
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="sigmoid_cross_entropy_with_logits",
        inputs={"X": x, "Label": label},
        attrs={"ignore_index": ignore_index, "normalize": normalize},
        outputs={"Out": out},
    )
    return out


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """The mean over the other classes of log(1 + exp(their score - the label's score)), of shape [N, 1]."""
    helper = LayerHelper("bpr_loss", name=name)
    check_variable_and_dtype(input, "input", _FLOATS, "bpr_loss")
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(type="bpr_loss", inputs={"X": [input], "Label": [label]}, outputs={"Y": [out]})
    return out


def teacher_student_sigmoid_loss(
    input: Variable, label: Variable, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0
) -> Variable:
    """The cross entropy of sigmoid(input) with a click, plus that with a teacher's probability, where there
    is one.

    Labels: -2 no click, -1 a click; z (0 to 1) no click and the teacher says z; 1 + z a click and the teacher
    says z. Scores beyond the bounds have no gradient.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "teacher_student_sigmoid_loss")
    check_variable_and_dtype(label, "label", ["float32", "float64"], "teacher_student_sigmoid_loss")
    helper = LayerHelper("teacher_student_sigmoid_loss")
    out = helper.create_variable(dtype=input.dtype)
    helper.append_op(
        type="teacher_student_sigmoid_loss",
        inputs={"X": [input], "Label": [label]},
        outputs={"Y": [out]},
        attrs={
            "soft_max_lower_bound": float(soft_max_lower_bound),
            "soft_max_up_bound": float(soft_max_up_bound),
        },
    )
    return out


# ---------------------------------------------------------------------- of values
def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared, element by element.

    Parameters
    ----------
    input: predictions of any shape.
    label: targets of the same shape.

    Returns
    -------
    A Variable of this shape; `mean` of it is the mean squared error.

    >>> guess = fluid.layers.assign(np.array([[1], [3]], "float32"))
    >>> label = fluid.layers.assign(np.array([[0], [1]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.square_error_cost(guess, label)])[0]
    array([[1.],
           [4.]], dtype=float32)
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "square_error_cost")
    check_variable_and_dtype(label, "label", ["float32", "float64"], "square_error_cost")
    helper = LayerHelper("square_error_cost")
    difference = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(
        type="elementwise_sub", inputs={"X": [input], "Y": [label]}, outputs={"Out": [difference]}
    )
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(type="square", inputs={"X": [difference]}, outputs={"Out": [out]})
    return out


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of (input - label)^2, of shape [1]."""
    check_variable_and_dtype(input, "input", _WIDE_FLOATS, "mse_loss")
    check_variable_and_dtype(label, "label", _WIDE_FLOATS, "mse_loss")
    return reduce_mean(square_error_cost(input, label))


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """Half the squared difference up to `delta`, and growing linearly beyond, element by element."""
    helper = LayerHelper("huber_loss")
    check_variable_and_dtype(input, "input", _WIDE_FLOATS, "huber_loss")
    check_variable_and_dtype(label, "label", _WIDE_FLOATS, "huber_loss")
    residual = helper.create_variable_for_type_inference(dtype=input.dtype)
    out = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(
        type="huber_loss",
        inputs={"X": input, "Y": label},
        outputs={"Out": out, "Residual": residual},
        attrs={"delta": delta},
    )
    return out


def kldiv_loss(x: Variable, target: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """target (log(target) - x), where x are log-probabilities; `reduction` is "none", "mean", "sum" or
    "batchmean".
    """
    helper = LayerHelper("kldiv_loss", name=name)
    check_variable_and_dtype(x, "x", _WIDE_FLOATS, "kldiv_loss")
    check_variable_and_dtype(target, "target", _WIDE_FLOATS, "kldiv_loss")
    check_type(reduction, "reduction", str, "kldiv_loss")
    loss = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="kldiv_loss",
        inputs={"X": x, "Target": target},
        outputs={"Loss": loss},
        attrs={"reduction": reduction},
    )
    return loss


def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = None) -> Variable:
    """The cross entropy of sigmoid(left - right) with `label`, which is 1 where left should rank higher;
    [N, 1].
    """
    helper = LayerHelper("rank_loss", name=name)
    for var, slot in ((label, "label"), (left, "left"), (right, "right")):
        check_variable_and_dtype(var, slot, ["float32"], "rank_loss")
    out = helper.create_variable_for_type_inference("float32")
    helper.append_op(
        type="rank_loss", inputs={"Label": label, "Left": left, "Right": right}, outputs={"Out": out}
    )
    return out


def margin_rank_loss(
    label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None
) -> Variable:
    """max(0, margin - label (left - right)), where `label` is 1 if left should rank higher, else -1; [N,
    1].
    """
    helper = LayerHelper("margin_rank_loss", name=name)
    for var, slot in ((label, "label"), (left, "left"), (right, "right")):
        check_variable_and_dtype(var, slot, ["float32"], "margin_rank_loss")
    out = helper.create_variable_for_type_inference(left.dtype)
    active = helper.create_variable_for_type_inference(left.dtype)
    helper.append_op(
        type="margin_rank_loss",
        inputs={"Label": label, "X1": left, "X2": right},
        outputs={"Out": out, "Activated": active},
        attrs={"margin": margin},
    )
    return out


# ---------------------------------------------------------------------- of vectors
def center_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    alpha: float | Variable,
    param_attr: Any,
    update_center: bool = True,
) -> Variable:
    """Half the squared distance of each row to its class's center, [N, 1]; the centers move to their rows
    at rate `alpha`.
    """
    helper = LayerHelper("center_loss", param_attr=param_attr)
    check_variable_and_dtype(input, "input", _WIDE_FLOATS, "center_loss")
    check_variable_and_dtype(label, "label", ["int32", "int64"], "center_loss")
    centers = helper.create_parameter(attr=param_attr, shape=[num_classes, input.shape[1]], dtype=input.dtype)
    centers.stop_gradient = True
    if isinstance(alpha, Variable):
        rate = alpha
    else:
        assert isinstance(alpha, float)
        rate = helper.create_variable(
            name="centerloss_alpha",
            shape=[1],
            dtype="float32",
            persistable=True,
            stop_gradient=True,
            initializer=Constant(alpha),
        )
    difference = helper.create_variable_for_type_inference(dtype=input.dtype)
    loss = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(
        type="center_loss",
        inputs={"X": [input], "Label": [label], "Centers": [centers], "CenterUpdateRate": [rate]},
        outputs={"SampleCenterDiff": [difference], "Loss": [loss], "CentersOut": [centers]},
        attrs={"cluster_num": num_classes, "need_update": update_center},
    )
    return loss


def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """The cross entropy of anchor-positive similarities with who shares a label, plus l2_reg times their
    squared norms / 4.

    `labels` [N] becomes [N, 1] in place.
    """
    check_variable_and_dtype(anchor, "anchor", _WIDE_FLOATS, "npair_loss")
    check_variable_and_dtype(positive, "positive", _WIDE_FLOATS, "positive")
    check_variable_and_dtype(labels, "labels", ["float32", "float64", "int64"], "labels")
    count = labels.shape[0]
    labels = expand(reshape(labels, shape=[count, 1], inplace=True), expand_times=[1, count])
    same: Any = equal(labels, transpose(labels, perm=[1, 0])).astype("float32")
    same = same / reduce_sum(same, dim=1, keep_dim=True)
    norms: Any = [reduce_mean(reduce_sum(square(vectors), 1)) for vectors in (anchor, positive)]
    penalty = (norms[0] + norms[1]) * 0.25 * l2_reg
    similarity = matmul(anchor, positive, transpose_x=False, transpose_y=True)
    cost = softmax_with_cross_entropy(logits=similarity, label=same, soft_label=True)
    loss: Variable = penalty + reduce_mean(reduce_sum(same * cost, 0))
    return loss


# ---------------------------------------------------------------------- of sequences
def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """Minus the log likelihood of each label sequence, summed over its alignments with the scores (CTC), of
    shape [N, 1].

    Scores `input` (before the softmax) and `label` (int32) have a level of detail each; or, with both lengths
    (int64 [N]), they are padded: scores [time, N, classes], labels [N, longest label]. `norm_by_times`
    divides the gradient by the time.
    """
    helper = LayerHelper("warpctc")
    check_variable_and_dtype(input, "input", ["float32"], "warpctc")
    check_variable_and_dtype(label, "label", ["int32"], "warpctc")
    inputs = {"Logits": [input], "Label": [label]}
    if input_length is not None and label_length is not None:
        check_variable_and_dtype(input_length, "LogitsLength", ["int64"], "warpctc")
        check_variable_and_dtype(label_length, "LabelLength", ["int64"], "warpctc")
        inputs["LogitsLength"] = [input_length]
        inputs["LabelLength"] = [label_length]
    loss = helper.create_variable_for_type_inference(dtype=input.dtype)
    gradient = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(
        type="warpctc",
        inputs=inputs,
        outputs={"WarpCTCGrad": [gradient], "Loss": [loss]},
        attrs={"blank": blank, "norm_by_times": norm_by_times},
    )
    return loss


def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """(edit distance of each pair of sequences [N, 1], number of pairs [1]); `normalized` divides by the
    label's length.

    Sequences are given by levels of detail, or by lengths [N] of padded rows [N, longest]. Ignored tokens are
    erased first.
    """
    check_variable_and_dtype(input, "input", ["int64"], "edit_distance")
    check_variable_and_dtype(label, "label", ["int64"], "edit_distance")
    helper = LayerHelper("edit_distance")
    if ignored_tokens:
        input, label = (_erased(helper, var, ignored_tokens) for var in (input, label))
    inputs = {"Hyps": [input], "Refs": [label]}
    if input_length is not None and label_length is not None:
        inputs["HypsLength"] = [input_length]
        inputs["RefsLength"] = [label_length]
    out = helper.create_variable_for_type_inference(dtype="int64")
    count = helper.create_variable_for_type_inference(dtype="int64")
    helper.append_op(
        type="edit_distance",
        inputs=inputs,
        outputs={"Out": [out], "SequenceNum": [count]},
        attrs={"normalized": normalized},
    )
    return out, count


def _erased(helper: LayerHelper, var: Variable, tokens: Sequence[int]) -> Variable:
    out = helper.create_variable_for_type_inference(dtype="int64")
    helper.append_op(
        type="sequence_erase", inputs={"X": [var]}, outputs={"Out": [out]}, attrs={"tokens": list(tokens)}
    )
    return out


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
