"""`paddle.optimizer.lr`: learning rates that follow a schedule.

`step` is called by the program's author, once a batch or once an epoch; each run of a program then feeds the
learning rate of the moment. The formulas are those of the papers that the classes name, or of 2.6.2.
"""

from __future__ import annotations

import bisect
import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.abstract import abstract

__all__ = [
    "CosineAnnealingDecay",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LRScheduler",
    "LambdaDecay",
    "LinearLR",
    "LinearWarmup",
    "MultiStepDecay",
    "MultiplicativeDecay",
    "NaturalExpDecay",
    "NoamDecay",
    "OneCycleLR",
    "PiecewiseDecay",
    "PolynomialDecay",
    "ReduceOnPlateau",
    "StepDecay",
]

_log = logging.getLogger(__name__)


class LRScheduler:
    """A learning rate that depends on the number of the epoch (or batch); a subclass gives `get_lr`, which
    reads `base_lr`, `last_epoch` and `last_lr`.

    learning_rate: the base. last_epoch: the epoch to begin after, -1 for the beginning. verbose: log each
    new learning rate.
    """

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"The type of learning rate must be float, but received {type(learning_rate)}")
        if learning_rate < 0:
            raise ValueError(f"Invalid learning rate: {learning_rate}")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        """The learning rate of the moment."""
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to `epoch`."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr()
        if self.verbose:
            self._tell()

    def _tell(self) -> None:
        _log.info("Epoch %d: %s set learning rate to %s.", self.last_epoch, type(self).__name__, self.last_lr)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        abstract(f"{type(self).__name__} does not define get_lr")

    # ------------------------------------------------------------------ as numbers that can be saved
    def state_keys(self) -> None:
        """Set `keys`, the names of the attributes that `state_dict` holds."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on: `last_epoch` and `last_lr`."""
        self.state_keys()
        return {key: _plain(vars(self)[key]) for key in self.keys if key in vars(self)}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.state_keys()
        missing = [key for key in self.keys if key not in state_dict]
        if missing:
            raise RuntimeError(f"Please check whether state_dict is correct for optimizer: without {missing}")
        vars(self).update({key: state_dict[key] for key in self.keys})
        if len(state_dict) > len(self.keys):
            warnings.warn("There are some unused values in state_dict.", stacklevel=2)

    set_dict = set_state_dict


def _plain(value: Any) -> Any:
    """A number of Python in place of an array of one."""
    return value.item() if isinstance(value, np.ndarray) else value


# ---------------------------------------------------------------------- a formula of the epoch
class NoamDecay(LRScheduler):
    """learning_rate * d_model**-0.5 * min(epoch**-0.5, epoch * warmup_steps**-1.5) (Vaswani et al., 2017)."""

    def __init__(
        self,
        d_model: int,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if d_model <= 0:
            raise ValueError("d_model should be grater than 0")
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        decaying = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        warming = self.warmup_steps**-1.5 * self.last_epoch
        return self.base_lr * self.d_model**-0.5 * min(decaying, warming)


class PiecewiseDecay(LRScheduler):
    """values[i] before epoch boundaries[i], the last value from the last boundary on."""

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not boundaries:
            raise ValueError("The boundaries cannot be empty.")
        if len(values) <= len(boundaries):
            raise ValueError(
                f"The values have one element more than boundaries, but received {len(values)} values and "
                f"{len(boundaries)} boundaries."
            )
        self.boundaries, self.values = boundaries, values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.values[bisect.bisect_right(self.boundaries, self.last_epoch)]


class _Gamma(LRScheduler):
    """Base of the schedules with one factor, `gamma`."""

    def __init__(
        self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)


class NaturalExpDecay(_Gamma):
    """learning_rate * exp(-gamma * epoch)."""

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(_Gamma):
    """learning_rate / (1 + gamma * epoch)."""

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class ExponentialDecay(_Gamma):
    """learning_rate * gamma**epoch."""

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.base_lr * self.gamma**self.last_epoch


class PolynomialDecay(LRScheduler):
    """From learning_rate to end_lr within decay_steps epochs, by (1 - epoch / decay_steps)**power; with
    `cycle` begun again, each time over one decay_steps more, else end_lr from then on.
    """

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not (isinstance(decay_steps, int) and decay_steps > 0):
            raise AssertionError(f"'decay_steps' must be a positive integer, but received {decay_steps}")
        if power <= 0:
            raise AssertionError(f"'power' must be greater than 0.0, but received {power}")
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        epoch, steps = self.last_epoch, self.decay_steps
        if self.cycle:
            steps *= max(1, math.ceil(epoch / steps))
        else:
            epoch = min(epoch, steps)
        return (self.base_lr - self.end_lr) * (1 - epoch / steps) ** self.power + self.end_lr


class StepDecay(LRScheduler):
    """learning_rate * gamma**(epoch // step_size)."""

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(step_size, int):
            raise TypeError(f"The type of 'step_size' must be 'int', but received {type(step_size)}.")
        if gamma >= 1.0:
            raise ValueError("gamma should be < 1.0.")
        if step_size <= 0:
            raise AssertionError(f"'step_size' must be a positive integer, but received {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepDecay(LRScheduler):
    """learning_rate * gamma**(number of milestones that are reached)."""

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(milestones, (tuple, list)):
            raise TypeError(f"The type of 'milestones' must be tuple or list, but got {type(milestones)}.")
        if list(milestones) != sorted(set(milestones)):
            raise ValueError("The elements of milestones must be incremented")
        if gamma >= 1.0:
            raise ValueError("gamma should be < 1.0.")
        self.milestones, self.gamma = milestones, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.base_lr * self.gamma ** bisect.bisect_right(self.milestones, self.last_epoch)


class LambdaDecay(LRScheduler):
    """learning_rate * lr_lambda(epoch)."""

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.lr_lambda = _callable(lr_lambda)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.base_lr * self.lr_lambda(self.last_epoch)


def _callable(lr_lambda: Callable[[int], float]) -> Callable[[int], float]:
    if not callable(lr_lambda):
        raise TypeError(
            f"The type of 'lr_lambda' in 'LambdaDecay' must be 'function', but received {type(lr_lambda)}."
        )
    return lr_lambda


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from learning_rate to eta_min within T_max epochs, and back (Loshchilov and Hutter,
    2017). Each step goes on from the last learning rate, one that was set by hand too.
    """

    def __init__(
        self,
        learning_rate: float,
        T_max: int,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(T_max, int):
            raise TypeError(f"The type of 'T_max' must be 'int', but received {type(T_max)}.")
        if not isinstance(eta_min, (float, int)):
            raise TypeError(f"The type of 'eta_min' must be 'float, int', but received {type(eta_min)}.")
        if T_max <= 0:
            raise AssertionError(f"'T_max' must be a positive integer, but received {T_max}")
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        epoch, half = self.last_epoch, self.T_max
        if epoch == 0:
            return self.base_lr
        if (epoch - 1 - half) % (2 * half) == 0:  # the turn: the quotient below would be 0 / 0
            wave = 1 - math.cos(math.pi / half)
            return self.last_lr + (self.base_lr - self.eta_min) * wave / 2
        now, before = (1 + math.cos(math.pi * place / half) for place in (epoch, epoch - 1))
        return now / before * (self.last_lr - self.eta_min) + self.eta_min


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from learning_rate to eta_min within T_0 epochs, then again within T_mult times as many
    (Loshchilov and Hutter, 2017).
    """

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Expected integer {name} >= 1, but got {value}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, last_epoch
        super().__init__(learning_rate, last_epoch, verbose)

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to `epoch`."""
        if epoch is not None and epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        place, length = (self.last_epoch + 1 if epoch is None else epoch), self.T_0
        while place >= length:
            place -= length
            length *= self.T_mult
            if self.T_mult == 1:  # periods of one length: no need to go through them
                place %= length
        self.T_cur, self.T_i = place, length
        super().step(epoch)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        wave = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * wave


class LinearLR(LRScheduler):
    """From learning_rate * start_factor to learning_rate * end_factor within total_steps epochs."""

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"`start_factor` must be greater than 0 and at most 1, but got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"`end_factor` must be between 0 and 1, but got {end_factor}")
        if total_steps <= 0:
            raise ValueError(f"`total_steps` must be greater than 0, but got {total_steps}")
        self.start_factor, self.end_factor, self.total_steps = start_factor, end_factor, total_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)


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
        self.lr_lambda = _callable(lr_lambda)
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
        """What is needed to go on, the state of the schedule that follows included."""
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
