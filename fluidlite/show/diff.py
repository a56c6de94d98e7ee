"""Differences of programs: the ops of the original that a role's program keeps, changes and lacks, and its
new ones.

An op is the same as another when type, inputs, outputs and attributes are the same, wherever it stands; the
same op, changed, when only its type and outputs are, or its type and inputs, or its type and the parameter
that it is there for (`op_role_var`): a server's `sgd` updates `w.block0` where the original's updated `w`.
"""

from __future__ import annotations

import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.base.registry import AttrType
from fluidlite.ir.operator import CALLSTACK_ATTR, Operator
from fluidlite.ir.program import Program

__all__ = ["Baseline", "Edit", "diff", "diff_text", "summary"]

_COLOURS = {
    "inserted": "\x1b[32m",
    "removed": "\x1b[31m",
    "changed": "\x1b[33m",
    "kept": "\x1b[2m",
    "block": "\x1b[1m",
}
_MARKS = {"inserted": "+", "removed": "-", "changed": "~", "kept": " "}


@dataclass(frozen=True)
class Edit:
    """One line of a difference.

    Attributes
    ----------
    kind: "kept", "changed", "inserted" or "removed".
    before, after: positions among all ops of the original and of the role's program, block after block; None
        where there is none.
    old, new: the ops there.
    changes: the differences of a changed op: `Grad: w@GRAD -> w@GRAD.block0`.
    moved: a kept op that no longer stands in the original's order.
    """

    kind: str
    before: int | None
    after: int | None
    old: Operator | None
    new: Operator | None
    changes: tuple[str, ...] = ()
    moved: bool = False


def diff(original: Program, role: Program) -> list[Edit]:
    """The lines of the difference in the role's order; what was removed stands where it was, before the
    next op that stayed, if any did.
    """
    return Baseline(original).diff(role)


class Baseline:
    """A program that others are compared with; its ops are looked at once."""

    def __init__(self, original: Program) -> None:
        self.ops = _ops(original)
        self._keys = [[key(op) for op in self.ops] for key in _KEYS]

    def matches(self, role: Program) -> tuple[dict[int, int], set[int]]:
        """Position among the role's ops -> position here, and the positions of the ops that are the same
        in everything.
        """
        new = _ops(role)
        pairs = dict[int, int]()
        exact = set[int]()
        for key, mine in zip(_KEYS, self._keys, strict=True):
            _pair(mine, new, pairs, key, shared=key is _purpose)
            if key is _content:
                # the first key, and the only one that asks for everything: later pairs are changed ops
                exact = set(pairs)
        return pairs, exact

    def diff(self, role: Program) -> list[Edit]:
        """See `diff`."""
        pairs, exact = self.matches(role)
        new = _ops(role)
        ordered = _increasing([pairs[index] for index in sorted(pairs)]) if exact else frozenset()
        gone = sorted(set(range(len(self.ops))) - set(pairs.values()))
        edits = list[Edit]()
        taken = 0
        for index, op in enumerate(new):
            before = pairs.get(index)
            # only an op that kept its place says where the removed ones stood
            if before is not None and before in ordered:
                while taken < len(gone) and gone[taken] < before:
                    edits.append(Edit("removed", gone[taken], None, self.ops[gone[taken]], None))
                    taken += 1
            edits.append(
                _edit(
                    before,
                    index,
                    None if before is None else self.ops[before],
                    op,
                    index in exact,
                    before in ordered,
                )
            )
        return [*edits, *(Edit("removed", index, None, self.ops[index], None) for index in gone[taken:])]


def _ops(program: Program) -> list[Operator]:
    return [op for block in program.blocks for op in block.ops]


def _edit(
    before: int | None, after: int, old: Operator | None, new: Operator, exact: bool, in_order: bool
) -> Edit:
    if old is None:
        return Edit("inserted", None, after, None, new)
    if exact:
        return Edit("kept", before, after, old, new, moved=not in_order)
    return Edit("changed", before, after, old, new, tuple(_changes(old, new)))


# ---------- which op is which
def _pair(
    old: Sequence[Hashable],
    new: Sequence[Operator],
    pairs: dict[int, int],
    key: Callable[[Operator], Hashable],
    shared: bool,
) -> None:
    """Pair what is alone yet and has the same key, first with first; with `shared` several new ops may
    come from one old op.
    """
    # keys from exact to vague come here one after the other: what one of them paired stays paired
    used = set(pairs.values())
    waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for index, name in enumerate(old):
        if index not in used and name is not None:
            waiting[name].append(index)
    for index, op in enumerate(new):
        found = waiting.get(key(op)) if index not in pairs else None
        if found:
            # the last of an old op's copies stays for the next: one `sgd` becomes one for each slice
            pairs[index] = found[0] if shared and len(found) == 1 else found.popleft()


def _content(op: Operator) -> Hashable:
    slots = tuple(
        (slot, tuple(names))
        for part in (op.inputs, op.outputs)
        for slot, names in sorted(part.items())
        if names
    )
    # as text: lists have no hash, and 1, 1.0 and True would be the same
    attrs = tuple((name, repr(_plain(op, name))) for name in sorted(op.attrs) if name != CALLSTACK_ATTR)
    return (op.type, slots, attrs)


def _writes(op: Operator) -> Hashable:
    # None pairs with nothing: ops without outputs, such as barriers, would all be one
    return (op.type, tuple(sorted(op.output_arg_names))) if op.output_arg_names else None


def _reads(op: Operator) -> Hashable:
    return (op.type, tuple(sorted(op.input_arg_names))) if op.input_arg_names else None


def _purpose(op: Operator) -> Hashable:
    # parameters stand at even places, their gradients, whose names the transpiler changes, at odd ones
    return (op.type, tuple(op.role_vars[::2])) if op.role_vars else None


_KEYS: tuple[Callable[[Operator], Hashable], ...] = (_content, _writes, _reads, _purpose)


def _plain(op: Operator, name: str) -> Any:
    value = op.attrs[name]
    kind = op.attr_type(name)
    if kind == AttrType.BLOCK:
        return f"block {value.idx}"
    if kind == AttrType.BLOCKS:
        return [f"block {block.idx}" for block in value]
    return value


def _increasing(numbers: Sequence[int]) -> frozenset[int]:
    """The longest part of `numbers` that increases: the ops that did not move (patience sorting)."""
    # for each length the smallest number that a rising run of it can end in
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for position, number in enumerate(numbers):
        pile = bisect.bisect_left(ends, number)
        ends[pile : pile + 1] = [number]
        last[pile : pile + 1] = [position]
        previous.append(last[pile - 1] if pile else -1)
    found = []
    position = last[-1] if last else -1
    while position >= 0:
        found.append(numbers[position])
        position = previous[position]
    return frozenset(found)


def _named(names: Sequence[str]) -> str:
    return " ".join(names) or "(nothing)"


def _attr_text(op: Operator, name: str) -> str:
    return repr(_plain(op, name)) if name in op.attrs else "(nothing)"


def _changes(old: Operator, new: Operator) -> Iterator[str]:
    for before, after in ((old.inputs, new.inputs), (old.outputs, new.outputs)):
        for slot in sorted({*before, *after}):
            old_names = before.get(slot, [])
            new_names = after.get(slot, [])
            if old_names != new_names:
                yield f"{slot}: {_named(old_names)} -> {_named(new_names)}"
    for name in sorted({*old.attrs, *new.attrs} - {CALLSTACK_ATTR}):
        was = _attr_text(old, name)
        now = _attr_text(new, name)
        if was != now:
            yield f"{name}: {was} -> {now}"


# ------------------------------------------------------------------------------------------------ text
def summary(edits: Iterable[Edit]) -> dict[str, int]:
    """The numbers of ops that are kept, changed, inserted and removed."""
    counts = {"kept": 0, "changed": 0, "inserted": 0, "removed": 0}
    for edit in edits:
        counts[edit.kind] += 1
    return counts


def diff_text(edits: Sequence[Edit], colour: bool = False, context: int | None = 3) -> str:
    """The difference for a terminal: `+` inserted, `-` removed, `~` changed; `context` kept ops around
    each (None: all of them).
    """
    near = _near(edits, context)
    lines = list[str]()
    block = None
    skipped = 0
    for index, edit in enumerate(edits):
        if index not in near:
            skipped += 1
            continue
        if skipped:
            lines.append(_painted(f"  ... {skipped} kept", "kept", colour))
            skipped = 0
        if edit.new is not None and edit.new.block.idx != block:
            block = edit.new.block.idx
            lines.append(_painted(f"block {block}", "block", colour))
        lines += [_painted(line, edit.kind, colour) for line in _lines(edit)]
    if skipped:
        lines.append(_painted(f"  ... {skipped} kept", "kept", colour))
    counts = summary(edits)
    return "\n".join([*lines, ", ".join(f"{count} {kind}" for kind, count in counts.items())]) + "\n"


def _near(edits: Sequence[Edit], context: int | None) -> set[int]:
    if context is None:
        return set(range(len(edits)))
    near = set[int]()
    for centre, edit in enumerate(edits):
        if edit.kind != "kept" or edit.moved:
            near.update(range(max(0, centre - context), min(len(edits), centre + context + 1)))
    return near


def _lines(edit: Edit) -> Iterator[str]:
    op = edit.new or edit.old
    assert op is not None
    yield f"{_MARKS[edit.kind]} {_short(op)}{'   (moved)' if edit.moved else ''}"
    yield from (f"    {change}" for change in edit.changes)


def _short(op: Operator) -> str:
    """`mul(X=img, Y=w) -> Out=y   at train.py:26`."""
    outputs = f" -> {_slots(op.outputs)}" if op.output_arg_names else ""
    where = f"   at {op.where}" if op.where else ""
    return f"{op.type}({_slots(op.inputs)}){outputs}{where}"


def _slots(slots: dict[str, list[str]]) -> str:
    return ", ".join(f"{slot}={_names(names)}" for slot, names in slots.items() if names)


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _painted(text: str, kind: str, colour: bool) -> str:
    return f"{_COLOURS[kind]}{text}\x1b[0m" if colour else text
