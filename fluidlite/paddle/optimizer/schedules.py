"""Schedules of learning rates that are formulas of the epoch, and the base of all.

`step` is called by the program's author, once a batch or once an epoch; each run of a program then feeds the
learning rate of the moment. The formulas are those of the papers that the classes name, or of 2.6.2.
"""

from __future__ import annotations

import bisect
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.abstract import abstract
from fluidlite.ir.warned import warn_user

__all__ = [
    "CosineAnnealingDecay",
    "CosineAnnealingWarmRestarts",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LRScheduler",
    "LambdaDecay",
    "LinearLR",
    "MultiStepDecay",
    "NaturalExpDecay",
    "NoamDecay",
    "PiecewiseDecay",
    "PolynomialDecay",
    "StepDecay",
    "check_callable",
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
        self.last_lr = self.get_lr() if epoch is None else self._get_closed_form_lr()
        if self.verbose:
            self._tell()

    def _tell(self) -> None:
        _log.info("Epoch %d: %s set learning rate to %s.", self.last_epoch, type(self).__name__, self.last_lr)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        abstract(f"{type(self).__name__} does not define get_lr")

    def _get_closed_form_lr(self) -> float:
        """The learning rate of epoch `last_epoch`, whatever the one before was: `step(epoch)` asks for it,
        which may come from any epoch.
        """
        return self.get_lr()

    # ------------------------------------------------------------------ as numbers that can be saved
    def state_keys(self) -> None:
        """Set `keys`, the names of the attributes that `state_dict` holds."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """The numbers needed to go on: `last_epoch` and `last_lr`."""
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
            warn_user("There are some unused values in state_dict.", category=UserWarning)

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
        self.lr_lambda = check_callable(lr_lambda)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """The learning rate of epoch `last_epoch`."""
        return self.base_lr * self.lr_lambda(self.last_epoch)


def check_callable(lr_lambda: Callable[[int], float]) -> Callable[[int], float]:
    """`lr_lambda`; TypeError if it is not a function."""
    if not callable(lr_lambda):
        raise TypeError(
            f"The type of 'lr_lambda' in 'LambdaDecay' must be 'function', but received {type(lr_lambda)}."
        )
    return lr_lambda


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from learning_rate to eta_min within T_max epochs, and back (Loshchilov and Hutter,
    2017). Each step goes on from the last learning rate, one that was set by hand too; a step to an epoch
    that is named does not.
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

    def _get_closed_form_lr(self) -> float:
        wave = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * wave


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
        place = self.last_epoch + 1 if epoch is None else epoch
        length = self.T_0
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
