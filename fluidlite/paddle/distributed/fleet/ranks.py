"""Jobs without servers: a strategy of 2.x as a mode of the transpiler."""

from __future__ import annotations

import logging
from typing import Any

from fluidlite.base.errors import UnsupportedError
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.optimizer.descent import MomentumOptimizer, SGDOptimizer
from fluidlite.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from fluidlite.paddle.distributed.fleet.composition import Composition, compose
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes import Job, make_job
from fluidlite.transpiler.modes.fleet_ranks import FleetAllReduce, FleetLocalSgd
from fluidlite.transpiler.modes.rings import RingMode
from fluidlite.transpiler.parts.endpoints import RankClaim
from fluidlite.transpiler.rings.periods import Periods

__all__ = ["RankJob"]

_log = logging.getLogger(__name__)
_PLAIN = (SGDOptimizer, MomentumOptimizer)
_ALONE = ("gradient_merge", "recompute", "lars", "lamb")
_META_NAMES = {
    "amp": "AMPOptimizer",
    "fleet_allreduce": "RawProgramOptimizer",
    "gradient_merge": "GradientMergeOptimizer",
    "lamb": "LambOptimizer",
    "lars": "LarsOptimizer",
    "localsgd": "LocalSGDOptimizer",
    "adaptive_localsgd": "AdaptiveLocalSGDOptimizer",
    "recompute": "RecomputeOptimizer",
}


def _give_way(others: list[str], applied: list[str]) -> bool:
    """True if local SGD goes before parts that it does not go together with. 2.6.2 takes as many parts as go
    together; of two choices that are equally many it takes these.
    """
    return others == ["recompute"] or (others == ["lars"] and "amp" in applied)


class RankJob:
    """One rank of a job whose ranks exchange among themselves.

    Attributes
    ----------
    composition: what the strategy adds to the optimizer.
    exchange: "fleet_allreduce", "localsgd" or "adaptive_localsgd"; "" for a job of one rank.
    """

    def __init__(
        self, role: Any, optimizer: Any, strategy: DistributedStrategy, checkpoints: list[str] | None = None
    ) -> None:
        self.role, self.strategy = role, strategy
        self.workers = int(role._worker_num())
        self.composition: Composition = compose(strategy, optimizer, self.workers, checkpoints)
        self.exchange = self._exchange(optimizer) if self.workers > 1 else ""
        if self.exchange == "localsgd" and self._others():
            left_out = dict.fromkeys(self._others(), "it cannot be combined with localsgd")
            dropped = self.composition.dropped
            self.composition = compose(strategy, optimizer, self.workers, checkpoints, left_out)
            self.composition.dropped.update(dropped)
        if strategy.fp16_allreduce:
            self.composition.dropped["fp16_allreduce"] = "gradients are reduced in their own precision"
        if self.workers == 1:
            for name in ("localsgd", "adaptive_localsgd"):
                if getattr(strategy, name):
                    self.composition.dropped[name] = "there is only one rank"
        for name, reason in self.composition.dropped.items():
            _log.warning("strategy.%s does not apply: %s", name, reason)
        self.config = self._config()
        self.origin: tuple[Program, Program] | None = None
        self._mode: RingMode | None = None

    # ------------------------------------------------------------------ what it does
    def _exchange(self, optimizer: Any) -> str:
        """How ranks exchange: they train alone only where 2.6.2 lets them."""
        chosen = ""
        for name in ("localsgd", "adaptive_localsgd"):
            if not getattr(self.strategy, name):
                continue
            reason = f"{chosen} is set as well" if chosen else self._against(name, optimizer)
            if reason:
                self.composition.dropped[name] = reason
            else:
                chosen = name
        return chosen or "fleet_allreduce"

    def _against(self, name: str, optimizer: Any) -> str:
        """The reason why ranks cannot train alone; "" where they can."""
        if not isinstance(optimizer, _PLAIN):
            return f"it takes SGD or Momentum, not {type(optimizer).__name__}"
        others = self._others()
        gives_way = name == "localsgd" and _give_way(others, self.composition.applied)
        return f"it cannot be combined with {others[0]}" if others and not gives_way else ""

    def _others(self) -> list[str]:
        return [part for part in self.composition.applied if part in _ALONE]

    @property
    def applied(self) -> list[str]:
        """2.6.2's names of the parts, from the outside in."""
        parts = [*self.composition.applied, *([self.exchange] if self.exchange else [])]
        return [_META_NAMES[part] for part in reversed(parts)]

    @property
    def reported(self) -> list[str]:
        """The same as 2.6.2 lists it: its all-reduces by the switch alone, with one rank and beside local SGD
        too.
        """
        reduces = self.strategy.without_graph_optimization and self.exchange != "adaptive_localsgd"
        plain = _META_NAMES["fleet_allreduce"]
        return [*([plain] if reduces else []), *(name for name in self.applied if name != plain)]

    def _config(self) -> DistributeTranspilerConfig:
        config = DistributeTranspilerConfig()
        config.mode, config.collective_mode = "collective", "grad_allreduce"
        config.nccl_comm_num = max(1, self.strategy.nccl_comm_num)
        if self.strategy.fuse_all_reduce_ops:
            config.bucket_bytes = max(0, self.strategy.fuse_grad_size_in_MB) << 20
        return config

    def _make_mode(self, loss: Any, updates: list[Operator]) -> RingMode:
        strategy = self.strategy
        if self.exchange == "localsgd":
            chosen = strategy.localsgd_configs
            return FleetLocalSgd(Periods(chosen["k_steps"], chosen["begin_step"]))
        if self.exchange == "adaptive_localsgd":
            chosen = strategy.adaptive_localsgd_configs
            rate = next(op.input("LearningRate")[0] for op in updates if op.inputs.get("LearningRate"))
            return FleetLocalSgd(Periods(chosen["init_k_steps"], chosen["begin_step"], loss.name, rate))
        hierarchical = strategy.use_hierarchical_allreduce
        group = strategy.hierarchical_allreduce_inter_nranks if hierarchical else 0
        if hierarchical and self.role._node_num() <= 1 and group <= 1:
            _log.warning("strategy.use_hierarchical_allreduce does not apply: there is only one machine")
            group = 0
        merges = "gradient_merge" in self.composition.applied
        merged = strategy.gradient_merge_configs["k_steps"] if merges else 1
        return FleetAllReduce(max(0, strategy.fuse_grad_size_in_num), group, merged)

    # ------------------------------------------------------------------ programs
    def minimize(self, loss: Any, startup: Program, parameter_list: Any, no_grad_set: Any) -> Any:
        """Write backward pass and updates, and the exchange between the ranks."""
        main = loss.block.program
        found = self.composition.optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        self.origin = main.clone(), startup.clone()
        if self.exchange:
            self._mode = self._make_mode(loss, list(found[0]))
            places = self.role._get_trainer_endpoints()
            index = int(self.role._worker_index())
            self._mode.transpile(main, startup, RankClaim(index, places, places[index]), self.config)
        return found

    def job(self) -> Job:
        """All programs of the job."""
        assert self.origin is not None, "call minimize() first: it makes the programs"
        if self._mode is None:
            raise UnsupportedError("this job has only one rank, whose programs are unchanged")
        main, startup = self.origin
        places = list(self.role._get_trainer_endpoints())
        return make_job(main, startup, self._mode, self.workers, places, config=self.config)

    # ------------------------------------------------------------------ a job's life
    def init_worker(self, scopes: Any) -> None:
        """Do nothing: rings are made by the startup program."""

    def stop_worker(self) -> None:
        """Do nothing: rings end with their processes."""
