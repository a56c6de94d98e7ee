"""Losses and measures of `fluid.layers.nn`."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import VarType, to_vartype
from fluidlite.data_feeder import check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.activations import log
from fluidlite.layers.arithmetic.reduce import Dims, reduce_mean, reduce_sum
from fluidlite.layers.ops import exp
from fluidlite.layers.tensors.search import one_hot

__all__ = [
    "cos_sim",
    "dice_loss",
    "dist",
    "fsp_matrix",
    "label_smooth",
    "log_loss",
    "log_softmax",
    "logsumexp",
    "mean_iou",
    "sigmoid_focal_loss",
    "smooth_l1",
]

_FLOATS = ["float32", "float64"]


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """The sum over a row of w_out f(w_in (x - y)), of shape [N, 1]; f(d) is (sigma d)^2 / 2 up to 1 /
    sigma^2, then linear.
    """
    check_variable_and_dtype(x, "X", _FLOATS, "smooth_l1_loss")
    check_variable_and_dtype(y, "Y", _FLOATS, "smooth_l1_loss")
    helper = LayerHelper("smooth_l1_loss")
    difference = helper.create_variable_for_type_inference(dtype=x.dtype)
    loss = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="smooth_l1_loss",
        inputs={"X": x, "Y": y, "InsideWeight": inside_weight, "OutsideWeight": outside_weight},
        outputs={"Diff": difference, "Out": loss},
        attrs={"sigma": sigma if sigma is not None else 1.0},
    )
    return loss


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), for each row.

    Parameters
    ----------
    input: probabilities [N, 1].
    label: 0 or 1, float32 [N, 1].
    epsilon: keeps the logarithm from zero.
    name: the prefix of the result's name.

    Returns
    -------
    A Variable [N, 1].

    >>> guess = fluid.layers.assign(np.array([[0.5], [1]], "float32"))
    >>> label = fluid.layers.assign(np.array([[1], [1]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.log_loss(guess, label)])[0].round(2)
    array([[ 0.69],
           [-0.  ]], dtype=float32)
    """
    helper = LayerHelper("log_loss", name=name)
    check_variable_and_dtype(input, "input", ["float32"], "log_loss")
    check_variable_and_dtype(label, "label", ["float32"], "log_loss")
    loss = helper.create_variable_for_type_inference(dtype=input.dtype)
    helper.append_op(
        type="log_loss",
        inputs={"Predicted": [input], "Labels": [label]},
        outputs={"Loss": [loss]},
        attrs={"epsilon": epsilon},
    )
    return loss


def sigmoid_focal_loss(
    x: Variable, label: Variable, fg_num: Variable, gamma: float = 2.0, alpha: float = 0.25
) -> Variable:
    """The focal loss of each score in `x` [N, classes], over the number of foreground samples `fg_num` (int32
    [1]).

    `label` (int32 [N, 1]) counts classes from 1; 0 is the background, and rows of -1 cost nothing. Right
    answers that are sure already weigh little: a term is weighted with (1 - its probability)^gamma, and with
    alpha or 1 - alpha.
    """
    check_variable_and_dtype(x, "x", _FLOATS, "sigmoid_focal_loss")
    check_variable_and_dtype(label, "label", ["int32"], "sigmoid_focal_loss")
    check_variable_and_dtype(fg_num, "fg_num", ["int32"], "sigmoid_focal_loss")
    helper = LayerHelper("sigmoid_focal_loss")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(
        type="sigmoid_focal_loss",
        inputs={"X": x, "Label": label, "FgNum": fg_num},
        attrs={"gamma": gamma, "alpha": alpha},
        outputs={"Out": out},
    )
    return out


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None) -> Variable:
    """The mean over samples of 1 - 2 |both| / (|input| + |label| + epsilon), for class probabilities and
    labels [..., 1].
    """
    wanted = one_hot(label, depth=input.shape[-1])
    dims = list(range(1, len(input.shape)))
    both: Any = reduce_sum(input * wanted, dim=dims)  # type: ignore[operator]
    either: Any = reduce_sum(input, dim=dims) + reduce_sum(wanted, dim=dims)  # type: ignore[operator]
    return reduce_mean(1 - both * 2 / (either + epsilon))


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """(1 - epsilon) label + epsilon prior, where the prior is uniform unless given; ValueError for epsilon
    outside 0 to 1.
    """
    if epsilon > 1.0 or epsilon < 0.0:
        raise ValueError("The value of epsilon must be between 0 and 1.")
    check_variable_and_dtype(label, "label", ["float32", "float64"], "label_smooth")
    helper = LayerHelper("label_smooth", name=name)
    label.stop_gradient = True
    smoothed = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type="label_smooth",
        inputs={"X": label} if prior_dist is None else {"X": label, "PriorDist": prior_dist},
        outputs={"Out": smoothed},
        attrs={"epsilon": float(epsilon)},
    )
    return smoothed


def mean_iou(input: Variable, label: Variable, num_classes: int) -> tuple[Variable, Variable, Variable]:
    """(mean over classes of intersection over union, number of wrong pixels by class, number of right ones
    by class).
    """
    helper = LayerHelper("mean_iou")
    check_variable_and_dtype(input, "Predictions", ["int32", "int64"], "mean_iou")
    check_variable_and_dtype(label, "Labels", ["int32", "int64"], "mean_iou")
    out = helper.create_variable_for_type_inference(dtype="float32")
    wrong = helper.create_variable_for_type_inference(dtype="int32")
    correct = helper.create_variable_for_type_inference(dtype="int32")
    helper.append_op(
        type="mean_iou",
        inputs={"Predictions": input, "Labels": label},
        outputs={"OutMeanIou": out, "OutWrong": wrong, "OutCorrect": correct},
        attrs={"num_classes": num_classes},
    )
    return out, wrong, correct


def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine of the angle between rows.

    Parameters
    ----------
    X: a Variable [N, D].
    Y: a Variable [N, D], or [1, D] for one row that all of `X` are compared with.

    Returns
    -------
    A Variable [N, 1] of numbers from -1 to 1.

    >>> x = fluid.layers.assign(np.array([[1, 0], [0, 2]], "float32"))
    >>> y = fluid.layers.assign(np.array([[3, 0]], "float32"))
    >>> exe.run(fetch_list=[fluid.layers.cos_sim(x, y)])[0]
    array([[1.],
           [0.]], dtype=float32)
    """
    check_variable_and_dtype(X, "X", ["float32"], "cos_sim")
    check_variable_and_dtype(Y, "Y", ["float32"], "cos_sim")
    helper = LayerHelper("cos_sim")
    out, x_norm, y_norm = (helper.create_variable_for_type_inference(dtype=X.dtype) for _ in range(3))
    helper.append_op(
        type="cos_sim",
        inputs={"X": [X], "Y": [Y]},
        outputs={"Out": [out], "XNorm": [x_norm], "YNorm": [y_norm]},
    )
    return out


def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """x y^T / (height width) for images [N, C1, H, W] and [N, C2, H, W]: the flow between two layers, of
    shape [N, C1, C2].
    """
    helper = LayerHelper("fsp_matrix")
    check_variable_and_dtype(x, "x", _FLOATS, "fsp_matrix")
    check_variable_and_dtype(y, "y", _FLOATS, "fsp_matrix")
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    helper.append_op(type="fsp", inputs={"X": x, "Y": y}, outputs={"Out": out})
    return out


def dist(x: Variable, y: Variable, p: float = 2) -> Variable:
    """The p-norm of x - y, of shape [1]; p may be 0 (the number of elements that differ) or +-infinity."""
    check_variable_and_dtype(x, "dtype", _FLOATS, "dist")
    check_variable_and_dtype(y, "dtype", _FLOATS, "dist")
    check_type(p, "p", (float, int), "dist")
    helper = LayerHelper("dist")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type="dist", inputs={"X": [x], "Y": [y]}, outputs={"Out": out}, attrs={"p": float(p)})
    return out


def log_softmax(
    input: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """log(softmax(input)) over dimension `axis` (the last by default), computed in `dtype` where that is
    given.
    """
    check_variable_and_dtype(input, "input", ["float16", *_FLOATS], "log_softmax")
    helper = LayerHelper("log_softmax", name=name)
    if dtype is not None:
        cast = helper.create_variable_for_type_inference(dtype)
        helper.append_op(
            type="cast",
            inputs={"X": input},
            outputs={"Out": cast},
            attrs={"in_dtype": input.dtype, "out_dtype": to_vartype(dtype)},
        )
        input = cast
    probability = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(
        type="softmax",
        inputs={"X": input},
        outputs={"Out": probability},
        attrs={"axis": -1 if axis is None else axis, "use_cudnn": False},
    )
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(type="log", inputs={"X": probability}, outputs={"Out": out})
    return out


def logsumexp(
    x: Variable, dim: Dims = None, keepdim: bool = False, out: Variable | None = None, name: str | None = None
) -> Variable:
    """log(sum(exp(x))) over dimensions `dim` (all when None), by just these three ops; written to `out`
    where that is given.
    """
    check_variable_and_dtype(x, "x", _FLOATS, "logsumexp")
    total = reduce_sum(exp(x), dim=dim, keep_dim=keepdim)
    if out is None:
        return log(total, name=name)
    check_variable_and_dtype(out, "out", [_dtype_name(x.dtype)], "logsumexp")
    LayerHelper("logsumexp", name=name).append_op(type="log", inputs={"X": total}, outputs={"Out": out})
    return out


def _dtype_name(dtype: VarType) -> str:
    return {VarType.FP32: "float32", VarType.FP64: "float64"}[dtype]
