"""`paddle.amp` and `paddle.static.amp`: lists, programs in half precision, the scale of the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.initializer import Constant
from fluidlite.paddle.static import amp

FEED = {"x": np.linspace(-1, 1, 32, dtype="float32").reshape(8, 4)}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with unique_name.guard(), paddle.static.program_guard(main, startup):
        with paddle.static.scope_guard(paddle.static.Scope()):
            yield


def network() -> Any:
    """A loss over two layers; the first is written under the guard."""
    x = paddle.static.data("x", [8, 4])
    weight = paddle.ParamAttr(initializer=Constant(0.125))
    with amp.fp16_guard():
        hidden = paddle.static.nn.fc(x, 6, activation="relu", weight_attr=weight)
    out = paddle.static.nn.fc(hidden, 1, weight_attr=weight)
    return paddle.mean(paddle.square(out - 1.0))


def losses(loss: Any, steps: int = 5) -> list[float]:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    return [float(exe.run(feed=FEED, fetch_list=[loss])[0]) for _ in range(steps)]


def trained(decorate: Any) -> tuple[list[float], Any]:
    """The losses of five steps under a decorated optimizer, and the optimizer."""
    with unique_name.guard(), paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with paddle.static.scope_guard(paddle.static.Scope()):
            loss = network()
            optimizer = decorate(paddle.optimizer.Momentum(0.1))
            optimizer.minimize(loss)
            return losses(loss), optimizer


def dtype_of(name: str) -> VarType:
    return paddle.static.default_main_program().global_block().var(name).dtype


@pytest.mark.parametrize(
    ("decorate", "tolerance"),
    [
        (lambda o: amp.decorate(o, init_loss_scaling=128.0), 5e-3),
        (lambda o: amp.decorate(o, level="O2", init_loss_scaling=128.0), 5e-3),
        (lambda o: amp.decorate(o, level="O2", use_amp_guard=True, init_loss_scaling=128.0), 5e-3),
        (lambda o: amp.decorate(o, None, 128.0, use_pure_fp16=True, use_fp16_guard=False), 5e-3),
        (lambda o: amp.decorate(o, dtype="bfloat16"), 2e-2),
        (amp.bf16.decorate_bf16, 2e-2),
        (lambda o: amp.bf16.decorate_bf16(o, use_pure_bf16=True), 2e-2),
    ],
)
def test_training_is_near_single_precision(decorate: Any, tolerance: float) -> None:
    plain, _ = trained(lambda optimizer: optimizer)
    mixed, _ = trained(decorate)
    assert plain[-1] < 0.9 * plain[0]
    np.testing.assert_allclose(mixed, plain, rtol=tolerance)
    assert mixed != plain  # it was computed in half precision


def test_level_o1_casts_products_alone() -> None:
    loss = network()
    amp.decorate(paddle.optimizer.SGD(0.1), level="O1").minimize(loss)
    assert dtype_of("fc_0.tmp_0") == VarType.FP16
    assert dtype_of("fc_0.w_0") == VarType.FP32
    assert loss.dtype == VarType.FP32


def test_the_scale_shrinks_after_one_bad_step_and_grows_after_two_good() -> None:
    loss = network()
    optimizer = amp.decorate(
        paddle.optimizer.SGD(0.01), dtype="float16", init_loss_scaling=8.0, incr_every_n_steps=2
    )
    optimizer.minimize(loss)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    bad = {"x": np.full([8, 4], np.inf, "float32")}
    scales = [
        float(np.ravel(exe.run(feed=feed, fetch_list=[optimizer.get_loss_scaling()])[0])[0])
        for feed in (bad, FEED, FEED, FEED)
    ]
    assert scales == [4.0, 4.0, 8.0, 8.0]


@pytest.mark.parametrize(
    ("positional", "named", "wanted"),
    [  # (scale at first, steps to grow, steps to shrink, ratio) of 2.6.2
        ((), {}, (65536.0, 2000, 1, 0.5)),
        ((), {"use_promote": False}, (65536.0, 2000, 1, 0.5)),
        ((None, "O1"), {}, (65536.0, 2000, 1, 0.5)),
        ((None, 128.0), {}, (128.0, 1000, 2, 0.8)),
        ((), {"use_pure_fp16": False}, (32768.0, 1000, 2, 0.8)),
    ],
)
def test_defaults_of_both_signatures(positional: Any, named: Any, wanted: Any) -> None:
    amp.decorate(paddle.optimizer.SGD(0.1), *positional, **named).minimize(network())
    block = paddle.static.default_main_program().global_block()
    (update,) = [op for op in block.ops if op.type == "update_loss_scaling"]
    names = ("incr_every_n_steps", "decr_every_n_nan_or_inf", "decr_ratio")
    startup = paddle.static.default_startup_program().global_block().ops
    (scale,) = [op for op in startup if op.output("Out") == update.input("PrevLossScaling")]
    found = (scale.attr("value"), *(update.attr(name) for name in names))
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize("naive", [True, False])
def test_rows_of_a_table_are_checked(naive: bool) -> None:
    ids, y = paddle.static.data("ids", [None, 1], "int64"), paddle.static.data("y", [None, 1])
    rows = paddle.static.nn.embedding(ids, [6, 4], is_sparse=True, param_attr=paddle.ParamAttr("table"))
    loss = paddle.mean(paddle.square(paddle.static.nn.fc(paddle.reshape(rows, [-1, 4]), 1) - y))
    optimizer = amp.decorate(paddle.optimizer.SGD(0.5), init_loss_scaling=8.0)
    optimizer.minimize(loss)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.naive = naive
    exe.run(paddle.static.default_startup_program())
    table = paddle.static.global_scope().find_var("table").get_tensor()
    feed = {"ids": np.array([[1], [4], [1]], "int64"), "y": np.ones((3, 1), "float32")}
    for y_value, moves, scale in ((1.0, [1, 4], 8.0), (np.inf, [], 4.0), (1.0, [1, 4], 4.0)):
        before = np.array(table)
        feed["y"] = np.full((3, 1), y_value, "float32")
        found = exe.run(feed=feed, fetch_list=[optimizer.get_loss_scaling()])[0]
        assert np.flatnonzero((np.array(table) != before).any(axis=1)).tolist() == moves
        assert float(np.ravel(found)[0]) == scale


@pytest.mark.parametrize("guarded", [True, False])
def test_parameters_of_half_precision(guarded: bool) -> None:
    loss = network()
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    program = paddle.static.default_main_program().clone(for_test=True)
    want = exe.run(program, feed=FEED, fetch_list=[loss])[0]
    names = amp.cast_model_to_fp16(program, use_fp16_guard=guarded)
    assert names == (
        {"fc_0.w_0", "fc_0.b_0"} if guarded else {"fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"}
    )
    amp.cast_parameters_to_fp16(paddle.CPUPlace(), program, to_fp16_var_names=names)
    held = np.array(paddle.static.global_scope().find_var("fc_0.w_0").get_tensor())
    assert held.dtype == np.float16
    got = exe.run(program, feed=FEED, fetch_list=[loss.name])[0]
    np.testing.assert_allclose(got, want, rtol=2e-3)


def test_parameters_of_bfloat16() -> None:
    loss = network()
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    program = paddle.static.default_main_program()
    want = exe.run(feed=FEED, fetch_list=[loss])[0]
    names = amp.bf16.cast_model_to_bf16(program, use_bf16_guard=False)
    amp.bf16.cast_parameters_to_bf16(paddle.CPUPlace(), program, to_bf16_var_names=names)
    np.testing.assert_allclose(exe.run(feed=FEED, fetch_list=[loss])[0], want, rtol=2e-2)
    assert list(amp.bf16.convert_float_to_uint16([1.0, 2.5, 3.14159])) == [16256, 16416, 16457]  # of 2.6.2


def test_lists() -> None:
    lists = amp.CustomOpLists({"softmax"}, {"conv2d"})
    assert "softmax" in lists.white_list - lists.black_list
    assert "conv2d" in lists.black_list - lists.white_list
    assert (len(lists.white_list), len(lists.black_list)) == (13, 52)
    assert len(lists.gray_list) == 46
    with pytest.raises(ValueError, match="overlap"):
        amp.bf16.AutoMixedPrecisionListsBF16({"mul"}, {"mul"})


def test_devices() -> None:
    assert not paddle.amp.is_float16_supported("cpu")
    assert paddle.amp.is_bfloat16_supported("cpu")


@pytest.mark.parametrize("name", ["auto_cast", "GradScaler", "decorate"])
def test_what_is_imperative_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"paddle.amp.{name}\(\) works in imperative mode"):
        getattr(paddle.amp, name)()


def test_levels_of_decorate() -> None:
    with pytest.raises(ValueError, match="level must be"):
        amp.decorate(paddle.optimizer.SGD(0.1), level="O3")
