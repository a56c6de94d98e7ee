"""Connectionist temporal classification: its loss, greedy decoding, and the edit distance that measures
the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.registry import KernelContext, Lod, Op, Spec, WithLod
from fluidlite.ops.kernels.numbers import check_classes
from fluidlite.ops.kernels.padding import Batch, check_count
from fluidlite.values.tensor import host

# The log of an impossible event; finite, so that sums and differences of such logs stay numbers. Far below
# what the least chance makes of all steps together: a possible alignment beats an impossible one.
_NEVER = -1e38
_ZERO = -1e34  # the log of a chance of 0: an alignment that needs one beats an impossible one, too
_LEAST = -1e30
"""The log of the smallest chance above 0 that a class counts with."""

warpctc = Op(
    "warpctc",
    "Logits. Label LogitsLength? LabelLength? -> WarpCTCGrad Loss",
    attrs={"blank": 0, "norm_by_times": False},
    lod=None,
    below={"Label": ("Logits", -1)},
)


@warpctc.shape
def _(Logits: Spec, blank: int) -> dict[str, Spec]:
    if blank < 0 or 0 <= Logits.shape[-1] <= blank:
        raise ShapeError(
            f"op 'warpctc': blank is {blank}, which is not a column of Logits{list(Logits.shape)}"
        )
    return {"Loss": Logits.with_shape((-1, 1))}


def _frames(xp: Any, Logits: Array, Logits_lod: Lod, LogitsLength: Array | None) -> tuple[Any, Batch]:
    """Scores as [sequences, time, classes], and which of them are there."""
    scores = Logits if LogitsLength is None else Logits.swapaxes(0, 1)
    batch = Batch(xp, scores, Logits_lod, LogitsLength, "warpctc", "Logits", "LogitsLength")
    return batch.pad(scores), batch


class _Lattice:
    """The states of an alignment: blank, first label, blank, second label, ..., blank."""

    def __init__(self, xp: Any, labels: Array, label_lengths: Array, blank: int) -> None:
        count, longest = labels.shape
        self.xp, self.ends = xp, 2 * label_lengths
        self.classes = xp.full((count, 2 * longest + 1), blank, "int64")
        self.classes[:, 1::2] = labels
        # a blank between two labels may be skipped unless they are the same; to a label that is the blank
        # itself, which is no sensible one, 1.8.5 skips nothing
        self.skips = xp.zeros(self.classes.shape, bool)
        is_other = labels[:, 1:] != labels[:, :-1]
        is_token = labels[:, 1:] != blank
        self.skips[:, 3::2] = is_other & is_token
        inside = xp.arange(1, longest) < label_lengths[:, None]
        between = inside & ~self.skips[:, 3::2]
        self.needed = label_lengths + between.sum(axis=1)  # frames, at least
        self.states = xp.arange(self.classes.shape[1])
        self.last = (self.states == self.ends[:, None]) | (self.states == self.ends[:, None] - 1)

    def chances(self, chances: Array, mask: Array) -> tuple[Array, Array]:
        """log P(first steps, state) and log P(this step and those after it, state) [time, sequences, states];
        `chances` are the log-probabilities of states in that shape.

        Both are one recurrence: the other one goes through steps and states from their ends, as further
        sequences of the same batch, so that a step takes half as many calls.
        """
        xp, (steps, rows, width) = self.xp, chances.shape
        never = chances.dtype.type(_NEVER)
        there = mask.T[:, :, None]
        found = xp.empty((steps, 2 * rows, width), chances.dtype)
        # a forward sequence that has ended stays as it is, whatever stands behind it
        found[:, :rows] = xp.where(there, chances, chances.dtype.type(0))
        found[:, rows:] = chances[::-1, :, ::-1]
        # a backward one begins anew until it is at its end
        start = xp.where(self.last, chances.dtype.type(0), never)[:, ::-1]
        goes_on = xp.ones((steps, 2 * rows, 1), bool)
        goes_on[:, :rows] = there
        goes_on[1:, rows:] = there[:0:-1]
        skips = xp.zeros((2 * rows, width), bool)
        skips[:rows], skips[rows:, 2:] = self.skips, self.skips[:, :1:-1]
        penalty = xp.where(skips, chances.dtype.type(0), never)
        padded = xp.full((2 * rows, width + 2), _NEVER, chances.dtype)
        state = padded[:, 2:]
        terms = xp.empty((3, 2 * rows, width), chances.dtype)
        state[:rows], state[rows:] = xp.where(self.states < 2, chances.dtype.type(0), never), start
        state += found[0]
        found[0] = state
        for step in range(1, steps):
            moved = self._moved(padded, penalty, terms)
            state[rows:] = start
            xp.copyto(state, moved, where=goes_on[step])
            state += found[step]
            found[step] = state
        return found[:, :rows], found[::-1, rows:, ::-1]

    def _moved(self, padded: Array, penalty: Array, terms: Array) -> Array:
        """log(sum(exp)) of staying, of moving on by one state and of skipping one; `terms` is scratch."""
        xp, state = self.xp, padded[:, 2:]
        terms[0], terms[1] = state, padded[:, 1:-1]
        xp.add(padded[:, :-2], penalty, out=terms[2])
        top = xp.maximum(terms[0], terms[1])
        xp.maximum(top, terms[2], out=top)
        terms -= top
        xp.exp(terms, out=terms)
        total = terms[0]
        total += terms[1]
        total += terms[2]
        xp.log(total, out=total)
        total += top
        return total


def _spread_shares(xp: Any, gradient: Array, lattice: _Lattice, shares: Array, blank: int) -> None:
    """Subtract the shares of states [time, sequences, states] at their classes from `gradient`."""
    gradient[:, :, blank] -= shares[:, :, ::2].sum(axis=2)
    steps, rows, count = gradient.shape
    # of flat numbers add.at takes a fifth of its time
    places = xp.arange(steps * rows).reshape(steps, rows, 1) * count + lattice.classes[:, 1::2]
    xp.add.at(gradient.reshape(-1), places.reshape(-1), -shares[:, :, 1::2].reshape(-1))


@warpctc.kernel
def _(
    xp: Any,
    Logits: Array,
    Logits_lod: Lod,
    Label: Array,
    Label_lod: Lod,
    LogitsLength: Array | None,
    LabelLength: Array | None,
    blank: int,
) -> tuple[Any, Any]:
    scores, batch = _frames(xp, Logits, Logits_lod, LogitsLength)
    targets = Batch(xp, Label, Label_lod, LabelLength, "warpctc", "Label", "LabelLength")
    check_count("warpctc", "Logits", len(batch.lengths), "Label", len(targets.lengths))
    labels = targets.pad(Label if LabelLength is not None else Label.reshape(-1))
    classes = xp.where(targets.mask, labels, blank)
    check_classes(xp, "warpctc", "Label", classes, scores.shape[-1])
    lattice = _Lattice(xp, classes, targets.lengths, blank)
    shifted = scores - scores.max(axis=2, keepdims=True)
    chances = (shifted - xp.log(xp.exp(shifted).sum(axis=2, keepdims=True))).swapaxes(0, 1)
    places = xp.broadcast_to(lattice.classes, (len(chances), *lattice.classes.shape))
    of_states = xp.take_along_axis(chances, places, axis=2)
    zero = Logits.dtype.type(_ZERO)
    of_states = xp.where(of_states == -xp.inf, zero, xp.maximum(of_states, _LEAST))
    alpha, beta = lattice.chances(of_states, batch.mask)
    ends = xp.where(lattice.last, alpha[-1], Logits.dtype.type(_NEVER))
    top = ends.max(axis=1, keepdims=True)
    total = top[:, 0] + xp.log(xp.exp(ends - top).sum(axis=1))
    possible = batch.lengths >= lattice.needed
    total = xp.where(possible, total, Logits.dtype.type(0))
    # both count the step itself
    shares = xp.exp(xp.maximum(alpha + beta - of_states - total[:, None], _NEVER))
    gradient = xp.exp(chances, out=xp.empty(chances.shape, chances.dtype))
    _spread_shares(xp, gradient, lattice, shares, blank)
    counts = (batch.mask & possible[:, None]).T[:, :, None]
    loss = xp.where(total <= _ZERO / 2, Logits.dtype.type(xp.inf), 0 - total)
    return xp.where(counts, gradient, Logits.dtype.type(0)), loss[:, None]


@warpctc.grad("Logits")
def _(
    xp: Any,
    Logits: Array,
    Logits_lod: Lod,
    LogitsLength: Array | None,
    WarpCTCGrad: Array,
    dLoss: Array,
    norm_by_times: bool,
) -> Any:
    _, batch = _frames(xp, Logits, Logits_lod, LogitsLength)
    scale = dLoss.reshape(-1, 1, 1)
    if norm_by_times:
        scale = scale / xp.maximum(batch.lengths, 1).astype(dLoss.dtype)[:, None, None]
    d = batch.unpad(WarpCTCGrad.swapaxes(0, 1) * scale)
    return d if LogitsLength is None else d.swapaxes(0, 1)


# ---------------------------------------------------------------------- decoding
ctc_align = Op(
    "ctc_align",
    "Input InputLength? -> Output OutputLength?",
    attrs={"blank": 0, "merge_repeated": True, "padding_value": 0},
    makes_lod=True,
)


@ctc_align.shape
def _(Input: Spec, InputLength: Spec | None) -> tuple[Spec, Spec | None]:
    lengths = None if InputLength is None else Spec((Input.shape[0], 1), InputLength.dtype)
    return Spec(Input.shape if InputLength is not None else (-1, 1), Input.dtype, 0), lengths


@ctc_align.kernel
def _(
    xp: Any,
    Input: Array,
    Input_lod: Lod,
    InputLength: Array | None,
    blank: int,
    merge_repeated: bool,
    padding_value: int,
) -> Any:
    tokens = host(Input)
    given = None if InputLength is None else host(InputLength)
    batch = Batch(np, tokens, Input_lod, given, "ctc_align", "Input", "InputLength")
    padded = batch.pad(tokens if InputLength is not None else tokens.reshape(-1))
    kept = batch.mask & (padded != blank)
    if merge_repeated:
        kept[:, 1:] &= padded[:, 1:] != padded[:, :-1]
    lengths = kept.sum(axis=1)
    if InputLength is None:
        # 1.8.5 gives one row of -1 where nothing is left
        rows = padded[kept][:, None] if kept.any() else np.full((1, 1), -1, tokens.dtype)
        return WithLod(xp.asarray(rows), (*Input_lod[:-1], (0, *(int(end) for end in lengths.cumsum()))))
    order = np.argsort(~kept, axis=1, kind="stable")
    out = np.where(
        np.arange(padded.shape[1]) < lengths[:, None],
        np.take_along_axis(padded, order, axis=1),
        padding_value,
    )
    return xp.asarray(out.astype(tokens.dtype)), xp.asarray(lengths[:, None].astype(host(InputLength).dtype))


# ---------------------------------------------------------------------- edit distance
edit_distance = Op(
    "edit_distance",
    "Hyps Refs HypsLength? RefsLength? -> SequenceNum Out",
    attrs={"normalized": False},
    lod=None,
)


@edit_distance.shape
def _(Hyps: Spec, Refs: Spec, HypsLength: Spec | None, RefsLength: Spec | None) -> tuple[Spec, Spec]:
    are_padded = HypsLength is not None and RefsLength is not None
    for name, spec in (("Hyps", Hyps), ("Refs", Refs)):
        if not are_padded and (len(spec.shape) != 2 or spec.shape[1] not in (1, -1)):
            raise ShapeError(f"op 'edit_distance': {name} has shape {list(spec.shape)}, wanted [rows, 1]")
    return Spec((1,), VarType.INT64), Spec((Refs.shape[0] if are_padded else -1, 1), VarType.FP32)


def levenshtein(found: Array, sizes: Array, wanted: Array, wanted_sizes: Array) -> Array:
    """The least number of insertions, deletions and substitutions that turn one sequence into the other, for
    each pair of rows of `found` and `wanted` [pairs, time], of which as many elements count as `sizes` say.
    """
    columns = np.arange(wanted.shape[1] + 1, dtype=np.int32)
    row = np.broadcast_to(columns, (len(found), len(columns))).copy()
    least = np.empty_like(row)
    for position in range(int(sizes.max(initial=0))):
        least[:, 0] = position + 1
        np.add(row[:, :-1], wanted != found[:, position, None], out=least[:, 1:])
        np.minimum(least[:, 1:], row[:, 1:] + 1, out=least[:, 1:])
        # insertions run along the row: the best start of a run is the least distance minus column so far
        least -= columns
        np.minimum.accumulate(least, axis=1, out=least)
        least += columns
        np.copyto(row, least, where=(position < sizes)[:, None])
    return row[np.arange(len(row)), wanted_sizes]


@edit_distance.kernel
def _(
    xp: Any,
    Hyps: Array,
    Hyps_lod: Lod,
    Refs: Array,
    Refs_lod: Lod,
    HypsLength: Array | None,
    RefsLength: Array | None,
    normalized: bool,
    ctx: KernelContext,
) -> tuple[Any, Any]:
    sides: list[Array] = []
    for slot, value, lod, lengths in (
        ("Hyps", Hyps, Hyps_lod, HypsLength),
        ("Refs", Refs, Refs_lod, RefsLength),
    ):
        given = None if lengths is None else host(lengths)
        batch = Batch(np, host(value), lod, given, "edit_distance", slot, f"{slot}Length")
        padded = batch.pad(host(value) if lengths is not None else host(value).reshape(-1))
        sides += [padded.reshape(batch.mask.shape), batch.lengths]
    check_count("edit_distance", "Hyps", len(sides[1]), "Refs", len(sides[3]))
    found = None if ctx.searches is None else ctx.searches.edit_distances(*sides)
    distances = (levenshtein(*sides) if found is None else found).astype("float32").reshape(-1, 1)
    if normalized:
        sizes = sides[3].astype("float32").reshape(-1, 1)
        if not sizes.all():
            raise KernelError(
                f"op 'edit_distance': Refs sequence {int(sizes.argmin())} is empty, so no distance can be "
                "divided by its length (normalized=False does not)"
            )
        distances = distances / sizes
    return xp.full(1, len(distances), "int64"), xp.asarray(distances)
