"""`paddle.Model`: a layer that is trained, evaluated and asked in a call each."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.program import program_guard
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.hapi.callbacks import CallbackList, config_callbacks
from fluidlite.paddle.hapi.model_summary import summary
from fluidlite.paddle.hapi.programs import ModeProgram, Training, amp_settings, build, flat, initialise
from fluidlite.paddle.io.datasets import Dataset, IterableDataset
from fluidlite.paddle.io.loader import DataLoader
from fluidlite.paddle.metric.metrics import Metric
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.programs import Program, default_main_program, default_startup_program
from fluidlite.paddle.static.executor import Executor
from fluidlite.paddle.static.inputs import InputSpec
from fluidlite.paddle.static.io import save_inference_model
from fluidlite.saving.pickles import dump_arrays, load_arrays
from fluidlite.saving.variables import get_program_persistable_vars, is_belong_to_optimizer, value_of
from fluidlite.values.scope import global_scope
from fluidlite.values.serialize import complete_save, file_bytes, write_folder
from fluidlite.values.tensor import LoDTensor

__all__ = ["Model"]

Specs = InputSpec | Sequence[InputSpec] | Mapping[str, InputSpec] | None


class Model:
    """A network with what training it takes: `prepare` says how, `fit` trains, `evaluate` and `predict` use
    it. Each mode has a program of its own; parameters lie in the global scope.

    inputs, labels: `InputSpec`s with names, one for each argument of the network, and for each thing that
    loss and metrics are told beside its outputs; inputs may be a dict by argument.
    stop_training: set to True, by a callback, it ends `fit` after the epoch.
    """

    def __init__(self, network: Layer, inputs: Specs = None, labels: Specs = None) -> None:
        if not isinstance(inputs, (list, tuple, dict, InputSpec)):
            raise TypeError("'inputs' must be list or tuple or dict, and couldn't be None.")
        self.network = network
        self.mode = "train"
        self.stop_training = False
        self._inputs = _named(_in_order(network, inputs), "Input")
        self._labels = _named(_in_order(network, labels), "Label")
        self._training = Training()
        self._programs: dict[str, ModeProgram] = {}
        self._executor: Executor | None = None

    # ------------------------------------------------------------------ what is trained, and how
    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The parameters of the network."""
        return self.network.parameters(*args, **kwargs)

    @short_tracebacks
    def prepare(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None
    ) -> None:
        """Write the programs, and initialise what has no value yet.

        loss: a layer or function of (outputs and labels), giving one number or several. metrics: of
        `paddle.metric`. amp_configs: "O1" or "O2", or a dict with `level` and settings of
        `paddle.static.amp.decorate`.
        """
        if loss is not None and not isinstance(loss, Layer) and not callable(loss):
            raise TypeError("'loss' must be sub classes of `paddle.nn.Layer` or any callable function.")
        if optimizer is not None and loss is None:
            raise ValueError("prepare() with an optimizer needs a loss for it to minimise")
        listed = metrics if isinstance(metrics, (list, tuple)) else (metrics,)
        given = tuple(metric for metric in listed if metric is not None)
        for metric in given:
            if not isinstance(metric, Metric):
                raise AssertionError(f"{type(metric).__name__} is not sub class of Metric")
        self._training = Training(optimizer, loss, given, amp_settings(amp_configs))
        self._executor = Executor()
        startup = Program()
        startup.random_seed = default_startup_program().random_seed
        with program_guard(default_main_program(), startup):
            modes = ["train"] * (optimizer is not None) + ["eval"] * (loss is not None or bool(given))
            for mode in [*modes, "test"]:
                self._programs[mode] = build(mode, self.network, self._inputs, self._labels, self._training)
        self.network._set_training(True)
        initialise(self._executor, startup, [made.program for made in self._programs.values()])

    @short_tracebacks
    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Print the layers and their sizes (`paddle.summary`)."""
        if input_size is None:
            input_size, dtype = list(self._inputs), None
        return summary(self.network, input_size, dtype)

    def _metrics_name(self) -> list[str]:
        """The names of the figures in logs."""
        names = ["loss"] if self._training.loss is not None else []
        return names + [name for metric in self._training.metrics for name in flat(metric.name())]

    @property
    def _schedule(self) -> Any:
        """The learning rate as the optimizer was given it: a number or a schedule."""
        optimizer = self._training.optimizer
        return None if optimizer is None else (optimizer._scheduler or optimizer._learning_rate)

    @property
    def _learning_rate(self) -> float | None:
        """The learning rate in the scope; None where a schedule says it."""
        if not isinstance(self._schedule, float):
            return None
        return float(np.asarray(value_of(self._rate())))

    @_learning_rate.setter
    def _learning_rate(self, value: float) -> None:
        rate = self._rate()
        tensor = value_of(rate)
        assert isinstance(tensor, LoDTensor), "a dense number"
        tensor.set(np.full(tuple(tensor.shape()), value, "float32"))

    def _rate(self) -> Any:
        optimizer = self._training.optimizer
        return optimizer._global_learning_rate(self._programs["train"].program)

    # ------------------------------------------------------------------ one batch
    @short_tracebacks
    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Losses of a batch, which the parameters have learnt from; with metrics (losses, metrics)."""
        if not update:
            raise AssertionError("Does not support `update == False` in static graph mode by now.")
        return self._losses("train", inputs, labels)

    @short_tracebacks
    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Losses of a batch; with metrics (losses, metrics)."""
        return self._losses("eval", inputs, labels)

    @short_tracebacks
    def predict_batch(self, inputs: Any) -> list[Array]:
        """The outputs for a batch."""
        made = self._ready("test")
        return self._run(made, inputs, None, made.outputs)

    def _ready(self, mode: str) -> ModeProgram:
        self.mode = mode
        if mode not in self._programs:
            raise AssertionError("model not ready, please call `model.prepare()` first")
        return self._programs[mode]

    def _losses(self, mode: str, inputs: Any, labels: Any) -> Any:
        made = self._ready(mode)
        states = [var for state in made.metrics for var in state]
        values = self._run(made, inputs, labels, [*made.losses, *states])
        losses = values[: len(made.losses)]
        rest = values[len(made.losses) :]
        figures = []
        for metric, state in zip(self._training.metrics, made.metrics, strict=True):
            figures.append(metric.update(*rest[: len(state)]))
            rest = rest[len(state) :]
        if not figures:
            return losses
        return (losses, figures) if losses else figures

    def _run(self, made: ModeProgram, inputs: Any, labels: Any, fetches: list[Any]) -> list[Array]:
        given = flat(inputs)
        if len(given) != len(self._inputs):
            raise AssertionError("number of inputs does not match number of arguments of `forward` method")
        specs = [*self._inputs, *self._labels]
        block = made.program.global_block()
        pairs = zip(specs, [*given, *flat(labels)], strict=False)
        feed = {str(spec.name): value for spec, value in pairs if block.has_var(str(spec.name))}
        assert self._executor is not None, "call prepare() first"
        return self._executor.run(made.program, feed, fetches)

    # ------------------------------------------------------------------ whole data sets
    @short_tracebacks
    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: int = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Train for `epochs` passes over `train_data`, a data set or an iterable of batches, and evaluate
        with `eval_data` after every `eval_freq`-th.

        save_dir: where checkpoints go, every `save_freq` epochs. num_iters: end after that many steps.
        accumulate_grad_batches must be 1: a program updates in each run.
        """
        if train_data is None:
            raise AssertionError("train_data must be given!")
        if accumulate_grad_batches != 1:
            raise AssertionError("Does not support `update == False` in static graph mode by now.")
        batches = self._loader(train_data, batch_size, num_workers, shuffle, drop_last)
        checks = None if eval_data is None else self._loader(eval_data, batch_size, num_workers)
        steps = _count(batches)
        epochs = -(-num_iters // steps) if num_iters is not None and steps else epochs
        facts = self._facts(epochs, steps, verbose)
        calls = config_callbacks(callbacks, self, facts, log_freq, save_freq, save_dir)
        calls.tell("on_train_begin", None)
        logs: dict[str, Any] = {}
        for epoch in range(epochs):
            calls.tell("on_epoch_begin", epoch, None)
            done = self._epoch(batches, calls, "train", logs, num_iters)
            calls.tell("on_epoch_end", epoch, logs)
            if checks is not None and epoch % eval_freq == 0:
                self._evaluate(checks, calls, logs)
            num_iters = num_iters and num_iters - done
            if self.stop_training or num_iters == 0:
                break
        calls.tell("on_train_end", logs)

    @short_tracebacks
    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """Loss and metrics over `eval_data`, by name."""
        batches = self._loader(eval_data, batch_size, num_workers)
        calls = config_callbacks(callbacks, self, self._facts(None, None, verbose), log_freq)
        logs: dict[str, Any] = {}
        self._evaluate(batches, calls, logs, num_iters)
        return {name: logs[name] for name in self._metrics_name() if name in logs}

    def _evaluate(
        self, batches: Iterable[Any], calls: CallbackList, logs: dict[str, Any], num_iters: int | None = None
    ) -> None:
        steps = _count(batches)
        if steps is not None and num_iters is not None:
            steps = min(steps, num_iters)
        calls.tell("on_eval_begin", {"steps": steps, "metrics": self._metrics_name()})
        self._epoch(batches, calls, "eval", logs, num_iters)
        calls.tell("on_eval_end", logs)

    @short_tracebacks
    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """For each output of the network the arrays of all batches, one on top of the other if
        `stack_outputs`.
        """
        batches = self._loader(test_data, batch_size, num_workers)
        calls = config_callbacks(callbacks, self, self._facts(None, None, verbose), 2)
        logs: dict[str, Any] = {"steps": _count(batches)}
        calls.tell("on_predict_begin", dict(logs))
        outputs: list[list[Array]] = []
        for step, batch in enumerate(batches):
            given = flat(batch)[: len(self._inputs)]
            calls.tell("on_predict_batch_begin", step, logs)
            outputs.append(self.predict_batch(given))
            logs |= {"step": step, "batch_size": _rows(given)}
            calls.tell("on_predict_batch_end", step, logs)
        calls.tell("on_predict_end", logs)
        columns = list(zip(*outputs, strict=True))
        return [np.vstack(column) for column in columns] if stack_outputs else columns

    def _facts(self, epochs: int | None, steps: int | None, verbose: int) -> dict[str, Any]:
        """The facts of a run, for callbacks."""
        return {
            "batch_size": None,
            "epochs": epochs,
            "steps": steps,
            "verbose": verbose,
            "metrics": self._metrics_name(),
        }

    def _loader(
        self, data: Any, batch_size: int, num_workers: int, shuffle: bool = False, drop_last: bool = False
    ) -> Any:
        """Batches of a data set; an iterable of batches as it is."""
        if not isinstance(data, (Dataset, IterableDataset)):
            return data
        return DataLoader(
            data,
            batch_size=batch_size,
            shuffle=shuffle and not isinstance(data, IterableDataset),
            drop_last=drop_last,
            num_workers=num_workers,
        )

    def _epoch(
        self,
        batches: Iterable[Any],
        calls: CallbackList,
        mode: str,
        logs: dict[str, Any],
        num_iters: int | None = None,
    ) -> int:
        """Go over all batches, `num_iters` at most; gives how many there were. `logs` receive the figures."""
        run: Callable[..., Any] = self.train_batch if mode == "train" else self.eval_batch
        done = 0
        for step, batch in enumerate(batches):
            given = flat(batch)
            calls.tell(f"on_{mode}_batch_begin", step, logs)
            split = len(self._inputs)
            results = run(given[:split], given[split:])
            logs |= self._figures(results)
            logs |= {"step": step, "batch_size": _rows(given)}
            calls.tell(f"on_{mode}_batch_end", step, logs)
            done += 1
            if done == num_iters:
                break
        for metric in self._training.metrics:
            metric.reset()
        return done

    def _figures(self, results: Any) -> dict[str, Any]:
        """The losses of a step and the metrics since the epoch began, by name."""
        values: list[Any] = []
        if self._training.loss is not None:
            losses = results[0] if self._training.metrics else results
            values.append([float(loss) for loss in losses])
        for metric in self._training.metrics:
            values += flat(metric.accumulate())
        return dict(zip(self._metrics_name(), values, strict=True))

    # ------------------------------------------------------------------ files
    @short_tracebacks
    def save(self, path: str, training: bool = True) -> None:
        """Write `path`.pdparams and, with an optimizer, `path`.pdopt; unless `training` the model for
        inference, `path`.pdmodel and .pdiparams. Folders are made.
        """
        if not os.path.basename(path):
            raise AssertionError("path should be of 'dirname/filename' format")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if not training:
            made = self._ready("test")
            save_inference_model(path, made.inputs, made.outputs, self._executor, program=made.program)
            return
        state = {name: np.array(value_of(var)) for name, var in self.network.state_dict().items()}
        kept = {var.name: np.array(value_of(var)) for var in self._kept()}
        folder, name = os.path.split(path)
        with write_folder(folder or ".", name) as files:
            files.put(name + ".pdparams", dump_arrays(state))
            if kept:
                files.put(name + ".pdopt", dump_arrays(kept))

    def _kept(self) -> list[Any]:
        """The variables of the optimizer."""
        if "train" not in self._programs:
            return []
        own = {var.name for var in self.network.state_dict().values()}
        found = get_program_persistable_vars(self._programs["train"].program)
        return [var for var in found if is_belong_to_optimizer(var) and var.name not in own]

    @short_tracebacks
    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Read what `save` wrote. ValueError for a parameter that is missing, or has another shape, unless
        `skip_mismatch`; the optimizer begins anew if `reset_optimizer`.
        """
        stem = path.removesuffix(".pdparams")
        if not os.path.exists(stem + ".pdparams"):
            raise AssertionError(f"Failed to load parameters, please check path: {stem}.pdparams")
        folder, name = os.path.split(stem)
        complete_save(folder or ".", name)
        state = _read(stem + ".pdparams")
        for name, var in self.network.state_dict().items():
            trouble = _mismatch(name, var, state)
            if trouble and not skip_mismatch:
                raise ValueError(trouble)
            if trouble:
                warn_user(f"Skip loading for {name}. {trouble}", category=UserWarning)
            else:
                global_scope().var(var.name).get_tensor().set(state[name])
        if reset_optimizer or not os.path.exists(stem + ".pdopt"):
            return
        kept = _read(stem + ".pdopt")
        for var in self._kept():
            if var.name in kept:
                global_scope().var(var.name).get_tensor().set(kept[var.name])


def _in_order(network: Layer, specs: Specs) -> list[InputSpec]:
    """Specs as a list: those of a dict in the order of the arguments of `forward`."""
    if isinstance(specs, Mapping):
        return [specs[name] for name in inspect.signature(network.forward).parameters if name in specs]
    if specs is None:
        return []
    return [specs] if isinstance(specs, InputSpec) else list(specs)


def _named(specs: list[InputSpec], what: str) -> list[InputSpec]:
    """The specs, each with a name. AssertionError unless it is a spec, ValueError where a name is missing."""
    for place, spec in enumerate(specs):
        if not isinstance(spec, InputSpec):
            raise AssertionError(f"{what}[{place}] should be an InputSpec, but is a {type(spec).__name__}")
        if spec.name is None:
            raise ValueError(f"Requires {what}[{place}].name != None, but receive `None` with {spec!r}.")
    return specs


def _count(batches: Any) -> int | None:
    """The number of batches; None where nobody knows."""
    try:
        return len(batches)
    except (TypeError, ValueError, RuntimeError):
        return None


def _rows(batch: Sequence[Any]) -> int:
    """The number of samples of a batch: the size of the first thing in it."""
    first = batch[0]
    shape = first.shape() if isinstance(first, LoDTensor) else np.shape(first)
    return int(shape[0]) if len(shape) else 1


def _read(path: str) -> dict[str, Array]:
    return load_arrays(file_bytes(path), path)


def _mismatch(name: str, var: Any, state: Mapping[str, Array]) -> str:
    """The reason that a state does not fit a parameter; "" where it does."""
    if name not in state:
        return f"{name} is not found in the providing file."
    found = list(state[name].shape)
    wanted = list(var.shape)
    if found != wanted:
        return f"{name} receives a shape {found}, but the expected shape is {wanted}."
    return ""
