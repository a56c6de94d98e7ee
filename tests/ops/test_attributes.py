"""Attributes as ops get them: as 32-bit numbers, and within the limits that 1.8.5 has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.attr_limits import broken_limit
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.registry import get, known_types

X = np.linspace(-1, 1, 12).reshape(3, 4)
THIRD = float(np.float32(0.3))
RESULTS = {
    "clip": ({"min": -0.3, "max": 0.3}, X.clip(-THIRD, THIRD)),
    "leaky_relu": ({"alpha": 0.3}, np.where(X > 0, X, X * THIRD)),
    "scale": ({"scale": 0.3}, X * THIRD),
    "fill_any_like": ({"value": 0.3}, np.full_like(X, THIRD)),
}


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("op_type", RESULTS)
def test_kernels_get_32_bit_numbers(op_type: str, naive: bool) -> None:
    attrs, wanted = RESULTS[op_type]
    block = fluid.Program().global_block()
    x = block.create_var(name="x", shape=X.shape, dtype="float64", is_data=True)
    out = block.create_var(name="out")
    block.append_op(type=op_type, inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    (found,) = exe.run(block.program, feed={"x": X}, fetch_list=[out])
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize(
    ("op_type", "attrs"),
    [
        ("lstm", {"gate_activation": "softsign"}),
        ("prior_box", {"min_sizes": []}),
        ("prior_box", {"variances": [0.1, 0.1, 0.2]}),
        ("density_prior_box", {"densities": [2, 0]}),
        ("sequence_mask", {"maxlen": 0}),
        ("layer_norm", {"epsilon": 0.0011}),
    ],
)
def test_values_beyond_a_limit(op_type: str, attrs: dict[str, Any]) -> None:
    (name,) = attrs
    assert f"attribute {name!r}" in (broken_limit(get(op_type).attr_defs, attrs) or "")


@pytest.mark.parametrize(
    ("op_type", "attrs"),
    [("layer_norm", {"epsilon": THIRD / 300}), ("sequence_mask", {"maxlen": -1}), ("relu", {"axis": -9})],
)
def test_values_within_the_limits(op_type: str, attrs: dict[str, Any]) -> None:
    assert broken_limit(get(op_type).attr_defs, attrs) is None


def test_an_op_beyond_a_limit_is_refused() -> None:
    x = fluid.data("x", [2, 3])
    with pytest.raises(EnforceNotMet, match="'dropout_prob' is 1.5, but must be between 0.0 and 1.0"):
        fluid.layers.dropout(x, 1.5)


# ---------------------------------------------------------------------- windows
def test_windows_have_least_sizes() -> None:
    """A stride of 0, a window of nothing: no op may compute with one."""
    named = {"strides", "dilations", "kernels", "kernel_sizes"}
    # a slice may go backwards
    types = [kind for kind in known_types() if not kind.startswith("strided_slice")]
    open_ones = {(kind, name) for kind in types for name in named if not _is_limited(kind, name)}
    assert not open_ones


def _is_limited(op_type: str, name: str) -> bool:
    declared = get(op_type).attr_defs
    limit = declared[name].limit if name in declared else None
    return name not in declared or (limit is not None and limit.always)


IMAGE, VOLUME = [2, 4, 6, 6], [2, 4, 5, 6, 6]
CONV = {"num_filters": 4, "filter_size": 3}
WINDOWS: list[tuple[str, list[int], dict[str, Any], dict[str, list[Any]]]] = [
    ("conv2d", IMAGE, CONV, {"stride": [0, [1, -1]], "dilation": [-1, [1, -1]]}),
    ("conv3d", VOLUME, CONV, {"stride": [0, [1, 1, -1]], "dilation": [-1]}),
    ("conv2d_transpose", IMAGE, CONV, {"stride": [0, -1], "dilation": [[1, -1]]}),
    ("conv3d_transpose", VOLUME, CONV, {"stride": [0, -1], "dilation": [[1, 1, -1]]}),
    ("pool2d", IMAGE, {"pool_size": 2}, {"pool_size": [0, [0, 1], [-1, 1]], "pool_stride": [0, -1]}),
    ("pool3d", VOLUME, {"pool_size": 2}, {"pool_size": [0, [1, 1, 0]], "pool_stride": [0, -1]}),
    ("adaptive_pool2d", IMAGE, {"pool_size": 2}, {"pool_size": [0, [1, -1]]}),
    (
        "unfold",
        IMAGE,
        {"kernel_sizes": 2},
        {"kernel_sizes": [0, -1], "strides": [0, -1], "paddings": [-1], "dilations": [-1]},
    ),
    ("im2sequence", IMAGE, {"filter_size": 2}, {"filter_size": [0], "stride": [0, -1], "padding": [-1]}),
    ("pad2d", IMAGE, {"paddings": [1, 1, 1, 1]}, {"paddings": [[-1, 0, 0, 0], [0, 0, 0, -1]]}),
]


@pytest.mark.parametrize(("layer", "shape", "given", "wrong"), WINDOWS, ids=[row[0] for row in WINDOWS])
def test_windows_that_mean_nothing(
    layer: str, shape: list[int], given: dict[str, Any], wrong: dict[str, list[Any]]
) -> None:
    function = getattr(fluid.layers, layer)
    x = fluid.data("x", shape)
    function(x, **given)
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ShapeError, match="(at|of) least"):
                function(x, **{**given, name: value})


def test_a_file_with_windows_that_mean_nothing() -> None:
    """An op that a file brings was never built here: its plan is refused."""
    x = fluid.data("x", IMAGE)
    out = fluid.layers.conv2d(x, 4, 3)
    (op,) = (op for op in fluid.default_main_program().global_block().ops if op.type == "conv2d")
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    op.attrs["dilations"] = [-1, 1]
    main = fluid.Program.parse_from_string(fluid.default_main_program().desc.serialize_to_string())
    for exe.naive in (False, True):
        with pytest.raises(EnforceNotMet, match="dilations is .-1, 1., but has to be at least 0"):
            exe.run(main, feed={"x": np.ones(IMAGE, "float32")}, fetch_list=[out.name])
