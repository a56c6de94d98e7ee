"""Schedules of learning rates that go on from another value, or go up and down."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fluidlite.paddle.optimizer.schedules import LRScheduler, check_callable

__all__ = ["CyclicLR", "LinearWarmup", "MultiplicativeDecay", "OneCycleLR", "ReduceOnPlateau"]


# ---------------------------------------------------------------------- what goes on from another value
class MultiplicativeDecay(LRScheduler):
    """learning_rate * lr_lambda(1) * ... * lr_lambda(epoch)."""

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.lr_lambda = check_callable(lr_lambda)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate *= self.lr_lambda(epoch)
        return rate


class LinearWarmup(LRScheduler):
    """From start_lr to end_lr within warmup_steps epochs, then `learning_rate`: a number, or a schedule that
    begins there.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(
                "the type of learning_rate should be [int, float or LRScheduler], the current type is "
                f"{learning_rate}"
            )
        if not (isinstance(warmup_steps, int) and warmup_steps > 0):
            raise AssertionError(f"'warmup_steps' must be a positive integer, but received {warmup_steps}")
        if end_lr <= start_lr:
            raise AssertionError(f"end_lr {end_lr} must be greater than start_lr {start_lr}")
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.start_lr, self.end_lr = start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if not isinstance(self.learning_rate, LRScheduler):
            return float(self.learning_rate)
        self.learning_rate.step(self.last_epoch - self.warmup_steps)
        return self.learning_rate()

    def state_dict(self) -> dict[str, Any]:
        """The numbers needed to go on, the state of the schedule that follows included."""
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        inner = state_dict.get("LinearWarmup_LR")
        super().set_state_dict({key: value for key, value in state_dict.items() if key != "LinearWarmup_LR"})
        if isinstance(self.learning_rate, LRScheduler) and inner is not None:
            self.learning_rate.set_state_dict(inner)

    set_dict = set_state_dict


class ReduceOnPlateau(LRScheduler):
    """`factor` times the learning rate each time that a figure, given to `step`, has not got better for more
    than `patience` epochs; after that `cooldown` epochs do not count.

    mode: "min" where smaller is better, or "max". threshold: the least change that counts, a share of the
    best figure for threshold_mode "rel", or a difference for "abs". min_lr: the least learning rate.
    epsilon: a smaller change of the learning rate is not made.
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        if mode.lower() not in ("min", "max"):
            raise ValueError(f"mode: {mode} is unknown!")
        if threshold_mode.lower() not in ("rel", "abs"):
            raise ValueError(f"threshold mode: {threshold_mode} is unknown!")
        if factor >= 1.0:
            raise ValueError(f"new_lr = origin_lr * gamma and gamma should be < 1.0, but received {factor}")
        self.mode, self.threshold_mode = mode.lower(), threshold_mode.lower()
        self.factor, self.patience, self.threshold = factor, patience, threshold
        self.cooldown, self.min_lr, self.epsilon, self.verbose = cooldown, min_lr, epsilon, verbose
        self.cooldown_counter, self.num_bad_epochs = 0, 0
        self.best: float | None = None
        # no `step` here: there is no figure yet
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = 0

    def state_keys(self) -> None:
        """Set `keys`, the names of the attributes that `state_dict` holds."""
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take in the figure of an epoch: a number, or an array of one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        figure = float(np.asarray(metrics).reshape(-1)[0])
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best is None or self._is_better(figure, self.best):
            self.best, self.num_bad_epochs = figure, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            self._reduce()

    def _reduce(self) -> None:
        reduced = max(self.last_lr * self.factor, self.min_lr)
        if self.last_lr - reduced > self.epsilon:
            self.last_lr = reduced
            if self.verbose:
                self._tell()

    def _is_better(self, current: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        margin = self.threshold * (best if self.threshold_mode == "rel" else 1)
        if self.mode == "max":
            return current > best + margin
        return current < best + sign * margin


# ---------------------------------------------------------------------- up and down
def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


def _line(start: float, end: float, share: float) -> float:
    return (end - start) * share + start


class OneCycleLR(LRScheduler):
    """Up from max_learning_rate / divide_factor within `phase_pct` of total_steps, then down to
    end_learning_rate; with three_phase first back down in the same time (Smith and Topin, 2017).
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if max_learning_rate < 0 or end_learning_rate < 0:
            raise ValueError("'max_learning_rate' and 'end_learning_rate' must be non-negative")
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"'total_step' must be a positive integer, but got {total_steps}")
        if not 0 <= phase_pct <= 1 or (three_phase and phase_pct >= 0.5):
            raise ValueError(f"'phase_pct' must be a share (below 0.5 in three phases), but got {phase_pct}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"'anneal_strategy' must be one of 'cos' or 'linear', got {anneal_strategy}")
        self.total_steps, self._between = total_steps, _cosine if anneal_strategy == "cos" else _line
        start, top, end = max_learning_rate / divide_factor, max_learning_rate, end_learning_rate
        peak = phase_pct * total_steps - 1
        # places in time, and the learning rate at each
        self._places = [0, peak, 2 * peak, total_steps - 1] if three_phase else [0, peak, total_steps - 1]
        self._rates = [start, top, start, end] if three_phase else [start, top, end]
        super().__init__(start, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of step `last_epoch`."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. However the number of total steps is {self.total_steps}"
            )
        last = len(self._places) - 2
        phase = next((i for i in range(last) if step <= self._places[i + 1]), last)
        begin, end = self._places[phase : phase + 2]
        return self._between(self._rates[phase], self._rates[phase + 1], (step - begin) / (end - begin))


class CyclicLR(LRScheduler):
    """Up from base_learning_rate to max_learning_rate within step_size_up steps, down within step_size_down,
    and again (Smith, 2017).

    mode: "triangular", "triangular2" (half the height with each cycle) or "exp_range" (exp_gamma**step times
    the height). scale_fn: a factor of the height in place of `mode`, of the cycle's number or of the step, as
    scale_mode ("cycle", "iterations") says.
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[int], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("'mode' is invalid and 'scale_fn' is None, make sure one of them is valid")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError("'scale_mode' must be one of 'cycle' or 'iterations")
        down = step_size_up if step_size_down is None else step_size_down
        if not (isinstance(step_size_up, int) and step_size_up > 0 and isinstance(down, int) and down > 0):
            raise ValueError(f"both step sizes must be positive integers, but got {step_size_up}, {down}")
        self.cycle_size, self.step_up_pct = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.amplitude = max_learning_rate - base_learning_rate
        self.mode, self.exp_gamma, self.scale_fn, self.scale_mode = mode, exp_gamma, scale_fn, scale_mode
        super().__init__(base_learning_rate, last_epoch, verbose)

    def _scale(self, cycle: int, step: int) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else step)
        scales = {"triangular": 1.0, "triangular2": 1 / 2.0 ** (cycle - 1), "exp_range": self.exp_gamma**step}
        return scales[self.mode]

    def get_lr(self) -> float:
        """The learning rate of step `last_epoch`."""
        cycle = 1 + self.last_epoch // self.cycle_size
        place = 1.0 + self.last_epoch / self.cycle_size - cycle
        height = (
            place / self.step_up_pct if place <= self.step_up_pct else (1 - place) / (1 - self.step_up_pct)
        )
        return self.base_lr + self.amplitude * height * self._scale(int(cycle), self.last_epoch)
