"""A program, or all programs of a distributed job, as one page that needs nothing else: no network, no fonts,
no library.

The page holds its data as JSON, where every op, name and program stands once: a hundred trainers, whose
programs differ in their number only, share one. In names and attributes `\\x01` stands for the number of the
role, `\\x02` for its endpoint.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fluidlite.base.dtypes import Array
from fluidlite.base.package_files import text_beside
from fluidlite.ir.program import Program
from fluidlite.show.diff import Baseline
from fluidlite.show.page_data import Ends, Marks, PageData, fixed_numbers, weights
from fluidlite.show.values import value_facts

__all__ = ["JobLike", "job_page", "program_page"]

_SCRIPTS = (
    "model.js",
    "folded.js",
    "layout.js",
    "minimap.js",
    "graph.js",
    "linked.js",
    "list.js",
    "listing.js",
    "places.js",
    "links.js",
    "values.js",
    "details.js",
    "overview.js",
    "export.js",
    "search.js",
    "main.js",
)
_PROGRAMS = ("main", "startup")
_MOST_STATIC = 400  # rows of the table for readers without scripts, who cannot fold it


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


class ExchangeLike(Protocol):
    """The exchange between the processes of a job: see `fluidlite.cli.exchange`."""

    @property
    def batch(self) -> int: ...
    @property
    def links(self) -> Sequence[tuple[str, str, float, float]]: ...
    def ends(self, role: Any, programs: Any) -> Ends: ...


def program_page(
    program: Program,
    title: str = "program",
    startup: Program | None = None,
    values: Mapping[str, Array] | None = None,
) -> str:
    """The page of one program, and of the one that initialises what it needs; with `values`, by name, what
    is in its weights.
    """
    pool = PageData()
    original = {"main": pool.program(program)}
    if startup is not None and startup.global_block().ops:
        original["startup"] = pool.program(startup)
    data = {
        "title": title,
        "facts": [],
        "slices": [],
        "endpoints": [],
        "links": [],
        "batch": 0,
        "values": {name: value_facts(value) for name, value in (values or {}).items()},
        "params": _parameters(program),
        "original": original,
        "roles": [],
    }
    return _page(title, {**data, **pool.data()}, "")


def job_page(job: JobLike, title: str = "job", exchange: ExchangeLike | None = None) -> str:
    """The page of a job: its processes and what they exchange, where each parameter lives, and the original
    program beside that of any role. Without `exchange` it tells no bytes, and leads from no op to another
    process.

    Trainers differ in their number only, so no more than three of them are made and compared; were these to
    differ in something else, all are made.
    """
    pool = PageData()
    roles = _Roles(job, exchange)
    original = {"main": pool.program(job.main), "startup": pool.program(job.startup)}
    # from here on only these lines: those of the transpiler's own ops say nothing to a user
    pool.places = {
        op.where
        for program in (job.main, job.startup)
        for block in program.blocks
        for op in block.ops
        if op.where is not None
    }
    endpoints = [role.endpoint for role in job.roles if not role.trains]
    numbers = {endpoint: number for number, endpoint in enumerate(endpoints)}
    pool.endpoints.update(numbers)
    data = {
        "title": title,
        "facts": _facts(job, endpoints),
        "endpoints": endpoints,
        "links": [list(link) for link in exchange.links] if exchange else [],
        "batch": exchange.batch if exchange else 0,
        "values": {},
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
    return [[param.name, list(param.shape), f"{param.name}@GRAD"] for param in weights(program)]


# ------------------------------------------------------------------------------------------------ roles
class _Roles:
    """The roles of a job as data; the programs of trainers are made for a few of them."""

    def __init__(self, job: JobLike, exchange: ExchangeLike | None) -> None:
        self.job = job
        self.exchange = exchange
        self.baselines = {"main": Baseline(job.main), "startup": Baseline(job.startup)}
        self.matches: dict[tuple[str, int], list[int]] = {}

    def data(self, pool: PageData) -> list[dict[str, Any]]:
        """Every role: its name, and the numbers of its programs."""
        trainers = [role for role in self.job.roles if role.trains]
        pair = [self.job.programs(role) for role in trainers[:2]]
        # of a single trainer no number differs from another's
        fixed: dict[str, frozenset[tuple[int, int, str]]] = dict.fromkeys(_PROGRAMS, frozenset())
        if len(pair) > 1:
            for which in _PROGRAMS:
                fixed[which] = fixed_numbers(getattr(pair[0], which), getattr(pair[1], which))
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
        self, pool: PageData, role: RoleLike, fixed: Mapping[str, frozenset[tuple[int, int, str]]]
    ) -> dict[str, int]:
        programs: ProgramsLike = self.job.programs(role)
        ends = self.exchange.ends(role, programs) if self.exchange else {}
        numbers = {}
        for which in _PROGRAMS:
            program = getattr(programs, which)
            marks = Marks(role.index, role.endpoint, fixed[which]) if role.trains else None
            numbers[which] = pool.program(program, marks, ends)
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
    return text_beside("fluidlite.show", f"page/{name}")
