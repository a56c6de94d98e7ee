"""The static check inside one program: every op reads what is declared and has been written, or
initialised, by then.
"""

from __future__ import annotations

from collections.abc import Collection

from fluidlite.base.dtypes import VarType
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.check.facts import Findings, Site
from fluidlite.transpiler.parts.roles import JobRole

__all__ = ["check_flow", "fed_names", "never_written"]

# Kinds that ops make on the way, or that hold no value of the program's
_WITHOUT_VALUE = frozenset(
    (
        VarType.LOD_TENSOR_ARRAY,
        VarType.STEP_SCOPES,
        VarType.LOD_RANK_TABLE,
        VarType.READER,
        VarType.RAW,
        VarType.FEED_MINIBATCH,
        VarType.FETCH_LIST,
    )
)
_FORWARD = (OpRole.Forward, OpRole.Loss)


def fed_names(program: Program) -> set[str]:
    """Variables that are fed: those declared as data, and all that a forward op reads and nothing writes in a
    program that was parsed.

    A parsed program does not say which variables are data.
    """
    fed = {name for block in program.blocks for name, var in block.vars.items() if var.is_data}
    return fed or {name for name in never_written(program, _FORWARD) if not _persistable(program, name)}


def never_written(program: Program, roles: Collection[OpRole] | None = None) -> set[str]:
    """Variables that ops (of these roles) read and no op writes."""
    read: set[str] = set()
    written: set[str] = set()
    for block in program.blocks:
        for op in block.ops:
            written.update(op.output_arg_names)
            if roles is None or op.role in roles:
                read.update(op.input_arg_names)
    return read - written


def _persistable(program: Program, name: str) -> bool:
    return any(block.vars[name].persistable for block in program.blocks if name in block.vars)


def _looks_at_form(op: Operator, slot: str) -> bool:
    """True if the op takes no value from a slot: the rows of a table come from its servers."""
    return slot == "W" and not op.reads(slot)


def check_flow(
    found: Findings,
    role: JobRole,
    label: str,
    program: Program,
    initial: Collection[str],
    fed: Collection[str] = (),
) -> None:
    """Check definition before use in the order in which the blocks' ops stand.

    `initial` are the names that have a value when the run starts; `fed` those that each step is given. A
    trainer's blocks that no op runs are left out (Paddle's trainers keep those of a schedule that went to the
    servers); a server runs some by number.
    """
    flow = _Flow(found, role, label, program, initial, fed)
    for block in program.blocks[:1] if role.kind == "trainer" else program.blocks:
        flow.block(block)


class _Flow:
    """Walks the ops and remembers the variables that have been written."""

    def __init__(
        self,
        found: Findings,
        role: JobRole,
        label: str,
        program: Program,
        initial: Collection[str],
        fed: Collection[str],
    ) -> None:
        self.found = found
        self.role = role
        self.label = label
        self.initial = initial
        self.fed = fed
        # Servers of large jobs read a thousand gradients of each parameter: these need no further look
        self.given = set(initial).union(fed).intersection(program.global_block().vars)
        self.written: set[int] = set()  # ids of Variables
        self.visited: set[int] = set()
        self.ever = {
            id(op.block._find_var_recursive(name))
            for block in program.blocks
            for op in block.ops
            for name in op.output_arg_names
        }

    def block(self, block: Block) -> None:
        """Check the ops of `block` and of the blocks that they run."""
        if block.idx in self.visited:
            return
        self.visited.add(block.idx)
        for number, op in enumerate(block.ops):
            site = Site(self.role, self.label, block.idx, number, op)
            for slot, names in op.inputs.items():
                # a sub-block's own variable may have the name of one that is given outside
                is_hidden = block.idx and not block.vars.keys().isdisjoint(names)
                if is_hidden or not self.given.issuperset(names):
                    for name in names:
                        self.read(site, slot, name)
            for inner in op.sub_blocks():
                self.block(inner)
            for name in op.output_arg_names:
                self.write(site, name)

    def read(self, site: Site, slot: str, name: str) -> None:
        """Check one variable that an op reads."""
        op = site.op
        # a loader's queue lies in the scope, and no program declares it
        if name == EMPTY_VAR or slot == "blocking_queue" or _looks_at_form(op, slot):
            return
        var = op.block._find_var_recursive(name)
        if var is None:
            # Paddle names the gradient of what nothing reads, and does not declare it
            gradient = slot.endswith(GRAD_SUFFIX) and op.type.endswith("_grad")
            if not (gradient or name in self.fed):
                self.found.add(
                    "undeclared",
                    site,
                    f"it reads {name!r}, which no block declares"
                    f"{self.found.near(name, op.block.visible_names())}",
                )
        elif not (
            id(var) in self.written
            or name in self.initial
            or name in self.fed
            or var.type in _WITHOUT_VALUE
            or self.made_by_owner(op, var)
        ):
            late = "before anything writes it" if id(var) in self.ever else "which nothing writes"
            if var.persistable:
                self.found.add(
                    "uninitialised",
                    site,
                    f"it reads {name!r} {late}; the startup program neither initialises nor receives it"
                    f"{self.found.near(name, self.initial)}",
                )
            else:
                self.found.add("undefined", site, f"it reads {name!r} {late}")

    def made_by_owner(self, op: Operator, var: Variable) -> bool:
        """True if control flow makes the variable: what a body writes, or a step's slice that its op puts
        in.
        """
        return (var.name in op.output_arg_names and bool(op.sub_blocks())) or (
            var.block.idx > 0 and id(var) not in self.ever
        )

    def write(self, site: Site, name: str) -> None:
        """Note what an op writes."""
        var = site.op.block._find_var_recursive(name)
        if var is not None:
            self.written.add(id(var))
        elif name != EMPTY_VAR:
            self.found.add(
                "undeclared",
                site,
                f"it writes {name!r}, which no block declares"
                f"{self.found.near(name, site.op.block.visible_names())}",
            )
