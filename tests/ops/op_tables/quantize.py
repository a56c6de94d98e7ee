"""Rows for fluidlite.ops.math.quantize, each against the definition, number by number in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from optest import Case

RNG = np.random.RandomState(23)
X = RNG.uniform(-2, 2, (3, 4, 5)).astype("float32")
ROUNDED = RNG.randint(-127, 128, (3, 4, 5)).astype("float32")
BYTES = RNG.randint(-128, 128, (4, 6)).astype("int8")
SCALES = [RNG.uniform(0.5, 2, count).astype("float32") for count in (3, 4, 1)]
LOGS = RNG.uniform(0, 3, 128).astype("float32")
TABLE = np.concatenate(
    [[[-1, 1], [0, 2], [1, 3]], RNG.randint(0, 256, (3, 12)).astype("uint8").view("float32")], axis=1
).astype("float32")


def one(value: float) -> Any:
    return np.array([value], "float32")


def steps(x: Any, scale: Any, bits: int = 8) -> Any:
    """Multiples of scale / levels next to x, which is cut off at the scale."""
    levels = 2 ** (bits - 1) - 1
    cut = np.minimum(np.maximum(np.asarray(x, "float64"), -scale), scale)
    return np.round(cut / scale * levels).astype("float32")


def averaged(x: Any, accum: float, state: float, rate: float) -> tuple[float, float, float]:
    state, accum = rate * state + 1, rate * accum + np.abs(x).max()
    return accum / state, state, accum


def moving(type: str, finish: Any) -> list[Case]:
    scale, state, accum = averaged(X, 1.5, 2.5, 0.8)
    held = {"X": X, "InScale": one(0.7), "InAccum": one(1.5), "InState": one(2.5)}
    outs = {"OutScale": one(scale), "OutState": one(state), "OutAccum": one(accum)}
    fresh = {"OutScale": one(np.abs(X).max()), "OutState": one(1), "OutAccum": one(np.abs(X).max())}
    return [
        Case(type, held, {"Out": finish(X, scale), **outs}, attrs={"moving_rate": 0.8}),
        Case(
            type,
            {"X": X, "InScale": one(0.7)},
            {"Out": finish(X, float(np.abs(X).max())), **fresh},
            name="first",
        ),
        Case(type, held, {"Out": finish(X, 0.7), "OutScale": one(0.7)}, attrs={"is_test": True}, name="test"),
    ]


def ranged(last: float, step: int, name: str) -> Case:
    """A window without any scales yet: the scale is the larger one of this tensor's and the last."""
    found = float(np.abs(X).max())
    window = np.zeros(3, "float32")
    window[step % 3] = found
    scale = max(last, found)
    return Case(
        "fake_quantize_range_abs_max",
        {"X": X, "InScale": one(last), "Iter": np.array([step])},
        {"Out": steps(X, scale), "OutScale": one(scale), "OutScales": window},
        attrs={"window_size": 3},
        name=name,
    )


def channels(x: Any) -> Any:
    return np.abs(x).reshape(len(x), -1).max(1)


def looked_up(W: Any, Ids: Any) -> Any:
    rows = []
    for row in W[Ids.reshape(-1)]:
        least, most = np.float64(row[0]), np.float64(row[1])
        rows.append([least + byte * (most - least) / 256 for byte in row[2:].tobytes()])
    return np.array(rows, "float32")


def as_bytes(least: int, most: int, dtype: str, factor: float) -> Any:
    return lambda Input: np.clip(np.round(np.float64(Input) * factor), least, most).astype(dtype)


CASES = [
    *(
        Case(
            "fake_quantize_abs_max",
            {"X": X},
            lambda X, bits=bits: (steps(X, np.abs(X).max(), bits), np.abs(X).max().reshape(1)),
            attrs={"bit_length": bits},
            name=f"{bits} bits",
        )
        for bits in (4, 8, 16)
    ),
    Case("fake_quantize_abs_max", {"X": 0 * X}, lambda X: (0 * X, one(0)), name="zeros"),
    Case(
        "fake_channel_wise_quantize_abs_max",
        {"X": X},
        lambda X: (steps(X, channels(X)[:, None, None]), channels(X)),
    ),
    ranged(0.1, 0, "larger"),
    ranged(5.0, 4, "smaller"),
    Case(
        "fake_quantize_range_abs_max",
        {"X": X, "InScale": one(0.7)},
        lambda X, InScale: (steps(X, 0.7), InScale),
        attrs={"is_test": True},
        name="test",
    ),
    *moving("fake_quantize_moving_average_abs_max", steps),
    *moving(
        "fake_quantize_dequantize_moving_average_abs_max", lambda x, scale: steps(x, scale) * scale / 127
    ),
    Case(
        "moving_average_abs_max_scale",
        {"X": X, "InAccum": one(1.5), "InState": one(2.5)},
        dict(
            zip(
                ("Out", "OutScale", "OutState", "OutAccum"),
                (X, *(one(value) for value in averaged(X, 1.5, 2.5, 0.8))),
                strict=True,
            )
        ),
        attrs={"moving_rate": 0.8},
    ),
    Case("moving_average_abs_max_scale", {"X": X}, {"Out": X}, attrs={"is_test": True}, name="test"),
    Case(
        "fake_dequantize_max_abs",
        {"X": ROUNDED, "Scale": one(1.5)},
        lambda X, Scale: X * Scale / 127,
        attrs={"max_range": 127.0},
    ),
    Case(
        "fake_channel_wise_dequantize_max_abs",
        {"X": ROUNDED, "Scales": [SCALES[0]]},
        lambda X, Scales: X * Scales[0][:, None, None] / 127,
        name="weight",
    ),
    Case(
        "fake_channel_wise_dequantize_max_abs",
        {"X": ROUNDED, "Scales": [SCALES[1], SCALES[2]]},
        lambda X, Scales: X * Scales[0][None, :, None] / 127 * Scales[1] / 7,
        attrs={"quant_bits": [8, 4]},
        name="product",
    ),
    Case(
        "dequantize_abs_max",
        {"X": BYTES, "Scale": one(1.5)},
        lambda X, Scale: X * Scale / 127,
        attrs={"max_range": 127.0},
    ),
    Case(
        "dequantize_log",
        {"X": BYTES, "Dict": LOGS},
        lambda X, Dict: np.concatenate([-Dict, Dict])[X.astype(int) + 128],
    ),
    Case("lookup_table_dequant", {"W": TABLE, "Ids": np.array([[2], [0], [2]])}, looked_up),
    Case(
        "lookup_table_dequant",
        {"W": TABLE, "Ids": np.array([[2], [0]])},
        lambda W, Ids: looked_up(W, Ids) * [[0], [1]],
        attrs={"padding_idx": 2},
        name="padding",
    ),
    Case("quantize", {"Input": X}, as_bytes(0, 255, "uint8", 90.0), attrs={"Scale": 90.0}),
    Case(
        "quantize",
        {"Input": X},
        as_bytes(-128, 127, "int8", 90.0),
        attrs={"Scale": 90.0, "is_negative_input": True},
        name="negative",
    ),
    Case("dequantize", {"Input": BYTES}, lambda Input: Input / np.float32(77), attrs={"Scale": 77.0}),
    Case(
        "requantize",
        {"Input": BYTES},
        as_bytes(-128, 127, "int8", 101 / 77),
        attrs={"Scale_in": 77.0, "Scale_out": 101.0},
    ),
]
