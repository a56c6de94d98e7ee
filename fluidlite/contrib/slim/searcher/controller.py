"""`fluid.contrib.slim.searcher.controller`: searches for tokens, lists of integers, of high reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.abstract import abstract

__all__ = ["EvolutionaryController", "SAController"]


class EvolutionaryController:
    """The base of controllers that change tokens bit by bit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """A base without anything to set up."""

    def update(self, tokens: Sequence[int], reward: float) -> None:
        """Learn the reward of tokens."""
        abstract(f"{type(self).__name__}.update: Abstract method.")

    def reset(self, range_table: Sequence[int], constrain_func: Any = None) -> None:
        """Begin a search: token i is less than `range_table[i]`, and a function allows all together."""
        abstract(f"{type(self).__name__}.reset: Abstract method.")

    def next_tokens(self) -> list[int]:
        """Tokens to try."""
        abstract(f"{type(self).__name__}.next_tokens: Abstract method.")


class SAController(EvolutionaryController):
    """Simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983): worse tokens are gone on from with a
    probability that falls with their loss and with time.

    Parameters
    ----------
    range_table: token i is less than `range_table[i]`.
    reduce_rate, init_temperature: the temperature of step i is `init_temperature * reduce_rate ** i`.
    max_iter_number: tries to find tokens that are allowed.
    """

    def __init__(
        self,
        range_table: Sequence[int] | None = None,
        reduce_rate: float = 0.85,
        init_temperature: float = 1024,
        max_iter_number: int = 300,
    ) -> None:
        super().__init__()
        self._range_table = range_table
        self._reduce_rate, self._init_temperature = reduce_rate, init_temperature
        self._max_iter_number = max_iter_number
        self._rng = np.random.RandomState()
        self._reward, self._max_reward = -math.inf, -math.inf
        self._tokens: list[int] = []
        self._best_tokens: list[int] = []
        self._iter = 0
        self._constrain_func: Callable[[list[int]], bool] | None = None

    @property
    def best_tokens(self) -> list[int]:
        """The tokens with the highest reward so far."""
        return list(self._best_tokens)

    def reset(  # type: ignore[override]  # fluid's order of arguments is another one than that of the base
        self, range_table: Sequence[int], init_tokens: Sequence[int], constrain_func: Any = None
    ) -> None:
        """Begin a search from `init_tokens`."""
        self._range_table, self._constrain_func = list(range_table), constrain_func
        self._tokens, self._best_tokens = list(init_tokens), list(init_tokens)
        self._reward, self._max_reward, self._iter = -math.inf, -math.inf, 0

    def update(self, tokens: Sequence[int], reward: float) -> None:
        """Learn the reward of tokens, and go on from them or from those before."""
        self._iter += 1
        temperature = self._init_temperature * self._reduce_rate**self._iter
        if reward > self._reward or self._rng.random_sample() <= math.exp(
            max(-700.0, (reward - self._reward) / temperature)  # exp of less is 0 anyway
        ):
            self._reward, self._tokens = reward, list(tokens)
        if reward > self._max_reward:
            self._max_reward, self._best_tokens = reward, list(tokens)

    def next_tokens(self, control_token: Sequence[int] | None = None) -> list[int]:
        """The present tokens (or those given), one of them changed; unchanged where none are found that are
        allowed.
        """
        tokens = list(control_token) if control_token else self._tokens
        for _ in range(self._max_iter_number):
            changed = self._changed(tokens)
            if self._constrain_func is None or self._constrain_func(changed):
                return changed
        return list(tokens)

    def _changed(self, tokens: Sequence[int]) -> list[int]:
        assert self._range_table is not None, (
            "call SAController.reset first: it sets the ranges of the tokens"
        )
        choices = [index for index, count in enumerate(self._range_table) if count > 1]
        changed = list(tokens)
        if choices:
            index = choices[self._rng.randint(len(choices))]
            step = self._rng.randint(1, self._range_table[index])
            changed[index] = int((changed[index] + step) % self._range_table[index])
        return changed
