"""The loss of transducers: a label is emitted at a step, or time moves on by a step (Graves, 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.kernels.numbers import check_classes
from fluidlite.values.tensor import host

warprnnt = Op(
    "warprnnt",
    "input. label input_lengths label_lengths -> warprnntgrad loss",
    attrs={"blank": 0, "fastemit_lambda": 0.0},
    lod=None,
)


@warprnnt.shape
def _(input: Spec, label: Spec) -> dict[str, Spec]:
    if len(input.shape) != 4 or len(label.shape) != 2:
        raise ShapeError(
            f"op 'warprnnt': input has shape {list(input.shape)} and label {list(label.shape)}, wanted "
            "[batch, time, labels + 1, classes] and [batch, labels]"
        )
    return {"loss": input.with_shape(input.shape[:1])}


class _Nodes:
    """Alignments of sequences: node (t, u) says that u labels have been emitted by step t. `moves` and
    `emits` are the logs of the chances [batch, time, labels + 1] to leave it for (t + 1, u) and (t, u + 1).
    """

    def __init__(self, xp: Any, moves: Array, emits: Array) -> None:
        self.xp = xp
        self.moves = moves
        self.emits = emits
        self.rows, self.steps, self.width = moves.shape

    def _diagonals(self) -> list[tuple[Array, Array]]:
        """The nodes by t + u: those of one are computed together."""
        found = []
        for total in range(self.steps + self.width - 1):
            u = self.xp.arange(max(0, total - self.steps + 1), min(total, self.width - 1) + 1)
            found.append((total - u, u))
        return found

    def forward(self) -> Array:
        """log P(node is reached) [batch, time, labels + 1]."""
        xp = self.xp
        found = self._never(self.steps, self.width)
        found[:, 0, 0] = 0
        for t, u in self._diagonals()[1:]:
            moved = xp.where(t > 0, found[:, t - 1, u] + self.moves[:, t - 1, u], -np.inf)
            emitted = xp.where(u > 0, found[:, t, u - 1] + self.emits[:, t, u - 1], -np.inf)
            found[:, t, u] = xp.logaddexp(moved, emitted)
        return found

    def _never(self, steps: int, width: int) -> Array:
        made: Array = self.xp.full((self.rows, steps, width), -np.inf, self.moves.dtype)
        return made

    def backward(self, times: Array, lengths: Array) -> Array:
        """log P(the end is reached from a node) [batch, time + 1, labels + 2]; the end is behind the last
        step, when all labels have been emitted.
        """
        xp = self.xp
        found = self._never(self.steps + 1, self.width + 1)
        found[xp.arange(self.rows), times, lengths] = 0
        for t, u in reversed(self._diagonals()):
            goes_on = self.moves[:, t, u] + found[:, t + 1, u]
            value = xp.logaddexp(goes_on, self.emits[:, t, u] + found[:, t, u + 1])
            inside = (t < times[:, None]) & (u <= lengths[:, None])
            found[:, t, u] = xp.where(inside, value, found[:, t, u])
        return found


def _check_lengths(name: str, lengths: Array, least: int, most: int) -> None:
    found = host(lengths)
    if found.size and not (least <= found.min() and found.max() <= most):
        raise KernelError(f"op 'warprnnt': {name} is {found.tolist()}, wanted {least} to {most}")


@warprnnt.kernel
def _(
    xp: Any,
    input: Array,
    label: Array,
    input_lengths: Array,
    label_lengths: Array,
    blank: int,
    fastemit_lambda: float,
) -> tuple[Array, Array]:
    """`input` are logs of probabilities, as 2.6.2 takes them on a CPU."""
    rows, steps, width, classes = input.shape
    _check_lengths("input_lengths", input_lengths, 1, steps)
    _check_lengths("label_lengths", label_lengths, 0, width - 1)
    labels = label[:, : width - 1].astype("int64")
    labels = xp.where(xp.arange(width - 1) < label_lengths[:, None], labels, blank)
    check_classes(xp, "warprnnt", "label", labels, classes)
    emits = xp.full((rows, steps, width), -np.inf, input.dtype)
    places = xp.broadcast_to(labels[:, None, :, None], (rows, steps, width - 1, 1))
    emits[:, :, :-1] = xp.take_along_axis(input[:, :, :-1], places, axis=3)[..., 0]
    # arcs of alignments; others, such as those of padding, have no chances, whatever numbers they hold
    times = xp.arange(steps) - input_lengths[:, None]
    left = xp.arange(width) - label_lengths[:, None]
    runs = (times < 0)[:, :, None]
    emitting = (left < 0)[:, None]
    before_last = (times < -1)[:, :, None] & (left <= 0)[:, None]
    moving = before_last | (times == -1)[:, :, None] & (left == 0)[:, None]
    emits = xp.where(runs & emitting, emits, -np.inf)
    moves = xp.where(moving, input[..., blank], -np.inf)
    lattice = _Nodes(xp, moves, emits)
    behind = lattice.backward(input_lengths, label_lengths)
    total = behind[:, 0, 0]
    before = lattice.forward() - total[:, None, None]
    moved = xp.where(moving, xp.exp(before + moves + behind[:, 1:, :-1]), 0)
    emitted = xp.where(runs & emitting, xp.exp(before + emits + behind[:, :-1, 1:]), 0)
    emitted = emitted * (1 + fastemit_lambda)
    gradient = xp.zeros_like(input)
    for u in range(width - 1):
        # a label may be the blank: the shares of both are added
        gradient[xp.arange(rows), :, u, labels[:, u]] -= emitted[:, :, u]
    gradient[..., blank] -= moved
    return gradient, 0 - total


@warprnnt.grad("input")
def _(input: Array, warprnntgrad: Array, dloss: Array) -> Array:
    return warprnntgrad * dloss.reshape(len(input), 1, 1, 1)
