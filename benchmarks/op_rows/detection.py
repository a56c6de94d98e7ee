"""Ops of detectors at the sizes of small maps, of an SSD300 or YOLOv3, and beyond."""

from __future__ import annotations

from typing import Any

import numpy as np

Row = Any  # Python 3.7 cannot say dict[str, Any] here
RNG = np.random.RandomState(3)
VARIANCES = [0.1, 0.1, 0.2, 0.2]


def corners(*shape: int, scale: float = 1.0) -> np.ndarray:
    low = RNG.uniform(0, 0.9, shape + (2,))
    return (np.concatenate((low, low + RNG.uniform(0.01, 0.2, shape + (2,))), -1) * scale).astype("float32")


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(0, 1, shape).astype("float32")


def row(op: str, inputs: Any, outputs: Any, attrs: Any = None, grad: Any = ()) -> Row:
    return {"op": op, "inputs": inputs, "outputs": outputs, "attrs": attrs or {}, "grad": list(grad)}


def maps(size: int) -> dict[str, np.ndarray]:
    return {"Input": np.zeros((1, 8, size, size), "float32"), "Image": np.zeros((1, 3, 300, 300), "float32")}


def iou_similarity(objects: int, priors: int) -> Row:
    return row("iou_similarity", {"X": corners(objects), "Y": corners(priors)}, ["Out"])


def box_coder(code: str, objects: int, priors: int) -> Row:
    target = corners(objects) if code == "encode_center_size" else uniform(objects, priors, 4)
    inputs = {"PriorBox": corners(priors), "PriorBoxVar": uniform(priors, 4) + 0.1, "TargetBox": target}
    return row("box_coder", inputs, ["OutputBox"], {"code_type": code})


def box_clip(boxes: int) -> Row:
    inputs = {
        "Input": (corners(boxes, scale=900), [[boxes // 2, boxes - boxes // 2]]),
        "ImInfo": np.array([[600, 800, 1], [500, 700, 1]], "float32"),
    }
    return row("box_clip", inputs, ["Output"])


def prior_box(size: int) -> Row:
    attrs = {"min_sizes": [30.0], "max_sizes": [60.0], "aspect_ratios": [2.0, 3.0], "variances": VARIANCES}
    return row("prior_box", maps(size), ["Boxes", "Variances"], {**attrs, "flip": True, "clip": True})


def density_prior_box(size: int) -> Row:
    attrs = {"densities": [4, 2, 1], "fixed_sizes": [32.0, 64.0, 128.0], "fixed_ratios": [1.0]}
    return row("density_prior_box", maps(size), ["Boxes", "Variances"], {**attrs, "variances": VARIANCES})


def anchor_generator(size: int) -> Row:
    attrs = {
        "anchor_sizes": [64.0, 128.0, 256.0],
        "aspect_ratios": [0.5, 1.0, 2.0],
        "stride": [16.0, 16.0],
        "variances": VARIANCES,
    }
    return row("anchor_generator", {"Input": maps(size)["Input"]}, ["Anchors", "Variances"], attrs)


def bipartite_match(images: int, objects: int, priors: int) -> Row:
    near = uniform(images * objects, priors) ** 4
    attrs = {"match_type": "per_prediction", "dist_threshold": 0.5}
    slots = ["ColToRowMatchIndices:int32", "ColToRowMatchDist"]
    return row("bipartite_match", {"DistMat": (near, [[objects] * images])}, slots, attrs)


def matched(images: int, objects: int, priors: int) -> np.ndarray:
    free = RNG.uniform(size=(images, priors)) > 0.05
    return np.where(free, -1, RNG.randint(0, objects, (images, priors))).astype("int32")


def target_assign(images: int, objects: int, priors: int) -> Row:
    codes = uniform(images * objects, priors, 4)
    inputs = {"X": (codes, [[objects] * images]), "MatchIndices": matched(images, objects, priors)}
    return row("target_assign", inputs, ["Out", "OutWeight"])


def mine_hard_examples(images: int, priors: int) -> Row:
    inputs = {
        "ClsLoss": uniform(images, priors),
        "MatchIndices": matched(images, 5, priors),
        "MatchDist": uniform(images, priors),
    }
    slots = ["NegIndices:int32", "UpdatedMatchIndices:int32"]
    return row("mine_hard_examples", inputs, slots, {"neg_pos_ratio": 3.0, "neg_dist_threshold": 0.5})


def suppression(op: str, images: int, classes: int, boxes: int, most: int = 400) -> Row:
    """Scores as a trained net's: few are high."""
    attrs: dict[str, Any] = {"score_threshold": 0.01, "nms_top_k": most, "keep_top_k": 200}
    if op != "matrix_nms":
        attrs["nms_threshold"] = 0.45
    if op == "locality_aware_nms":
        attrs["background_label"] = -1
    inputs = {"BBoxes": corners(images, boxes), "Scores": uniform(images, classes, boxes) ** 30}
    return row(op, inputs, ["Out", "Index:int32"] if op == "matrix_nms" else ["Out"], attrs)


ANCHORS = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326]


def yolo_box(images: int, size: int) -> Row:
    x = RNG.normal(-2, 1.5, (images, 255, size, size)).astype("float32")
    attrs = {"anchors": ANCHORS[:6], "class_num": 80, "conf_thresh": 0.01, "downsample_ratio": 32}
    inputs = {"X": x, "ImgSize": np.full((images, 2), 416, "int32")}
    return row("yolo_box", inputs, ["Boxes", "Scores"], attrs)


def yolov3_loss(images: int, size: int, objects: int) -> Row:
    x = RNG.normal(0, 1, (images, 255, size, size)).astype("float32")
    box = np.concatenate((uniform(images, objects, 2) * 0.9, uniform(images, objects, 2) * 0.4 + 0.02), -1)
    attrs = {
        "anchors": ANCHORS,
        "anchor_mask": [3, 4, 5],
        "class_num": 80,
        "ignore_thresh": 0.7,
        "downsample_ratio": 16,
    }
    labels = RNG.randint(0, 80, (images, objects)).astype("int32")
    inputs = {"X": x, "GTBox": box, "GTLabel": labels}
    return row("yolov3_loss", inputs, ["Loss", "ObjectnessMask", "GTMatchMask:int32"], attrs, ["X"])


def polygon_box_transform(images: int, size: int) -> Row:
    return row("polygon_box_transform", {"Input": uniform(images, 8, size, size)}, ["Output"])


def box_decoder_and_assign(boxes: int, classes: int) -> Row:
    inputs = {
        "PriorBox": corners(boxes, scale=600),
        "PriorBoxVar": np.array(VARIANCES, "float32"),
        "TargetBox": uniform(boxes, classes * 4),
        "BoxScore": uniform(boxes, classes),
    }
    return row("box_decoder_and_assign", inputs, ["DecodeBox", "OutputAssignBox"], {"box_clip": 4.135})


ENCODE, DECODE = "encode_center_size", "decode_center_size"
ROWS: dict[str, list[Any]] = {
    "iou_similarity": [
        lambda: iou_similarity(5, 200),
        lambda: iou_similarity(20, 8732),
        lambda: iou_similarity(100, 24564),
    ],
    "box_coder encode": [
        lambda: box_coder(ENCODE, 5, 200),
        lambda: box_coder(ENCODE, 20, 8732),
        lambda: box_coder(ENCODE, 50, 24564),
    ],
    "box_coder decode": [
        lambda: box_coder(DECODE, 1, 200),
        lambda: box_coder(DECODE, 8, 8732),
        lambda: box_coder(DECODE, 16, 24564),
    ],
    "box_clip": [lambda: box_clip(100), lambda: box_clip(4000), lambda: box_clip(100000)],
    "prior_box": [lambda: prior_box(5), lambda: prior_box(19), lambda: prior_box(64)],
    "density_prior_box": [
        lambda: density_prior_box(5),
        lambda: density_prior_box(32),
        lambda: density_prior_box(64),
    ],
    "anchor_generator": [
        lambda: anchor_generator(8),
        lambda: anchor_generator(38),
        lambda: anchor_generator(100),
    ],
    "bipartite_match": [
        lambda: bipartite_match(1, 5, 200),
        lambda: bipartite_match(8, 10, 8732),
        lambda: bipartite_match(8, 50, 24564),
    ],
    "target_assign": [
        lambda: target_assign(1, 5, 200),
        lambda: target_assign(8, 10, 8732),
        lambda: target_assign(8, 20, 24564),
    ],
    "mine_hard_examples": [
        lambda: mine_hard_examples(1, 200),
        lambda: mine_hard_examples(8, 8732),
        lambda: mine_hard_examples(16, 24564),
    ],
    "multiclass_nms": [
        lambda: suppression("multiclass_nms", 1, 4, 200),
        lambda: suppression("multiclass_nms", 1, 21, 8732),
        lambda: suppression("multiclass_nms", 4, 81, 10647),
    ],
    "matrix_nms": [
        lambda: suppression("matrix_nms", 1, 4, 200),
        lambda: suppression("matrix_nms", 1, 21, 2000),
        lambda: suppression("matrix_nms", 2, 81, 10647),
    ],
    "locality_aware_nms": [
        lambda: suppression("locality_aware_nms", 1, 1, 200),
        lambda: suppression("locality_aware_nms", 1, 1, 2000),
        lambda: suppression("locality_aware_nms", 1, 1, 16384),
    ],
    "yolo_box": [lambda: yolo_box(1, 13), lambda: yolo_box(4, 26), lambda: yolo_box(4, 52)],
    "yolov3_loss": [
        lambda: yolov3_loss(1, 13, 5),
        lambda: yolov3_loss(4, 26, 20),
        lambda: yolov3_loss(8, 38, 50),
    ],
    "polygon_box_transform": [
        lambda: polygon_box_transform(1, 16),
        lambda: polygon_box_transform(4, 128),
        lambda: polygon_box_transform(16, 128),
    ],
    "box_decoder_and_assign": [
        lambda: box_decoder_and_assign(20, 5),
        lambda: box_decoder_and_assign(512, 81),
        lambda: box_decoder_and_assign(4000, 81),
    ],
}
