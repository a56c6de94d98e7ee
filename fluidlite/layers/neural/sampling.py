"""Losses over very many classes, which look at a few of them: a tree of classes, and sampled negatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.initializer import NumpyArrayInitializer
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.build import temporaries
from fluidlite.param_attr import ParamAttr

__all__ = ["hsigmoid", "nce", "sampled_softmax_with_cross_entropy"]

_SAMPLERS = {"uniform": 0, "log_uniform": 1, "custom_dist": 2}


def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Variable:
    """The cross entropy of the left and right turns on the way to the label in a binary tree of classes, of
    shape [N, 1].

    The tree is a complete one, or (`is_custom`) given by `path_table` and `path_code` [N, depth]: the inner
    nodes on each label's way, padded with -1, and the turns taken there. Inner nodes have a row of the weight
    each.
    """
    check_variable_and_dtype(input, "input", ["float32", "float64"], "hsigmoid")
    check_variable_and_dtype(label, "label", ["int64"], "hsigmoid")
    _check_tree(num_classes, path_table, path_code, is_custom)
    if is_sparse and not is_custom:
        warn_user("hsigmoid: is_sparse has no effect without a custom tree", category=UserWarning)
        is_sparse = False
    helper = LayerHelper("hierarchical_sigmoid", param_attr=param_attr, bias_attr=bias_attr, name=name)
    out = helper.create_variable_for_type_inference(input.dtype)
    scores = helper.create_variable_for_type_inference(input.dtype)
    nodes = num_classes if is_custom else num_classes - 1
    parameters = _class_parameters(helper, nodes, input, "W")
    inputs = {"X": input, "PathTable": path_table, "PathCode": path_code, "Label": label, **parameters}
    helper.append_op(
        type="hierarchical_sigmoid",
        inputs=inputs,
        outputs={"Out": out, "PreOut": scores, "W_Out": parameters["W"]},
        attrs={"num_classes": num_classes, "is_sparse": is_sparse, "remote_prefetch": is_sparse},
    )
    return out


def _class_parameters(helper: LayerHelper, rows: int, input: Variable, slot: str) -> dict[str, Any]:
    """A weight [rows, columns of the input] for `slot`, and a bias unless the layer goes without one."""
    found = {
        slot: helper.create_parameter(
            attr=helper.param_attr, shape=[rows, input.shape[1]], is_bias=False, dtype=input.dtype
        )
    }
    if helper.bias_attr:
        found["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=[rows, 1], is_bias=True, dtype=input.dtype
        )
    return found


def _check_tree(
    num_classes: int, path_table: Variable | None, path_code: Variable | None, is_custom: bool
) -> None:
    if not is_custom:
        if num_classes is None or num_classes < 2:
            raise ValueError("num_classes must not be less than 2 with default tree")
        if path_table is not None or path_code is not None:
            raise ValueError("only num_classes should be passed without custom tree")
        return
    for value, what in ((path_code, "path_code"), (path_table, "path_table"), (num_classes, "num_classes")):
        if value is None:
            raise ValueError(f"{what} should not be None with custom tree")


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """Noise-contrastive estimation: the cost of telling the label from `num_neg_samples` (10) sampled
    classes, [N, 1].

    `sampler` is "uniform", "log_uniform" (small class numbers are frequent), or "custom_dist" with the
    probabilities in `custom_dist`. The cost is divided by num_neg_samples + 1.
    """
    helper = LayerHelper("nce", param_attr=param_attr, bias_attr=bias_attr, name=name)
    check_variable_and_dtype(input, "input", ["float32", "float64"], "nce")
    check_variable_and_dtype(label, "label", ["int64"], "nce")
    if sampler not in _SAMPLERS:
        # fluid's error, its type included
        raise Exception("Unsupported sampler type.")
    parameters = _class_parameters(helper, num_total_classes, input, "Weight")
    inputs = {"Input": input, "Label": label, "SampleWeight": sample_weight, **parameters}
    cost, logits = temporaries(helper, 2, input.dtype)
    labels = helper.create_variable_for_type_inference(dtype=label.dtype)
    if sampler == "custom_dist":
        assert custom_dist is not None, "the sampler 'custom_dist' needs probabilities"
        inputs.update(_alias_tables(helper, custom_dist))
    negatives = 10 if num_neg_samples is None else int(num_neg_samples)
    counts = {"num_total_classes": int(num_total_classes), "num_neg_samples": negatives}
    sampling = {"seed": seed, "sampler": _SAMPLERS[sampler]}
    helper.append_op(
        type="nce",
        inputs=inputs,
        outputs={"Cost": cost, "SampleLogits": logits, "SampleLabels": labels},
        attrs={**counts, **sampling, "is_sparse": is_sparse, "remote_prefetch": is_sparse},
    )
    scaled: Variable = cost / (negatives + 1)  # type: ignore[operator,assignment]
    return scaled


def _alias_tables(helper: LayerHelper, probabilities: Sequence[float]) -> dict[str, Variable]:
    """Parameters that hold a distribution and its alias tables."""
    alias, keep = alias_method(probabilities)
    tables = {
        "CustomDistProbs": np.array(probabilities, "float32"),
        "CustomDistAlias": np.array(alias, "int32"),
        "CustomDistAliasProbs": np.array(keep, "float32"),
    }
    made = {}
    for slot, table in tables.items():
        made[slot] = helper.create_parameter(
            attr=ParamAttr(),
            shape=table.shape,
            dtype=table.dtype,
            default_initializer=NumpyArrayInitializer(table),
        )
        made[slot].stop_gradient = True
    return made


def alias_method(probabilities: Sequence[float]) -> tuple[list[int], list[float]]:
    """Walker's tables: draw i uniformly, keep it with probability keep[i], else take alias[i]; -1 where it
    is always kept.
    """
    count = len(probabilities)
    alias, keep = [-1] * count, [1.0] * count
    shares = [(i, float(p) * count) for i, p in enumerate(probabilities)]
    large = [item for item in shares if item[1] > 1.0]
    small = [item for item in shares if item[1] < 1.0]
    while large and small:
        giver, share = large.pop(0)
        taker, own = small.pop(0)
        alias[taker], keep[taker] = giver, own
        rest = share + own - 1.0
        if rest > 1.0:
            large.append((giver, rest))
        elif rest < 1.0:
            small.append((giver, rest))
    return alias, keep


def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Variable | None = None,
    customized_probabilities: Variable | None = None,
    seed: int = 0,
) -> Variable:
    """`softmax_with_cross_entropy` over the labels and `num_samples` classes drawn log-uniformly, of shape
    [N, 1].

    Scores are corrected by the log of a class's expected draws. `use_customized_samples` takes the classes
    and these probabilities, both [N, num_true + num_samples], as given.
    """
    helper = LayerHelper("sample_logits")
    if use_customized_samples:
        assert customized_samples is not None and customized_probabilities is not None
        samples, probabilities = customized_samples, customized_probabilities
    else:
        samples = helper.create_variable_for_type_inference(dtype="int64")
        probabilities = helper.create_variable_for_type_inference(dtype=logits.dtype)
    dtypes = (logits.dtype, "int64", "float32", logits.dtype, label.dtype)
    sampled_logits, sampled_label, one_hot, logits_dim, labels_dim = (
        helper.create_variable_for_type_inference(dtype=dtype) for dtype in dtypes
    )
    custom = {"CustomizedSamples": customized_samples, "CustomizedProbabilities": customized_probabilities}
    drawn = {"Samples": samples, "Probabilities": probabilities, "SampledLabels": sampled_label}
    scores = {"SampledLogits": sampled_logits, "LogitsDim": logits_dim, "LabelsDim": labels_dim}
    helper.append_op(
        type="sample_logits",
        inputs={"Logits": logits, "Labels": label, **custom},
        outputs=drawn | scores,
        attrs={
            "use_customized_samples": use_customized_samples,
            "uniq": True,
            "num_samples": num_samples,
            "remove_accidental_hits": remove_accidental_hits,
            "seed": seed,
        },
    )
    loss = _cross_entropy(helper, sampled_logits, sampled_label, one_hot, num_samples + 1, logits.dtype)
    scaled: Variable = loss / num_true  # type: ignore[operator,assignment]
    return scaled


def _cross_entropy(
    helper: LayerHelper, logits: Variable, label: Variable, one_hot: Variable, classes: int, dtype: Any
) -> Variable:
    """The cross entropy of `logits` and the labels, which are written to `one_hot` on the way."""
    loss, softmax = temporaries(helper, 2, dtype)
    helper.append_op(type="one_hot", inputs={"X": label}, attrs={"depth": classes}, outputs={"Out": one_hot})
    helper.append_op(
        type="softmax_with_cross_entropy",
        inputs={"Logits": logits, "Label": one_hot},
        outputs={"Softmax": softmax, "Loss": loss},
        attrs={"soft_label": True, "ignore_index": 0, "numeric_stable_mode": False},
    )
    return loss
