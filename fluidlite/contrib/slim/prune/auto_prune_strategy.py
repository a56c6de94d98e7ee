"""`fluid.contrib.slim.prune.auto_prune_strategy`: shares of channels that a controller searches for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.contrib.slim.prune.prune_strategy import PruneStrategy, _bisect, _refresh

__all__ = ["AutoPruneStrategy"]

STEPS = 100  # a share is a whole number of hundredths


class AutoPruneStrategy(PruneStrategy):
    """Prunes each weight by a share of its own, as a controller proposes; the metric is its reward.

    Parameters
    ----------
    controller: proposes shares, such as `SAController`.
    min_ratio, max_ratio: least and largest share of the flops that may go.
    retrain_epoch: epochs that a pruned model trains before it is judged.
    uniform_range: shares stay this close to those of uniform pruning; anything goes by default.
    init_tokens: the first shares, in hundredths; those of uniform pruning by default.
    """

    def __init__(
        self,
        pruner: Any = None,
        controller: Any = None,
        start_epoch: int = 0,
        end_epoch: int = 10,
        min_ratio: float = 0.5,
        max_ratio: float = 0.7,
        metric_name: str = "top1_acc",
        pruned_params: str = "conv.*_weights",
        retrain_epoch: int = 0,
        uniform_range: float | None = None,
        init_tokens: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            pruner, start_epoch, end_epoch, (min_ratio + max_ratio) / 2, metric_name, pruned_params
        )
        self._controller = controller
        self._min_ratio, self._max_ratio = min_ratio, max_ratio
        self._retrain_epoch, self._uniform_range = retrain_epoch, uniform_range
        self._init_tokens = init_tokens
        self._params: list[str] = []
        self._tokens: list[int] = []
        self._kept: dict[str, Any] = {}

    def on_compression_begin(self, context: Any) -> None:
        """Tell the controller what it may propose."""
        self._params = self._matched(context.eval_graph)
        tokens = self._get_init_tokens(context)
        spread = STEPS if self._uniform_range is None else round(self._uniform_range * STEPS)
        self._controller.reset(
            [min(STEPS, token + spread) for token in tokens],
            tokens,
            lambda tokens: self._constrain_func(tokens, context),
        )

    def _constrain_func(self, tokens: Sequence[int], context: Any = None) -> bool:
        """True for shares with which a share of the flops between the limits goes."""
        share = self._pruned_share(context, self._params, self._tokens_to_ratios(tokens))
        return self._min_ratio < share < self._max_ratio

    def _get_init_tokens(self, context: Any) -> list[int]:
        if self._init_tokens is not None:
            return list(self._init_tokens)
        return self._ratios_to_tokens(self._get_uniform_ratios(context))

    def _ratios_to_tokens(self, ratios: Sequence[float]) -> list[int]:
        return [int(ratio * STEPS) for ratio in ratios]

    def _tokens_to_ratios(self, tokens: Sequence[int]) -> list[float]:
        return [token / STEPS for token in tokens]

    def _get_uniform_ratios(self, context: Any) -> list[float]:
        count = len(self._params)
        ratio = _bisect(
            lambda ratio: self._pruned_share(context, self._params, [ratio] * count), self.target_ratio
        )
        return [ratio] * count

    def on_epoch_begin(self, context: Any) -> None:
        """Prune by the next proposal."""
        if self._turn(context, 0):
            self._tokens = self._controller.next_tokens()
            self._kept = {}
            graphs = (context.optimize_graph, context.eval_graph, context.train_graph)
            context.put("unpruned_graphs", [graph.clone() for graph in graphs])
            self._prune_parameters(
                context.optimize_graph,
                context.scope,
                self._params,
                self._tokens_to_ratios(self._tokens),
                context.place,
                param_backup=self._kept,
            )
            for graph in graphs:
                self._prune_graph(graph, context.optimize_graph)

    def on_epoch_end(self, context: Any) -> None:
        """Judge the pruned model; but for the last one, go back to the one before."""
        if self._turn(context, self._retrain_epoch):
            self._controller.update(self._tokens, self._eval_graph(context))
            if context.epoch_id < self.end_epoch:
                context.optimize_graph, context.eval_graph, context.train_graph = context.get(
                    "unpruned_graphs"
                )
                for name, value in self._kept.items():
                    context.scope.find_var(name).get_tensor().set(value, context.place)
                _refresh(context.eval_graph)

    def _turn(self, context: Any, epoch: int) -> bool:
        """True in the given epoch of each proposal."""
        passed = context.epoch_id - self.start_epoch
        inside = self.start_epoch <= context.epoch_id <= self.end_epoch
        return inside and passed % (self._retrain_epoch + 1) == epoch
