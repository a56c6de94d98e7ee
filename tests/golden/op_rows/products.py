"""Reductions and products of matrices."""

from __future__ import annotations

import numpy as np

from .rows import Row, Seq, real, signed, truth, whole

REDUCE = ["sum", "mean", "max", "min", "prod"]
DIMS = [
    {},
    {"dim": [1]},
    {"dim": [-1], "keep_dim": True},
    {"dim": [0, 2]},
    {"dim": [-2, 0], "keep_dim": True},
    {"reduce_all": True},
    {"dim": [2, 1]},
]
ROWS = [
    Row("reduce_" + name, {"X": signed(2, 3, 4)}, attrs, grad=["X"], name=str(index))
    for name in REDUCE
    for index, attrs in enumerate(DIMS)
]
ROWS += [
    Row("reduce_" + name, {"X": truth(2, 3, 4)}, attrs, name=str(index))
    for name in ("all", "any")
    for index, attrs in enumerate(DIMS)
]
ROWS += [
    Row("frobenius_norm", {"X": signed(2, 3, 4)}, attrs, grad=["X"], name=str(i))
    for i, attrs in enumerate(DIMS)
]
ROWS += [
    Row("reduce_" + name, {"X": whole(2, 3, low=-4, dtype=dtype)}, {"dim": [1]}, name=dtype)
    for name in REDUCE
    for dtype in ("int64", "int32", "float64")
]
ROWS += [
    Row(
        "reduce_sum",
        {"X": whole(2, 3, dtype="int32")},
        {"dim": [1], "in_dtype": 2, "out_dtype": 3},
        name="wider",
    ),
    Row(
        "reduce_sum",
        {"X": real(2, 3)},
        {"dim": [1], "in_dtype": 5, "out_dtype": 6},
        name="double",
        grad=["X"],
    ),
    Row("reduce_sum", {"X": truth(2, 3)}, {"dim": [1]}, name="bool"),
    Row("reduce_mean", {"X": truth(2, 3)}, {"dim": [1]}, name="bool"),
    Row("reduce_sum", {"X": real(4)}, {"dim": [0]}, grad=["X"], name="vector"),
    Row("reduce_sum", {"X": real(4)}, {"dim": [0], "keep_dim": True}, grad=["X"], name="vector_kept"),
    Row("reduce_sum", {"X": real(2, 3)}, {"dim": [3]}, name="bad"),
    Row("reduce_sum", {"X": real(2, 3)}, {"dim": [-3]}, name="bad_low"),
    Row(
        "reduce_max", {"X": np.array([[1, 3, 3], [2, 2, 1]], "float32")}, {"dim": [1]}, grad=["X"], name="tie"
    ),
    Row(
        "reduce_min", {"X": np.array([[1, 1, 3], [2, 2, 1]], "float32")}, {"dim": [1]}, grad=["X"], name="tie"
    ),
    Row("reduce_sum", {"X": Seq(real(5, 2), [[2, 3]])}, {"dim": [1]}, grad=["X"], name="lod"),
    Row("reduce_prod", {"X": np.array([[0, 2, 3.0]], "float32")}, {"dim": [1]}, name="zero"),
    Row("reduce_sum", {"X": real(0, 3)}, {"dim": [1]}, name="empty"),
]
MATMUL = [
    ("matrix", (2, 3), (3, 4), False, False),
    ("left", (3, 2), (3, 4), True, False),
    ("right", (2, 3), (4, 3), False, True),
    ("both", (3, 2), (4, 3), True, True),
    ("vectors", (3,), (3,), False, False),
    ("vector_left", (3,), (3, 4), False, False),
    ("vector_right", (2, 3), (3,), False, False),
    ("vector_turned", (3, 1), (4,), True, False),
    ("outer", (3,), (4,), True, True),
    ("vector_left_t", (1,), (4, 1), False, True),
    ("column_vector", (3, 1), (4,), False, True),
    ("column_vector_plain", (3, 1), (1,), False, False),
    ("turned_vector", (3,), (1, 4), True, False),
    ("vector_t", (3,), (3, 4), True, False),
    ("batch", (2, 3, 4), (2, 4, 5), False, False),
    ("batch_t", (2, 4, 3), (2, 5, 4), True, True),
    ("batch_vector", (2, 3, 4), (4,), False, False),
    ("batch_vector_t", (2, 4, 3), (4,), True, False),
    ("vector_batch", (4,), (2, 4, 3), False, False),
    ("vector_batch_t", (4,), (2, 3, 4), False, True),
    ("batch_matrix", (2, 3, 4), (4, 5), False, False),
    ("batch_matrix_t", (2, 3, 4), (5, 4), False, True),
    ("batch_t_matrix", (2, 4, 3), (4, 5), True, False),
    ("matrix_batch", (3, 4), (2, 4, 5), False, False),
    ("matrix_batch_t", (4, 3), (2, 5, 4), True, True),
    ("four", (2, 2, 3, 4), (2, 2, 4, 5), False, False),
    ("four_t", (2, 2, 3, 4), (2, 2, 5, 4), False, True),
    ("four_matrix", (2, 2, 3, 4), (4, 5), False, False),
    ("bad", (2, 3), (4, 5), False, False),
    ("bad_batch", (2, 3, 4), (3, 4, 5), False, False),
    ("bad_vector", (2, 3), (4,), False, False),
    ("one_one", (1,), (1,), False, False),
    ("one_matrix", (1, 3), (3, 1), False, False),
]
ROWS += [
    Row(
        "matmul",
        {"X": real(*x, key="x"), "Y": real(*y, key="y")},
        {"transpose_X": tx, "transpose_Y": ty, "alpha": alpha},
        grad=["X", "Y"],
        name=name + ("" if alpha == 1 else "_alpha"),
    )
    for name, x, y, tx, ty in MATMUL
    for alpha in (1.0, 2.5)
    if alpha == 1 or name in ("matrix", "both", "batch", "vectors", "batch_matrix")
]
ROWS += [
    Row(
        "matmul",
        {"X": real(*x, key="x"), "Y": real(*y, key="y")},
        {"head_number": heads, "transpose_Y": ty},
        name=name,
        undeclared=True,
    )
    for name, x, y, heads, ty in (
        ("heads", (3, 4), (4, 5), 2, False),
        ("heads_batch", (2, 3, 8), (2, 8, 4), 2, False),
        ("heads_four", (2, 3, 8), (2, 8, 4), 4, False),
        ("heads_t", (2, 3, 8), (2, 4, 8), 2, True),
        ("heads_t_four", (2, 2, 3, 8), (2, 2, 4, 8), 2, True),
        ("heads_y", (2, 3, 8), (2, 4, 6), 2, False),
        ("heads_uneven", (2, 3, 8), (2, 8, 4), 3, False),
    )
]
MUL = [
    ("plain", (2, 3), (3, 4), 1, 1),
    ("three", (2, 3, 4), (12, 5), 1, 1),
    ("three_two", (2, 3, 4), (4, 5), 2, 1),
    ("both", (2, 3, 4, 3), (4, 3, 2, 2), 2, 2),
    ("y_three", (2, 12), (3, 4, 5), 1, 2),
    ("bad", (2, 3), (4, 5), 1, 1),
    ("vector", (3,), (3, 4), 1, 1),
    ("y_vector", (2, 3), (3,), 1, 1),
]
ROWS += [
    Row(
        "mul",
        {"X": real(*x, key="x"), "Y": real(*y, key="y")},
        {"x_num_col_dims": nx, "y_num_col_dims": ny},
        grad=["X", "Y"],
        name=name,
    )
    for name, x, y, nx, ny in MUL
]
ROWS += [
    Row("mul", {"X": Seq(real(5, 3), [[2, 3]]), "Y": real(3, 2)}, grad=["X", "Y"], name="lod"),
    Row("bmm", {"X": real(2, 3, 4), "Y": real(2, 4, 5)}, grad=["X", "Y"]),
    Row("bmm", {"X": real(2, 3, 4), "Y": real(3, 4, 5)}, name="bad"),
    Row("bmm", {"X": real(3, 4), "Y": real(4, 5)}, name="bad_rank"),
    Row("dot", {"X": real(3), "Y": real(3, key="y")}, grad=["X", "Y"]),
    Row("dot", {"X": real(2, 3), "Y": real(2, 3, key="y")}, grad=["X", "Y"], name="rows"),
    Row("dot", {"X": real(2, 3, 4), "Y": real(2, 3, 4, key="y")}, name="three"),
    Row("dot", {"X": whole(3), "Y": whole(3, key="y")}, name="int"),
    Row(
        "addmm",
        {"Input": real(2, 4), "X": real(2, 3), "Y": real(3, 4)},
        {"Alpha": 0.5, "Beta": 2.0},
        grad=["Input", "X", "Y"],
    ),
    Row(
        "addmm",
        {"Input": real(1, 4), "X": real(2, 3), "Y": real(3, 4)},
        {"Alpha": 0.5, "Beta": 2.0},
        grad=["Input", "X", "Y"],
        name="row",
    ),
    Row(
        "addmm",
        {"Input": real(2, 1), "X": real(2, 3), "Y": real(3, 4)},
        {"Alpha": 0.5, "Beta": 2.0},
        grad=["Input", "X", "Y"],
        name="column",
    ),
    Row("addmm", {"Input": real(4), "X": real(2, 3), "Y": real(3, 4)}, name="vector"),
    Row("addmm", {"Input": real(3, 4), "X": real(2, 3), "Y": real(3, 4)}, name="bad"),
    Row("kron", {"X": real(2, 3), "Y": real(3, 2, key="y")}, grad=["X", "Y"]),
    Row("kron", {"X": real(2, 3), "Y": real(2, 3, 2, key="y")}, grad=["X", "Y"], name="ranks"),
    Row("cross", {"X": real(3, 2, 3), "Y": real(3, 2, 3, key="y")}, grad=["X", "Y"]),
    Row("cross", {"X": real(3, 2, 3), "Y": real(3, 2, 3, key="y")}, {"dim": 2}, grad=["X", "Y"], name="last"),
    Row("cross", {"X": real(3, 2, 3), "Y": real(3, 2, 3, key="y")}, {"dim": -3}, grad=["X", "Y"], name="low"),
    Row("cross", {"X": real(3, 2, 4), "Y": real(3, 2, 4, key="y")}, {"dim": 1}, name="bad"),
    Row("dist", {"X": real(2, 3), "Y": real(2, 3, key="y")}, {"p": 2.0}, grad=["X", "Y"]),
    Row("dist", {"X": real(2, 3), "Y": real(3, key="y")}, {"p": 3.0}, grad=["X", "Y"], name="broadcast"),
    Row("dist", {"X": real(2, 1, 3), "Y": real(4, 1, key="y")}, {"p": 1.0}, grad=["X", "Y"], name="both"),
    Row("dist", {"X": real(2, 3), "Y": real(2, 3, key="y")}, {"p": 0.0}, name="count"),
    Row(
        "dist", {"X": real(2, 3), "Y": real(2, 3, key="y")}, {"p": float("inf")}, grad=["X", "Y"], name="inf"
    ),
    Row(
        "dist", {"X": real(2, 3), "Y": real(2, 3, key="y")}, {"p": float("-inf")}, grad=["X", "Y"], name="low"
    ),
    Row(
        "bilinear_tensor_product",
        {"X": real(2, 3), "Y": real(2, 4), "Weight": real(5, 3, 4), "Bias": real(1, 5)},
        grad=["X", "Y", "Weight", "Bias"],
    ),
    Row("fsp", {"X": real(2, 3, 4, 5), "Y": real(2, 2, 4, 5)}, grad=["X", "Y"]),
    Row(
        "cos_sim",
        {"X": signed(3, 4), "Y": signed(3, 4, key="y")},
        grad=["X", "Y"],
        outputs={"XNorm": 1, "YNorm": 1},
    ),
    Row(
        "cos_sim",
        {"X": signed(3, 4), "Y": signed(1, 4, key="y")},
        grad=["X", "Y"],
        outputs={"XNorm": 1, "YNorm": 1},
        name="one",
    ),
    Row(
        "cos_sim",
        {"X": signed(3, 4, 2), "Y": signed(3, 4, 2, key="y")},
        grad=["X", "Y"],
        outputs={"XNorm": 1, "YNorm": 1},
        name="three",
    ),
    Row(
        "squared_l2_distance",
        {"X": real(3, 4), "Y": real(3, 4, key="y")},
        grad=["X", "Y"],
        outputs={"sub_result": 1},
        wants=["Out"],
    ),
    Row(
        "squared_l2_distance",
        {"X": real(3, 4), "Y": real(1, 4, key="y")},
        grad=["X", "Y"],
        outputs={"sub_result": 1},
        wants=["Out"],
        name="one",
    ),
    Row(
        "squared_l2_distance",
        {"X": real(3, 4, 2), "Y": real(3, 4, 2, key="y")},
        grad=["X", "Y"],
        outputs={"sub_result": 1},
        wants=["Out"],
        name="three",
    ),
    Row("sum", {"X": [real(2, 3), real(2, 3, key="b"), real(2, 3, key="c")]}, grad=["X"]),
    Row("sum", {"X": [real(2, 3)]}, grad=["X"], name="one"),
    Row("sum", {"X": [whole(2, 3), whole(2, 3, key="b")]}, name="int"),
    Row("sum", {"X": [real(2, 3), real(3, 2)]}, name="bad"),
    Row(
        "sum",
        {"X": [Seq(real(5, 2), [[2, 3]]), real(5, 2, key="b")]},
        name="lod",
        grad=["X"],
        undeclared=True,
    ),
    Row("trace", {"Input": real(3, 4)}, grad=["Input"]),
    Row("trace", {"Input": real(2, 3, 4)}, {"offset": 1, "dim1": 0, "dim2": 2}, grad=["Input"], name="three"),
    Row(
        "trace", {"Input": real(2, 3, 4)}, {"offset": -2, "dim1": 1, "dim2": -1}, grad=["Input"], name="below"
    ),
    Row("trace", {"Input": real(3, 4)}, {"offset": 9}, name="beyond", grad=["Input"]),
    Row(
        "trace", {"Input": real(2, 3, 4)}, {"offset": 1, "dim1": 2, "dim2": 1}, grad=["Input"], name="turned"
    ),
    Row("tril_triu", {"X": real(3, 4)}, {"lower": True}, grad=["X"]),
    Row("tril_triu", {"X": real(2, 3, 4)}, {"lower": False, "diagonal": 1}, grad=["X"], name="upper"),
    Row("tril_triu", {"X": real(3, 4)}, {"lower": True, "diagonal": -2}, grad=["X"], name="low"),
    Row("tril_triu", {"X": whole(3, 4)}, {"lower": True}, name="int"),
    Row("tril_triu", {"X": real(4)}, {"lower": True}, name="vector"),
    Row("diag", {"Diagonal": real(3)}),
    Row("diag", {"Diagonal": whole(3)}, name="int"),
    Row("diag_embed", {"Input": real(2, 3)}),
    Row("diag_embed", {"Input": real(2, 3)}, {"offset": 1, "dim1": 0, "dim2": 2}, name="first"),
    Row("diag_embed", {"Input": real(2, 3)}, {"offset": -1, "dim1": 1, "dim2": 0}, name="turned"),
    Row("diag_embed", {"Input": real(4)}, name="vector"),
]
