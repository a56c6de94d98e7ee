"""Defaults of the 2.x door: the dtype of tensors that are made without saying one, and the source of random
numbers.
"""

from __future__ import annotations

import copy
from dataclasses import field
from typing import Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.records import dataclass

__all__ = ["Generator", "dtype", "dtype_or_default", "generator", "set_dtype"]


class Generator:
    """The source of the random numbers of runs, for ops that have no seed of their own. Executors hold
    `numbers`, so that a new seed tells all of them.
    """

    def __init__(self) -> None:
        self.numbers = np.random.default_rng()
        self._seed = 0

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew, with numbers that depend on `seed` alone."""
        self._seed = int(seed)
        # negative seeds are taken as the unsigned numbers of the same 64 bits
        fresh = np.random.default_rng(self._seed % (1 << 64))
        self.numbers.bit_generator.state = fresh.bit_generator.state
        return self

    def initial_seed(self) -> int:
        """The seed that was given last; 0 where none was."""
        return self._seed

    def get_state(self) -> Any:
        """The state at the moment, for `set_state`."""
        return copy.deepcopy(self.numbers.bit_generator.state)

    def set_state(self, state: Any) -> None:
        """Go on as from `get_state`."""
        self.numbers.bit_generator.state = state


@dataclass
class _Defaults:
    dtype: VarType = VarType.FP32
    generator: Generator = field(default_factory=Generator)


_defaults = _Defaults()


def generator() -> Generator:
    """The source of the random numbers of runs."""
    return _defaults.generator


def dtype() -> VarType:
    """The dtype of tensors that are made without saying one."""
    return _defaults.dtype


def set_dtype(value: VarType) -> None:
    """Set the dtype of tensors that are made without saying one."""
    _defaults.dtype = value


def dtype_or_default(value: DTypeLike | None) -> VarType:
    """`value` as a VarType; the default for None."""
    return _defaults.dtype if value is None else to_vartype(value)
