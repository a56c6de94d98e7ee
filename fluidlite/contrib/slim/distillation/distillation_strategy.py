"""`fluid.contrib.slim.distillation.distillation_strategy`: learning from a larger model for some epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.contrib.slim.strategy import Strategy

__all__ = ["DistillationStrategy"]

OWN_GRAPH = "distillation_backup_optimize_graph"


class DistillationStrategy(Strategy):
    """Trains with the losses of distillers from one epoch to before another."""

    def __init__(
        self, distillers: Sequence[Any] | None = None, start_epoch: int = 0, end_epoch: int = 0
    ) -> None:
        super().__init__(start_epoch, end_epoch)
        self.distillers = list(distillers or ())

    def restore_from_checkpoint(self, context: Any) -> None:
        """Learn from the teacher again where a run was stopped while it did."""
        if self.start_epoch < context.epoch_id < self.end_epoch:
            self._create_distillation_graph(context)

    def on_epoch_begin(self, context: Any) -> None:
        """Begin to learn from the teacher."""
        if context.epoch_id == self.start_epoch:
            self._create_distillation_graph(context)

    def _create_distillation_graph(self, context: Any) -> None:
        graph = context.train_graph.clone()
        for teacher in context.teacher_graphs:
            graph.merge(teacher)
        for distiller in self.distillers:
            graph = distiller.distiller_loss(graph)
        context.put(OWN_GRAPH, context.optimize_graph)
        context.optimize_graph = graph.get_optimize_graph(
            context.distiller_optimizer,
            context.place,
            context.scope,
            no_grad_var_names=[
                name for one in context.teacher_graphs for name in one.program.global_block().vars
            ],
        )

    def on_epoch_end(self, context: Any) -> None:
        """Go back to training without the teacher."""
        if context.epoch_id == self.end_epoch - 1:
            context.optimize_graph = context.get(OWN_GRAPH)
            context.put(OWN_GRAPH, None)
