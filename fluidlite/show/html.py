"""A program, or all programs of a distributed job, as one page that needs nothing else: no network, no fonts,
no library.

The page holds its data as JSON, where every op, name and program stands once: a hundred trainers, whose
programs differ in their number only, share one. In names and attributes `\\x01` stands for the number of the
role, `\\x02` for its endpoint.
"""

from __future__ import annotations

import html
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Protocol

from fluidlite.base.registry import AttrType
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, ROLE_VAR_ATTR, Operator, OpRole, Where
from fluidlite.ir.printing import variable_text
from fluidlite.ir.program import Program
from fluidlite.show.diff import Baseline

__all__ = ["JobLike", "job_page", "program_page"]

_SCRIPTS = ("model.js", "list.js", "graph.js", "places.js", "main.js")
# marks of what differs from trainer to trainer: characters that stand in no name
_INDEX, _ENDPOINT = "\x01", "\x02"
_NUMBERS = ("trainer_id", "rank")
_PROGRAMS = ("main", "startup")
_MOST_STATIC = 400  # rows of the table for readers without scripts, who cannot fold it
# the first that fits: an op of `_lr_schedule_guard(True)` belongs to a schedule and to the optimizer
_CATEGORIES = (
    (OpRole.RPC | OpRole.Dist, "comm"),
    (OpRole.LRSched, "schedule"),
    (OpRole.Optimize, "optimize"),
    (OpRole.Backward, "backward"),
)


# What the page asks of a job, said here: this room stands below the transpiler and imports none of it.
class RoleLike(Protocol):
    """One process of a job."""

    @property
    def kind(self) -> str: ...
    @property
    def trains(self) -> bool: ...
    @property
    def index(self) -> int: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def name(self) -> str: ...


class SliceLike(Protocol):
    """Whole rows of one parameter, and of its gradient, that one server holds."""

    @property
    def param(self) -> str: ...
    @property
    def grad(self) -> str: ...
    @property
    def first_row(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def param_name(self) -> str: ...
    @property
    def grad_name(self) -> str: ...


class ProgramsLike(Protocol):
    """The two programs that one process runs."""

    @property
    def main(self) -> Program: ...
    @property
    def startup(self) -> Program: ...


class ModeLike(Protocol):
    """The way in which the processes of a job train together."""

    @property
    def name(self) -> str: ...
    @property
    def in_step(self) -> bool: ...


class JobLike(Protocol):
    """The facts about a job that the page shows: see `fluidlite.transpiler.modes.Job`."""

    main: Program
    startup: Program
    trainers: int

    @property
    def mode(self) -> ModeLike: ...
    @property
    def roles(self) -> Sequence[Any]: ...
    @property
    def slices(self) -> Sequence[Any]: ...
    def programs(self, role: Any) -> Any: ...


def program_page(program: Program, title: str = "program", startup: Program | None = None) -> str:
    """The page of one program, and of the one that initialises what it needs."""
    pool = _Interner()
    original = {"main": pool.program(program)}
    if startup is not None and startup.global_block().ops:
        original["startup"] = pool.program(startup)
    data = {
        "title": title,
        "facts": [],
        "slices": [],
        "endpoints": [],
        "params": _parameters(program),
        "original": original,
        "roles": [],
    }
    return _page(title, {**data, **pool.data()}, "")


def job_page(job: JobLike, title: str = "job") -> str:
    """The page of a job: where each parameter lives, and the original program beside that of any role.

    Trainers differ in their number only, so no more than three of them are made and compared; were these to
    differ in something else, all are made.
    """
    pool = _Interner()
    roles = _Roles(job)
    original = {"main": pool.program(job.main), "startup": pool.program(job.startup)}
    # from here on only these lines: those of the transpiler's own ops say nothing to a user
    pool.lines = {
        op.where
        for program in (job.main, job.startup)
        for block in program.blocks
        for op in block.ops
        if op.where is not None
    }
    endpoints = [role.endpoint for role in job.roles if not role.trains]
    numbers = {endpoint: number for number, endpoint in enumerate(endpoints)}
    data = {
        "title": title,
        "facts": _facts(job, endpoints),
        "endpoints": endpoints,
        "params": _parameters(job.main),
        "original": original,
        "slices": [
            [
                part.param,
                part.grad,
                part.param_name,
                part.grad_name,
                part.first_row,
                list(part.shape),
                numbers[part.endpoint],
            ]
            for part in job.slices
        ],
        "roles": roles.data(pool),
    }
    return _page(title, {**data, **pool.data()}, _static_table(job))


def _facts(job: JobLike, endpoints: Sequence[str]) -> list[str]:
    trainers = f"{job.trainers} trainer{'s' if job.trainers > 1 else ''}"
    if not endpoints:
        return [f"mode {job.mode.name}", trainers, "no servers"]
    return [
        f"mode {job.mode.name}",
        "synchronous" if job.mode.in_step else "asynchronous",
        trainers,
        f"{len(endpoints)} server{'s' if len(endpoints) > 1 else ''}",
    ]


def _parameters(program: Program) -> list[list[Any]]:
    return [[param.name, list(param.shape), f"{param.name}@GRAD"] for param in program.all_parameters()]


# ---------- what stands once
class _Interner:
    """Names, source lines, ops, declarations and programs, each under the number at which it was first
    seen.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[Hashable, int]] = {
            key: {} for key in ("names", "lines", "ops", "vars", "programs")
        }
        # the user's, once the original is in: a transpiler's own ops have none
        self.lines: set[Where] | None = None

    def number(self, table: str, item: Hashable) -> int:
        found = self.tables[table]
        return found.setdefault(item, len(found))

    def program(self, program: Program, marks: _Marks | None = None) -> int:
        """The number of a program; `marks` stand in the place of what differs from trainer to trainer."""
        return self.number(
            "programs", tuple(self._block(block, marks or _Marks()) for block in program.blocks)
        )

    def _block(self, block: Block, marks: _Marks) -> Hashable:
        ops = tuple(
            self.number("ops", self._op(op, marks, (block.idx, place))) for place, op in enumerate(block.ops)
        )
        variables = tuple(
            self.number("vars", (self.number("names", marks.name(var.name)), _declared(variable_text(var))))
            for var in block.vars.values()
        )
        return block.idx, block.parent_idx, ops, variables

    def _op(self, op: Operator, marks: _Marks, place: tuple[int, int]) -> Hashable:
        attrs = tuple(
            (name, marks.attr(name, _shown(op, name), place))
            for name in sorted(op.attrs)
            if name not in (ROLE_ATTR, "op_callstack")
        )
        return (
            op.type,
            _category(op),
            self._slots(op.inputs, marks),
            self._slots(op.outputs, marks),
            attrs,
            self._line(op.where),
        )

    def _line(self, where: Where | None) -> int:
        if where is None or (self.lines is not None and where not in self.lines):
            return -1
        return self.number(
            "lines", str(where) if where.function == "<module>" else f"{where} in {where.function}"
        )

    def _slots(self, slots: dict[str, list[str]], marks: _Marks) -> Hashable:
        return tuple(
            (slot, tuple(self.number("names", marks.name(name)) for name in names))
            for slot, names in slots.items()
            if names
        )

    def data(self) -> dict[str, Any]:
        """The tables as lists."""
        return {key: list(table) for key, table in self.tables.items()}


class _Marks:
    """Puts marks in the place of what differs from trainer to trainer.

    `fixed` names the attributes, by op, that hold a number of a trainer but hold the same one in every
    trainer's program.
    """

    def __init__(
        self,
        index: int | None = None,
        endpoint: str = "",
        fixed: frozenset[tuple[int, int, str]] = frozenset(),
    ) -> None:
        self.index = None if index is None else str(index)
        self.endpoint = endpoint
        self.fixed = fixed
        self.tail = f".trainer_{index}"

    def name(self, name: str) -> str:
        """A variable's name."""
        if self.index is None or not name.endswith(self.tail):
            return name
        return f"{name[: -len(self.tail)]}.trainer_{_INDEX}"

    def attr(self, name: str, text: str, place: tuple[int, int]) -> str:
        """An attribute's text, of the op at a place."""
        if self.index is None:
            return text
        if name in _NUMBERS and text == self.index and (*place, name) not in self.fixed:
            return _INDEX
        if name == ROLE_VAR_ATTR:
            # with the quote that ends the name: `.trainer_1` also begins `.trainer_10`
            return text.replace(f"{self.tail}'", f".trainer_{_INDEX}'")
        if name == "endpoint" and self.endpoint and text == repr(self.endpoint):
            return _ENDPOINT
        return text


def _fixed(one: Program, other: Program) -> frozenset[tuple[int, int, str]]:
    """The numbers of trainers that two trainers' programs both hold."""
    return frozenset(
        (block.idx, place, name)
        for block, twin in zip(one.blocks, other.blocks, strict=False)
        for place, (op, same) in enumerate(zip(block.ops, twin.ops, strict=False))
        for name in _NUMBERS
        if name in op.attrs and op.attrs[name] == same.attrs.get(name)
    )


def _declared(text: str) -> str:
    """The part of a declaration after the name, with `param` before it where it is one."""
    return f"{text.split(' ', 1)[0]} {text.rsplit(': ', 1)[-1]}"


def _category(op: Operator) -> str:
    if op.type in ("send", "recv", "send_barrier", "fetch_barrier", "listen_and_serv"):
        return "comm"
    return next((name for flags, name in _CATEGORIES if op.role & flags), "forward")


def _shown(op: Operator, name: str) -> str:
    value = op.attrs[name]
    kind = op.attr_type(name)
    if kind == AttrType.BLOCK:
        return f"block {value.idx}"
    if kind == AttrType.BLOCKS:
        return ", ".join(f"block {block.idx}" for block in value)
    return repr(value)


# ------------------------------------------------------------------------------------------------ roles
class _Roles:
    """The roles of a job as data; the programs of trainers are made for a few of them."""

    def __init__(self, job: JobLike) -> None:
        self.job = job
        self.baselines = {"main": Baseline(job.main), "startup": Baseline(job.startup)}
        self.matches: dict[tuple[str, int], list[int]] = {}

    def data(self, pool: _Interner) -> list[dict[str, Any]]:
        """Every role: its name, and the numbers of its programs."""
        trainers = [role for role in self.job.roles if role.trains]
        pair = [self.job.programs(role) for role in trainers[:2]]
        fixed = {
            which: _fixed(getattr(pair[0], which), getattr(pair[-1], which)) if len(pair) > 1 else frozenset()
            for which in _PROGRAMS
        }
        sample = {id(role): self._numbers(pool, role, fixed) for role in (trainers[:2] + trainers[-1:])}
        # one set of programs for the first two and the last: then the trainers between have it, too
        alike = len({tuple(numbers.items()) for numbers in sample.values()}) == 1
        shared = next(iter(sample.values()))
        found = []
        for role in self.job.roles:
            known = sample.get(id(role))
            if known is None:
                known = shared if alike and role.trains else self._numbers(pool, role, fixed)
            found.append(
                {
                    "name": role.name,
                    "kind": role.kind,
                    "index": role.index,
                    "endpoint": role.endpoint,
                    **known,
                    "matches": {which: self.matches[which, number] for which, number in known.items()},
                }
            )
        return self._without_copies(found)

    def _numbers(
        self, pool: _Interner, role: RoleLike, fixed: Mapping[str, frozenset[tuple[int, int, str]]]
    ) -> dict[str, int]:
        programs: ProgramsLike = self.job.programs(role)
        numbers = {}
        for which in _PROGRAMS:
            program = getattr(programs, which)
            numbers[which] = pool.program(
                program, _Marks(role.index, role.endpoint, fixed[which]) if role.trains else None
            )
            if (which, numbers[which]) not in self.matches:
                self.matches[which, numbers[which]] = self._match(self.baselines[which], program)
        return numbers

    @staticmethod
    def _match(baseline: Baseline, program: Program) -> list[int]:
        """For each op: 0 where it is new, n + 1 where it is op n of the original, -(n + 1) where it is
        that op changed.
        """
        pairs, exact = baseline.matches(program)
        count = sum(len(block.ops) for block in program.blocks)
        signed = {index: position + 1 for index, position in pairs.items()}
        signed.update({index: -signed[index] for index in pairs.keys() - exact})
        return [signed.get(index, 0) for index in range(count)]

    @staticmethod
    def _without_copies(roles: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Roles that share programs name the first that has them instead of repeating the matches."""
        first: dict[tuple[int, int], int] = {}
        for index, role in enumerate(roles):
            source = first.setdefault((role["main"], role["startup"]), index)
            if source != index:
                role["matches"] = source
        return roles


# ---------- the page itself
def _static_table(job: JobLike) -> str:
    """Which server holds which rows, for readers without scripts."""
    rows = [
        f"<tr><td>{html.escape(part.param)}</td><td>{rows_text(part.first_row, part.shape)}</td>"
        f"<td>{html.escape(part.endpoint)}</td></tr>"
        for part in sorted(job.slices, key=lambda part: (part.param, part.first_row))[:_MOST_STATIC]
    ]
    more = f"<p>... and {len(job.slices) - _MOST_STATIC} more.</p>" if len(job.slices) > _MOST_STATIC else ""
    if not rows:
        return ""
    return f"<table><tr><th>parameter</th><th>rows</th><th>server</th></tr>{''.join(rows)}</table>{more}"


def rows_text(first: int, shape: Sequence[int]) -> str:
    """`0 – 499` (both ends counted in)."""
    return f"{first} – {first + (shape[0] if shape else 1) - 1}"


def _page(title: str, data: Mapping[str, Any], static: str) -> str:
    parts = {
        "TITLE": html.escape(title),
        "STYLE": _asset("page.css"),
        "SCRIPT": "\n".join(map(_asset, _SCRIPTS)),
        "STATIC": static,
        # no name may end the element that holds the data (`</script>`)
        "DATA": json.dumps(data, separators=(",", ":"))
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026"),
    }
    return "".join(_filled(_asset("page.html"), parts))


def _filled(template: str, parts: Mapping[str, str]) -> Iterable[str]:
    """The template with `{{NAME}}` replaced, each once and from left to right, so that what is put in is
    never searched.
    """
    head, *rest = template.split("{{")
    yield head
    for piece in rest:
        name, _, tail = piece.partition("}}")
        yield parts[name]
        yield tail


def _asset(name: str) -> str:
    return (resources.files("fluidlite.show") / "page" / name).read_text(encoding="utf8")
