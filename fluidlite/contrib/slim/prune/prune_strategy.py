"""`fluid.contrib.slim.prune.prune_strategy`: networks with fewer channels."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper, VarWrapper
from fluidlite.contrib.slim.prune.channels import Cut, cuts_of
from fluidlite.contrib.slim.prune.pruner import StructurePruner
from fluidlite.contrib.slim.strategy import Strategy

__all__ = ["PruneStrategy", "SensitivePruneStrategy", "UniformPruneStrategy"]

CLOSE = 1e-2  # shares of flops that differ by less count as equal
HALVINGS = 20


class PruneStrategy(Strategy):
    """The base of strategies that prune output channels of weights.

    Parameters
    ----------
    pruner: chooses the channels.
    target_ratio: the share of the flops that goes.
    metric_name: the output of the evaluation graph that says how good a model is.
    pruned_params: a regular expression that matches the names of the weights.
    """

    def __init__(
        self,
        pruner: Any = None,
        start_epoch: int = 0,
        end_epoch: int = 0,
        target_ratio: float = 0.5,
        metric_name: str | None = None,
        pruned_params: str = "conv.*_weights",
    ) -> None:
        super().__init__(start_epoch, end_epoch)
        self.pruner = pruner
        self.target_ratio, self.metric_name, self.pruned_params = target_ratio, metric_name, pruned_params

    def _eval_graph(self, context: Any, sampled_rate: float | None = None, cached_id: int = 0) -> float:
        results, names = context.run_eval_graph(sampled_rate, cached_id)
        return float(np.mean(results[list(names).index(self.metric_name)]))

    def _matched(self, graph: GraphWrapper) -> list[str]:
        """Names of the weights to prune."""
        return [
            param.name() for param in graph.all_parameters() if re.match(self.pruned_params, param.name())
        ]

    def _prune_parameters(
        self,
        graph: GraphWrapper,
        scope: Any,
        params: Sequence[str],
        ratios: Sequence[float],
        place: Any,
        lazy: bool = False,
        only_graph: bool = False,
        param_backup: dict[str, Any] | None = None,
        param_shape_backup: dict[str, Any] | None = None,
    ) -> None:
        """Take shares `ratios` of the output channels of weights away, with all that depends on them.

        `lazy` sets them to zero instead; `only_graph` changes shapes and leaves the scope. What was there
        is kept in the dicts. A weight that lost channels together with an earlier one is not pruned again.
        """
        done: set[str] = set()
        for param, ratio in zip(params, ratios, strict=True):
            if param in done:
                continue
            values = np.array(scope.find_var(param).get_tensor())
            axis = 1 if values.ndim == 2 else 0  # of a product or of a convolution
            shape = graph.var(param).shape()
            if only_graph:
                gone = list(range(round(shape[axis] * ratio)))
            else:
                gone = self.pruner.cal_pruned_idx(param, values, ratio, axis=axis)
            gone = [int(one) for one in gone][: shape[axis] - 1]  # a network needs one channel at least
            cuts = cuts_of(graph, param, gone) if gone else []
            done |= {cut.param for cut in cuts if cut.axis == axis}
            for cut in cuts:
                for name in list(_with_accumulators(graph, cut.param)):  # before the shape changes
                    self._cut(
                        graph.var(name), cut, scope, place, lazy, only_graph, param_backup, param_shape_backup
                    )

    def _cut(
        self,
        var: VarWrapper,
        cut: Cut,
        scope: Any,
        place: Any,
        lazy: bool,
        only_graph: bool,
        values: dict[str, Any] | None,
        shapes: dict[str, Any] | None,
    ) -> None:
        """Cut one variable, in the graph and in the scope."""
        if shapes is not None:
            shapes.setdefault(var.name(), var.shape())
        if not lazy:
            shape = list(var.shape())
            shape[cut.axis] -= len(cut.slices)
            var.set_shape(shape)
        found = None if only_graph else scope.find_var(var.name())
        if found is not None:
            tensor = found.get_tensor()
            array = np.array(tensor)
            if values is not None:
                values.setdefault(var.name(), array)
            pruner = self.pruner if isinstance(self.pruner, StructurePruner) else StructurePruner({}, {})
            tensor.set(pruner.prune_tensor(array, cut.slices, cut.axis, lazy=lazy), place)

    def _prune_graph(self, graph: GraphWrapper, target_graph: GraphWrapper) -> None:
        """Give the parameters of a graph the shapes that they have in another one."""
        for param in target_graph.all_parameters():
            if param.name() in graph.program.global_block().vars:
                graph.var(param.name()).set_shape(param.shape())
        _refresh(graph)

    def _pruned_share(self, context: Any, params: Sequence[str], ratios: Sequence[float]) -> float:
        """The share of the evaluation graph's flops that goes with such ratios."""
        graph = context.eval_graph.clone()
        full = graph.flops()
        self._prune_parameters(graph, context.scope, params, ratios, context.place, only_graph=True)
        _refresh(graph)
        return float(1 - graph.flops() / full)

    def _prune(self, context: Any, params: Sequence[str], ratios: Sequence[float]) -> None:
        """Prune the graphs that train and evaluate, and the values."""
        graph = context.optimize_graph
        self._prune_parameters(graph, context.scope, params, ratios, context.place)
        for other in (graph, context.eval_graph, context.train_graph):
            self._prune_graph(other, graph)


def _refresh(graph: GraphWrapper) -> None:
    """Infer what follows from the shapes of the parameters."""
    graph.update_groups_of_conv()
    graph.infer_shape()
    graph.compiled_graph = None


def _with_accumulators(graph: GraphWrapper, param: str) -> Iterator[str]:
    """A parameter, and the variables of its shape that its update keeps."""
    yield param
    shape = graph.var(param).shape()
    for op in graph.ops():
        if op.is_opt_op() and op.inputs("Param")[0].name() == param:
            for var in op.all_inputs():
                if var.name() != param and graph.is_persistable(var) and var.shape() == shape:
                    yield var.name()


def _bisect(share_of: Any, target: float, low: float = 0.0, high: float = 1.0) -> float:
    """The value whose share comes close to the target, for a share that grows with it."""
    middle = (low + high) / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        share = share_of(middle)
        if abs(share - target) < CLOSE:
            break
        low, high = (middle, high) if share < target else (low, middle)
    return middle


class UniformPruneStrategy(PruneStrategy):
    """Prunes the same share of the channels of every weight, so that `target_ratio` of the flops go."""

    def _get_best_ratios(self, context: Any) -> tuple[list[str], list[float]]:
        params = self._matched(context.eval_graph)
        ratio = _bisect(
            lambda ratio: self._pruned_share(context, params, [ratio] * len(params)), self.target_ratio
        )
        return params, [ratio] * len(params)

    def restore_from_checkpoint(self, context: Any) -> None:
        """Give the graphs the shapes of the values that were loaded."""
        if self.start_epoch < context.epoch_id:
            for graph in (context.optimize_graph, context.eval_graph, context.train_graph):
                graph.update_param_shape(context.scope)
                _refresh(graph)

    def on_epoch_begin(self, context: Any) -> None:
        """Prune in the first epoch."""
        if context.epoch_id == self.start_epoch:
            self._prune(context, *self._get_best_ratios(context))


class SensitivePruneStrategy(PruneStrategy):
    """Prunes most where the metric suffers least.

    Each weight is pruned by growing shares, with zeros, and the model evaluated: the loss of the metric by
    share is its sensitivity. Then shares are chosen that cost about the same loss each, and `target_ratio`
    of the flops together.

    Parameters
    ----------
    delta_rate: the step from one share to the next.
    sensitivities_file: a file that keeps what was measured, as JSON; what it has is not measured again.
    sensitivities: parameter -> {"pruned_percent": shares, "loss": losses}, measured before.
    num_steps: pruning is spread over so many epochs.
    eval_rate: the share of the evaluation data that is used for measuring.
    """

    def __init__(
        self,
        pruner: Any = None,
        start_epoch: int = 0,
        end_epoch: int = 0,
        delta_rate: float = 0.20,
        target_ratio: float = 0.5,
        metric_name: str = "top1_acc",
        pruned_params: str = "conv.*_weights",
        sensitivities_file: str = "./sensitivities.data",
        sensitivities: Mapping[str, Any] | None = None,
        num_steps: int = 1,
        eval_rate: float | None = None,
    ) -> None:
        super().__init__(pruner, start_epoch, end_epoch, target_ratio, metric_name, pruned_params)
        self.delta_rate, self.sensitivities_file = delta_rate, sensitivities_file
        self.sensitivities: dict[str, Any] = dict(sensitivities or {})
        self.num_steps, self.eval_rate = num_steps, eval_rate
        self.backup: dict[str, Any] = {}

    def _save_sensitivities(self, sensitivities: Mapping[str, Any], sensitivities_file: str) -> None:
        pathlib.Path(sensitivities_file).write_text(json.dumps(sensitivities, indent=1), encoding="utf8")

    def _load_sensitivities(self, sensitivities_file: str) -> dict[str, Any]:
        path = pathlib.Path(sensitivities_file)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf8")) if path.exists() else {}
        return found

    def _format_sensitivities(self, sensitivities: Mapping[str, Any]) -> str:
        """A table of what was measured."""
        lines = []
        for name, found in sensitivities.items():
            pairs = zip(found["pruned_percent"], found["loss"], strict=True)
            lines.append(f"{name}: " + ", ".join(f"{share:.2f} {loss:+.4f}" for share, loss in pairs))
        return "\n".join(lines)

    def _compute_sensitivities(self, context: Any) -> dict[str, Any]:
        """The loss of the metric by the share of channels that are zero, for each weight."""
        sensitivities = {**self._load_sensitivities(self.sensitivities_file), **self.sensitivities}
        names = self._matched(context.eval_graph)
        missing = [name for name in names if name not in sensitivities]
        baseline = self._eval_graph(context, self.eval_rate, 0) if missing else 0.0
        for name in missing:
            shares = np.arange(self.delta_rate, 1.0, self.delta_rate)
            losses = [self._loss_without(context, name, float(share), baseline) for share in shares]
            sensitivities[name] = {"pruned_percent": [float(one) for one in shares], "loss": losses}
            self._save_sensitivities(sensitivities, self.sensitivities_file)
        return {name: sensitivities[name] for name in names}

    def _loss_without(self, context: Any, name: str, share: float, baseline: float) -> float:
        values: dict[str, Any] = {}
        self._prune_parameters(
            context.eval_graph, context.scope, [name], [share], context.place, lazy=True, param_backup=values
        )
        metric = self._eval_graph(context, self.eval_rate, 0)
        for one, value in values.items():
            context.scope.find_var(one).get_tensor().set(value, context.place)
        return (baseline - metric) / baseline

    def _get_best_ratios(
        self, context: Any, sensitivities: Mapping[str, Any], target_ratio: float
    ) -> tuple[list[str], list[float]]:
        """Shares that cost about the same loss each, and together the target."""
        names = list(sensitivities)

        def shares_at(loss: float) -> list[float]:
            return [_share_at(sensitivities[name], loss) for name in names]

        losses = [abs(loss) for name in names for loss in sensitivities[name]["loss"]]
        most = max(losses, default=1.0) or 1.0
        loss = _bisect(
            lambda loss: self._pruned_share(context, names, shares_at(loss)), target_ratio, 0.0, most
        )
        return names, shares_at(loss)

    def _current_pruning_target(self, context: Any) -> float | None:
        """The share of the flops that goes in this epoch; None where it is none's turn."""
        step = context.epoch_id - self.start_epoch
        if not 0 <= step < self.num_steps:
            return None
        # the same share of what is left in each step
        return 1 - (1 - self.target_ratio) ** (1.0 / self.num_steps)

    def on_epoch_begin(self, context: Any) -> None:
        """Measure, and prune."""
        target = self._current_pruning_target(context)
        if target is not None:
            if context.epoch_id == self.start_epoch:
                self.sensitivities = self._compute_sensitivities(context)
            self._prune(context, *self._get_best_ratios(context, self.sensitivities, target))


def _share_at(found: Mapping[str, Any], loss: float) -> float:
    """The largest share that costs at most so much, between what was measured."""
    worst = np.maximum.accumulate([0.0, *found["loss"]])  # losses that fall again are noise
    worst += np.arange(len(worst)) * 1e-9  # interpolation needs them to grow
    return float(np.interp(loss, worst, [0.0, *found["pruned_percent"]]))
