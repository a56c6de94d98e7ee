"""Which prior answers for which object, its targets, and SSD's loss."""

from __future__ import annotations

from typing import Any

from fluidlite import unique_name
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.reduce import reduce_sum
from fluidlite.layers.boxes.coding import box_coder, iou_similarity
from fluidlite.layers.build import temporaries
from fluidlite.layers.loss import softmax_with_cross_entropy
from fluidlite.layers.neural.criteria import smooth_l1
from fluidlite.layers.tensors.indexing import slice as slice_of
from fluidlite.layers.tensors.search import shape as shape_of
from fluidlite.layers.tensors.shaping import flatten, reshape
from fluidlite.layers.tensors.variables import cast

__all__ = ["bipartite_match", "ssd_loss", "target_assign"]


def bipartite_match(
    dist_matrix: Variable,
    match_type: str | None = None,
    dist_threshold: float | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """(row, similarity) that each column is matched with, [N, columns] each; -1 and 0 where there is none.

    `dist_matrix` [rows, columns] has a sequence of rows (objects) for each of N images. The most similar pair
    is matched first, then the most similar of the free ones, and so on; with `match_type` "per_prediction"
    columns that remain take their most similar row, from `dist_threshold` (0.5) on.
    """
    helper = LayerHelper("bipartite_match", name=name)
    indices = helper.create_variable_for_type_inference(dtype="int32")
    values = helper.create_variable_for_type_inference(dtype=dist_matrix.dtype)
    attrs = {"match_type": match_type, "dist_threshold": dist_threshold}
    helper.append_op(
        type="bipartite_match",
        inputs={"DistMat": dist_matrix},
        outputs={"ColToRowMatchIndices": indices, "ColToRowMatchDist": values},
        attrs={attr: value for attr, value in attrs.items() if value is not None},
    )
    return indices, values


def target_assign(
    input: Variable,
    matched_indices: Variable,
    negative_indices: Variable | None = None,
    mismatch_value: int | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """(targets [N, priors, K], weights [N, priors, 1]) of priors that are matched with objects.

    `input` [objects, P, K] has a sequence of objects an image; a prior gets the row of its object, in column
    prior mod P, with weight 1, and without object `mismatch_value` (0) with weight 0, or 1 if
    `negative_indices` ([count, 1], a sequence an image) name it.
    """
    helper = LayerHelper("target_assign", name=name)
    targets = helper.create_variable_for_type_inference(dtype=input.dtype)
    weights = helper.create_variable_for_type_inference(dtype="float32")
    inputs = {"X": input, "MatchIndices": matched_indices}
    if negative_indices is not None:
        inputs["NegIndices"] = negative_indices
    helper.append_op(
        type="target_assign",
        inputs=inputs,
        outputs={"Out": targets, "OutWeight": weights},
        attrs={} if mismatch_value is None else {"mismatch_value": mismatch_value},
    )
    return targets, weights


def _fixed(var: Variable) -> Variable:
    """`var`, through which no gradient goes."""
    var.stop_gradient = True
    return var


def _weighted(loss: Variable, weights: Variable) -> Variable:
    """The product of two variables of one shape, as an operator on Variables makes it, but without an axis:
    a batch of unknown size times a number of priors is no unknown size to 1.8.5.
    """
    helper = LayerHelper("elementwise_mul")
    out: Variable = helper.block.create_var(name=unique_name.generate("tmp"), dtype=loss.dtype)
    helper.append_op(
        type="elementwise_mul", inputs={"X": loss, "Y": weights}, outputs={"Out": out}, attrs={"axis": -1}
    )
    return out


def _mined(
    label: Variable,
    scores: Variable,
    dims: Variable,
    match: tuple[Variable, Variable],
    background_label: int,
    attrs: dict[str, Any],
) -> tuple[Variable, Variable, Variable, Variable]:
    """(scores as rows, shape of a loss by prior, priors that count as background, matches), from the losses
    that there would be if all that are not matched were background.
    """
    targets, _ = target_assign(label, match[0], mismatch_value=background_label)
    rows = flatten(scores, axis=2)
    targets = _fixed(flatten(cast(targets, dtype="int64"), axis=2))
    loss = softmax_with_cross_entropy(rows, targets)
    helper = LayerHelper("ssd_loss")
    by_prior = _fixed(slice_of(dims, axes=[0], starts=[0], ends=[2]))
    loss = _fixed(reshape(loss, shape=(-1, 0), actual_shape=by_prior))
    negatives, matches = temporaries(helper, 2, "int32")
    helper.append_op(
        type="mine_hard_examples",
        inputs={"ClsLoss": loss, "MatchIndices": match[0], "MatchDist": match[1]},
        outputs={"NegIndices": negatives, "UpdatedMatchIndices": matches},
        attrs=attrs,
    )
    return rows, by_prior, negatives, matches


def _class_loss(scores: Variable, classes: Variable, weights: Variable) -> Variable:
    """The weighted cross entropy of each prior."""
    classes = _fixed(cast(flatten(classes, axis=2), dtype="int64"))
    loss = softmax_with_cross_entropy(scores, classes)
    assert isinstance(loss, Variable)
    return _weighted(loss, _fixed(flatten(weights, axis=2)))


def _place_loss(location: Variable, boxes: Variable, weights: Variable) -> tuple[Variable, Variable]:
    """(the weighted smooth L1 distance of each prior, the weights as a column)."""
    loss = smooth_l1(flatten(location, axis=2), _fixed(flatten(boxes, axis=2)))
    weights = _fixed(flatten(weights, axis=2))
    return _weighted(loss, weights), weights


def ssd_loss(
    location: Variable,
    confidence: Variable,
    gt_box: Variable,
    gt_label: Variable,
    prior_box: Variable,
    prior_box_var: Variable | Any = None,
    background_label: int = 0,
    overlap_threshold: float = 0.5,
    neg_pos_ratio: float = 3.0,
    neg_overlap: float = 0.5,
    loc_loss_weight: float = 1.0,
    conf_loss_weight: float = 1.0,
    match_type: str = "per_prediction",
    mining_type: str = "max_negative",
    normalize: bool = True,
    sample_size: int | None = None,
) -> Variable:
    """The loss of SSD (Liu et al. 2016), one number an image, [N, 1].

    `location` [N, priors, 4] and `confidence` [N, priors, classes] are predictions; `gt_box` [objects, 4] and
    `gt_label` [objects, 1] have a sequence an image. Priors are matched with objects by their overlap; those
    of the unmatched that are most wrong, `neg_pos_ratio` for each matched one, learn the background.
    `normalize` divides by the number of matched priors.
    """
    if mining_type != "max_negative":
        raise ValueError(f"Only support mining_type == max_negative now, but it is {mining_type!r}.")
    dims = shape_of(confidence)
    match = bipartite_match(iou_similarity(x=gt_box, y=prior_box), match_type, overlap_threshold)
    # one label a box, also where its size is not declared
    size = gt_label.shape[-1] if gt_label.shape[-1] >= 0 else 1
    label = _fixed(reshape(gt_label, (len(gt_label.shape) - 1) * (0,) + (-1, size)))
    mining: dict[str, Any] = {"neg_pos_ratio": neg_pos_ratio, "neg_dist_threshold": neg_overlap}
    mining.update(mining_type=mining_type, sample_size=0 if sample_size is None else sample_size)
    scores, rows, negatives, matches = _mined(label, confidence, dims, match, background_label, mining)
    codes = box_coder(prior_box, prior_box_var, gt_box, code_type="encode_center_size")
    boxes, box_weights = target_assign(codes, matches, mismatch_value=background_label)
    classes, class_weights = target_assign(label, matches, negatives, mismatch_value=background_label)

    conf_loss: Any = _class_loss(scores, classes, class_weights)
    loc_loss: Any
    loc_loss, box_weights = _place_loss(location, boxes, box_weights)
    total = conf_loss_weight * conf_loss + loc_loss_weight * loc_loss
    total = reduce_sum(reshape(total, shape=(-1, 0), actual_shape=rows), dim=1, keep_dim=True)
    return total / reduce_sum(box_weights) if normalize else total
