"""Initialisers and random layers: the ops that they write, the numbers that come out."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import initializer, layers
from fluidlite.ops.kernels.minstd import minstd_states, minstd_uniform


def filled(init: Any, shape: Any, seed: int = 0, dtype: str = "float32") -> tuple[Any, Any]:
    """The block in which `init` fills a variable w in front of another initialiser, and what w holds after
    a run.
    """
    program = fluid.Program()
    program.random_seed = seed
    block = program.global_block()
    first = block.create_var(name="first", shape=[1], dtype="float32", persistable=True)
    initializer.Constant(1.0)(first, block)
    var = block.create_var(name="w", shape=shape, dtype=dtype, persistable=True)
    op = init(var, block)
    assert op in block.ops
    value = fluid.Executor(fluid.CPUPlace()).run(program, fetch_list=["w"])[0]
    assert value.dtype == dtype and list(value.shape) == list(shape)
    return block, value


def run(fetches: Any, **feed: Any) -> Any:
    """The fetches of one run of the main program."""
    return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=fetches)


# the operator and its range or spread, for shapes [3, 4] and [3, 4, 2, 2] (8 and 28 inputs and outputs)
FANS = [
    (initializer.Xavier(), [3, 4], "uniform_random", np.sqrt(6 / 7)),
    (initializer.Xavier(uniform=False), [3, 4, 2, 2], "gaussian_random", np.sqrt(2 / 28)),
    (initializer.Xavier(fan_in=5, fan_out=7), [6], "uniform_random", np.sqrt(6 / 12)),
    (initializer.Xavier(), [6], "uniform_random", np.sqrt(6 / 12)),
    (initializer.MSRA(), [3, 4], "uniform_random", np.sqrt(6 / 3)),
    (initializer.MSRA(uniform=False), [3, 4, 2, 2], "gaussian_random", np.sqrt(2 / 16)),
    (initializer.MSRA(fan_in=5), [3, 4], "uniform_random", np.sqrt(6 / 5)),
]


@pytest.mark.parametrize("init, shape, op_type, spread", FANS, ids=lambda value: str(value))
def test_spread_follows_from_the_fans(init: Any, shape: Any, op_type: str, spread: float) -> None:
    block, _ = filled(init, shape)
    assert block.ops[0].type == op_type
    found = block.ops[0].attr("max" if op_type == "uniform_random" else "std")
    assert found == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize(
    "kind",
    [
        initializer.Uniform,
        initializer.Normal,
        initializer.TruncatedNormal,
        initializer.Xavier,
        initializer.MSRA,
    ],
)
def test_seed_comes_from_the_program(kind: Any) -> None:
    block, value = filled(kind(), [40, 30], seed=9)
    assert block.ops[0].attr("seed") == 9
    assert np.array_equal(value, filled(kind(seed=9), [40, 30])[1])
    assert not np.array_equal(value, filled(kind(seed=10), [40, 30], seed=9)[1])


@pytest.mark.parametrize(
    "kind, mean, deviation",
    [
        (initializer.Uniform(-1.0, 3.0), 1, 4 / np.sqrt(12)),
        (initializer.Normal(1.0, 2.0), 1, 2),
        (initializer.TruncatedNormal(1.0, 2.0), 1, 1.76),
    ],
)
@pytest.mark.parametrize("seed", [0, 3])
def test_moments(kind: Any, mean: float, deviation: float, seed: int) -> None:
    value = filled(kind, [200, 100], seed)[1]
    assert value.mean() == pytest.approx(mean, abs=0.06)
    assert value.std() == pytest.approx(deviation, rel=0.02)
    if isinstance(kind, initializer.TruncatedNormal) and kind._op.startswith("truncated"):
        assert abs(value - 1).max() <= 4


def test_without_a_seed_runs_differ() -> None:
    out = layers.uniform_random([4])
    exe = fluid.Executor(fluid.CPUPlace())
    assert not np.array_equal(exe.run(fetch_list=[out])[0], exe.run(fetch_list=[out])[0])


def test_initialisers_are_prepended() -> None:
    block, value = filled(initializer.Constant(2.5), [2, 3])
    assert [op.output_arg_names for op in block.ops] == [["w"], ["first"]] and (value == 2.5).all()
    assert filled(initializer.Constant(3), [2], dtype="int64")[1].tolist() == [3, 3]


def test_float16_is_filled_in_float32_and_cast() -> None:
    block, value = filled(initializer.Normal(seed=3), [2, 2], dtype="float16")
    assert [op.type for op in block.ops] == ["gaussian_random", "fill_constant", "cast"]
    assert block.ops[0].output_arg_names == ["gaussian_random.w.tmp_0"]
    assert np.array_equal(value, filled(initializer.Normal(seed=3), [2, 2])[1].astype("float16"))


def test_bilinear() -> None:
    """The numbers are PaddlePaddle 1.8.5's, whose rows of the filter are skewed."""
    block, value = filled(initializer.Bilinear(), [1, 1, 4, 4])
    assert block.ops[-1].type == "assign_value"
    assert value.ravel().tolist() == [
        0.0625,
        0.28125,
        0.375,
        0.15625,
        0.1875,
        0.65625,
        0.75,
        0.21875,
        0.1875,
        0.46875,
        0.375,
        0.09375,
        0.0625,
        0.09375,
        0,
        -0.03125,
    ]
    with pytest.raises(ValueError, match="length of shape"):
        filled(initializer.Bilinear(), [3, 4])
    with pytest.raises(ValueError, match="equal to shape"):
        filled(initializer.Bilinear(), [2, 1, 3, 4])


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool"])
def test_numpy_array(dtype: str) -> None:
    block, value = filled(initializer.NumpyArrayInitializer(np.array([[0, 1], [1, 0]])), [2, 2], dtype=dtype)
    assert block.ops[0].type == "assign_value"
    assert np.array_equal(value, np.array([[0, 1], [1, 0]], dtype))


@pytest.mark.parametrize(
    "make",
    [
        lambda: initializer.Uniform(2.0, 1.0),
        lambda: initializer.Uniform(diag_num=-1),
        lambda: initializer.Constant(None),
        lambda: initializer.Normal(None),
        lambda: initializer.Xavier(seed=None),
        lambda: initializer.NumpyArrayInitializer([1.0]),
        lambda: filled(initializer.Normal(), [2], dtype="int64"),
        lambda: filled(initializer.NumpyArrayInitializer(np.ones(2)), [2], dtype="float64"),
    ],
)
def test_refusals(make: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()


# ---------------------------------------------------------------------- the numbers themselves
# checksums of 100003 float32 numbers, and their sum, from PaddlePaddle 1.8.5
CHECKSUMS = [
    ("uniform_random", 1, 792675034, -154.52840012311935),
    ("uniform_random", 2147483647, 792675034, -154.52840012311935),
    ("uniform_random", -5, 3996749800, 89.58462458848953),
    ("truncated_gaussian_random", 90, 3309060986, 44.533877897261846),
    ("truncated_gaussian_random", -5, 680324851, 147.6581202854768),
    ("gaussian_random", 90, None, 419.12325529914324),
    ("gaussian_random", -5, None, 68.55182228021658),
]


@pytest.mark.parametrize("op_type, seed, checksum, total", CHECKSUMS)
def test_long_streams(op_type: str, seed: int, checksum: int | None, total: float) -> None:
    """Bit for bit, but for normal numbers, which use the logarithm of the C library at hand."""
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="out", dtype="float32")
    block.append_op(type=op_type, outputs={"Out": out}, attrs={"shape": [100003], "seed": seed})
    value = run([out])[0]
    assert checksum is None or zlib.crc32(value.tobytes()) == checksum
    assert value.astype("float64").sum() == pytest.approx(total, abs=1e-4)


def test_engine() -> None:
    """The 10000th state of std::minstd_rand from its default seed is fixed by the C++ standard."""
    assert minstd_states(1, 10000)[-1] == 399268537
    assert minstd_states(7, 0).size == 0
    assert np.array_equal(minstd_uniform(3, 5), minstd_uniform(3, 900)[:5])


def test_seeds_move_on() -> None:
    """random_crop leaves its seed behind for the next run, and starts from the attribute."""
    x = fluid.data("x", [None, 3, 4], "float32")
    out = layers.random_crop(x, [2, 2], seed=7)
    cube = np.arange(24, dtype="float32").reshape(2, 3, 4)
    exe = fluid.Executor(fluid.CPUPlace())
    first, second = (exe.run(feed={"x": cube}, fetch_list=[out])[0] for _ in range(2))
    assert first.tolist() == [[[1, 2], [5, 6]], [[12, 13], [16, 17]]]
    assert not np.array_equal(first, second)
    assert np.array(fluid.global_scope().find_var("random_crop_seed_0").get_tensor()).tolist() != [1665781405]


# ---------------------------------------------------------------------- layers
def test_layer_attributes() -> None:
    count = layers.fill_constant([1], "int64", 4)
    outs = [
        layers.uniform_random([3, count], seed=5),
        layers.gaussian_random([3, count], 1.0, 2.0, 5),
        layers.randint(2, 5, [3, count], seed=5),
        layers.uniform_random([3, 4], "float64", seed=5),
        layers.randperm(5, seed=5),
        layers.randn([2, 3]),
    ]
    values = run(outs)
    assert [value.shape for value in values] == [(3, 4)] * 4 + [(5,), (2, 3)]
    assert [str(value.dtype) for value in values] == [
        "float32",
        "float32",
        "int64",
        "float64",
        "int64",
        "float32",
    ]
    assert outs[0].shape == (-1, -1) and outs[1].shape == (3, -1) and outs[5].stop_gradient
    assert sorted(values[4]) == [0, 1, 2, 3, 4] and set(values[2].ravel()) <= {2, 3, 4}


def test_batch_size_like() -> None:
    x = fluid.data("x", [None, 5], "float32")
    outs = [
        layers.uniform_random_batch_size_like(x, [-1, 2], min=3.0, max=4.0),
        layers.gaussian_random_batch_size_like(x, [2, -1], 0, 1),
    ]
    uniform, normal = run(outs, x=np.zeros((6, 5), "float32"))
    assert uniform.shape == (6, 2) and normal.shape == (2, 6) and outs[0].shape == (-1, 2)
    assert (uniform >= 3).all() and (uniform < 4).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: layers.uniform_random([3], "int32"),
        lambda: layers.uniform_random(3),
        lambda: layers.uniform_random([]),
        lambda: layers.uniform_random([3, -1]),
        lambda: layers.randint(5, 1),
        lambda: layers.randint(1, 5, dtype="float32"),
        lambda: layers.randperm(0),
        lambda: layers.randperm(3, dtype="float32"),
        lambda: layers.randn([2], dtype="int32"),
        lambda: layers.random_crop(fluid.data("x", [None, 3], "float32"), [2], seed=2.5),
    ],
)
def test_layer_refusals(call: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        call()
