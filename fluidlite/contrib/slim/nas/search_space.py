"""`fluid.contrib.slim.nas.search_space`: the networks to search among."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.abstract import abstract

__all__ = ["SearchSpace"]


class SearchSpace:
    """The base of what a user writes: which tokens there are, and the network that tokens stand for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """A base without anything to set up."""

    def init_tokens(self) -> list[int]:
        """The tokens to begin with."""
        abstract(f"{type(self).__name__}.init_tokens: Abstract method.")

    def range_table(self) -> list[int]:
        """For each token the number of its values."""
        abstract(f"{type(self).__name__}.range_table: Abstract method.")

    def create_net(self, tokens: Sequence[int] | None = None) -> Any:
        """The network of these tokens: startup, training and test programs, metrics of training and test
        (pairs of a name and a variable's name), readers of training and test data.
        """
        abstract(f"{type(self).__name__}.create_net: Abstract method.")

    def get_model_latency(self, program: Any) -> float:
        """The time that a program takes, in the unit of the strategy's `target_latency`."""
        abstract(f"{type(self).__name__}.get_model_latency: Abstract method.")
