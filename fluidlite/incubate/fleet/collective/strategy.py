"""Strategies of a collective fleet."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import did_you_mean
from fluidlite.base.strategies import BuildStrategy, ExecutionStrategy
from fluidlite.ir.warned import warn_user

__all__ = ["DistFCConfig", "DistributedStrategy", "LambConfig", "TrainStatus"]


class LambConfig:
    """Kept for programs that name it."""


class DistFCConfig:
    """Kept for programs that name it."""


class DistributedStrategy(BuildStrategy):
    """A BuildStrategy, and besides:

    Attributes
    ----------
    mode: "nccl2" (gradients are reduced by `CompiledProgram`) or "collective" (by ops of the program).
    collective_mode: "grad_allreduce" or "local_sgd", with mode "collective".
    use_local_sgd: choose mode "collective" and "local_sgd".
    forward_recompute, recompute_checkpoints: compute again between these variables what the backward pass
        needs.
    use_amp, amp_loss_scaling: compute in float16 what `contrib.mixed_precision` does, with the loss scaled by
        this to begin with.
    use_dist_fc, dist_fc_config: refused by `minimize` where they are asked for.
    exec_strategy: the ExecutionStrategy of the program.
    """

    def __init__(self) -> None:
        super().__init__()
        self.use_local_sgd = False
        self.use_dist_fc = False
        self.dist_fc_config: Any = None
        self.mode = "nccl2"
        self.collective_mode: str | None = None
        self.nccl_comm_num = 1
        self.forward_recompute = False
        self.recompute_checkpoints: list[Any] = []
        self.use_amp = False
        self.amp_loss_scaling = 2**15
        self.exec_strategy = ExecutionStrategy()
        self._ut4grad_allreduce = False
        self._is_complete = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._DEFAULTS:
            super().__setattr__(name, value)
            return
        # programs keep what they like here, as in fluid; a misspelt field changes nothing
        if "_is_complete" in self.__dict__ and name not in self.__dict__ and not name.startswith("_"):
            known = [field for field in [*self._DEFAULTS, *self.__dict__] if not field.startswith("_")]
            near = did_you_mean(name, known)
            if near:
                warn_user(f"DistributedStrategy has no field {name!r}: nothing reads it{near}")
        object.__setattr__(self, name, value)


class TrainStatus:
    """Progress of training: the number of the last epoch that is done, -1 before the first."""

    def __init__(self, epoch_no: int = -1) -> None:
        self._epoch_no = epoch_no

    def next(self) -> int:
        """The number of the epoch to do next."""
        return self._epoch_no + 1

    def __eq__(self, t: Any) -> bool:
        return bool(self._epoch_no == t._epoch_no)

    def __ne__(self, t: Any) -> bool:
        return not self == t

    __hash__ = None  # type: ignore[assignment]
