"""The search of results for NaN and infinity, and what the environment leaves out of it.

As in 1.8.5, lists with commas and without blanks name what is not searched:

    PADDLE_INF_NAN_SKIP_OP      types of ops: log,sqrt_grad
    PADDLE_INF_NAN_SKIP_ROLE    roles of ops: forward, backward, optimize, rpc, dist, lrsched, loss, default
    PADDLE_INF_NAN_SKIP_VAR     outputs of types of ops: log:log_0.tmp_0
"""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.errors import ArgumentError, NanInfError, did_you_mean
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.values.tensor import SelectedRows, host

__all__ = ["FiniteCheck"]

_ROLES = {
    "forward": OpRole.Forward,
    "backward": OpRole.Backward,
    "optimize": OpRole.Optimize,
    "rpc": OpRole.RPC,
    "dist": OpRole.Dist,
    "lrsched": OpRole.LRSched,
    "loss": OpRole.Loss,
    "default": OpRole.NotSpecified,
}
_VARIABLES = ("PADDLE_INF_NAN_SKIP_OP", "PADDLE_INF_NAN_SKIP_ROLE", "PADDLE_INF_NAN_SKIP_VAR")


class FiniteCheck(NamedTuple):
    """The search of results, but those of some types of ops, of some roles, and (type, name of an output)."""

    types: frozenset[str] = frozenset()
    roles: frozenset[OpRole] = frozenset()
    outputs: frozenset[tuple[str, str]] = frozenset()

    @staticmethod
    def from_environment() -> FiniteCheck:
        """The check as the environment says; ArgumentError where it cannot be read."""
        return _parsed(*(os.environ.get(name, "") for name in _VARIABLES))

    def skips(self, op: Operator, name: str) -> bool:
        """True for an output that is not searched."""
        return op.type in self.types or (op.type, name) in self.outputs or self._skips_role(op.role)

    def _skips_role(self, role: OpRole) -> bool:
        # the gradient of the loss is a gradient, and no loss
        kind = role if role == OpRole.Loss else role & ~OpRole.Loss
        return kind in self.roles or any(kind & each for each in self.roles)

    def __call__(self, op: Operator, name: str, value: Any) -> None:
        """NanInfError, with the op and the user's line, where a floating-point result holds a NaN or an
        infinity.
        """
        array = value.array if isinstance(value, SelectedRows) else value
        if getattr(getattr(array, "dtype", None), "kind", "") != "f" or self.skips(op, name):
            return
        array = host(array)
        if np.isfinite(array).all():
            return
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise NanInfError(
            f"op {op.type!r}: {int((~np.isfinite(array)).sum())} of {array.size} elements of "
            f"{name!r} are not finite ({what} among them)\n  {op.call_text()}\n  built at "
            f"{op.where}"
        )


@functools.lru_cache(maxsize=8)
def _parsed(types: str, roles: str, outputs: str) -> FiniteCheck:
    return FiniteCheck(
        frozenset(_items(types)),
        frozenset(_role(item) for item in _items(roles)),
        frozenset(_output(item) for item in _items(outputs)),
    )


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def _role(word: str) -> OpRole:
    if word not in _ROLES:
        raise ArgumentError(f"{_VARIABLES[1]} names the role {word!r}{did_you_mean(word, _ROLES)}")
    return _ROLES[word]


def _output(item: str) -> tuple[str, str]:
    op_type, colon, name = item.partition(":")
    if not colon:
        raise ArgumentError(f"{_VARIABLES[2]} expects op:variable, but got {item!r}")
    return op_type, name
