"""Actions beside a training by `paddle.Model`: figures on the terminal, checkpoints, learning rates."""

from __future__ import annotations

import functools
import importlib
import numbers
import os
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from fluidlite.base.errors import MissingExtraError
from fluidlite.contrib.training_log import CsvLog, TrainingLog
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.hapi.progressbar import ProgressBar
from fluidlite.paddle.optimizer.lr import LRScheduler as Schedule

__all__ = [
    "CSVLogger",
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "LRScheduler",
    "ModelCheckpoint",
    "ProgBarLogger",
    "ReduceLROnPlateau",
    "TensorBoard",
    "VisualDL",
    "WandbCallback",
]

Logs = dict[str, Any] | None


class Callback:
    """Base of the callbacks: a subclass says what happens at the points of a run that it cares for.

    model: the `paddle.Model` that runs. params: the facts of the run: epochs, steps, verbose, metrics.
    `logs` are the figures of the last step by name.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        """Take the facts of the run."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take the model that runs."""
        self.model = model

    def on_train_begin(self, logs: Logs = None) -> None:
        """Called before the first epoch."""

    def on_train_end(self, logs: Logs = None) -> None:
        """Called after the last epoch."""

    def on_eval_begin(self, logs: Logs = None) -> None:
        """Called before an evaluation."""

    def on_eval_end(self, logs: Logs = None) -> None:
        """Called after an evaluation."""

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Called before a prediction."""

    def on_predict_end(self, logs: Logs = None) -> None:
        """Called after a prediction."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Called before each epoch of a training."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Called after each epoch of a training, before its evaluation."""

    def on_train_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Called before each step of a training."""

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Called after each step of a training."""

    def on_eval_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Called before each step of an evaluation."""

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None:
        """Called after each step of an evaluation."""

    def on_predict_batch_begin(self, step: int, logs: Logs = None) -> None:
        """Called before each step of a prediction."""

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None:
        """Called after each step of a prediction."""


class CallbackList:
    """Callbacks as one, which are called in order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = list(callbacks)

    def tell(self, point: str, *args: Any) -> None:
        """Call the method of that name of each."""
        for callback in self.callbacks:
            methodcaller(point, *args)(callback)


def config_callbacks(
    callbacks: Any,
    model: Any,
    params: dict[str, Any],
    log_freq: int,
    save_freq: int = 1,
    save_dir: str | None = None,
) -> CallbackList:
    """The callbacks of a run: those given, between figures on the terminal and what every training has."""
    verbose = params["verbose"]
    listed = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    given = [callback for callback in listed if callback is not None]
    kinds = tuple(type(callback) for callback in given)
    if verbose and not any(issubclass(kind, ProgBarLogger) for kind in kinds):
        given.insert(0, ProgBarLogger(log_freq, verbose))
    if not any(issubclass(kind, LRScheduler) for kind in kinds):
        given.append(LRScheduler())
    if not any(issubclass(kind, ModelCheckpoint) for kind in kinds):
        given.append(ModelCheckpoint(save_freq, save_dir))
    for callback in given:
        callback.set_model(model)
        callback.set_params(params)
        if isinstance(callback, EarlyStopping):
            callback.save_dir = save_dir
    return CallbackList(given)


class ProgBarLogger(Callback):
    """Prints loss and metrics every `log_freq` steps: with `verbose` 1 as a bar, with 2 as lines."""

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        self.log_freq, self.verbose = log_freq, verbose
        self._steps: int | None = None
        self._done = self._samples = 0
        self._names: list[str] = []
        self._bar = ProgressBar(verbose=0)

    def _begin(self, steps: int | None, names: Sequence[str]) -> None:
        self._steps, self._done, self._samples = steps, 0, 0
        self._names = list(names)
        self._bar = ProgressBar(steps or None, verbose=self.verbose)
        self._bar.start()

    def _step(self, logs: Logs) -> None:
        self._done += 1
        self._samples += (logs or {}).get("batch_size", 1)
        # the last step is shown at the end
        if self._done % self.log_freq == 0 and (self._steps is None or self._done < self._steps):
            self._show(logs)

    def _show(self, logs: Logs) -> None:
        self._bar.update(self._done, [(name, logs[name]) for name in self._names if logs and name in logs])

    def _end(self, logs: Logs, what: str) -> None:
        if self._steps is not None and self.verbose:
            self._show(logs)
            if what:
                print(f"{what} samples: {self._samples}")

    def on_train_begin(self, logs: Logs = None) -> None:
        """Say what the figures are."""
        if self.verbose:
            print(
                "The loss value printed in the log is the current step, "
                "and the metric is the average value of previous steps."
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Say which epoch begins."""
        epochs = self.params.get("epochs")
        if self.verbose and epochs:
            print(f"Epoch {epoch + 1}/{epochs}")
        self._begin(self.params.get("steps"), self.params.get("metrics", ()))

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Show the step."""
        self._step(logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Show the last step."""
        self._end(logs, "")

    def on_eval_begin(self, logs: Logs = None) -> None:
        """Say that an evaluation begins."""
        self._begin((logs or {}).get("steps"), (logs or {}).get("metrics", ()))
        if self.verbose:
            print("Eval begin...")

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None:
        """Show the step."""
        self._step(logs)

    def on_eval_end(self, logs: Logs = None) -> None:
        """Show the last step and the number of samples."""
        self._end(logs, "Eval")

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Say that a prediction begins."""
        self._begin((logs or {}).get("steps"), ())
        if self.verbose:
            print("Predict begin...")

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None:
        """Show the step."""
        self._step(logs)

    def on_predict_end(self, logs: Logs = None) -> None:
        """Show the last step and the number of samples."""
        self._end(logs, "Predict")


class ModelCheckpoint(Callback):
    """Saves parameters and the optimizer's state every `save_freq` epochs as save_dir/<epoch>, and at the end
    as save_dir/final.
    """

    def __init__(self, save_freq: int = 1, save_dir: str | None = None) -> None:
        super().__init__()
        self.save_freq, self.save_dir = save_freq, save_dir

    def _save(self, name: str) -> None:
        if self.model is not None and self.save_dir:
            path = os.path.join(self.save_dir, name)
            print(f"save checkpoint at {os.path.abspath(path)}")
            self.model.save(path)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Save the state after the epoch."""
        if epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Logs = None) -> None:
        """Save the last state."""
        self._save("final")


class LRScheduler(Callback):
    """Steps the optimizer's schedule: after each batch (`by_step`), or after each epoch (`by_epoch`)."""

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise ValueError("by_step option is mutually exclusive with by_epoch")
        self.by_step, self.by_epoch = by_step, by_epoch

    def _move(self) -> None:
        schedule = self.model._schedule
        if isinstance(schedule, Schedule):
            schedule.step()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Step, if epochs count."""
        if self.by_epoch:
            self._move()

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Step, if batches count."""
        if self.by_step:
            self._move()


class _Monitor(Callback):
    """Base of what looks after a figure of the evaluations.

    mode: "min" or "max"; "auto" takes "max" for names with "acc" in them. A change of at most `min_delta`
    counts as none.
    """

    def __init__(self, monitor: str, mode: str, patience: int, verbose: int, min_delta: float) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            warn_user(f"{self._own()} mode {mode} is unknown, fallback to auto mode.", category=UserWarning)
            mode = "auto"
        self.monitor, self.patience, self.verbose = monitor, patience, verbose
        self.min_delta = abs(min_delta)
        self._rises = mode == "max" or (mode == "auto" and "acc" in monitor)
        self._forget()

    def _own(self) -> str:
        return type(self).__name__

    def _forget(self) -> None:
        self.best_value = -np.inf if self._rises else np.inf
        self._waited = 0

    def _better(self, value: float) -> bool:
        if self._rises:
            return value - self.min_delta > self.best_value
        return value + self.min_delta < self.best_value

    def _figure(self, logs: Logs) -> float | None:
        """The figure in the logs; None, with a warning, where there is none of that name."""
        if not logs or self.monitor not in logs:
            warn_user(f"Monitor of {self._own()} should be loss or metric name.", category=UserWarning)
            return None
        value = logs[self.monitor]
        value = value[0] if isinstance(value, (list, tuple)) else value
        if not isinstance(value, numbers.Number):
            warn_user(f"The monitored value should be a number, but {value!r} is not.", category=UserWarning)
            return None
        return float(np.asarray(value))


class EarlyStopping(_Monitor):
    """Ends a training whose figure has not become better in `patience` evaluations.

    baseline: what the first evaluation must be better than. save_best_model: keep the best state as
    save_dir/best_model.
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__(monitor, mode, patience, verbose, min_delta)
        self.baseline, self.save_best_model = baseline, save_best_model
        self.wait_epoch = self.stopped_epoch = 0
        self.save_dir: str | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Forget what earlier trainings reached."""
        self.wait_epoch = 0
        self._forget()
        if self.baseline is not None:
            self.best_value = self.baseline

    def on_eval_end(self, logs: Logs = None) -> None:
        """Compare the figure with the best one."""
        value = self._figure(logs)
        if value is None:
            return
        keeps = self.save_best_model and self.save_dir is not None
        best = os.path.join(self.save_dir or "", "best_model")
        if self._better(value):
            self.best_value, self.wait_epoch = value, 0
            if keeps:
                self.model.save(best)
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose > 0:
                print(f"Epoch {self.stopped_epoch + 1}: Early stopping.")
                if keeps:
                    print(f"Best checkpoint has been saved at {os.path.abspath(best)}")
        self.stopped_epoch += 1


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` where the figure has not become better in `patience`
    evaluations, down to `min_lr`; then it waits for `cooldown` evaluations.
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        super().__init__(monitor, mode, patience, verbose, min_delta)
        self.factor, self.cooldown, self.min_lr = factor, cooldown, min_lr
        self.cooldown_counter = self.epoch = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        """Forget what earlier trainings reached."""
        self.cooldown_counter = 0
        self._forget()

    def on_eval_end(self, logs: Logs = None) -> None:
        """Compare the figure with the best one."""
        value = self._figure(logs)
        if value is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self._waited = 0
        if self._better(value):
            self.best_value, self._waited = value, 0
        elif self.cooldown_counter == 0:
            self._waited += 1
            if self._waited >= self.patience:
                self._reduce()
        self.epoch += 1

    def _reduce(self) -> None:
        old = self.model._learning_rate
        if old is None:
            warn_user("ReduceLROnPlateau needs a learning rate that is a number.", category=UserWarning)
            return
        if old > np.float32(self.min_lr):
            new = max(old * self.factor, self.min_lr)
            self.model._learning_rate = new
            if self.verbose > 0:
                print(f"Epoch {self.epoch + 1}: ReduceLROnPlateau reducing learning rate to {new}.")
            self.cooldown_counter, self._waited = self.cooldown, 0


class _Writer(Callback):
    """Base of what gives the figures of a run to a program that draws them."""

    def __init__(self, write: Callable[[str, float, int], None]) -> None:
        super().__init__()
        self._write = write
        self._counts = {"train": 0, "eval": 0}
        self._epoch = 0

    def _report(self, mode: str, logs: Logs, at: int) -> None:
        for name in self.params.get("metrics", ()):
            value = (logs or {}).get(name)
            if value is not None:
                self._write(f"{mode}/{name}", float(np.asarray(value).reshape(-1)[0]), at)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Note the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Write the figures of a step."""
        self._counts["train"] += 1
        self._report("train", logs, self._counts["train"])

    def on_eval_end(self, logs: Logs = None) -> None:
        """Write the figures of an evaluation."""
        self._counts["eval"] += 1
        self._report("eval", logs, self._counts["eval"])


class VisualDL(_Writer):
    """Writes the figures for VisualDL into the folder `log_dir`; the package `visualdl` must be installed."""

    def __init__(self, log_dir: str) -> None:
        super().__init__(self._add)
        self.log_dir = log_dir

    @functools.cached_property
    def _log(self) -> Any:
        return _package("visualdl").LogWriter(self.log_dir)

    def _add(self, name: str, value: float, at: int) -> None:
        self._log.add_scalar(tag=name, step=at, value=value)

    def on_train_end(self, logs: Logs = None) -> None:
        """Close the file."""
        self._log.close()


class TensorBoard(_Writer):
    """Writes the figures for TensorBoard into the folder `log_dir`, with the graph of the program and, every
    `histogram_freq` epochs, the values of the parameters; needs the extra `watch`.
    """

    def __init__(self, log_dir: str, histogram_freq: int = 0) -> None:
        super().__init__(self._add)
        self.log_dir, self.histogram_freq = log_dir, histogram_freq
        self._log = TrainingLog(log_dir)
        self._has_graph = False

    def _add(self, name: str, value: float, at: int) -> None:
        self._log.scalars(at, {name: value})

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        """Write the figures of a step, and behind the first one the graph."""
        super().on_train_batch_end(step, logs)
        if not self._has_graph:
            self._has_graph = True
            self._log.graph(self.model._programs["train"].program)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write the values of the parameters."""
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._log.histograms(epoch, self.model._programs["train"].program)
        self._log.flush()

    def on_train_end(self, logs: Logs = None) -> None:
        """Close the file."""
        self._log.close()


class CSVLogger(Callback):
    """Writes a row for each epoch into the CSV file `path`: the last figures of its training, and those of
    its evaluation where there is one.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begin the file anew."""
        self._log = CsvLog(self.path)
        self._row: dict[str, Any] = {}
        self._epoch = 0

    def _take(self, mode: str, logs: Logs) -> None:
        names = [name for name in self.params.get("metrics", ()) if logs and name in logs]
        self._row.update({f"{mode}/{name}": (logs or {})[name] for name in names})

    def _write(self) -> None:
        if self._row:
            self._log.scalars(self._epoch, self._row)
        self._row = {}

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Write the row of the epoch before, whose evaluation has ended."""
        self._write()
        self._epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Take the figures of the training."""
        self._take("train", logs)

    def on_eval_end(self, logs: Logs = None) -> None:
        """Take the figures of the evaluation."""
        self._take("eval", logs)

    def on_train_end(self, logs: Logs = None) -> None:
        """Write the last row."""
        self._write()


class WandbCallback(_Writer):
    """Sends the figures to Weights & Biases, whose package `wandb` must be installed; the arguments are those
    of `wandb.init`.
    """

    def __init__(
        self,
        project: str | None = None,
        entity: str | None = None,
        name: str | None = None,
        dir: str | None = None,
        mode: str | None = None,
        job_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(self._send)
        given = {"project": project, "entity": entity, "name": name, "dir": dir, "mode": mode}
        self._settings = {**given, "job_type": job_type, **kwargs}
        self._wandb = _package("wandb")

    @functools.cached_property
    def run(self) -> Any:
        """The run that is on: that of the process, or a new one."""
        return self._wandb.run or self._wandb.init(**self._settings)

    def _send(self, name: str, value: float, at: int) -> None:
        self.run.log({name: value})

    def on_train_end(self, logs: Logs = None) -> None:
        """End the run."""
        self.run.finish()


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"this callback needs the package {name}: pip install {name}") from error
