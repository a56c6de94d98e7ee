"""The base of strategies of compression."""

from __future__ import annotations

from typing import Any

__all__ = ["Strategy"]


class Strategy:
    """Something that is done to a model from one epoch to another; its methods are called as the run goes on.

    Parameters
    ----------
    start_epoch, end_epoch: the first epoch in which the strategy acts, and the last.
    """

    def __init__(self, start_epoch: int = 0, end_epoch: int = 0) -> None:
        self.start_epoch, self.end_epoch = start_epoch, end_epoch

    def on_compression_begin(self, context: Any) -> None:
        """Act before the first epoch."""

    def on_epoch_begin(self, context: Any) -> None:
        """Act before an epoch."""

    def on_epoch_end(self, context: Any) -> None:
        """Act after an epoch."""

    def on_batch_begin(self, context: Any) -> None:
        """Act before a batch."""

    def on_batch_end(self, context: Any) -> None:
        """Act after a batch."""

    def on_compression_end(self, context: Any) -> None:
        """Act after the last epoch."""

    def restore_from_checkpoint(self, context: Any) -> None:
        """Bring the graphs into the state in which a run was stopped."""
