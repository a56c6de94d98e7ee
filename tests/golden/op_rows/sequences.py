"""Ops on sequences, recurrent ones among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row, Seq, real, signed, whole


def ints(*values: Any, dtype: str = "int64") -> Any:
    return np.array(values, dtype)


ONE = [[2, 3, 1]]
GAP = [[2, 0, 3, 0]]
TWO = [[2, 1], [2, 1, 3]]
ROWS = []
for _kind in ("AVERAGE", "SUM", "SQRT", "MAX", "LAST", "FIRST"):
    for _name, _lengths, _rows in (("one", ONE, 6), ("gap", GAP, 5), ("two", TWO, 6)):
        ROWS += [
            Row(
                "sequence_pool",
                {"X": Seq(signed(_rows, 3), _lengths)},
                {"pooltype": _kind, "pad_value": 0.5},
                grad=["X"],
                name=_kind + "_" + _name,
                outputs={"MaxIndex": 1},
                ignore=["MaxIndex"],
            )
        ]
    ROWS += [
        Row(
            "sequence_pool",
            {"X": Seq(signed(6, 2, 2), ONE)},
            {"pooltype": _kind},
            grad=["X"],
            name=_kind + "_three",
            outputs={"MaxIndex": 1},
            ignore=["MaxIndex"],
        )
    ]
for _name, _lengths, _rows in (("one", ONE, 6), ("gap", GAP, 5)):
    ROWS += [
        Row("sequence_softmax", {"X": Seq(signed(_rows, 1), _lengths)}, grad=["X"], name=_name),
        Row("sequence_softmax", {"X": Seq(signed(_rows), _lengths)}, grad=["X"], name=_name + "_vector"),
        Row("sequence_reverse", {"X": Seq(signed(_rows, 2), _lengths)}, grad=["X"], name=_name),
        Row(
            "sequence_concat",
            {"X": [Seq(signed(_rows, 2), _lengths), Seq(signed(_rows, 2, key="b"), _lengths)]},
            grad=["X"],
            name=_name,
        ),
        Row(
            "sequence_expand_as",
            {"X": real(len(_lengths[0]), 2), "Y": Seq(signed(_rows, 2), _lengths)},
            grad=["X"],
            name=_name,
        ),
        Row(
            "sequence_expand",
            {"X": real(len(_lengths[0]), 2), "Y": Seq(signed(_rows, 2), _lengths)},
            {"ref_level": 0},
            grad=["X"],
            name=_name,
        ),
        Row(
            "sequence_expand",
            {"X": Seq(real(_rows, 2), _lengths), "Y": Seq(signed(_rows, 2), _lengths)},
            {"ref_level": -1},
            grad=["X"],
            name=_name + "_lod",
        ),
        Row(
            "sequence_pad",
            {"X": Seq(signed(_rows, 2), _lengths), "PadValue": np.array([0.5], "float32")},
            {"padded_length": -1},
            grad=["X"],
            undeclared=True,
            name=_name,
        ),
        Row(
            "sequence_pad",
            {"X": Seq(signed(_rows, 2), _lengths), "PadValue": real(2)},
            {"padded_length": 4},
            grad=["X"],
            name=_name + "_longer",
        ),
        Row(
            "sequence_pad",
            {"X": Seq(signed(_rows, 2), _lengths), "PadValue": real(2)},
            {"padded_length": 1},
            name=_name + "_bad",
        ),
        Row(
            "sequence_pad",
            {"X": Seq(signed(_rows, 2, 2), _lengths), "PadValue": real(2, 2)},
            {"padded_length": -1},
            grad=["X"],
            undeclared=True,
            name=_name + "_three",
        ),
        Row(
            "sequence_enumerate",
            {"X": Seq(whole(_rows, 1), _lengths)},
            {"win_size": 2, "pad_value": 9},
            name=_name,
        ),
        Row(
            "sequence_enumerate",
            {"X": Seq(whole(_rows, 1, dtype="int32"), _lengths)},
            {"win_size": 4},
            name=_name + "_far",
        ),
        Row("sequence_erase", {"X": Seq(whole(_rows, 1), _lengths)}, {"tokens": [1, 3]}, name=_name),
        Row(
            "sequence_erase",
            {"X": Seq(whole(_rows, 1, dtype="int32"), _lengths)},
            {"tokens": []},
            name=_name + "_none",
        ),
        Row(
            "sequence_reshape", {"X": Seq(signed(_rows, 4), _lengths)}, {"new_dim": 2}, grad=["X"], name=_name
        ),
        Row("sequence_reshape", {"X": Seq(signed(_rows, 4), _lengths)}, {"new_dim": 3}, name=_name + "_bad"),
        Row(
            "sequence_conv",
            {"X": Seq(signed(_rows, 2), _lengths), "Filter": real(6, 3)},
            {"contextLength": 3, "contextStart": -1, "contextStride": 1},
            grad=["X", "Filter"],
            name=_name,
        ),
        Row(
            "sequence_conv",
            {"X": Seq(signed(_rows, 2), _lengths), "Filter": real(4, 3)},
            {"contextLength": 2, "contextStart": 1, "contextStride": 1},
            grad=["X"],
            name=_name + "_ahead",
        ),
        Row(
            "sequence_conv",
            {"X": Seq(signed(_rows, 2), _lengths), "Filter": real(6, 3), "PaddingData": real(2, 2, key="p")},
            {"contextLength": 3, "contextStart": -1, "contextStride": 1, "paddingTrainable": True},
            grad=["X", "Filter", "PaddingData"],
            name=_name + "_padding",
        ),
        Row(
            "sequence_scatter",
            {
                "X": real(len(_lengths[0]), 6),
                "Ids": Seq(whole(_rows, 1, high=6), _lengths),
                "Updates": Seq(real(_rows, 1, key="u"), _lengths),
            },
            grad=["X", "Updates"],
            name=_name,
        ),
        Row(
            "lod_reset",
            {"X": Seq(real(_rows, 2), _lengths)},
            {"target_lod": [0, 1, _rows]},
            grad=["X"],
            name=_name,
        ),
        Row(
            "lod_reset",
            {"X": Seq(real(_rows, 2), _lengths), "Y": ints(0, 2, _rows, dtype="int32")},
            grad=["X"],
            name=_name + "_offsets",
        ),
        Row(
            "lod_reset",
            {"X": Seq(real(_rows, 2), _lengths), "Y": Seq(real(_rows, 1), [[1, _rows - 1]])},
            grad=["X"],
            name=_name + "_like",
        ),
    ]
ROWS += [
    Row(
        "lod_reset",
        {"X": Seq(real(6, 2), [[2, 1]] + [[2, 3, 1]])},
        {"target_lod": [0, 1, 2, 6], "append": True},
        grad=["X"],
        name="append",
    ),
    Row(
        "sequence_expand",
        {"X": Seq(real(4, 2), [[2, 2]]), "Y": Seq(real(6, 1), [[2, 2], [1, 2, 2, 1]])},
        {"ref_level": 0},
        grad=["X"],
        name="level",
    ),
    Row(
        "sequence_expand",
        {"X": Seq(real(3, 2), [[1, 2]]), "Y": Seq(real(4, 1), [[3, 1]])},
        {"ref_level": 0},
        grad=["X"],
        name="sequences",
    ),
    Row("sequence_expand", {"X": real(3, 2), "Y": Seq(real(5, 1), [[2, 3]])}, {"ref_level": 0}, name="bad"),
    Row("sequence_unpad", {"X": real(3, 4, 2), "Length": ints(2, 4, 1)}, grad=["X"]),
    Row("sequence_unpad", {"X": real(3, 4), "Length": ints(2, 4, 1)}, grad=["X"], name="flat"),
    Row("sequence_unpad", {"X": real(3, 4, 2), "Length": ints(2, 0, 1)}, grad=["X"], name="gap"),
    Row("sequence_mask", {"X": ints(2, 0, 3)}, {"maxlen": 4, "out_dtype": 3}),
    Row("sequence_mask", {"X": ints(2, 0, 3)}, {"maxlen": -1, "out_dtype": 5}, name="longest"),
    Row(
        "sequence_mask",
        {"X": ints([2, 0], [1, 3], dtype="int32")},
        {"maxlen": 3, "out_dtype": 2},
        name="nested",
    ),
    Row("sequence_mask", {"X": ints(2, 0, 3)}, {"maxlen": 2, "out_dtype": 0}, name="short"),
    Row(
        "sequence_mask",
        {"X": ints(2, 1), "MaxLenTensor": ints(5, dtype="int32")},
        {"out_dtype": 3},
        name="tensor",
    ),
    Row(
        "sequence_slice",
        {"X": Seq(real(6, 2), [[3, 3]]), "Offset": ints([1], [0]), "Length": ints([2], [1])},
        grad=["X"],
    ),
    Row(
        "sequence_slice",
        {
            "X": Seq(real(6, 2), [[3, 3]]),
            "Offset": ints([1], [0], dtype="int32"),
            "Length": ints([1], [3], dtype="int32"),
        },
        grad=["X"],
        name="int32",
    ),
    Row(
        "sequence_slice",
        {"X": Seq(real(6, 2), [[3, 3]]), "Offset": ints([1], [0]), "Length": ints([3], [1])},
        name="beyond",
    ),
    Row(
        "sequence_slice",
        {"X": Seq(real(6, 2), [[3, 3]]), "Offset": ints(1, 0), "Length": ints(2, 1)},
        grad=["X"],
        name="vectors",
    ),
    Row(
        "sequence_topk_avg_pooling",
        {
            "X": Seq(real(30, 1), [[18, 12]]),
            "ROW": Seq(real(5, 1), [[3, 2]]),
            "COLUMN": Seq(real(6, 1), [[3, 3]]),
        },
        {"topks": [1, 2], "channel_num": 2},
        name="a",
        ignore=["pos"],
    ),
    Row(
        "edit_distance",
        {"Hyps": Seq(whole(6, 1), ONE), "Refs": Seq(whole(7, 1, key="r"), [[3, 3, 1]])},
        {"normalized": False},
    ),
    Row(
        "edit_distance",
        {"Hyps": Seq(whole(6, 1), ONE), "Refs": Seq(whole(7, 1, key="r"), [[3, 3, 1]])},
        {"normalized": True},
        name="normalized",
    ),
    Row(
        "edit_distance",
        {
            "Hyps": whole(2, 4),
            "Refs": whole(2, 3, key="r"),
            "HypsLength": ints(3, 4),
            "RefsLength": ints(2, 3),
        },
        {"normalized": True},
        name="padded",
        undeclared=True,
    ),
    Row(
        "ctc_align",
        {"Input": Seq(ints([0], [1], [1], [0], [2], [2], dtype="int32"), [[4, 2]])},
        {"blank": 0, "merge_repeated": True},
        ignore=["OutputLength"],
    ),
    Row(
        "ctc_align",
        {"Input": Seq(ints([0], [1], [1], [0], [2], [2], dtype="int32"), [[4, 2]])},
        {"blank": 0, "merge_repeated": False},
        ignore=["OutputLength"],
        name="kept",
    ),
    Row(
        "ctc_align",
        {"Input": Seq(ints([0], [0], [0], dtype="int32"), [[2, 1]])},
        {"blank": 0},
        ignore=["OutputLength"],
        name="none",
    ),
    Row(
        "ctc_align",
        {"Input": ints([0, 1, 1, 0], [2, 2, 0, 3], dtype="int32"), "InputLength": ints([4], [3])},
        {"blank": 0, "merge_repeated": True, "padding_value": 9},
        outputs={"OutputLength": 1},
        name="padded",
    ),
    Row("crf_decoding", {"Emission": Seq(signed(6, 4), ONE), "Transition": signed(6, 4)}),
    Row(
        "crf_decoding",
        {
            "Emission": Seq(signed(6, 4), ONE),
            "Transition": signed(6, 4),
            "Label": Seq(whole(6, 1, high=4), ONE),
        },
        name="label",
    ),
    Row(
        "crf_decoding",
        {"Emission": signed(2, 3, 4), "Transition": signed(6, 4), "Length": ints([2], [3])},
        name="padded",
    ),
    Row(
        "crf_decoding",
        {
            "Emission": signed(2, 3, 4),
            "Transition": signed(6, 4),
            "Length": ints([2], [3]),
            "Label": whole(2, 3, high=4),
        },
        name="padded_label",
    ),
    Row(
        "linear_chain_crf",
        {
            "Emission": Seq(signed(6, 4), ONE),
            "Transition": signed(6, 4),
            "Label": Seq(whole(6, 1, high=4), ONE),
        },
        grad=["Emission", "Transition"],
        wants=["LogLikelihood"],
        outputs={"Alpha": 1, "EmissionExps": 1, "TransitionExps": 1},
    ),
    Row(
        "linear_chain_crf",
        {
            "Emission": signed(2, 3, 4),
            "Transition": signed(6, 4),
            "Label": whole(2, 3, 1, high=4),
            "Length": ints([2], [3]),
        },
        grad=["Emission", "Transition"],
        wants=["LogLikelihood"],
        outputs={"Alpha": 1, "EmissionExps": 1, "TransitionExps": 1},
        ignore=["Alpha", "EmissionExps"],
        name="padded",
    ),
    Row(
        "warpctc",
        {"Logits": Seq(signed(6, 4), [[4, 2]]), "Label": Seq(ints([1], [2], [3], dtype="int32"), [[2, 1]])},
        {"blank": 0, "norm_by_times": False},
        grad=["Logits"],
        wants=["Loss"],
        outputs={"WarpCTCGrad": 1},
        ignore=["WarpCTCGrad"],
    ),
    Row(
        "warpctc",
        {"Logits": Seq(signed(6, 4), [[4, 2]]), "Label": Seq(ints([1], [2], [3], dtype="int32"), [[2, 1]])},
        {"blank": 0, "norm_by_times": True},
        grad=["Logits"],
        wants=["Loss"],
        outputs={"WarpCTCGrad": 1},
        ignore=["WarpCTCGrad"],
        name="normed",
    ),
    Row(
        "warpctc",
        {
            "Logits": signed(4, 2, 4),
            "Label": ints([1, 2], [3, 0], dtype="int32"),
            "LogitsLength": ints(4, 2),
            "LabelLength": ints(2, 1),
        },
        {"blank": 0, "norm_by_times": False},
        grad=["Logits"],
        wants=["Loss"],
        outputs={"WarpCTCGrad": 1},
        ignore=["WarpCTCGrad"],
        name="padded",
        undeclared=True,
    ),
    Row(
        "chunk_eval",
        {
            "Inference": Seq(whole(7, 1, high=5), [[4, 3]]),
            "Label": Seq(whole(7, 1, high=5, key="l"), [[4, 3]]),
        },
        {"num_chunk_types": 2, "chunk_scheme": "IOB"},
    ),
    Row(
        "chunk_eval",
        {
            "Inference": Seq(whole(7, 1, high=9), [[4, 3]]),
            "Label": Seq(whole(7, 1, high=9, key="l"), [[4, 3]]),
        },
        {"num_chunk_types": 2, "chunk_scheme": "IOBES"},
        name="IOBES",
    ),
    Row(
        "chunk_eval",
        {
            "Inference": Seq(whole(7, 1, high=3), [[4, 3]]),
            "Label": Seq(whole(7, 1, high=3, key="l"), [[4, 3]]),
        },
        {"num_chunk_types": 2, "chunk_scheme": "plain", "excluded_chunk_types": [1]},
        name="plain",
    ),
    Row(
        "chunk_eval",
        {
            "Inference": Seq(whole(7, 1, high=5), [[4, 3]]),
            "Label": Seq(whole(7, 1, high=5, key="l"), [[4, 3]]),
        },
        {"num_chunk_types": 2, "chunk_scheme": "IOE"},
        name="IOE",
    ),
    Row(
        "chunk_eval",
        {"Inference": whole(2, 4, high=5), "Label": whole(2, 4, high=5, key="l"), "SeqLength": ints(3, 4)},
        {"num_chunk_types": 2, "chunk_scheme": "IOB"},
        name="padded",
    ),
]
# ---------------------------------------------------------------------- recurrent
H = 3
_GRU = {"Input": Seq(signed(6, 3 * H), ONE), "Weight": signed(H, 3 * H)}
_GRU_OUT = {"BatchGate": 1, "BatchResetHiddenPrev": 1, "BatchHidden": 1}
for _name, _more, _attrs in (
    ("plain", {}, {}),
    ("bias", {"Bias": signed(1, 3 * H)}, {}),
    ("h0", {"Bias": signed(1, 3 * H), "H0": signed(3, H)}, {}),
    ("reversed", {"H0": signed(3, H)}, {"is_reverse": True}),
    ("origin", {"Bias": signed(1, 3 * H)}, {"origin_mode": True}),
    ("relu", {}, {"activation": "relu", "gate_activation": "tanh"}),
    ("identity", {}, {"activation": "identity", "gate_activation": "sigmoid"}),
    ("far", {"Bias": signed(1, 3 * H) * 30}, {}),
):
    ROWS += [
        Row(
            "gru",
            dict(_GRU, **_more),
            dict({"activation": "tanh", "gate_activation": "sigmoid"}, **_attrs),
            grad=["Input", "Weight"] + sorted(_more),
            wants=["Hidden"],
            outputs=_GRU_OUT,
            ignore=list(_GRU_OUT),
            name=_name,
            tolerance=1e-4,
        )
    ]
ROWS += [
    Row(
        "gru",
        {"Input": Seq(signed(5, 3 * H), GAP), "Weight": signed(H, 3 * H)},
        {},
        grad=["Input", "Weight"],
        wants=["Hidden"],
        outputs=_GRU_OUT,
        ignore=list(_GRU_OUT),
        name="gap",
        tolerance=1e-4,
    ),
    Row("gru", dict(_GRU, Weight=signed(H, 2 * H)), {}, outputs=_GRU_OUT, name="bad"),
]
for _name, _more, _attrs in (
    ("plain", {}, {}),
    ("bias", {"Bias": signed(1, 3 * H)}, {}),
    ("origin", {"Bias": signed(1, 3 * H)}, {"origin_mode": True}),
    ("relu", {}, {"activation": 3, "gate_activation": 0}),
    ("far", {"Bias": signed(1, 3 * H) * 30}, {}),
):
    ROWS += [
        Row(
            "gru_unit",
            dict(
                {"Input": signed(4, 3 * H), "HiddenPrev": signed(4, H, key="h"), "Weight": signed(H, 3 * H)},
                **_more,
            ),
            dict({"activation": 2, "gate_activation": 1}, **_attrs),
            grad=["Input", "HiddenPrev", "Weight"] + sorted(_more),
            wants=["Hidden"],
            outputs={"Gate": 1, "ResetHiddenPrev": 1},
            name=_name,
            tolerance=1e-4,
        )
    ]
_LSTM = {"Input": Seq(signed(6, 4 * H), ONE), "Weight": signed(H, 4 * H)}
_LSTM_OUT = {"BatchGate": 1, "BatchCellPreAct": 1}
for _name, _more, _attrs in (
    ("plain", {"Bias": signed(1, 4 * H)}, {"use_peepholes": False}),
    ("peep", {"Bias": signed(1, 7 * H)}, {}),
    ("h0", {"Bias": signed(1, 7 * H), "H0": signed(3, H), "C0": signed(3, H, key="c")}, {}),
    ("reversed", {"Bias": signed(1, 7 * H)}, {"is_reverse": True}),
    (
        "relu",
        {"Bias": signed(1, 4 * H)},
        {
            "use_peepholes": False,
            "candidate_activation": "relu",
            "gate_activation": "tanh",
            "cell_activation": "identity",
        },
    ),
    ("far", {"Bias": signed(1, 4 * H) * 30}, {"use_peepholes": False}),
):
    ROWS += [
        Row(
            "lstm",
            dict(_LSTM, **_more),
            _attrs,
            grad=["Input", "Weight"] + sorted(_more),
            wants=["Hidden"],
            outputs=_LSTM_OUT,
            ignore=list(_LSTM_OUT),
            name=_name,
            tolerance=1e-4,
        )
    ]
ROWS += [
    Row(
        "lstm",
        {"Input": Seq(signed(5, 4 * H), GAP), "Weight": signed(H, 4 * H), "Bias": signed(1, 4 * H)},
        {"use_peepholes": False},
        grad=["Input", "Weight", "Bias"],
        wants=["Hidden"],
        outputs=_LSTM_OUT,
        ignore=list(_LSTM_OUT),
        name="gap",
        tolerance=1e-4,
    ),
    Row(
        "lstm",
        dict(_LSTM, Bias=signed(1, 4 * H)),
        {"use_peepholes": True},
        outputs=_LSTM_OUT,
        name="bad_bias",
    ),
]
P = 2
_LSTMP_OUT = {"BatchGate": 1, "BatchCellPreAct": 1, "BatchHidden": 1}
_LSTMP = {
    "Input": Seq(signed(6, 4 * H), ONE),
    "Weight": signed(P, 4 * H),
    "ProjWeight": signed(H, P, key="p"),
}
for _name, _more, _attrs in (
    ("plain", {"Bias": signed(1, 4 * H)}, {"use_peepholes": False}),
    ("peep", {"Bias": signed(1, 7 * H)}, {}),
    ("h0", {"Bias": signed(1, 7 * H), "H0": signed(3, P), "C0": signed(3, H, key="c")}, {}),
    ("reversed", {"Bias": signed(1, 7 * H)}, {"is_reverse": True}),
    ("clip", {"Bias": signed(1, 4 * H)}, {"use_peepholes": False, "cell_clip": 0.2, "proj_clip": 0.1}),
    ("identity", {"Bias": signed(1, 4 * H)}, {"use_peepholes": False, "proj_activation": "identity"}),
):
    ROWS += [
        Row(
            "lstmp",
            dict(_LSTMP, **_more),
            _attrs,
            grad=["Input", "Weight", "ProjWeight"] + sorted(_more),
            wants=["Projection"],
            outputs=_LSTMP_OUT,
            ignore=list(_LSTMP_OUT),
            name=_name,
            tolerance=1e-4,
        )
    ]
ROWS += [
    Row(
        "lstm_unit",
        {"X": signed(4, 4 * H), "C_prev": signed(4, H, key="c")},
        {"forget_bias": bias},
        grad=["X", "C_prev"],
        wants=["C", "H"],
        name=str(bias),
    )
    for bias in (0.0, 1.5)
]
