"""Tensor functions and operators of the 2.x door, each held to what PaddlePaddle 2.6.2 made of it: ops,
values, gradients.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from golden.functions_2x import Built, expressions, feeds, is_random

import fluidlite.paddle as paddle
from fluidlite import unique_name

PATH = pathlib.Path(__file__).parents[1] / "golden" / "functions_2x.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(PATH.read_bytes()))
RTOL, ATOL = 2e-5, 2e-6
# 2.6.2 writes ops for its own assertions on Variables that nothing reads
ASSERTED = {"paddle.expand(v, [k, 3])": 3, "x[k]": 2, "paddle.static.setitem(x, k, 9.0)": 2, "t[k, 1]": 2}
# 2.6.2 adds up the wrong rows, and leaves gradients beside the triangle that counts
GRADIENT_IS_WRONG = {
    "paddle.gather(x, i, axis=1)": "x",
    "paddle.gather(t, i, axis=2)": "t",
    "paddle.linalg.triangular_solve(s, paddle.eye(3), False, False, True)": "s",
    # and gives a gradient to values that others have overwritten
    "paddle.scatter(x, i, y)": "y",
    "paddle.vision.ops.roi_align(f, paddle.cumsum(paddle.abs(r[0]), -1), "
    'paddle.arange(1, 3, dtype="int32"), 2)': "f",
    "paddle.scatter_(x, i, y)": "y",
    "paddle.index_put(x, (i,), y)": "y",
    "paddle.index_put(u, (i,), y)": "y",
    "paddle.index_put(d, (i, i), d[0, 0:2])": "d",
    # and spreads over both triangles what one of them has, and counts an edge as often as it is named
    "paddle.linalg.pinv(s, hermitian=True)": "s",
    "paddle.linalg.eigh(s)": "s",
    'paddle.linalg.eigh(s, "U")': "s",
    'paddle.linalg.eigh(paddle.cast(s, "float64"))': "s",
    "paddle.linalg.eigvalsh(s)": "s",
    'paddle.linalg.eigvalsh(s, "U")': "s",
    'paddle.incubate.graph_send_recv(x, i, i, "max")': "x",
}
# 2.6.2 has no gradient for the diagonal
TRAINS_MORE = ("paddle.diagonal_scatter(m, v)", "paddle.diagonal_scatter(x, v[0:2], 1)")
# 2.6.2 takes the third dimension of the result for the second one's
DECLARED_BETTER = {
    "paddle.expand(x, [4, -1, 3])": [4, 2, 3],
    # and declares the results of these like their operands
    "paddle.linalg.det(s)": [],
    "paddle.linalg.det(m)": [],
    "paddle.linalg.det(paddle.expand(s, [2, 3, 3]))": [2],
    "paddle.linalg.slogdet(s)": [2],
    "paddle.linalg.slogdet(m)": [2],
    "paddle.linalg.slogdet(paddle.expand(s, [2, 3, 3]))": [2, 2],
}
# 2.6.2 cuts off what the left side's dtype does not hold: code -> the right values
PROMOTED: dict[str, Any] = {
    "j + x": lambda fed: fed["j"].astype("float32") + fed["x"],
    "b + 1": lambda fed: fed["b"].astype("int64") + 1,
}
# 2.6.2's gradient op puts back what was counted in place, and that is what is fetched
REWOUND = ("paddle.increment(v[0:1])",)
# other ops for the same numbers
COMPOSED_OTHERWISE = (
    "paddle.linalg.cond(",
    "paddle.linalg.pinv(",
    "paddle.quantile(u",
    "m.cond(",
    "paddle.fft.fftfreq(",
    "paddle.fft.fftshift(",
    "paddle.fft.ifftshift(",
    "paddle.signal.istft(",
    "paddle.vander(",
    "paddle.geometric.send_ue_recv(",
    "paddle.geometric.send_uv(",
    "paddle.nn.functional.triplet_margin_with_distance_loss(",
)


def same(found: Any, wanted: Any) -> bool:
    """Equal attributes: numbers to float32's digits."""
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        return bool(np.isclose(found, wanted, rtol=1e-6, atol=0)) or found == wanted
    return bool(found == wanted)


def without_assertions(code: str, ops: list[list[Any]]) -> list[list[Any]]:
    """The ops of 2.6.2 whose results are read, with temporaries numbered as they are without the others."""
    count = ASSERTED.get(code, 0)
    text = json.dumps(ops[count:])
    made = sum(name.startswith("tmp_") for op in ops[:count] for names in op[2].values() for name in names)
    return json.loads(re.sub(r'"tmp_(\d+)"', lambda found: f'"tmp_{int(found[1]) - made}"', text))  # type: ignore[no-any-return]


def differences(found: list[list[Any]], wanted: list[list[Any]]) -> list[str]:
    """Lines that say where the ops differ."""
    types, expected = [op[0] for op in found], [op[0] for op in wanted]
    if types != expected:
        return [f"ops {types}, wanted {expected}"]
    lines = []
    for mine, other in zip(found, wanted, strict=True):
        for what, one, two in zip(("type", "inputs", "outputs", "shapes"), mine[:4], other[:4], strict=False):
            lines += [] if one == two else [f"{mine[0]}: {what} {one}, wanted {two}"]
        for name, value in other[4].items():
            if not same(mine[4].get(name, value), value):
                lines.append(f"{mine[0]}: {name} is {mine[4][name]}, wanted {value}")
    return lines


def place_of_gradient(built: Built, name: str) -> int:
    """The place of an input's gradient among the values of a run; -1 where there is none of that name."""
    names = [var.name for var in built.sources]
    return len(built.results) + names.index(name) if name in names else -1


def gradient_by_differences(built: Built, name: str) -> np.ndarray[Any, Any]:
    """The gradient of the sum of squares of the first result, by central differences."""
    value = feeds()[name]
    slopes = np.zeros(value.size)
    for index in range(value.size):
        sums = []
        for step in (1e-2, -1e-2):
            moved = value.copy()
            moved.reshape(-1)[index] += step
            sums.append(float((built.run(**{name: moved})[0].astype("float64") ** 2).sum()))
        slopes[index] = (sums[0] - sums[1]) / 2e-2
    return slopes.reshape(value.shape)


@pytest.mark.parametrize("code", GRADIENT_IS_WRONG)
def test_gradient_that_2x_gets_wrong(code: str) -> None:
    built, name = Built(paddle, unique_name.guard, code), GRADIENT_IS_WRONG[code]
    number = place_of_gradient(built, name)
    gradient = built.run()[number]
    np.testing.assert_allclose(gradient, gradient_by_differences(built, name), rtol=1e-3, atol=1e-3)
    assert not np.allclose(gradient.ravel(), RECORDED[code]["values"][number][2], atol=1e-2)


@pytest.mark.parametrize("code", PROMOTED)
def test_operands_of_two_types(code: str) -> None:
    found, wanted = Built(paddle, unique_name.guard, code).run()[0], PROMOTED[code](feeds())
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype != RECORDED[code]["values"][0][0]


@pytest.mark.parametrize("code", [code for code in expressions() if code not in PROMOTED])
def test_expression(code: str) -> None:
    wanted = RECORDED[code]
    if "error" in wanted:
        with pytest.raises(Exception):  # noqa: B017  (2.6.2 refuses it, and says so with many types)
            Built(paddle, unique_name.guard, code).run()
        return
    built = Built(paddle, unique_name.guard, code)
    declared = [list(one.shape) if hasattr(one, "shape") else one for one in built.results]
    if code in DECLARED_BETTER:
        assert declared == [DECLARED_BETTER[code]] != wanted["declared"]
    else:
        if not code.startswith(COMPOSED_OTHERWISE):
            lines = differences(built.ops, without_assertions(code, wanted["ops"]))
            assert not lines, "\n".join(lines)
        assert declared == wanted["declared"]
    values = built.run()
    if code in REWOUND:
        values[0] = values[0] - 1
    if code in TRAINS_MORE:
        assert np.abs(values.pop()).any()
    wrong = place_of_gradient(built, GRADIENT_IS_WRONG.get(code, ""))
    assert len(values) == len(wanted["values"])
    for number, (value, (dtype, shape, numbers)) in enumerate(zip(values, wanted["values"], strict=True)):
        what = f"value {number} of {wanted['results']} results and their gradients"
        assert (str(value.dtype), list(value.shape)) == (dtype, shape), what
        if not is_random(code) and number != wrong:
            expected = np.array(numbers, dtype).reshape(shape)
            np.testing.assert_allclose(value, expected, rtol=RTOL, atol=ATOL, err_msg=what)


def test_parts_of_unique_that_nobody_asks_for_are_numbers() -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [3])
        out, counts = paddle.unique(x, return_counts=True)
        parts = [name for names in out.block.ops[-1].outputs.values() for name in names]
        exe = paddle.static.Executor()
        for _ in range(3):
            found = exe.run(feed={"x": np.array([3, 1, 3], "float32")}, fetch_list=[out, counts, *parts])
    shapes = {name: value.shape for name, value in zip(parts, found[2:], strict=True)}
    assert [shapes[name] for name in parts if name not in (out.name, counts.name)] == [(), ()]
    assert found[0].tolist() == [1, 3] and found[1].tolist() == [1, 2]
