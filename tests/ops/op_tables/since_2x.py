"""Ops that came with PaddlePaddle 2.x: picking, repeating, bits, padding, resizing, recurrences, updates."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from optest import Case

rng = np.random.RandomState(22)


def f(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


def _after(shape: tuple[int, ...], index: np.ndarray, axis: int, value: np.ndarray) -> np.ndarray:
    out = np.zeros(shape, "float32")
    np.put_along_axis(out, index, value, axis)
    return out


def _set(Input: np.ndarray, where: tuple[object, ...], value: object) -> np.ndarray:
    out = Input.copy()
    out[where] = value
    return out


PART = {"axes": [0, 1], "starts": [0, 1], "ends": [3, 2147483647], "steps": [2, 1]}
ROW = {"axes": [0], "starts": [-1], "ends": [2147483647], "steps": [1], "decrease_axes": [0]}
MASK = np.array([[True, False, True], [False, True, True]])
PLACES = np.array([[0, 2], [1, 0]])
SIDES = [1, 0, 0, 2, 1, 1]
PAIRS = ((0, 0), (0, 0), (1, 1), (0, 2), (1, 0))


def _scaling(
    found: bool, good: int, bad: int, scale: float, wanted: tuple[float, int, int], **attrs: bool
) -> Case:
    """A step of the loss scale, as 2.6.2 takes it: (scale, good steps, bad steps) after it."""
    grads = [f(2), f(3)]
    return Case(
        "update_loss_scaling",
        {
            "X": grads,
            "FoundInfinite": np.array([found]),
            "PrevLossScaling": np.array([scale], "float32"),
            "InGoodSteps": np.array([good], "int32"),
            "InBadSteps": np.array([bad], "int32"),
        },
        {
            "Out": [grad * (not found) for grad in grads],
            "LossScaling": np.array(wanted[:1], "float32"),
            "OutGoodSteps": np.array(wanted[1:2], "int32"),
            "OutBadSteps": np.array(wanted[2:], "int32"),
        },
        {
            "incr_every_n_steps": 2,
            "decr_every_n_nan_or_inf": 2,
            "incr_ratio": 2.0,
            "decr_ratio": 0.5,
            **attrs,
        },
        outputs={"Out": 2},
        name=f"{found}, {good} good, {bad} bad, {scale}" + ", stopped" * bool(attrs),
    )


GRADS = [np.array([1, np.inf, 3], "float32"), np.array([4, 5], "float32")]
ADAM = {
    **{slot: f(2) for slot in ("Param", "Grad", "Moment1", "Moment2")},
    **{slot: np.array([0.5], "float32") for slot in ("LearningRate", "Beta1Pow", "Beta2Pow")},
}
IMAGES = np.arange(18, dtype="float32").reshape(2, 1, 3, 3) ** np.float32(1.5)
REGIONS = {
    "ROIs": np.array([[0, 0, 2, 2], [0, 1, 1, 2], [1, 0, 2, 1]], "float32"),
    "RoisNum": np.array([2, 1], "int32"),
}
BINS = {"pooled_height": 2, "pooled_width": 2}
# by 2.6.2
ALIGNED = [
    [0.8027042, 1.9714918, 6.0724568, 8.4927073],
    [3.8971145, 4.4853358, 7.5713491, 8.3360281],
    [30.4670830, 32.8377991, 34.2369194, 36.6908302],
]
LARGEST = [
    [8.0, 11.1803398, 18.5202579, 22.6274166],
    [5.1961527, 8.0, 14.6969385, 18.5202579],
    [31.6227760, 36.4828720, 46.8721657, 52.3832016],
]


def reduced(how: str, include_self: bool) -> Callable[..., Any]:
    """put_along_axis along the second dimension, place by place."""
    combine = {"add": np.sum, "mul": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[how]

    def forward(Input: Any, Index: Any, Value: Any) -> Any:
        out = Input.copy()
        for row, column in np.ndindex(out.shape):
            new = [v for i, v in zip(Index[row], Value[row], strict=True) if i == column]
            old = [Input[row, column]] if include_self or not new else []
            out[row, column] = combine([*old, *new]) if new else Input[row, column]
        return out

    return forward


IDS, ROWS = np.array([0, 0, 2]), np.array([[1, 5], [3, 2], [-4, -6]], "float32")
SEGMENTS = {
    "SUM": [[4, 7], [0, 0], [-4, -6]],
    "MEAN": [[2, 3.5], [0, 0], [-4, -6]],
    "MAX": [[3, 5], [0, 0], [-4, -6]],
    "MIN": [[1, 2], [0, 0], [-4, -6]],
}
EDGES = {"Src_index": np.array([0, 1, 2]), "Dst_index": np.array([0, 0, 2])}

SENT = {"Src_index": np.array([0, 1, 2]), "Dst_index": np.array([0, 0, 2])}
PULLED = {"x": ROWS, "y": ROWS, "src_index": SENT["Src_index"], "dst_index": SENT["Dst_index"]}

SCORED = f(1, 2, 3, 4)
HIDDEN = np.array([[0, -1e4, 0, 1]] * 3, "float32").reshape(1, 1, 3, 4)


def _masked(X: np.ndarray, Mask: np.ndarray) -> np.ndarray:
    exps = np.exp(X + Mask)
    return exps / exps.sum(-1, keepdims=True)


TAGGED, MOVES = f(2, 3, 3), f(3, 3)


def _best(Input: np.ndarray, Transition: np.ndarray, Length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best of all sequences of tags."""
    scores, paths = [], np.zeros(Input.shape[:2], "int64")
    for row, length in enumerate(Length):
        found = []
        for tags in itertools.product(range(3), repeat=int(length)):
            score = sum(Input[row, step, tag] for step, tag in enumerate(tags))
            score += sum(Transition[pair] for pair in itertools.pairwise((2, *tags)))
            found.append((score + Transition[1, tags[-1]], tags))
        scores.append(max(found)[0])
        paths[row, :length] = max(found)[1]
    return np.array(scores, "float32"), paths


CASES = [
    *(
        Case("identity_loss", {"X": ROWS}, wanted, {"reduction": number}, grad=["X"], name=f"{number}")
        for number, wanted in enumerate((ROWS.sum(), ROWS.mean(), ROWS))
    ),
    Case("fused_softmax_mask", {"X": SCORED, "Mask": HIDDEN}, _masked, grad=["X"]),
    Case("viterbi_decode", {"Input": TAGGED, "Transition": MOVES, "Length": np.array([3, 2])}, _best),
    *(
        Case(
            "graph_send_ue_recv",
            {"X": ROWS, "Y": np.array([[2], [-1], [3]], "float32"), **SENT},
            {"Out": np.array(rows, "float32"), "Dst_count": np.array([2, 0, 1], "int32")},
            {"message_op": message, "reduce_op": how},
            grad=["X", "Y"],
            name=f"{message} {how}",
        )
        for message, how, rows in (
            ("ADD", "SUM", [[5, 8], [0, 0], [-1, -3]]),
            ("MUL", "MEAN", [[-0.5, 4], [0, 0], [-12, -18]]),
            ("MUL", "MAX", [[2, 10], [0, 0], [-12, -18]]),
        )
    ),
    *(
        Case(
            "graph_send_uv",
            PULLED,
            np.array(rows, "float32"),
            {"message_op": message},
            grad=["x", "y"],
            name=message,
        )
        for message, rows in (("ADD", [[2, 10], [4, 7], [-8, -12]]), ("MUL", [[1, 25], [3, 10], [16, 36]]))
    ),
    Case(
        "graph_reindex",
        {"X": np.array([7, 3]), "Neighbors": np.array([3, 9, 7]), "Count": np.array([1, 2], "int32")},
        (np.array([1, 2, 0]), np.array([0, 1, 1]), np.array([7, 3, 9])),
    ),
    *(
        Case(
            "segment_pool",
            {"X": ROWS, "SegmentIds": IDS},
            {"Out": np.array(rows, "float32"), "SummedIds": np.array([[2], [0], [1]], "float32")},
            {"pooltype": how},
            grad=["X"],
            name=how,
        )
        for how, rows in SEGMENTS.items()
    ),
    *(
        Case(
            "graph_send_recv",
            {"X": ROWS, **EDGES},
            {"Out": np.array([*rows, [0, 0]], "float32"), "Dst_count": np.array([2, 0, 1, 0], "int32")},
            {"reduce_op": how, "out_size": [4]},
            grad=["X"],
            name=how,
        )
        for how, rows in SEGMENTS.items()
    ),
    Case(
        "roi_align",
        {"X": IMAGES, **REGIONS},
        {"Out": np.array(ALIGNED, "float32").reshape(3, 1, 2, 2)},
        {**BINS, "sampling_ratio": 2, "aligned": True},
        grad=["X"],
        rtol=1e-5,
        name="aligned, counts",
    ),
    Case(
        "roi_pool",
        {"X": IMAGES, **REGIONS},
        {"Out": np.array(LARGEST, "float32").reshape(3, 1, 2, 2)},
        BINS,
        grad=["X"],
        rtol=1e-5,
        name="counts",
    ),
    Case(
        "psroi_pool",
        {
            "X": np.arange(8, dtype="float32").reshape(2, 4, 1, 1) * np.ones((1, 1, 3, 3), "float32"),
            **REGIONS,
        },
        # images of one value a channel: each bin has the mean of its own channel
        {"Out": np.array([[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]], "float32").reshape(3, 1, 2, 2)},
        {**BINS, "output_channels": 1},
        name="counts",
    ),
    Case(
        "check_finite_and_unscale",
        {"X": [f(3), f(2, 2)], "Scale": np.array([4], "float32")},
        lambda X, Scale: {"Out": [x / Scale for x in X], "FoundInfinite": np.array([False])},
        outputs={"Out": 2},
    ),
    Case(
        "check_finite_and_unscale",
        {"X": GRADS, "Scale": np.array([4], "float32")},
        {
            "Out": [np.array([0, np.nan, 0], "float32"), np.zeros(2, "float32")],
            "FoundInfinite": np.array([True]),
        },
        outputs={"Out": 2},
        name="infinite",
    ),
    Case("memcpy", {"X": f(2, 3)}, lambda X: X, {"dst_place_type": 0}),
    Case(
        "adam",
        {**ADAM, "SkipUpdate": np.array([True])},
        {"ParamOut": ADAM["Param"], "Moment1Out": ADAM["Moment1"], "Beta2PowOut": ADAM["Beta2Pow"]},
        name="skipped",
    ),
    _scaling(False, 0, 0, 8, (8, 1, 0)),
    _scaling(False, 1, 1, 8, (16, 0, 0)),
    _scaling(False, 4, 1, 8, (8, 5, 0)),
    _scaling(True, 1, 0, 8, (8, 0, 1)),
    _scaling(True, 1, 1, 8, (4, 0, 0)),
    _scaling(True, 1, 1, 1, (1, 0, 0)),
    _scaling(False, 1, 0, 2e38, (2e38, 0, 0)),
    _scaling(True, 1, 1, 8, (8, 1, 1), stop_update=True),
    Case(
        "set_value",
        {"Input": f(3, 4), "ValueTensor": f(2, 1)},
        lambda Input, ValueTensor: _set(Input, np.s_[::2, 1:], ValueTensor),
        PART,
        grad=["Input", "ValueTensor"],
        name="repeated",
    ),
    Case(
        "set_value",
        {"Input": f(3, 4), "ValueTensor": f(1, 1, 4)},
        lambda Input, ValueTensor: _set(Input, np.s_[-1], ValueTensor[0, 0]),
        ROW,
        grad=["Input", "ValueTensor"],
        name="a row",
    ),
    Case(
        "set_value",
        {"Input": f(3, 4)},
        lambda Input: _set(Input, np.s_[::2, 1:], 5.0),
        {**PART, "shape": [1], "values": [5.0]},
        grad=["Input"],
        name="a number",
    ),
    Case(
        "set_value",
        {"Input": f(3, 4), "StartsTensorList": [np.array([2])], "EndsTensorList": [np.array([-1])]},
        lambda Input, **limits: _set(Input, np.s_[::-1], np.array([[1.0], [2], [3]])),
        {"axes": [0], "steps": [-1], "shape": [3, 1], "values": [1.0, 2.0, 3.0]},
        name="backwards",
    ),
    Case("masked_select", {"X": f(2, 3), "Mask": MASK}, lambda X, Mask: X[Mask], grad=["X"]),
    Case(
        "take_along_axis",
        {"Input": f(2, 3), "Index": PLACES},
        lambda Input, Index: np.take_along_axis(Input, Index, 1),
        attrs={"Axis": 1},
        grad=["Input"],
    ),
    Case(
        "put_along_axis",
        {"Input": np.zeros((2, 3), "float32"), "Index": PLACES, "Value": f(2, 2)},
        lambda Input, Index, Value: _after(Input.shape, Index, 1, Value),
        attrs={"Axis": 1},
        grad=["Input", "Value"],
    ),
    Case(
        "index_add",
        {"X": f(3, 2), "Index": np.array([2, 0]), "AddValue": f(2, 2)},
        lambda X, Index, AddValue: X + np.stack([AddValue[1], 0 * AddValue[0], AddValue[0]]),
        grad=["X", "AddValue"],
    ),
    Case("diag_v2", {"X": f(3)}, lambda X: np.diag(X, 1), attrs={"offset": 1}, grad=["X"]),
    Case("diag_v2", {"X": f(3, 4)}, lambda X: np.diag(X, 1), attrs={"offset": 1}, grad=["X"], name="taken"),
    Case("conj", {"X": f(2, 3)}, lambda X: X, grad=["X"]),
    Case("equal_all", {"X": f(2, 3), "Y": f(2, 3)}, lambda X, Y: np.array(False)),
    Case("bitwise_and", {"X": PLACES, "Y": PLACES + 1}, lambda X, Y: X & Y),
    Case("bitwise_or", {"X": PLACES, "Y": PLACES + 1}, lambda X, Y: X | Y),
    Case("bitwise_xor", {"X": PLACES, "Y": PLACES + 1}, lambda X, Y: X ^ Y),
    Case("bitwise_not", {"X": MASK}, lambda X: ~X),
    Case("share_data", {"X": f(2, 3)}, lambda X: X),
    Case("empty", {}, lambda: np.zeros((2, 3), "float32"), attrs={"shape": [2, 3]}),
    Case(
        "pad3d",
        {"X": f(1, 2, 2, 3, 3)},
        lambda X: np.pad(X, PAIRS, constant_values=0.5),
        attrs={"paddings": SIDES, "value": 0.5},
        grad=["X"],
    ),
    Case(
        "pad3d",
        {"X": f(1, 2, 3, 3, 3)},
        lambda X: np.pad(X, PAIRS, mode="reflect"),
        attrs={"paddings": SIDES, "mode": "reflect"},
        grad=["X"],
        name="reflect",
    ),
    Case(
        "nearest_interp_v2",
        {"X": f(1, 2, 2, 3)},
        lambda X: X.repeat(2, 2).repeat(2, 3),
        attrs={"scale": [2.0], "align_corners": False, "interp_method": "nearest"},
        grad=["X"],
    ),
    Case(
        "bilinear_interp_v2",
        {"X": f(1, 1, 1, 2)},
        lambda X: X[..., :1] + (X[..., 1:] - X[..., :1]) * np.array([0, 0.5, 1], "float32"),
        attrs={"out_h": 1, "out_w": 3},
        grad=["X"],
    ),
    *(
        Case(
            "put_along_axis",
            {
                "Input": np.array([[1.5, 2.5, -3.0], [0.5, 4.0, 2.0]], "float32"),
                "Index": np.array([[0, 0, 2], [1, 0, 1]]),
                "Value": np.array([[-2.0, 3.0, 1.25], [5.0, 0.25, -0.75]], "float32"),
            },
            reduced(how, include_self),
            attrs={"Axis": 1, "Reduce": how, "Include_self": include_self},
            grad=["Input", "Value"],
            name=f"{how}-{include_self}",
        )
        for how in ("add", "mul", "mean", "amax", "amin")
        for include_self in (True, False)
    ),
    Case(
        "put_along_axis",
        {
            "Input": np.array([[0.0, 2.5]], "float32"),
            "Index": np.array([[0, 0, 1]]),
            "Value": np.array([[3.0, 2.0, 0.0]], "float32"),
        },
        reduced("mul", True),
        attrs={"Axis": 1, "Reduce": "mul"},
        grad=["Input", "Value"],
        name="zeros",
    ),
    Case(
        "take_along_axis",
        {"Input": f(3, 4), "Index": np.array([[2, 0]])},
        lambda Input, Index: Input[Index, [[0, 1]]],
        attrs={"Axis": 0},
        grad=["Input"],
        name="fewer",
    ),
    Case(
        "bilinear_interp_v2",
        {"X": f(1, 1, 1, 3)},
        lambda X: X[..., :1],
        attrs={"scale": [1.0, 0.5], "align_corners": False, "align_mode": 0},
        grad=["X"],
        name="one-pixel",
    ),
    Case(
        "lstsq",
        {"X": np.array([[1.0], [2.0]], "float32"), "Y": np.array([[1.0], [2.0]], "float32")},
        lambda X, Y: {"Solution": np.ones((1, 1)), "Rank": np.zeros(0, "int32")},
        attrs={"driver": "gels"},
        ignore=["Residuals", "SingularValues"],
        name="gels",
    ),
]
