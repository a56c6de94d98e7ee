"""Element-wise ops of two operands, comparisons, and scalar functions in other types."""

from __future__ import annotations

from .rows import Row, Seq, real, signed, truth, whole

BINARY = ["add", "sub", "mul", "div", "max", "min", "pow", "mod", "floordiv"]
SMOOTH = ["add", "sub", "mul", "div", "max", "min", "pow"]
SHAPES = [
    ("same", (2, 3), (2, 3), -1),
    ("same_axis", (2, 3), (2, 3), 1),
    ("same_axis0", (2, 3), (2, 3), 0),
    ("last", (2, 3, 4), (4,), -1),
    ("first", (2, 3, 4), (2,), 0),
    ("middle", (2, 3, 4), (3,), 1),
    ("middle_two", (2, 3, 4, 5), (3, 4), 1),
    ("one", (2, 3), (1,), -1),
    ("one_axis", (2, 3), (1,), 1),
    ("one_axis0", (2, 3), (1,), 0),
    ("trailing_one", (2, 3, 4), (3, 1), 1),
    ("ones_between", (2, 3, 4), (2, 1, 4), -1),
    ("ones_in_x", (2, 1, 4), (2, 3, 4), -1),
    ("both_ones", (2, 1, 4), (1, 3, 4), -1),
    ("both_ones_rank", (2, 1, 4), (3, 1), -1),
    ("low_x", (4,), (2, 3, 4), -1),
    ("low_x_first", (2,), (2, 3, 4), 0),
    ("bad", (2, 3), (2, 4), -1),
    ("bad_rank", (2, 3), (2,), -1),
    ("bad_axis", (2, 3), (3,), 2),
    ("bad_axis_low", (2, 3), (3,), -2),
    ("empty", (0, 3), (3,), -1),
    ("empty_same", (0, 3), (0, 3), -1),
]
ROWS = [
    Row(
        "elementwise_" + name,
        {"X": real(*x, key="x"), "Y": real(*y, key="y")},
        {"axis": axis},
        grad=["X", "Y"] if name in SMOOTH else (),
        name=which,
    )
    for name in BINARY
    for which, x, y, axis in SHAPES
    if (name in SMOOTH or which in ("same",)) and not (name == "pow" and which.startswith("low"))
]
ROWS += [
    Row(
        "elementwise_" + name,
        {"X": signed(3, 4, key="x").astype(dtype) * 7, "Y": signed(3, 4, key="y").astype(dtype) * 2 + 1},
        {},
        name=dtype,
    )
    for name in BINARY
    for dtype in ("float64", "int64", "int32")
]
ROWS += [
    *[
        Row(
            "elementwise_pow",
            {"X": real(1, key=key), "Y": real(1, key=key + "y")},
            name="one_" + key,
            tolerance=0.0,
        )
        for key in "abcdefgh"
    ],
    *[Row("exp", {"X": signed(1, key=key)}, name="one_" + key, tolerance=0.0) for key in "abcdefgh"],
    Row("elementwise_mod", {"X": signed(3, 4, key="x") * 7, "Y": signed(3, 4, key="y")}, name="negative"),
    Row(
        "elementwise_floordiv", {"X": signed(3, 4, key="x") * 7, "Y": signed(3, 4, key="y")}, name="negative"
    ),
    Row(
        "elementwise_mod",
        {"X": whole(3, 4, low=-9, high=9), "Y": whole(4, low=1, high=4)},
        name="negative_int",
    ),
    Row(
        "elementwise_mod",
        {"X": whole(3, 4, low=-9, high=9), "Y": whole(4, low=-4, high=-1)},
        name="negative_both",
    ),
    Row(
        "elementwise_floordiv",
        {"X": whole(3, 4, low=-9, high=9), "Y": whole(4, low=1, high=4)},
        name="negative_int",
    ),
    Row("elementwise_add", {"X": truth(2, 3), "Y": truth(2, 3, key="b")}, name="bool"),
    Row("elementwise_add", {"X": real(2, 3), "Y": real(2, 3, dtype="float64")}, name="mixed"),
    Row("elementwise_add", {"X": Seq(real(5, 3), [[2, 3]]), "Y": real(3)}, name="lod", grad=["X", "Y"]),
    Row("elementwise_add", {"X": real(5, 3), "Y": Seq(real(5, 3), [[2, 3]])}, name="lod_y", grad=["X", "Y"]),
    Row("minus", {"X": real(2, 3), "Y": real(2, 3, key="y")}, grad=["X", "Y"]),
]
COMPARE = ["equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"]
ROWS += [
    Row(
        name,
        {"X": whole(3, 4, high=3, key="x").astype(dtype), "Y": whole(3, 4, high=3, key="y").astype(dtype)},
        name=dtype,
    )
    for name in COMPARE
    for dtype in ("float32", "float64", "int64", "int32", "bool", "int16", "uint8")
]
ROWS += [
    Row(name, {"X": whole(*x, high=3, key="x"), "Y": whole(*y, high=3, key="y")}, {"axis": axis}, name=which)
    for name in COMPARE[:3]
    for which, x, y, axis in SHAPES
    if "ones_in_x" not in which and "both" not in which
]
ROWS += [
    Row("logical_" + name, {"X": truth(2, 3), "Y": truth(*shape, key="y")}, name=str(len(shape)))
    for name in ("and", "or", "xor")
    for shape in ((2, 3), (3,), (1, 3))
]
ROWS += [
    Row("logical_not", {"X": truth(2, 3)}),
    Row("logical_not", {"X": whole(2, 3)}, name="int"),
    Row("logical_and", {"X": whole(2, 3), "Y": truth(2, 3)}, name="int"),
]
