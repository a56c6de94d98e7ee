"""Backward with checkpoints: variables between two checkpoints are computed a second time instead of being
kept.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from fluidlite import unique_name
from fluidlite.backward.edits import add_up, cut_dead_branches
from fluidlite.backward.rules import GradientContext, rename
from fluidlite.backward.walk import Backward
from fluidlite.base.errors import NotFoundError, ProgramEditError, did_you_mean
from fluidlite.base.records import dataclass
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import copy_operator
from fluidlite.ir.variable import Variable

__all__ = ["append_with_checkpoints"]

Segment = tuple[int, int]  # the ops [first, last) of the path


class _Usage:
    """Positions on the path at which each variable is read and written."""

    def __init__(self, path: Sequence[Operator]) -> None:
        self.path = path
        self.reads: dict[str, list[int]] = defaultdict(list)
        self.writes: dict[str, list[int]] = defaultdict(list)
        for index, op in enumerate(path):
            for name in op.input_arg_names:
                self.reads[name].append(index)
            for name in op.output_arg_names:
                self.writes[name].append(index)

    def ordered(self, names: Iterable[str]) -> list[str]:
        """The `names` that occur on the path, in the order in which they are finished; what is fed comes
        first.
        """
        # a checkpoint off the path has nothing to do with this loss
        used = [name for name in dict.fromkeys(names) if name in self.reads or name in self.writes]
        return sorted(used, key=lambda name: max(self.writes.get(name, ()), default=-1))

    def segments(self, checkpoints: Sequence[str]) -> list[Segment]:
        """The stretches of the path that lead from one checkpoint to the next."""
        if len(checkpoints) == 1:
            last = max(self.writes.get(checkpoints[0], ()), default=-1)
            return [(0, last + 1)] if last > 0 else []
        found: list[Segment] = []
        for start, stop in itertools.pairwise(checkpoints):
            first = min(self.reads.get(start, ()), default=len(self.path))
            last = max(self.writes.get(stop, ()), default=-1)
            if first < last:
                found.append((first, last + 1))
        # the ops in front of the first checkpoint are a segment, too
        if found and found[0][0] != 0:
            found.insert(0, (0, found[0][0]))
        return found

    def crossing(self, segment: Segment) -> set[str]:
        """Variables that are written on one side of the segment's borders and read on the other."""
        first, stop = segment
        names = set[str]()
        for op in self.path[first:stop]:
            names.update(
                name for name in op.output_arg_names if any(at >= stop for at in self.reads.get(name, ()))
            )
            names.update(
                name for name in op.input_arg_names if any(at < first for at in self.writes.get(name, ()))
            )
        return names

    def given(self) -> set[str]:
        """Variables that no op of the path computes, and those that it must not compute twice: seeds and
        what a reader gives.
        """
        names = {name for name in self.reads if name not in self.writes}
        once = [op for op in self.path if op.definition is not None and op.definition.once]
        names.update(name for op in once for name in op.output_arg_names)
        return names


def append_with_checkpoints(
    backward: Backward, block: Block, path: Sequence[Operator], checkpoints: Sequence[Variable | str]
) -> None:
    """Write the gradient ops of `path` into `block`, each segment after a second run of its forward ops.

    The copies write variables called `x.subprog_0`, ...; dropout gets its seed from an op, so that both runs
    agree.
    """
    for op in path:
        # a second run would need a second block, with other names in it
        if op.has_attr("sub_block"):
            raise ProgramEditError(
                f"recompute does not support ops with a sub-block, such as {op.type!r} built at {op.where}"
            )
    path = _seed_dropouts(block, path)
    usage = _Usage(path)
    wanted = [var if isinstance(var, str) else var.name for var in checkpoints]
    for name in wanted:
        if not block._find_var_recursive(name):
            raise NotFoundError(
                f"recompute: the checkpoint {name!r} is not a variable of the "
                f"program{did_you_mean(name, block.vars)}"
            )
    names = usage.ordered(wanted)
    segments = usage.segments(names)
    held = usage.given().union(*map(usage.crossing, segments))
    writer = _SegmentGradients(backward, block, path, held | set(names))
    ops = cut_dead_branches(add_up(writer.ops(segments), block.idx), backward.no_grad[block.idx])
    backward.write(ops, block)


def _seed_dropouts(block: Block, path: Sequence[Operator]) -> list[Operator]:
    """Put a `seed` op in front of every dropout; returns the path with them."""
    seeded: list[Operator] = []
    for op in path:
        if op.type == "dropout":
            name = unique_name.generate(unique_name.generate("seed") + ".tmp")
            var = block.create_var(name=name, dtype="int32", persistable=False, stop_gradient=False)
            seed = int(op.attrs["seed"]) if op.attrs.get("fix_seed") else 0
            seeded.append(block.insert_before(op, type="seed", outputs={"Out": [var]}, attrs={"seed": seed}))
            # from now on both runs of the op draw the same numbers
            op.set_input("Seed", [name])
            op._remove_attr("fix_seed")
            op._remove_attr("seed")
        seeded.append(op)
    return seeded


@dataclass
class _SegmentGradients:
    """Makes the gradient ops of a path, segment by segment from its end."""

    backward: Backward
    block: Block
    path: Sequence[Operator]
    kept: set[str]

    def ops(self, segments: Sequence[Segment]) -> list[Operator]:
        """Gradient ops, with a second run of each segment's forward ops in front of the segment's."""
        made: list[Operator] = []
        renamed: dict[str, str] = {}
        rest = len(self.path)
        for number, (first, stop) in enumerate(reversed(segments)):
            made += self._gradients(self.path[stop:rest])
            segment = self.path[first:stop]
            rest = first
            for op in segment:
                for name in (*op.input_arg_names, *op.output_arg_names):
                    if not self._stays(name):
                        renamed.setdefault(name, f"{name}.subprog_{number}")
            copies = [
                copy_operator(op, self.block)
                for op in segment
                if not all(map(self._stays, op.output_arg_names))
            ]
            gradients = self._gradients(segment)
            for name, new in renamed.items():
                rename([*copies, *gradients], name, new)
            made += copies + gradients
        return made if segments else self._gradients(self.path)

    def _gradients(self, ops: Sequence[Operator]) -> list[Operator]:
        made: list[Operator] = []
        for op in reversed(ops):
            context = GradientContext(op, self.backward.no_grad[self.block.idx])
            made += context.ops
            self.backward.grad_of.update(context.grad_of)
        return made

    def _stays(self, name: str) -> bool:
        """True if the variable keeps its value until the backward pass."""
        var = self.block._find_var_recursive(name)
        return name in self.kept or name == EMPTY_VAR or (var is not None and var.persistable)
