"""YOLOv3 (Redmon and Farhadi 2018): the boxes of its predictions, and its loss.

Predictions on a feature map are [N, anchors * (5 + classes), H, W]; for each anchor and place x and y of the
box's center (before a sigmoid, in cells from the cell's corner), width and height (logarithm of their ratio
to the anchor's), objectness and a score a class (both before a sigmoid). Anchors are in pixels of the
network's input, which is `downsample_ratio` times as large as the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, OF_2X_ATTR, AttrType, Op, Spec, later, required
from fluidlite.ops.kernels.boxes import overlaps
from fluidlite.ops.kernels.numbers import check_classes
from fluidlite.ops.signatures import with_attrs


def _sigmoid(xp: Any, x: Array) -> Array:
    result: Array = 1 / (1 + xp.exp(-x))
    return result


def _check_predictions(op: str, X: Spec, anchors: int, class_num: int, more: int = 0) -> None:
    channels = anchors * (5 + more + class_num)
    if class_num <= 0:
        raise ShapeError(f"op {op!r}: class_num is {class_num}, wanted a number above 0")
    if len(X.shape) != 4 or X.shape[1] not in (channels, -1):
        raise ShapeError(
            f"op {op!r}: X has the shape {list(X.shape)}, wanted [N, {channels}, H, W] for {anchors} anchors "
            f"and {class_num} classes"
        )


def _check_anchors(op: str, anchors: Sequence[int]) -> None:
    if not anchors or len(anchors) % 2:
        raise ShapeError(f"op {op!r}: anchors are {list(anchors)}, wanted pairs of width and height")


def _centers(xp: Any, grid: Array, scale: float) -> tuple[Array, Array]:
    """x and y of the boxes' centers in cells of the map, [N, anchors, H, W] each; `grid` is [N, anchors, 5 +
    classes, H, W].
    """
    rows, columns = (xp.arange(size, dtype=grid.dtype) for size in grid.shape[3:])
    stretch = grid.dtype.type(scale)
    shift = grid.dtype.type(-0.5 * (scale - 1))
    return (
        columns + (_sigmoid(xp, grid[:, :, 0]) * stretch + shift),
        rows[:, None] + (_sigmoid(xp, grid[:, :, 1]) * stretch + shift),
    )


def _anchor_sizes(xp: Any, anchors: Sequence[int], like: Array) -> Array:
    """[anchors, 2]: width and height."""
    found = np.array(anchors, like.dtype).reshape(-1, 2)
    return xp.asarray(found)


# ---------------------------------------------------------------------- boxes
_BOX_ATTRS: dict[str, Any] = {
    "anchors": INTS([]),
    "class_num": required(AttrType.INT),
    "conf_thresh": 0.009999999776482582,
    "downsample_ratio": 32,
    "clip_bbox": True,
    "scale_x_y": 1.0,
    "iou_aware": later(False),
    "iou_aware_factor": later(0.5),
    OF_2X_ATTR: later(False),
}
yolo_box = Op("yolo_box", "X. ImgSize -> Boxes Scores", attrs=_BOX_ATTRS, lod=None, version=1)


@yolo_box.shape
def _(X: Spec, ImgSize: Spec, anchors: Sequence[int], class_num: int, iou_aware: bool) -> tuple[Spec, Spec]:
    _check_anchors("yolo_box", anchors)
    # an overlap for each anchor stands in front of the predictions
    _check_predictions("yolo_box", X, len(anchors) // 2, class_num, int(iou_aware))
    if len(ImgSize.shape) != 2 or ImgSize.shape[1] not in (2, -1):
        raise ShapeError(
            f"op 'yolo_box': ImgSize has the shape {list(ImgSize.shape)}, wanted [N, 2] (height, width)"
        )
    if min(X.shape[2:]) >= 0:
        boxes = X.shape[2] * X.shape[3] * (len(anchors) // 2)
    else:
        boxes = -1
    return X.with_shape((X.shape[0], boxes, 4)), X.with_shape((X.shape[0], boxes, class_num))


@yolo_box.kernel
@with_attrs(_BOX_ATTRS)
def _(xp: Any, X: Array, ImgSize: Array, attrs: dict[str, Any]) -> tuple[Array, Array]:
    anchors = _anchor_sizes(xp, attrs["anchors"], X)
    n, _, height, width = X.shape
    grid = X[:, len(anchors) if attrs["iou_aware"] else 0 :].reshape(n, len(anchors), -1, height, width)
    confidence = _sigmoid(xp, grid[:, :, 4])
    if attrs["iou_aware"]:
        share = X.dtype.type(attrs["iou_aware_factor"])
        confidence = confidence ** (1 - share) * _sigmoid(xp, X[:, : len(anchors)]) ** share
    # what is not sure enough stays zero; of a trained net that is nearly all. A nan is shown
    sure = xp.nonzero(~(confidence < X.dtype.type(attrs["conf_thresh"])))
    image, anchor, row, column = sure
    found = grid.transpose(0, 1, 3, 4, 2)[sure]
    confidence = confidence[sure]
    sizes = ImgSize.astype(X.dtype)[image]

    stretch = X.dtype.type(attrs["scale_x_y"])
    shift = X.dtype.type(-0.5 * (attrs["scale_x_y"] - 1))
    cells = xp.stack((column, row), axis=1) + (_sigmoid(xp, found[:, :2]) * stretch + shift)
    # rows count for the width as well where the map is no square: so they do in 1.8.5, no longer in 2.6.2
    counts = xp.asarray([width if attrs[OF_2X_ATTR] else height, height], X.dtype)
    centers = cells * sizes[:, ::-1] / counts
    halves = xp.exp(found[:, 2:4]) * anchors[anchor] * sizes[:, ::-1]
    halves /= 2 * attrs["downsample_ratio"] * counts
    low = centers - halves
    high = centers + halves
    if attrs["clip_bbox"]:
        low = xp.maximum(low, 0)
        high = xp.minimum(high, sizes[:, ::-1] - 1)

    boxes = xp.zeros((n, len(anchors), height, width, 4), X.dtype)
    boxes[sure] = xp.concatenate((low, high), axis=1)
    scores = xp.zeros((n, len(anchors), height, width, attrs["class_num"]), X.dtype)
    scores[sure] = confidence[:, None] * _sigmoid(xp, found[:, 5:])
    return boxes.reshape(n, -1, 4), scores.reshape(n, -1, attrs["class_num"])


# ---------------------------------------------------------------------- loss
_LOSS_ATTRS: dict[str, Any] = {
    "anchors": INTS([]),
    "anchor_mask": INTS([]),
    "class_num": required(AttrType.INT),
    "ignore_thresh": 0.699999988079071,
    "downsample_ratio": 32,
    "use_label_smooth": True,
    "scale_x_y": 1.0,
}
yolov3_loss = Op(
    "yolov3_loss",
    "X. GTBox. GTLabel GTScore.? -> Loss ObjectnessMask GTMatchMask",
    attrs=_LOSS_ATTRS,
    lod=None,
    constants=("ObjectnessMask", "GTMatchMask"),
    alike=("X", "GTBox", "GTScore"),
)


@yolov3_loss.shape
def _(
    X: Spec,
    GTBox: Spec,
    GTLabel: Spec,
    GTScore: Spec | None,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
) -> tuple[Spec, Spec, Spec]:
    op = "yolov3_loss"
    _check_anchors(op, anchors)
    for index in anchor_mask:
        if not 0 <= index < len(anchors) // 2:
            raise ShapeError(
                f"op {op!r}: anchor_mask holds {index}, but there are {len(anchors) // 2} anchors"
            )
    _check_predictions(op, X, len(anchor_mask), class_num)
    if X.shape[2] != X.shape[3]:
        raise ShapeError(f"op {op!r}: X has the shape {list(X.shape)}, but height and width must be equal")
    if len(GTBox.shape) != 3 or GTBox.shape[2] not in (4, -1):
        raise ShapeError(f"op {op!r}: GTBox has the shape {list(GTBox.shape)}, wanted [N, objects, 4]")
    for slot, spec in (("GTLabel", GTLabel), ("GTScore", GTScore)):
        if spec is not None and any(
            -1 not in pair and pair[0] != pair[1] for pair in zip(spec.shape, GTBox.shape)
        ):
            raise ShapeError(
                f"op {op!r}: {slot} has the shape {list(spec.shape)}, wanted {list(GTBox.shape[:2])} as GTBox"
            )
    mask = (X.shape[0], len(anchor_mask), *X.shape[2:])
    return X.with_shape(X.shape[:1]), X.with_shape(mask), Spec(GTBox.shape[:2], VarType.INT32)


def _corners(xp: Any, centers: Array, sizes: Array) -> Array:
    return xp.concatenate((centers - sizes / 2, centers + sizes / 2), axis=-1)


def _ignored(xp: Any, grid: Array, GTBox: Array, attrs: dict[str, Any]) -> Array:
    """True for each predicted box that overlaps an object of its image too well to be called background."""
    x, y = _centers(xp, grid, attrs["scale_x_y"])
    size = grid.shape[3]
    anchors = _anchor_sizes(xp, attrs["anchors"], grid)[xp.asarray(attrs["anchor_mask"])]
    sizes = xp.exp(grid[:, :, 2:4].transpose(0, 1, 3, 4, 2)) * anchors[:, None, None]
    sizes /= grid.dtype.type(attrs["downsample_ratio"] * size)
    predicted = _corners(xp, xp.stack((x, y), axis=-1) / grid.dtype.type(size), sizes)
    out = xp.zeros(x.shape, bool)
    for image, (boxes, objects) in enumerate(zip(predicted, GTBox, strict=True)):
        real = objects[(objects[:, 2:] > _LEAST).all(axis=1)]
        if len(real):
            best = overlaps(xp, boxes.reshape(-1, 4), _corners(xp, real[:, :2], real[:, 2:]), True).max(
                axis=1
            )
            out[image] = (best > grid.dtype.type(attrs["ignore_thresh"])).reshape(out.shape[1:])
    return out


_LEAST = 1e-6  # objects that are no wider or higher than this part of the image are padding


def _matches(xp: Any, GTBox: Array, pixels: int, attrs: dict[str, Any]) -> Array:
    """For each object the position in `anchor_mask` of the anchor whose shape is most like its own; -1 where
    it is none of these, or no object.
    """
    anchors = _anchor_sizes(xp, attrs["anchors"], GTBox) / GTBox.dtype.type(pixels)
    sizes = GTBox[..., 2:].reshape(-1, 2)
    shapes, others = (_corners(xp, xp.zeros_like(part), part) for part in (sizes, anchors))
    best = overlaps(xp, shapes, others, True).argmax(axis=1)
    position = np.full(len(anchors), -1, np.int32)
    # an anchor that is listed twice counts where it comes first
    position[list(reversed(attrs["anchor_mask"]))] = range(len(attrs["anchor_mask"]))[::-1]
    found = xp.where((sizes > _LEAST).all(axis=1), xp.asarray(position)[best], -1)
    return found.reshape(GTBox.shape[:2]).astype(np.int32)


class _Targets:
    """Targets of the cells that answer for objects: one entry an object that has such a cell."""

    def __init__(
        self,
        xp: Any,
        grid: Array,
        objects: tuple[Array, Array, Array | None],
        matches: Array,
        attrs: dict[str, Any],
    ) -> None:
        boxes, labels, scores = objects
        self.image, which = xp.nonzero(matches >= 0)
        found = boxes[self.image, which]
        size = grid.shape[3]
        cells = xp.minimum((found[:, :2] * grid.dtype.type(size)).astype(np.int64), size - 1)
        anchor = matches[self.image, which]
        self.cells = (self.image, anchor, cells[:, 1], cells[:, 0])
        self.score = (
            xp.ones(len(which), grid.dtype)
            if scores is None
            else scores[self.image, which].astype(grid.dtype)
        )
        self.places = found[:, :2] * grid.dtype.type(size) - cells.astype(grid.dtype)
        anchors = _anchor_sizes(xp, attrs["anchors"], grid)[xp.asarray(attrs["anchor_mask"])]
        pixels = grid.dtype.type(attrs["downsample_ratio"] * size)
        self.sizes = xp.log(found[:, 2:] * pixels / anchors[anchor])
        # small objects weigh up to twice as much
        self.weight = (2 - found[:, 2] * found[:, 3]) * self.score
        if attrs["use_label_smooth"]:
            smooth = min(1 / attrs["class_num"], 1 / 40)
        else:
            smooth = 0
        self.labels = xp.full((len(which), attrs["class_num"]), smooth, grid.dtype)
        of_objects = labels[self.image, which]
        check_classes(xp, "yolov3_loss", "GTLabel", of_objects, attrs["class_num"])
        self.labels[xp.arange(len(which)), of_objects] = 1 - smooth
        self.said = grid.transpose(0, 1, 3, 4, 2)[self.cells]


def _cross_entropy(xp: Any, x: Array, label: Array | float) -> Array:
    """Of sigmoid(x) with the label, without overflow."""
    result: Array = xp.maximum(x, 0) - x * label + xp.log1p(xp.exp(-xp.abs(x)))
    return result


def _sum_by_image(xp: Any, values: Array, images: Array, count: int) -> Array:
    return xp.bincount(images, weights=values, minlength=count).astype(values.dtype)


@yolov3_loss.kernel
@with_attrs(_LOSS_ATTRS)
def _(
    xp: Any, X: Array, GTBox: Array, GTLabel: Array, GTScore: Array | None, attrs: dict[str, Any]
) -> tuple[Array, Array, Array]:
    n, _, size, _ = X.shape
    grid = X.reshape(n, len(attrs["anchor_mask"]), -1, size, size)
    matches = _matches(xp, GTBox, attrs["downsample_ratio"] * size, attrs)
    objects = xp.where(_ignored(xp, grid, GTBox, attrs), X.dtype.type(-1), X.dtype.type(0))
    targets = _Targets(xp, grid, (GTBox, GTLabel, GTScore), matches, attrs)
    objects[targets.cells] = targets.score

    said = targets.said
    place = _cross_entropy(xp, said[:, :2], targets.places) + xp.abs(targets.sizes - said[:, 2:4])
    kinds = _cross_entropy(xp, said[:, 5:], targets.labels).sum(axis=1)
    loss = _sum_by_image(xp, place.sum(axis=1) * targets.weight + kinds * targets.score, targets.image, n)
    sure = grid[:, :, 4]
    background = xp.where(objects > -0.5, _cross_entropy(xp, sure, 0.0), 0)
    loss += xp.where(objects > 1e-5, _cross_entropy(xp, sure, 1.0) * objects, background).sum(axis=(1, 2, 3))
    return loss, objects, matches


@yolov3_loss.grad("X")
@with_attrs(_LOSS_ATTRS)
def _(
    xp: Any,
    X: Array,
    GTBox: Array,
    GTLabel: Array,
    GTScore: Array | None,
    ObjectnessMask: Array,
    GTMatchMask: Array,
    dLoss: Array,
    attrs: dict[str, Any],
) -> Array:
    n, _, size, _ = X.shape
    grid = X.reshape(n, len(attrs["anchor_mask"]), -1, size, size)
    targets = _Targets(xp, grid, (GTBox, GTLabel, GTScore), GTMatchMask, attrs)
    dGrid = xp.zeros_like(grid)
    sure = _sigmoid(xp, grid[:, :, 4])
    background = xp.where(ObjectnessMask > -0.5, sure, 0)
    dGrid[:, :, 4] = xp.where(ObjectnessMask > 1e-5, (sure - 1) * ObjectnessMask, background)
    dGrid[:, :, 4] *= dLoss[:, None, None, None]

    said = targets.said
    weight, score = (part * dLoss[targets.image] for part in (targets.weight, targets.score))
    place = (_sigmoid(xp, said[:, :2]) - targets.places) * weight[:, None]
    extent = xp.sign(said[:, 2:4] - targets.sizes) * weight[:, None]
    by_cell = dGrid.transpose(0, 1, 3, 4, 2)
    # of several objects with one cell the last decides, where the loss has them all: so do 1.8.5 and the
    # authors' own code
    by_cell[(*targets.cells, slice(0, 4))] = xp.concatenate((place, extent), axis=1)
    by_cell[(*targets.cells, slice(5, None))] = (_sigmoid(xp, said[:, 5:]) - targets.labels) * score[:, None]
    return dGrid.reshape(X.shape)
