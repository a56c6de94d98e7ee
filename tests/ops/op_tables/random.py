"""Rows for fluidlite.ops.random; the numbers are PaddlePaddle 1.8.5's for seed 7."""

from __future__ import annotations

import numpy as np
from optest import Case

SEED = {"seed": 7}
RANGE = {"min": -0.5, "max": 1.5, **SEED}
UNIFORM = np.array([[-0.49968532, 0.69045424, -0.08106354], [-0.017442107, 1.0513798, 0.15565681]], "float32")
UNIFORM64 = np.array([0.6904542876320068, -0.017442121457284188, 0.15565680566369255])
DIAGONAL = np.array([[9, 0.69045424, -0.08106354], [-0.017442107, 9, 0.15565681]], "float32")
NORMAL = np.array([[-0.33259952, -0.49644744, -0.39048183], [3.22651, 3.6434827, 1.968746]], "float32")
NORMAL64 = np.array([-1.8963495540386006, 2.0660558315085673, 3.1778909544592358])
TRUNCATED = np.array([[-2.994446, 1.459692, -0.52629656], [-0.3298402, 2.4329176, 0.15133831]], "float32")
UNIFORM_LIKE = np.array(
    [[-0.9996853, 0.19045424, -0.5810635], [-0.5174421, 0.5513798, -0.3443432]], "float32"
)
NORMAL_LIKE = np.array([[-0.66629976, -0.7482237], [-0.6952409, 1.113255], [1.3217413, 0.484373]], "float32")
CHANCES = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]], "float32")
CUBE = np.arange(24, dtype="float32").reshape(2, 3, 4)
ROWS = np.arange(8, dtype="float32").reshape(4, 2)
START = np.array([7], "int64")
SHAPE = np.array([2, 3], "int32")
DIMS = [np.array([2], "int64"), np.array([3], "int64")]

CASES: list[Case] = [
    Case("uniform_random", {}, UNIFORM, attrs={"shape": [2, 3], **RANGE}, rtol=0, atol=0),
    Case(
        "uniform_random",
        {},
        UNIFORM64,
        attrs={"shape": [3], "dtype": 6, **RANGE},
        rtol=0,
        atol=0,
        name="double",
    ),
    Case(
        "uniform_random",
        {},
        DIAGONAL,
        attrs={"shape": [2, 3], "diag_num": 2, "diag_step": 3, "diag_val": 9.0, **RANGE},
        name="diagonal",
    ),
    Case("uniform_random", {"ShapeTensor": SHAPE}, UNIFORM, attrs=RANGE, name="shape as tensor"),
    Case(
        "uniform_random",
        {"ShapeTensorList": DIMS},
        UNIFORM,
        attrs={"shape": [2, -1], **RANGE},
        name="shape as tensors",
    ),
    Case(
        "gaussian_random",
        {},
        NORMAL,
        attrs={"shape": [2, 3], "mean": 1.0, "std": 2.0, **SEED},
        rtol=0,
        atol=0,
    ),
    Case(
        "gaussian_random",
        {},
        NORMAL64,
        attrs={"shape": [3], "mean": 1.0, "std": 2.0, "dtype": 6, **SEED},
        rtol=0,
        atol=0,
        name="double",
    ),
    Case(
        "truncated_gaussian_random",
        {},
        TRUNCATED,
        attrs={"shape": [2, 3], "mean": 1.0, "std": 2.0, **SEED},
        rtol=0,
        atol=0,
    ),
    Case(
        "uniform_random_batch_size_like",
        {"Input": CHANCES},
        UNIFORM_LIKE,
        attrs={"shape": [2, -1], "output_dim_idx": 1, **SEED},
    ),
    Case(
        "gaussian_random_batch_size_like", {"Input": CHANCES}, NORMAL_LIKE, attrs={"shape": [-1, 2], **SEED}
    ),
    Case("randint", {}, [[-3, 4, -1], [-1, 6, 0]], attrs={"shape": [2, 3], "low": -3, "high": 9, **SEED}),
    Case(
        "randint",
        {"ShapeTensor": SHAPE},
        np.array([[-3, 4, -1], [-1, 6, 0]], "int32"),
        attrs={"low": -3, "high": 9, "dtype": 2, **SEED},
        name="shape as tensor",
    ),
    Case("randperm", {}, [2, 4, 0, 3, 1, 5], attrs={"n": 6, **SEED}),
    Case("sampling_id", {"X": CHANCES}, [0, 1, 0], attrs=SEED),
    Case(
        "random_crop",
        {"X": CUBE, "Seed": START},
        [[[1, 2], [5, 6]], [[12, 13], [16, 17]]],
        attrs={"shape": [2, 2]},
    ),
    Case(
        "shuffle_batch",
        {"X": ROWS, "Seed": START},
        {"Out": ROWS[[3, 0, 2, 1]], "ShuffleIdx": np.array([1, 3, 2, 0])},
        grad=["X"],
        ignore=["SeedOut"],
    ),
    Case("seed", {}, np.array([7], "int32"), attrs=SEED),
]
for _case in CASES:
    if isinstance(_case.expect, list):
        _case.expect = np.array(_case.expect, "float32" if _case.op == "random_crop" else "int64")
