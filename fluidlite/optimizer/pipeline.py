"""Pipelines: a program cut into sections, which devices run one behind the other on a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.base.records import dataclass
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.framework import grad_var_name
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program, copy_operator, copy_variable
from fluidlite.ir.prune import needed_ops
from fluidlite.ir.variable import Variable
from fluidlite.optimizer.base import Optimizer

__all__ = ["PipelineOptimizer"]


class PipelineOptimizer:
    """`optimizer`, and the sections of the program that it trains.

    cut_list: n lists of Variables, the last with the loss, at which the forward pass is cut; the backward
    pass is cut at their gradients, so that there are 2 n - 1 sections.
    place_list, concurrency_list: for each section a place, and how many threads run it.
    queue_size, sync_steps, start_cpu_core_id: kept with the sections.

    `minimize` leaves the program as the optimizer makes it, so that it runs as it would without sections, and
    that is how `train_from_dataset` runs it here; the sections are in `program._pipeline_opt`, as in fluid.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        cut_list: Sequence[Sequence[Variable]] | None = None,
        place_list: Sequence[Any] | None = None,
        concurrency_list: Sequence[int] | None = None,
        queue_size: int = 30,
        sync_steps: int = 1,
        start_cpu_core_id: int = 0,
    ) -> None:
        self._optimizer = optimizer
        self._cut_list = cut_list
        self._place_list = place_list
        self._concurrency_list = concurrency_list
        self._queue_size = queue_size
        self._sync_steps = sync_steps
        self._start_cpu_core_id = start_cpu_core_id

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> None:
        """Append backward pass and updates, and cut the program; ArgumentError where there are not as many
        places as sections.
        """
        cuts = [[var.name for var in cut] for cut in self._cut_list or ()]
        places, count = list(self._place_list or ()), max(0, 2 * len(cuts) - 1)
        if not cuts or len(places) < count:
            raise ArgumentError(
                f"PipelineOptimizer: {len(cuts)} cuts make {count} sections, but there are {len(places)} "
                f"places"
            )
        self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        program = loss.block.program
        sections = split_program(program, cuts)
        block = program.global_block()
        program._pipeline_opt = {
            "trainer": "PipelineTrainer",
            "device_worker": "Section",
            "section_program_list": [section.described() for section in sections],
            "place_list": self._place_list,
            "concurrency_list": self._concurrency_list,
            "queue_size": self._queue_size,
            "start_cpu_core_id": self._start_cpu_core_id,
            "sync_steps": self._sync_steps,
            # parameters of sections on devices have copies there, which fluid averages now and then
            "param_need_sync": sorted(
                {
                    name
                    for section, place in zip(sections, places, strict=False)
                    if place._type() == 0
                    for name in section.reads
                    if block._var_recursive(name).persistable
                }
            ),
        }


@dataclass
class Section:
    """Some ops of a program, in their order.

    reads, gives: the names that come from other sections (or are parameters), and those that later ones read.
    """

    ops: list[Operator]
    reads: set[str] = field(default_factory=set)
    gives: set[str] = field(default_factory=set)

    def described(self) -> dict[str, Any]:
        """The section as fluid keeps it: a program of its own, and the two sets of names."""
        program = Program()
        block = program.global_block()
        source = self.ops[0].block if self.ops else block
        for op in self.ops:
            for name in (*op.input_arg_names, *op.output_arg_names):
                var = source._find_var_recursive(name)
                if var is not None and name not in block.vars:
                    block.vars[name] = copy_variable(var, block)
            block.adopt(len(block.ops), copy_operator(op, block))
        return {"program": program, "input_set": self.reads, "output_set": self.gives}


def split_program(program: Program, cuts: Sequence[Sequence[str]]) -> list[Section]:
    """The sections of a trained program: forward to each cut but the last, back from the last to each of the
    others, the rest.

    A backward section has the updates of the parameters that its forward section reads, and what these need;
    the first section has the learning rate's schedule; the loss itself is in the section before the last.
    """
    rest = list(program.global_block().ops)
    sections: list[Section] = []
    owned: list[set[str]] = []  # for each forward section the parameters that it reads
    for number, cut in enumerate(cuts[:-1]):
        ops = _take(rest, set(cut))
        owned.append(_persistable_reads(ops))
        if number == 0:
            ops += _taken(rest, [op for op in rest if op.role & OpRole.LRSched])
        sections.append(_section(ops))
    for number in range(len(cuts) - 2, -1, -1):
        wanted = {*map(grad_var_name, cuts[number]), *(cuts[-1] if number == 0 else ())}
        if number == len(cuts) - 2:  # goes forward to the loss, and back
            ops = needed_ops(rest, wanted)
            section = _section(_take(rest, wanted, _persistable_reads(filter(_is_forward, ops))))
        else:
            section = _returning(_take(rest, wanted, owned[number + 1]), cuts[number + 1], owned[number + 1])
        sections.append(section)
    sections.append(_returning(rest, cuts[0], owned[0]) if len(cuts) > 1 else _section(rest))
    _connect(sections)
    return sections


def _returning(ops: list[Operator], cut: Iterable[str], parameters: set[str]) -> Section:
    """A backward section: it gets the gradients of a cut, and has its forward section's parameters."""
    section = _section(ops)
    section.reads |= parameters | set(map(grad_var_name, cut))
    return section


def _is_forward(op: Operator) -> bool:
    return not op.role & (OpRole.Backward | OpRole.Optimize)


def _take(rest: list[Operator], wanted: set[str], parameters: Iterable[str] = ()) -> list[Operator]:
    """Remove from `rest`, and give, the ops that make `wanted` and those that update `parameters`."""
    owned = set(parameters)
    updates = [
        op for op in rest if op.role & OpRole.Optimize and owned.intersection(op.inputs.get("Param", ()))
    ]
    names = wanted | {name for op in updates for name in op.input_arg_names}
    return _taken(rest, _ordered(rest, [*needed_ops(rest, names), *updates]))


def _ordered(ops: Iterable[Operator], chosen: Iterable[Operator]) -> list[Operator]:
    found = {id(op) for op in chosen}
    return [op for op in ops if id(op) in found]


def _taken(rest: list[Operator], ops: list[Operator]) -> list[Operator]:
    found = {id(op) for op in ops}
    rest[:] = [op for op in rest if id(op) not in found]
    return ops


def _persistable_reads(ops: Iterable[Operator]) -> set[str]:
    return {
        name
        for op in ops
        for name in op.input_arg_names
        if (var := op.block._find_var_recursive(name)) is not None and var.persistable
    }


def _section(ops: list[Operator]) -> Section:
    """A section with the names that it reads before it has made them."""
    made: set[str] = set()
    reads: set[str] = set()
    for op in ops:
        made.update(
            op.output_arg_names
        )  # first: what an update changes in place it does not read from outside
        reads.update(name for name in op.input_arg_names if name not in made)
    return Section(ops, reads)


def _connect(sections: Sequence[Section]) -> None:
    """Fill in what sections give: what they make for later ones and do not read themselves."""
    later: set[str] = set()
    for section in reversed(sections):
        made = {name for op in section.ops for name in op.output_arg_names}
        read = {name for op in section.ops for name in op.input_arg_names}
        section.gives = (made - read) & later
        later |= section.reads
