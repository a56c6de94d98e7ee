"""What the static check reads off the programs of a job: who sends which variable where, what a server
holds and updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import did_you_mean
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.config import DistributedMode
from fluidlite.transpiler.parts.roles import JobRole, Programs

__all__ = [
    "Findings",
    "Finding",
    "Piece",
    "Server",
    "Site",
    "Trainer",
    "declared",
    "only",
    "pairs",
    "read_server",
    "read_trainer",
    "row_count",
    "writes",
]

MOST_SUGGESTIONS = 20


class Site(NamedTuple):
    """One op of one role's program."""

    role: JobRole
    program: str  # "main" or "startup"
    block: int
    number: int  # position in the block
    op: Operator

    def __str__(self) -> str:
        place = f"{self.program} op {self.number}" + (f" of block {self.block}" if self.block else "")
        return f"{self.role.name} {place}: {self.op.call_text()}\n      built at {self.op.where}"


@dataclass(frozen=True)
class Finding:
    """Something wrong: the rule (a key of `RULES`), the role, the op where one is to blame, and the values
    found.
    """

    rule: str
    role: JobRole
    message: str
    site: Site | None = None

    @property
    def op(self) -> Operator | None:
        """The op to blame; its `where` is the user's line."""
        return None if self.site is None else self.site.op

    def __str__(self) -> str:
        return f"{self.rule}: {self.role.name}: {self.message}" + (f"\n    {self.site}" if self.site else "")


class Findings:
    """Collects findings; the same one twice counts once."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str, str], Finding] = {}

    def add(self, rule: str, where: Site | JobRole, message: str) -> None:
        """Report a finding at an op, or of a role as a whole."""
        role, site = (where.role, where) if isinstance(where, Site) else (where, None)
        self.items.setdefault((rule, role.name, message), Finding(rule, role, message, site))

    def near(self, name: str, known: Iterable[str]) -> str:
        """The nearest name, for the first findings: looking for it costs more than all the rest of the
        check.
        """
        return did_you_mean(name, known) if len(self.items) < MOST_SUGGESTIONS else ""


class Piece(NamedTuple):
    """One variable that crosses a link: its name in the trainer's program, and on the server."""

    site: Site
    local: str
    remote: str
    endpoint: str
    shape: tuple[int, ...] | None  # None where the trainer does not declare the piece itself
    dtype: VarType | None
    sparse: bool


@dataclass
class Trainer:
    """One trainer's communication in the order of its ops, the main program's and the startup program's."""

    role: JobRole
    programs: Programs
    sent: list[Piece] = field(default_factory=list)
    fetched: list[Piece] = field(default_factory=list)
    received_at_start: list[Piece] = field(default_factory=list)
    looked_up: list[Piece] = field(default_factory=list)  # rows of sparse tables that stay on the servers
    barriers: list[Site] = field(default_factory=list)  # of the main program
    barriers_at_start: list[Site] = field(default_factory=list)
    splits: list[Site] = field(default_factory=list)
    joins: list[Site] = field(default_factory=list)  # concat ops, of both programs
    badly_mapped: list[Site] = field(default_factory=list)  # ops whose endpoints do not fit their variables
    initialised: set[str] = field(default_factory=set)  # what the startup program writes
    local: set[str] = field(default_factory=set)  # what is handed to the trainer's own communicator

    @property
    def block(self) -> Block:
        """The block that runs every step."""
        return self.programs.main.global_block()

    def mapped(self, site: Site, pieces: list[Piece] | None) -> list[Piece]:
        """The pieces; none, and a note, where the op's endpoints do not fit its variables."""
        if pieces is None:
            self.badly_mapped.append(site)
        return pieces or []

    def sites(self, program: str) -> Iterator[Site]:
        """The ops of block 0 of the main or the startup program."""
        block = (self.programs.main if program == "main" else self.programs.startup).global_block()
        return (Site(self.role, program, 0, number, op) for number, op in enumerate(block.ops))


@dataclass
class Server:
    """What one server's programs promise."""

    role: JobRole
    programs: Programs
    listen: Site
    endpoint: str
    fanin: int
    expected: list[str]  # listen_and_serv's X: what arrives each step
    gradients: dict[str, int]  # the gradient (or delta) that a block is run for -> the block
    blocks: list[int]  # optimize_blocks
    held: dict[str, Variable]  # what its startup program initialises
    readers: dict[str, tuple[Site, ...]]  # variable -> ops of its blocks that read it
    writers: dict[str, tuple[Site, ...]]
    geo: bool
    bad_entries: list[str] = field(default_factory=list)  # of grad_to_block_id

    @property
    def block(self) -> Block:
        """The block that declares the server's variables."""
        return self.programs.main.global_block()

    def accepts(self, name: str) -> bool:
        """Whether the server takes in a variable of that name."""
        return (
            name in self.expected_set
            or (self.geo and name in self.gradients)
            or (name in self.held and name in self.readers)
        )

    @property
    def expected_set(self) -> frozenset[str]:
        """`expected` for look-ups."""
        found: frozenset[str] | None = self.__dict__.get("_expected_set")
        if found is None:
            found = self.__dict__["_expected_set"] = frozenset(self.expected)
        return found

    def sites(self) -> Iterator[Site]:
        """The ops of all blocks in the order in which they run."""
        for block in self.programs.main.blocks:
            for number, op in enumerate(block.ops):
                yield Site(self.role, "main", block.idx, number, op)


def declared(block: Block, name: str) -> Variable | None:
    """The variable that an op of `block` means by `name`."""
    return block._find_var_recursive(name)


def only(slots: Mapping[str, list[str]], name: str) -> str:
    """The first variable of a slot; "" where there is none (programs that are checked may be broken)."""
    return (slots.get(name) or [""])[0]


def row_count(shape: Iterable[int] | None) -> int:
    """The first dimension; -1 where it is unknown."""
    return next(iter(shape or ()), -1)


def writes(program: Program) -> set[str]:
    """Names that any op of `program` writes."""
    return {
        name
        for block in program.blocks
        for op in block.ops
        for name in op.output_arg_names
        if name != EMPTY_VAR
    }


def pairs(entries: Iterable[str]) -> Iterator[tuple[str, str]]:
    """`"name:value"` entries of listen_and_serv's attributes as (name, value)."""
    for entry in entries:
        name, _, value = str(entry).rpartition(":")
        yield name, value


# ---------------------------------------------------------------------- trainers
def read_trainer(role: JobRole, programs: Programs) -> Trainer:
    """Collect what the ops of a trainer say, in one pass over each program."""
    trainer = Trainer(role, programs)
    trainer.initialised = writes(programs.startup)
    for site in trainer.sites("main"):
        _read_main(trainer, site)
    for site in trainer.sites("startup"):
        if site.op.type == "recv":
            trainer.received_at_start += trainer.mapped(site, _received(site))
        elif site.op.type == "fetch_barrier":
            trainer.barriers_at_start.append(site)
        elif site.op.type == "concat":
            trainer.joins.append(site)
        elif site.op.type == "send":
            trainer.local.update(site.op.inputs.get("X", ()))
    return trainer


def _read_main(trainer: Trainer, site: Site) -> None:
    kind = site.op.type
    if kind == "send":
        remote = site.op.attrs.get("send_varnames")
        if remote and not site.op.attrs.get("sections") and remote != site.op.inputs.get("X"):
            trainer.local.update(site.op.inputs.get("X", ()))
        elif site.op.inputs.get("X"):
            trainer.sent += trainer.mapped(site, _sent(site))
    elif kind == "recv":
        trainer.fetched += trainer.mapped(site, _received(site))
    elif kind in ("send_barrier", "fetch_barrier"):
        trainer.barriers.append(site)
    elif kind in ("split_byref", "split_selected_rows"):
        trainer.splits.append(site)
    elif kind == "concat":
        trainer.joins.append(site)
    elif site.op.attrs.get("table_names") and not kind.endswith("_grad"):
        trainer.looked_up += trainer.mapped(site, _looked_up(site))


def _sent(site: Site) -> list[Piece] | None:
    """What a send op sends where; None where names, sections and endpoints differ in number.

    With `sections` the op itself cuts its one variable into rows; one variable and many endpoints means a
    copy to each.
    """
    op, names = site.op, site.op.inputs["X"]
    endpoints, sections = _endpoints(op), [int(rows) for rows in op.attrs.get("sections", ())]
    remote = [str(name) for name in op.attrs.get("send_varnames", ())]
    if len(remote) > 1:
        if not len(remote) == len(endpoints) == len(sections) or len(names) != 1:
            return None
        whole = _piece(site, names[0], names[0], "")
        tail = (whole.shape or ())[1:]
        return [
            whole._replace(remote=name, endpoint=endpoint, shape=(rows, *tail))
            for name, endpoint, rows in zip(remote, endpoints, sections, strict=True)
        ]
    if len(names) == 1 and endpoints:
        return [_piece(site, names[0], (remote or names)[0], endpoint) for endpoint in endpoints]
    return _zipped(site, names, names, endpoints)


def _received(site: Site) -> list[Piece] | None:
    """What a recv op fetches from where; with `recv_varnames` the op itself joins the pieces into its one
    variable.
    """
    op, names = site.op, site.op.outputs.get("Out", [])
    joined = [str(name) for name in op.attrs.get("recv_varnames", ())]
    if joined and joined != names:
        if len(names) != 1 or len(joined) != len(_endpoints(op)):
            return None
        whole = _piece(site, names[0], names[0], "")
        return [
            whole._replace(remote=name, endpoint=endpoint, shape=whole.shape if len(joined) == 1 else None)
            for name, endpoint in zip(joined, _endpoints(op), strict=True)
        ]
    return _zipped(site, names, [str(name) for name in op.attrs.get("varnames", ())] or names, _endpoints(op))


def _looked_up(site: Site) -> list[Piece] | None:
    """The shards of the table whose rows a look-up fetches."""
    op = site.op
    tables, heights = (
        [str(name) for name in op.attrs["table_names"]],
        [int(rows) for rows in op.attrs.get("height_sections", ())],
    )
    endpoints = [str(endpoint) for endpoint in op.attrs.get("endpoints") or op.attrs.get("epmap") or ()]
    table = (op.inputs.get("W") or op.inputs.get("Weight") or [""])[0]
    if not len(tables) == len(heights) == len(endpoints):
        return None
    var = declared(op.block, table)
    return [
        Piece(
            site,
            table,
            name,
            endpoint,
            None if var is None else (rows, *var.shape[1:]),
            None if var is None else var._dtype,
            False,
        )
        for name, endpoint, rows in zip(tables, endpoints, heights, strict=True)
    ]


def _endpoints(op: Operator) -> list[str]:
    return [str(endpoint) for endpoint in op.attrs.get("epmap", ())]


def _zipped(site: Site, local: list[str], remote: list[str], endpoints: list[str]) -> list[Piece] | None:
    if not len(local) == len(remote) == len(endpoints):
        return None
    return [_piece(site, *item) for item in zip(local, remote, endpoints, strict=True)]


def _piece(site: Site, local: str, remote: str, endpoint: str) -> Piece:
    var = declared(site.op.block, local)
    shape, dtype = (None, None) if var is None else (var.shape or None, var._dtype)
    return Piece(
        site, local, remote, endpoint, shape, dtype, var is not None and var.type == VarType.SELECTED_ROWS
    )


# ---------------------------------------------------------------------- servers
def read_server(role: JobRole, programs: Programs) -> Server | None:
    """Collect what a server's programs say; None where the main program does not listen."""
    block = programs.main.global_block()
    listen = next(
        (
            Site(role, "main", 0, number, op)
            for number, op in enumerate(block.ops)
            if op.type == "listen_and_serv"
        ),
        None,
    )
    if listen is None:
        return None
    attrs = listen.op.attrs
    gradients = {
        name: int(number) for name, number in pairs(attrs.get("grad_to_block_id", ())) if number.isdecimal()
    }
    bad = [
        str(entry)
        for (_, number), entry in zip(
            pairs(attrs.get("grad_to_block_id", ())), attrs.get("grad_to_block_id", ()), strict=True
        )
        if not number.isdecimal()
    ]
    held = {
        name: var
        for name in sorted(writes(programs.startup))
        if (var := declared(block, name) or declared(programs.startup.global_block(), name)) is not None
    }
    server = Server(
        role,
        programs,
        listen,
        str(attrs.get("endpoint", "")),
        int(attrs.get("Fanin", 0)),
        list(listen.op.inputs.get("X", ())),
        gradients,
        [int(block.idx) for block in attrs.get("optimize_blocks", ())],
        held,
        {},
        {},
        attrs.get("distributed_mode") == DistributedMode.GEO,
        bad,
    )
    for site in server.sites():
        if site.block:
            _note(server.readers, site, site.op.inputs)
            _note(server.writers, site, site.op.outputs)
    return server


def _note(into: dict[str, tuple[Site, ...]], site: Site, slots: Mapping[str, list[str]]) -> None:
    """Note that an op uses names; a sum over a thousand trainers is one step."""
    for names in slots.values():
        if into.keys().isdisjoint(names):
            into.update(dict.fromkeys(names, (site,)))
        else:
            into.update({name: (*into.get(name, ()), site) for name in names})
