"""`paddle.Model`, its callbacks, `paddle.summary` and `paddle.flops`, beside what 2.6.2 gave."""

from __future__ import annotations

import os
import pathlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite import unique_name

nn = paddle.nn
Input = paddle.static.InputSpec


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with unique_name.guard(), paddle.static.program_guard(main, startup):
        with paddle.static.scope_guard(paddle.static.Scope()):
            yield


class Samples(paddle.io.Dataset):  # type: ignore[misc]
    """Ten points of three classes."""

    def __init__(self, count: int = 10) -> None:
        source = np.random.RandomState(0)
        self.x = source.randn(count, 4).astype("float32")
        self.y = source.randint(0, 3, (count, 1)).astype("int64")

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.y[index]

    def __len__(self) -> int:
        return len(self.x)


def network() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3))


def prepared(net: Any = None, optimizer: Any = None, metrics: Any = None, **settings: Any) -> Any:
    """A model with parameters that do not depend on a generator of initialisers."""
    model = paddle.Model(
        net or network(), Input([None, 4], "float32", "x"), Input([None, 1], "int64", "label")
    )
    optimizer = optimizer or paddle.optimizer.Adam(0.01, parameters=model.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), metrics, **settings)
    source = np.random.RandomState(5)
    state = {
        name: source.randn(*var.shape).astype("float32") * np.float32(0.3)
        for name, var in model.network.state_dict().items()
    }
    model.network.set_state_dict(state)
    return model


# ---------------------------------------------------------------------- training
def test_batches_are_those_of_paddle() -> None:
    model, data = prepared(metrics=paddle.metric.Accuracy(topk=(1, 2))), Samples()
    losses, metrics = model.train_batch([data.x[:4]], [data.y[:4]])
    np.testing.assert_allclose(losses[0], 1.2520965, rtol=1e-6)
    assert losses[0].shape == () and metrics == [[0.25, 0.5]]
    losses, metrics = model.eval_batch([data.x[:4]], [data.y[:4]])
    np.testing.assert_allclose(losses[0], 1.2080946, rtol=1e-6)
    (scores,) = model.predict_batch([data.x[:2]])
    np.testing.assert_allclose(
        scores, [[0.6541, -0.0003, 1.2413], [0.8873, 0.2552, 0.8476]], atol=6e-5, rtol=0
    )
    assert model.mode == "test" and model.network.training


def test_fit_evaluate_and_predict_are_those_of_paddle(capsys: Any) -> None:
    model, data = prepared(metrics=paddle.metric.Accuracy(topk=(1, 2))), Samples()
    model.train_batch([data.x[:4]], [data.y[:4]])
    model.eval_batch([data.x[:4]], [data.y[:4]])
    model.fit(data, data, batch_size=4, epochs=2, shuffle=False, verbose=2, log_freq=2)
    lines = [line.rpartition(" - ")[0] or line for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "Epoch 1/2",
        "step 2/3 - loss: 0.8397 - acc_top1: 0.3750 - acc_top2: 0.6250",
        "step 3/3 - loss: 0.8636 - acc_top1: 0.3889 - acc_top2: 0.6667",
        "Eval begin...",
        "step 2/3 - loss: 0.8301 - acc_top1: 0.5000 - acc_top2: 0.7500",
        "step 3/3 - loss: 0.8387 - acc_top1: 0.5000 - acc_top2: 0.8000",
        "Eval samples: 10",
        "Epoch 2/2",
        "step 2/3 - loss: 0.8305 - acc_top1: 0.5000 - acc_top2: 0.7500",
        "step 3/3 - loss: 0.8038 - acc_top1: 0.5000 - acc_top2: 0.8000",
        "Eval begin...",
        "step 2/3 - loss: 0.8175 - acc_top1: 0.5000 - acc_top2: 0.7500",
        "step 3/3 - loss: 0.7782 - acc_top1: 0.5000 - acc_top2: 0.8000",
        "Eval samples: 10",
    ]
    result = model.evaluate(data, batch_size=4, verbose=0)
    assert list(result) == ["loss", "acc_top1", "acc_top2"]
    np.testing.assert_allclose(result["loss"], [0.7782034], rtol=1e-5)
    (batches,) = model.predict(data, batch_size=4, verbose=0)
    assert [array.shape for array in batches] == [(4, 3), (4, 3), (2, 3)]
    (whole,) = model.predict(data, batch_size=4, stack_outputs=True, verbose=0)
    np.testing.assert_allclose(
        whole[:2], [[0.4866, 0.1390, 1.2195], [0.7655, 0.4077, 0.5967]], atol=6e-5, rtol=0
    )


def test_callbacks_are_called_in_order() -> None:
    calls: list[Any] = []

    class Noted(paddle.callbacks.Callback):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("on_"):
                calls.append(name[3:])
            return object.__getattribute__(self, name)

    model = prepared()
    noted = Noted()
    model.fit(Samples(4), Samples(2), batch_size=2, verbose=0, callbacks=[noted])
    batch, check = ["train_batch_begin", "train_batch_end"], ["eval_batch_begin", "eval_batch_end"]
    assert calls == [
        *["train_begin", "epoch_begin", *batch, *batch, "epoch_end"],
        *["eval_begin", *check, "eval_end", "train_end"],
    ]
    assert noted.params == {"batch_size": None, "epochs": 1, "steps": 2, "verbose": 0, "metrics": ["loss"]}
    assert noted.model is model


def test_schedules_step_with_batches_and_streams_have_no_length(capsys: Any) -> None:
    class Stream(paddle.io.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter([(x, y) for x, y in zip(Samples(7).x, Samples(7).y, strict=True)])

    schedule = paddle.optimizer.lr.StepDecay(0.5, 2)
    model = prepared(optimizer=paddle.optimizer.SGD(schedule))
    model.fit(Stream(), batch_size=2, epochs=2, log_freq=1)
    assert schedule.last_epoch == 8 and "step   4 - loss: " in capsys.readouterr().out
    model.fit(Stream(), batch_size=2, epochs=5, num_iters=3, verbose=0)
    assert schedule.last_epoch == 11


def test_several_losses_and_half_precision() -> None:
    net = nn.Linear(4, 3)
    model = paddle.Model(net, [Input([None, 4], "float32", "x")], [Input([None, 1], "int64", "y")])

    def losses(output: Any, label: Any) -> Any:
        return [nn.functional.cross_entropy(output, label), paddle.mean(output)]

    metrics = [paddle.metric.Accuracy(), paddle.metric.Accuracy(topk=(2,), name="z")]
    model.prepare(paddle.optimizer.Adam(0.1), losses, metrics, amp_configs="O1")
    net.set_state_dict({"weight": np.ones((4, 3), "float32"), "bias": np.zeros(3, "float32")})
    x, y = np.ones((2, 4), "float32"), np.zeros((2, 1), "int64")
    found, figures = model.train_batch(x, y)
    np.testing.assert_allclose(found, [1.0986123, 4.0], rtol=1e-6)
    found, figures = model.eval_batch(x, y)
    # Adam's first step is of the learning rate's size: 0.1 a number
    np.testing.assert_allclose(found, [0.55144465, 3.8333333], rtol=1e-5)
    assert figures == [1.0, 1.0] and model._metrics_name() == ["loss", "acc", "z_top2"]
    trained = model._programs["train"].program.global_block()
    assert {trained.var(op.input("Y")[0]).dtype for op in trained.ops if op.type == "matmul_v2"} == {
        paddle.float16
    }


def test_a_model_without_loss_predicts(tmp_path: pathlib.Path) -> None:
    model = paddle.Model(nn.Linear(4, 3), {"input": Input([None, 4], "float32", "x")})
    model.prepare()
    x = np.ones((2, 4), "float32")
    model.save(str(tmp_path / "inf"), training=False)
    executor = paddle.static.Executor(paddle.CPUPlace())
    program, feeds, fetches = paddle.static.load_inference_model(str(tmp_path / "inf"), executor)
    (found,) = executor.run(program, {feeds[0]: x}, fetches)
    np.testing.assert_array_equal(found, model.predict_batch(x)[0])
    with pytest.raises(AssertionError, match="prepare"):
        model.train_batch(x, None)


def test_states_are_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    data, path = Samples(), str(tmp_path / "folder" / "state")
    model = prepared()
    model.fit(data, batch_size=5, verbose=0, shuffle=False)
    model.save(path)
    expected = [model.train_batch(data.x, data.y)[0] for _ in range(3)]
    model.load(path)
    again = [model.train_batch(data.x, data.y)[0] for _ in range(3)]
    np.testing.assert_array_equal(again, expected)
    other = paddle.Model(
        nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Dropout(0.0), nn.Linear(9, 3)),
        [Input([None, 4], "float32", "x")],
    )
    other.prepare()
    with pytest.raises(ValueError, match=r"0.weight receives a shape \[4, 8\], but the expected shape is"):
        other.load(path)
    with pytest.warns(UserWarning, match=r"Skip loading for .* receives a shape"):
        other.load(path, skip_mismatch=True)
    with pytest.raises(AssertionError, match="Failed to load parameters"):
        other.load(path + "2")


# ---------------------------------------------------------------------- callbacks
def test_early_stopping_keeps_the_best(tmp_path: pathlib.Path, capsys: Any) -> None:
    model = prepared(optimizer=paddle.optimizer.SGD(0.0))
    early = paddle.callbacks.EarlyStopping("loss", patience=1)
    model.fit(
        Samples(), Samples(), batch_size=5, epochs=6, save_dir=str(tmp_path), callbacks=[early], verbose=0
    )
    assert model.stop_training and early.wait_epoch == 1
    out = capsys.readouterr().out
    assert "Epoch 2: Early stopping.\nBest checkpoint has been saved at " in out
    kinds = {name for name in os.listdir(tmp_path) if name.endswith(".pdparams")}
    assert kinds == {f"{name}.pdparams" for name in ("0", "1", "best_model", "final")}
    with pytest.warns(UserWarning, match="fallback to auto"):
        other = paddle.callbacks.EarlyStopping("loss", mode="bad")
    with pytest.warns(UserWarning, match="Monitor of EarlyStopping"):
        other.on_eval_end({"acc": 1.0})


def test_learning_rate_falls_on_a_plateau(capsys: Any) -> None:
    model = prepared(optimizer=paddle.optimizer.SGD(1e-6))
    falls = paddle.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, cooldown=1, min_lr=2e-7)
    model.fit(Samples(), Samples(), batch_size=5, epochs=8, verbose=0, callbacks=falls)
    # 1st best; 2nd falls, 3rd waits out the cool-down and falls again, and so on down to the least
    np.testing.assert_allclose(model._learning_rate, 2e-7, rtol=1e-6)
    assert capsys.readouterr().out.count("reducing learning rate") == 3
    with pytest.raises(ValueError, match="factor"):
        paddle.callbacks.ReduceLROnPlateau(factor=1.5)


def test_a_bar_is_drawn_over_itself(capsys: Any) -> None:
    model = prepared(metrics=paddle.metric.Accuracy())
    model.fit(Samples(20), batch_size=2, verbose=1, log_freq=3)
    lines = capsys.readouterr().out.replace("\b", "").split("\r")
    assert lines[1].startswith("step  3/10 [========>.....................] - loss: ")
    assert re.search(r" - ETA: \d+s - ", lines[1])  # on a busy machine more than 0
    assert lines[-1].startswith("step 10/10 [==============================] - loss: ")


def test_figures_go_to_programs_that_draw(monkeypatch: Any) -> None:
    written: list[Any] = []

    class Log:
        run = None

        def __init__(self, *args: Any) -> None:
            written.append(args)

        def add_scalar(self, tag: str, step: int, value: float) -> None:
            written.append((tag, step))

        def log(self, values: dict[str, float]) -> None:
            written.append(tuple(values))

        def close(self) -> None:
            written.append("closed")

        finish = close

    monkeypatch.setitem(sys.modules, "visualdl", types.SimpleNamespace(LogWriter=Log))
    wandb = types.SimpleNamespace(run=None, init=lambda **settings: Log(settings["project"]))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    model = prepared()
    for callback in (paddle.callbacks.VisualDL("folder"), paddle.callbacks.WandbCallback("mine")):
        written.clear()
        model.fit(Samples(4), Samples(2), batch_size=2, verbose=0, callbacks=callback)
        assert written[0] in (("folder",), ("mine",)) and written[-1] == "closed"
        assert [entry[0] for entry in written[1:-1]] == ["train/loss", "train/loss", "eval/loss"]


# ---------------------------------------------------------------------- mistakes
def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match="'inputs' must be list"):
        paddle.Model(network())
    with pytest.raises(ValueError, match=r"Requires Input\[0\].name"):
        paddle.Model(network(), Input([None, 4]))
    with pytest.raises(AssertionError, match=r"Input\[0\] should be an InputSpec"):
        paddle.Model(network(), [paddle.static.data("q", [4])])
    model = paddle.Model(network(), Input([None, 4], "float32", "x"))
    with pytest.raises(TypeError, match="'loss' must be sub classes"):
        model.prepare(loss=3)
    with pytest.raises(AssertionError, match="int is not sub class of Metric"):
        model.prepare(metrics=3)
    with pytest.raises(ValueError, match="needs a loss"):
        model.prepare(paddle.optimizer.SGD(0.1))
    with pytest.raises(ValueError, match="'O0', 'O1' or 'O2'"):
        model.prepare(amp_configs="O7")
    with pytest.raises(ValueError, match=r"no settings named \['zz'\]"):
        model.prepare(amp_configs={"zz": 1})
    with pytest.raises(AssertionError, match="please call `model.prepare"):
        model.predict_batch([np.zeros((2, 4), "float32")])
    model.prepare()
    with pytest.raises(AssertionError, match="number of inputs does not match"):
        model.predict_batch([np.zeros((2, 4), "float32")] * 2)
    with pytest.raises(AssertionError, match="train_data must be given"):
        model.fit()
    with pytest.raises(AssertionError, match="update == False"):
        model.train_batch(None, update=False)
    with pytest.raises(AssertionError, match="dirname/filename"):
        model.save("")


# ---------------------------------------------------------------------- sizes
def lenet() -> Any:
    return nn.Sequential(
        nn.Conv2D(1, 6, 3, padding=1),
        nn.BatchNorm2D(6),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Linear(6 * 14 * 14, 10),
    )


SUMMARY = """\
---------------------------------------------------------------------------
 Layer (type)       Input Shape          Output Shape         Param #
===========================================================================
   Conv2D-1       [[1, 1, 28, 28]]      [1, 6, 28, 28]          60
 BatchNorm2D-1    [[1, 6, 28, 28]]      [1, 6, 28, 28]          24
    ReLU-1        [[1, 6, 28, 28]]      [1, 6, 28, 28]           0
  MaxPool2D-1     [[1, 6, 28, 28]]      [1, 6, 14, 14]           0
   Flatten-1      [[1, 6, 14, 14]]        [1, 1176]              0
   Linear-1         [[1, 1176]]            [1, 10]            11,770
===========================================================================
Total params: 11,854
Trainable params: 11,842
Non-trainable params: 12
---------------------------------------------------------------------------
Input size (MB): 0.00
Forward/backward pass size (MB): 0.13
Params size (MB): 0.05
Estimated Total Size (MB): 0.17
---------------------------------------------------------------------------

"""


@pytest.mark.parametrize("size", [(1, 1, 28, 28), [(-1, 1, 28, 28)], Input([None, 1, 28, 28], "float32")])
def test_summary_is_that_of_paddle(capsys: Any, size: Any) -> None:
    net = lenet()
    before = net.parameters()
    assert paddle.summary(net, size) == {"total_params": 11854, "trainable_params": 11842}
    # the spaces at the ends of lines, which pad them to the width of the table, are left out
    assert "\n".join(map(str.rstrip, capsys.readouterr().out.split("\n"))) == SUMMARY
    # nothing is left behind
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert not paddle.static.default_main_program().global_block().ops


class Pair(nn.Layer):  # type: ignore[misc]
    """Two inputs, and an LSTM over them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.lstm = nn.Linear(3, 4), nn.Linear(5, 4), nn.LSTM(4, 4, 2)

    def forward(self, x: Any, y: Any) -> Any:
        return self.lstm(paddle.stack([self.a(x), self.b(y)], 1))[0]


def test_summary_of_several_inputs(capsys: Any) -> None:
    sizes = {"total_params": 360, "trainable_params": 360}
    assert paddle.summary(Pair(), [(2, 3), (2, 5)]) == sizes
    assert "    LSTM-1          [[2, 2, 4]]      [[2, 2, 4], [[2, 2, 4], [2, 2, 4]]]       320" in (
        capsys.readouterr().out
    )
    arrays = [np.ones((2, 3), "float32"), np.ones((2, 5), "float32")]
    assert paddle.summary(Pair(), input=arrays) == sizes
    assert paddle.summary(nn.Embedding(10, 3), (2, 5), dtypes="int64")["total_params"] == 30
    assert paddle.summary(nn.Linear(3, 3), 3)["total_params"] == 12
    model = prepared()
    assert model.summary() == model.summary((1, 4)) == {"total_params": 67, "trainable_params": 67}
    for size, error in [((2, -3), ValueError), ("x", TypeError), (None, ValueError), ([[2, 3.5]], TypeError)]:
        with pytest.raises(error):
            paddle.summary(nn.Linear(3, 3), size)


COUNTS = [
    (lambda: nn.Conv1D(3, 4, 3), [2, 3, 9], 560),
    (lambda: nn.Conv3D(3, 4, 3), [1, 3, 5, 5, 5], 8856),
    (lambda: nn.Conv1DTranspose(3, 4, 3), [2, 3, 9], 880),
    (lambda: nn.Conv3DTranspose(2, 3, 2), [1, 2, 3, 3, 3], 3264),
    (lambda: nn.Conv2D(4, 4, 3, padding="SAME", dilation=2), [1, 4, 7, 9], 9324),
    (lambda: nn.Conv2D(8, 16, 3, groups=4, bias_attr=False), [2, 8, 16, 16], 112896),
    (lambda: nn.Conv2DTranspose(16, 4, 2, groups=2), [2, 16, 2, 2], 2376),
    (lambda: nn.Linear(3, 4, bias_attr=False), [2, 5, 3], 120),
    (lambda: nn.AdaptiveAvgPool1D(2), [2, 3, 7], 48),
    (lambda: nn.AdaptiveAvgPool2D((2, None)), [1, 2, 5, 5], 60),
    (lambda: nn.AdaptiveAvgPool3D(2), [1, 2, 5, 5, 5], 144),
    (lambda: nn.AvgPool1D(2), [2, 3, 8], 24),
    (lambda: nn.AvgPool3D(2), [1, 2, 4, 4, 4], 16),
    (lambda: nn.BatchNorm(4), [2, 4, 3, 3], 144),
    (lambda: nn.BatchNorm3D(2), [1, 2, 3, 3, 3], 0),
    (lambda: nn.LeakyReLU(), [2, 3], 6),
    (lambda: nn.MultiHeadAttention(4, 2), [2, 3, 4], 384),
    (lambda: nn.LSTM(3, 4), [2, 5, 3], 0),
]


@pytest.mark.parametrize(("make", "size", "count"), COUNTS)
def test_flops_of_layers_are_those_of_paddle(make: Any, size: Any, count: int) -> None:
    assert paddle.flops(nn.Sequential(make()), size) == count


def test_flops_in_detail_and_by_own_rules(capsys: Any) -> None:
    net = lenet()
    assert paddle.flops(net, [2, 1, 28, 28]) == 2 * 68208 and net.training
    capsys.readouterr()

    def count(layer: Any, inputs: Any, output: Any) -> None:
        layer.total_ops += 7 * len(inputs)

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    assert paddle.flops(net, [1, 3], custom_ops={nn.ReLU: count}, print_detail=True) == 19
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("<class") and lines[1].startswith("Customize Function has been applied to")
    assert "|  linear_1  |    [1, 3]   |    [1, 4]    |   16   |   12  |" in lines
    assert lines[-1] == "Total Flops: 19     Total Params: 16"


def test_flops_of_programs_are_those_of_paddle(capsys: Any) -> None:
    x = paddle.static.data("x", [-1, 3, 8, 8])
    hidden = nn.functional.relu(paddle.static.nn.conv2d(x, 4, 3, padding=1))
    hidden = nn.functional.adaptive_avg_pool2d(paddle.static.nn.batch_norm(hidden), 2)
    paddle.static.nn.fc(hidden, 5)
    program = paddle.static.default_main_program()
    assert paddle.flops(program, [1], print_detail=True) == 6912 + 256 + 2 * 256 + 16 * 17 + 16 * 5 + 5
    assert "|      conv2d     | conv2d_0.w_0 |  6912 |" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="must be an instance"):
        assert paddle.flops(3, [1]) == -1
