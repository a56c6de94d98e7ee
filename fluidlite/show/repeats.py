"""Siblings of a folded program that say the same several times, one group for all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.ir.operator import Operator
from fluidlite.show.tree import Group, Tree, ops_of

__all__ = ["repeated"]

_ALIKE = 0.8  # of the ops of two groups; the first block of a stage has a projection that the others lack
_LONGEST = 24  # siblings in a turn
_FEW = 16  # ops: less than that, twice, is read faster than it is unfolded
_SERIAL = re.compile(r"_\d+$")  # a second use of a name scope is called `s_1`


def repeated(children: Sequence[Tree]) -> list[Tree]:
    """The siblings, with runs of those that are alike in groups of kind "repeat"."""
    return _turns(_runs(children))


# ---------------------------------------------------------------------- one group after another
def _runs(children: Sequence[Tree]) -> list[Tree]:
    found: list[Tree] = []
    place = 0
    while place < len(children):
        first = children[place]
        end = place + 1
        while end < len(children) and _alike(children[end - 1], children[end]):
            end += 1
        # two layers side by side are soon read
        least = 3 if isinstance(first, Group) and first.kind in ("layer", "block") else 2
        if isinstance(first, Group) and end - place >= least:
            found.append(
                Group(_SERIAL.sub("", first.label), "repeat", tuple(children[place:end]), first.where)
            )
        else:
            found += children[place:end]
        place = end
    return found


def _alike(one: Tree, other: Tree) -> bool:
    if not isinstance(one, Group) or not isinstance(other, Group) or _sign(one) != _sign(other):
        return False
    # the stages of a network differ in what comes out of them
    if _shape(one) != _shape(other):
        return False
    mine = Counter(op.type for op in ops_of(one))
    theirs = Counter(op.type for op in ops_of(other))
    return (mine & theirs).total() >= _ALIKE * (mine | theirs).total()


def _shape(tree: Tree) -> tuple[int, ...] | None:
    """The shape of what the last op of a tree gives."""
    *_, last = ops_of(tree)
    for name in last.output_arg_names[:1]:
        var = last.block._find_var_recursive(name)
        if var is not None and var.type in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
            return tuple(var.shape)
    return None


def _sign(tree: Tree) -> Hashable:
    """Equal for siblings that a reader would call by one name."""
    if isinstance(tree, Operator):
        return tree.type
    # stages of three, four, six and three blocks are no repetition
    count = len(tree.children) if tree.kind == "repeat" else 0
    if tree.where is None and tree.kind == "layer":
        # no script says which of these are alike: then only what is the same in all it does
        return tree.kind, tuple(op.type for op in ops_of(tree)), _shape(tree)
    return tree.kind, _SERIAL.sub("", tree.label), count


# ---------------------------------------------------------------------- several in turn
def _turns(children: Sequence[Tree]) -> list[Tree]:
    signs = [_sign(child) for child in children]
    found: list[Tree] = []
    place = 0
    while place < len(children):
        period, count = _best(signs, children, place)
        if count > 1:
            found.append(_repeat(children[place : place + period * count], period))
            place += period * count
        else:
            found.append(children[place])
            place += 1
    return found


def _best(signs: Sequence[Hashable], children: Sequence[Tree], place: int) -> tuple[int, int]:
    """Period and number of the turns from a place on that cover most; a single turn where none repeats."""
    best = (1, 1)
    for period in range(1, min(_LONGEST, (len(signs) - place) // 2) + 1):
        turn = signs[place : place + period]
        count = 1
        while signs[place + count * period : place + (count + 1) * period] == turn:
            count += 1
        if period * count > best[0] * best[1] and _pays(children[place : place + period * count], count):
            best = (period, count)
    return best


def _pays(covered: Sequence[Tree], count: int) -> bool:
    if count >= 3:
        return len(covered) > 3
    return count == 2 and sum(1 for child in covered for _ in ops_of(child)) >= _FEW


def _repeat(covered: Sequence[Tree], period: int) -> Group:
    if period == 1:
        return Group(_name(covered[0]), "repeat", tuple(covered), covered[0].where)
    label = f"{_name(covered[0])} … {_name(covered[period - 1])}"
    turns = [
        Group(label, "turn", tuple(covered[start : start + period]), covered[start].where)
        for start in range(0, len(covered), period)
    ]
    return Group(label, "repeat", tuple(turns), covered[0].where)


def _name(tree: Tree) -> str:
    return tree.type if isinstance(tree, Operator) else tree.label
