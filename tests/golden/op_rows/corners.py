"""Corners of single ops that a sweep over attributes, types, sizes and sequences found."""

from __future__ import annotations

from .rows import Row, Seq, real, signed, whole

# ---------------------------------------------------------------------- attributes
_LSTMP = {
    "Input": Seq(signed(5, 12, dtype="float64"), [[2, 3]]),
    "Weight": signed(2, 12, dtype="float64"),
    "ProjWeight": signed(3, 2, dtype="float64"),
    "Bias": signed(1, 21, dtype="float64"),
}
_INNER = {"BatchGate": 1, "BatchCellPreAct": 1, "BatchHidden": 1}
ROWS = [
    Row(
        "lstmp",
        _LSTMP,
        {"cell_activation": cell, "proj_activation": projection},
        grad=list(_LSTMP),
        outputs=_INNER,
        ignore=list(_INNER),
        name=f"{cell}_{projection}",
    )
    for cell, projection in (("relu", "tanh"), ("tanh", "sigmoid"), ("sigmoid", "identity"))
]
ROWS += [
    Row(
        op,
        {"X": signed(2, 2, 3, 4, dtype="float64")},
        {"out_h": 5, "out_w": 3, "interp_method": method, "align_corners": corners},
        grad=["X"],
        name=f"{method}_{corners}",
        tolerance=4e-7,
    )
    for op in ("bilinear_interp", "nearest_interp", "bicubic_interp")
    for method in ("bilinear", "nearest", "bicubic")
    for corners in (True, False)
]
ROWS += [
    Row(
        "bilinear_interp",
        {"X": whole(1, 1, 3, 3, high=255, dtype="uint8", key=key)},
        {"out_h": 6, "out_w": 6, "align_corners": False, "align_mode": 0},
        name="whole_" + key,
        tolerance=0.0,
    )
    for key in "abc"
]
ROWS += [
    Row(
        "affine_channel", {"X": signed(2, 3, 2, 3), "Scale": real(3), "Bias": signed(3)}, grad=["X", "Scale"]
    ),
    *[
        Row(op, {"X": signed(3, 4)}, {"axis": 1, "dtype": dtype}, name=str(dtype))
        for op in ("arg_max", "arg_min")
        for dtype in (2, 5, 6)
    ],
    *[
        Row(
            "batch_norm",
            {
                "X": signed(*shape),
                "Scale": real(3),
                "Bias": signed(3),
                "Mean": signed(3),
                "Variance": real(3),
            },
            {"epsilon": 1e-5},
            grad=["X", "Scale", "Bias"],
            alias={"MeanOut": "Mean", "VarianceOut": "Variance"},
            outputs={"SavedMean": 1, "SavedVariance": 1},
            name=f"one_{len(shape)}",
        )
        for shape in ((1, 3), (1, 3, 1, 1))
    ],
]
# ---------------------------------------------------------------------- sequences
_TWO = [[1, 1]]
_IMAGE = Seq(signed(2, 3, 4, 4), _TWO)
ROWS += [
    Row("affine_grid", {"Theta": Seq(signed(2, 2, 3), _TWO)}, {"output_shape": [2, 3, 2, 3]}, name="lod"),
    Row("fsp", {"X": _IMAGE, "Y": signed(2, 2, 4, 4)}, name="lod"),
    Row(
        "bilinear_tensor_product",
        {"X": Seq(signed(2, 3), _TWO), "Y": Seq(signed(2, 4), _TWO), "Weight": signed(2, 3, 4)},
        name="lod",
    ),
    Row("index_sample", {"X": signed(2, 3), "Index": Seq(whole(2, 2, high=3), _TWO)}, name="lod"),
    Row(
        "accuracy",
        {"Out": Seq(real(2, 1), _TWO), "Indices": whole(2, 1, high=2), "Label": whole(2, 1, high=2)},
        name="lod",
    ),
    Row(
        "center_loss",
        {
            "X": Seq(signed(2, 3), _TWO),
            "Label": Seq(whole(2, 1, high=2), _TWO),
            "Centers": signed(2, 3, key="c"),
            "CenterUpdateRate": real(1),
        },
        {"cluster_num": 2, "need_update": True},
        alias={"CentersOut": "Centers"},
        name="lod",
    ),
    Row("conv2d_transpose", {"Input": _IMAGE, "Filter": signed(3, 2, 2, 2)}, name="lod"),
    Row("bilinear_interp", {"X": _IMAGE}, {"out_h": 2, "out_w": 3}, name="lod"),
    Row(
        "huber_loss",
        {"X": Seq(signed(2, 1), _TWO), "Y": Seq(signed(2, 1, key="y"), _TWO)},
        {"delta": 0.7},
        name="lod",
    ),
    Row(
        "fusion_repeated_fc_relu",
        {"X": Seq(signed(2, 3), _TWO), "W": [signed(3, 4), signed(4, 2)], "Bias": [signed(4), signed(2)]},
        outputs={"ReluOut": 1},
        undeclared=True,
        name="lod",
    ),
    Row(
        "fusion_squared_mat_sub",
        {"X": Seq(signed(2, 3), _TWO), "Y": signed(3, 2)},
        {"scalar": 0.5},
        outputs={"SquaredX": 1, "SquaredY": 1, "SquaredXY": 1},
        name="lod",
    ),
]
ROWS += [
    Row(
        "box_decoder_and_assign",
        {
            "PriorBox": Seq(real(3, 4), [[1, 2]]),
            "PriorBoxVar": real(4),
            "TargetBox": Seq(signed(3, 8), [[2, 1]]),
            "BoxScore": real(3, 2),
        },
        name="lod",
    ),
    *[
        Row(
            "fused_embedding_seq_pool",
            {"W": signed(6, 3), "Ids": Seq(whole(5, width, 1), [[2, 3]])},
            {"combiner": "sum", "is_sparse": sparse},
            grad=["W"],
            name=f"{width}_{sparse}",
        )
        for width in (2, 3)
        for sparse in (False, True)
    ],
]
# ---------------------------------------------------------------------- no rows at all
ROWS += [
    Row(
        "layer_norm",
        {"X": real(0, 4), "Scale": real(4)},
        grad=["X"],
        outputs={"Mean": 1, "Variance": 1},
        name="none",
    ),
    Row(
        "group_norm",
        {"X": real(0, 4, 3, 3), "Scale": real(4)},
        {"groups": 2},
        outputs={"Mean": 1, "Variance": 1},
        name="none",
    ),
    Row("lstm_unit", {"X": real(0, 12), "C_prev": real(0, 3)}, name="none"),
    Row("fc", {"Input": real(0, 4), "W": real(4, 5), "Bias": real(5)}, name="none"),
    Row(
        "gru_unit",
        {"Input": real(0, 9), "HiddenPrev": real(0, 3), "Weight": signed(3, 9)},
        grad=["Input", "HiddenPrev"],
        wants=["Hidden"],
        outputs={"Gate": 1, "ResetHiddenPrev": 1},
        name="none",
    ),
    Row("affine_grid", {"Theta": real(0, 2, 3)}, {"output_shape": [0, 3, 4, 5]}, grad=["Theta"], name="none"),
]
# ---------------------------------------------------------------------- factors that are left out
ROWS += [
    Row(
        "group_norm",
        {"X": signed(2, 4, 2, 3), **factors},
        {"groups": 2},
        grad=["X", *factors],
        outputs={"Mean": 1, "Variance": 1},
        name="_".join(factors),
    )
    for factors in ({"Scale": real(4)}, {"Bias": signed(4)})
]
# ---------------------------------------------------------------------- what is refused
_PAIR = {"X": real(2, 3), "Y": real(3)}
_IMAGES = {"Input": signed(1, 2, 4, 4), "Filter": signed(2, 2, 3, 3)}
_BOXES = {"PriorBox": real(4, 4), "TargetBox": real(2, 4, 4)}
ROWS += [
    *[
        Row(op, _PAIR, {"axis": -2}, name="refused")
        for op in ("elementwise_sub", "elementwise_mod", "greater_than")
    ],
    Row("cumsum", {"X": real(2, 3)}, {"axis": -2}, name="refused"),
    Row("dropout", {"X": real(2, 3)}, {"dropout_prob": 1.1}, outputs={"Mask": 1}, name="refused"),
    Row(
        "group_norm",
        {"X": real(2, 4, 2, 2)},
        {"groups": 0},
        outputs={"Mean": 1, "Variance": 1},
        name="refused",
    ),
    Row(
        "layer_norm",
        {"X": real(2, 4)},
        {"begin_norm_axis": 0},
        outputs={"Mean": 1, "Variance": 1},
        name="refused",
    ),
    Row("lrn", {"X": real(1, 4, 2, 2)}, {"alpha": 0.0}, outputs={"MidOut": 1}, name="refused"),
    Row("add_position_encoding", {"X": real(1, 2, 4)}, {"alpha": -0.5, "beta": 1.0}, name="refused"),
    Row("box_coder", _BOXES, {"code_type": "decode_center_size", "axis": 2}, name="refused"),
    Row("fake_quantize_abs_max", {"X": signed(2, 3)}, {"bit_length": 17}, name="refused"),
    *[
        Row(op, _IMAGES, {"strides": [1] * count}, name=f"refused_{count}")
        for op in ("conv2d", "conv2d_transpose")
        for count in (1, 3)
    ],
]
