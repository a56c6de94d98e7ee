"""Further corners: whole numbers, attributes beside tensors, writing in place."""

from __future__ import annotations

import numpy as np

from .rows import Row, Rows, Seq, real, signed, truth, whole


def _ints(*values: int, dtype: str = "int32") -> np.ndarray:
    return np.array(values, dtype)


WIDE = signed(3, 4, dtype="float64")
TALL = signed(2, 3, 4, dtype="float64")
WHOLE = whole(3, 4, low=1, dtype="int32")
TABLE = Rows(whole(3, 2, dtype="int32"), [1, 3, 1], 6)
IMAGE = signed(1, 2, 5, 6, dtype="float64")

# attributes are 32-bit numbers, which shows beside float64
ROWS = [
    Row(op, {"X": WIDE}, attrs, grad=["X"], name="attributes", tolerance=1e-9)
    for op, attrs in (
        ("scale", {"scale": 2.3, "bias": 1.7}),
        ("stanh", {"scale_a": 0.3, "scale_b": 1.9}),
        ("soft_relu", {"threshold": 1.2}),
        ("swish", {"beta": 2.3}),
        ("thresholded_relu", {"threshold": 0.3}),
        ("mish", {"threshold": 0.7}),
    )
]
ROWS += [
    Row(op, {"X": signed(3, 4)}, alias={"Out": "X"}, name="in_place")
    for op in ("thresholded_relu", "softshrink", "relu6", "softplus", "round", "scale", "softmax")
]

# whole numbers
ROWS += [Row("pow", {"X": WHOLE}, {"factor": factor}, grad=["X"], name="whole") for factor in (2.5, 3.0)]
ROWS += [
    Row("scale", {"X": whole(3, 4, dtype=dtype)}, attrs, name="whole_" + dtype)
    for dtype in ("uint8", "int16", "int64")
    for attrs in ({"scale": -2.3, "bias": 1.7, "bias_after_scale": False}, {"bias": -3.0})
    if dtype != "uint8" or attrs["bias"] < 0
]
ROWS += [
    Row(op, {"X": WHOLE}, attrs, grad=["X"], name="whole")
    for op in ("reduce_mean", "reduce_sum", "reduce_prod", "reduce_max")
    for attrs in ({"dim": [0]}, {"reduce_all": True})
]
ROWS += [
    Row("sum", {"X": [TABLE, TABLE]}, rows=["Out"], name="whole_rows"),
    Row("sum", {"X": [whole(6, 2, dtype="int32"), TABLE]}, name="whole_rows"),
]

# what an attribute says beside tensors
ROWS += [
    Row(op, {"X": WIDE, slot: tensors}, {"axes": axes}, grad=["X"], outputs=outputs, name=f"{slot}{axes}")
    for op, outputs in (("unsqueeze", {}), ("unsqueeze2", {"XShape": 1}))
    for slot, tensors in (("AxesTensor", _ints(1, 2)), ("AxesTensorList", [_ints(1), _ints(-1)]))
    for axes in ([], [0, 1])
]
ROWS += [
    Row(op, {"X": TALL, "ShapeTensor": sizes}, {"shape": shape}, grad=grad, outputs=outputs, name=str(shape))
    for op, grad, outputs in (("reshape", [], {}), ("reshape2", ["X"], {"XShape": 1}))
    for sizes, shape in (([_ints(4), _ints(-1)], [4, -1]), ([_ints(4), _ints(6)], [-1, -1]))
]
ROWS += [
    Row("unbind", {"X": TALL}, {"axis": axis}, grad=["X"], wants=["Out"], outputs={"Out": n}, name="unknown",
        declared={"X": [-1, 3, 4]})
    for axis, n in ((0, 2), (-1, 4))
]  # fmt: skip

# norms, pools
ROWS += [
    Row("p_norm", {"X": signed(5)}, {"axis": 0, "keepdim": keep}, grad=["X"], name="vector")
    for keep in (True, False)
]
ROWS += [
    Row("pool2d", {"X": IMAGE}, dict(attrs, pooling_type=kind), grad=["X"], name=kind)
    for kind in ("max", "avg")
    for attrs in (
        {"ksize": [3, 2], "strides": [2, 3], "paddings": [1, 0], "ceil_mode": True},
        {"ksize": [3, 2], "strides": [2, 3], "paddings": [1, 0, 0, 1]},
    )
]
ROWS += [
    Row("spp", {"X": signed(1, 2, 3, 5)}, {"pyramid_height": 2, "pooling_type": "max"}, grad=["X"]),
    Row("spp", {"X": signed(1, 1, 3, 3)}, {"pyramid_height": 3, "pooling_type": "max"}, name="short"),
    Row(
        "roi_pool",
        {"X": signed(1, 2, 4, 5), "ROIs": Seq(np.array([[0, 0, 3, 3], [1, 1, 4, 2]], "float32"), [[2]])},
        {"pooled_height": 2, "pooled_width": 2},
        grad=["X"],
        outputs={"Argmax": 1},
        name="places",
    ),
]

# losses
ROWS += [
    Row(
        "nll_loss",
        {"X": signed(2, 3), "Label": _ints(1, 1, dtype="int64")},
        {"ignore_index": 1},
        grad=["X"],
        name="all_ignored",
    ),
    Row(
        "nce",
        {"Input": signed(3, 4), "Label": whole(3, 1), "Weight": signed(6, 4, key="w")},
        {"num_total_classes": 6, "num_neg_samples": 2, "custom_neg_classes": [1, 2], "is_sparse": True},
        grad=["Input", "Weight"],
        wants=["Cost"],
        outputs={"SampleLogits": 1, "SampleLabels": 1},
        name="rows_once",
    ),
    Row(
        "shard_index",
        {"X": whole(4, 3, high=20)},
        {"index_num": 20, "nshards": 2, "shard_id": 0},
        name="columns",
    ),
]

# what is refused
ROWS += [
    Row("temporal_shift", {"X": signed(4, 8, 2, 2)}, {"seg_num": 2, "shift_ratio": 0.6}, name="bad"),
    Row("roll", {"X": WIDE}, {"shifts": [1, 2], "dims": [0]}, name="bad"),
    Row("where", {"Condition": truth(3, 4), "X": WIDE, "Y": signed(4, dtype="float64")}, name="bad"),
    Row("where", {"Condition": truth(4), "X": WIDE, "Y": WIDE}, name="bad_condition"),
    Row("where", {"Condition": truth(3, 4), "X": WIDE, "Y": real(3, 4, dtype="float64")}, grad=["Y"]),
]
