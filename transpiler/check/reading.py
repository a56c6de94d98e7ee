"""Facts that the static check reads off the programs of a job: variables that trainers send and fetch, and
what a server holds and updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import NamedTuple

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import VarType
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.check.facts import Site, declared, pairs, writes
from fluidlite.transpiler.config import DistributedMode
from fluidlite.transpiler.parts.roles import JobRole, Programs

__all__ = ["LinkedVariable", "ServerFacts", "TrainerFacts", "read_server", "read_trainer"]


class LinkedVariable(NamedTuple):
    """One variable that crosses a link: its name in the trainer's program, and on the server."""

    site: Site
    local: str
    remote: str
    endpoint: str
    shape: tuple[int, ...] | None  # None where the trainer does not declare the piece itself
    dtype: VarType | None
    sparse: bool


@dataclass
class TrainerFacts:
    """One trainer's communication in the order of its ops, the main program's and the startup program's."""

    role: JobRole
    programs: Programs
    sent: list[LinkedVariable] = field(default_factory=list)
    fetched: list[LinkedVariable] = field(default_factory=list)
    received_at_start: list[LinkedVariable] = field(default_factory=list)
    # rows of sparse tables that stay on the servers
    looked_up: list[LinkedVariable] = field(default_factory=list)
    barriers: list[Site] = field(default_factory=list)  # of the main program
    barriers_at_start: list[Site] = field(default_factory=list)
    splits: list[Site] = field(default_factory=list)
    joins: list[Site] = field(default_factory=list)  # concat ops, of both programs
    badly_mapped: list[Site] = field(default_factory=list)  # ops whose endpoints do not fit their variables
    initialised: set[str] = field(default_factory=set)  # what the startup program gives a value
    local: set[str] = field(default_factory=set)  # what is handed to the trainer's own communicator

    @property
    def block(self) -> Block:
        """The block that runs every step."""
        return self.programs.main.global_block()

    def mapped(self, site: Site, pieces: list[LinkedVariable] | None) -> list[LinkedVariable]:
        """The pieces; none, and a note, where the op's endpoints do not fit its variables."""
        if pieces is None:
            self.badly_mapped.append(site)
        return pieces or []

    def sites(self, program: str) -> Iterator[Site]:
        """The ops of block 0 of the main or the startup program."""
        block = (self.programs.main if program == "main" else self.programs.startup).global_block()
        return (Site(self.role, program, 0, number, op) for number, op in enumerate(block.ops))


@dataclass
class ServerFacts:
    """The promises of one server's programs."""

    role: JobRole
    programs: Programs
    listen: Site
    endpoint: str
    fanin: int
    expected: list[str]  # listen_and_serv's X: what arrives each step
    gradients: dict[str, int]  # the gradient (or delta) that a block is run for -> the block
    bad_entries: list[str]  # of grad_to_block_id
    blocks: list[int]  # optimize_blocks
    geo: bool
    held: dict[str, Variable] = field(default_factory=dict)  # initialised by its startup program
    # variable -> ops of blocks that read it
    readers: dict[str, tuple[Site, ...]] = field(default_factory=dict)
    writers: dict[str, tuple[Site, ...]] = field(default_factory=dict)

    @property
    def block(self) -> Block:
        """The block that declares the server's variables."""
        return self.programs.main.global_block()

    def accepts(self, name: str) -> bool:
        """True if the server takes in a variable of that name."""
        if name in self.expected_set or (self.geo and name in self.gradients):
            return True
        return name in self.held and name in self.readers

    @cached_property
    def expected_set(self) -> frozenset[str]:
        """`expected` for look-ups."""
        return frozenset(self.expected)

    def sites(self) -> Iterator[Site]:
        """The ops of all blocks in the order in which they run."""
        for block in self.programs.main.blocks:
            for number, op in enumerate(block.ops):
                yield Site(self.role, "main", block.idx, number, op)

    def sums_over(self, trainers: int) -> Iterator[list[str]]:
        """Variables that the server keeps apart for each trainer, in the order of the trainers: the terms of
        a sum of as many variables, none of which the server computes itself.
        """
        if self.geo or trainers < 2:
            return
        for site in self.sites():
            names = site.op.inputs.get("X", [])
            if site.op.type != "sum" or len(names) != trainers or len(set(names)) != trainers:
                continue
            if self.writers.keys().isdisjoint(names):
                yield names


# ---------------------------------------------------------------------- trainers
def read_trainer(role: JobRole, programs: Programs) -> TrainerFacts:
    """Collect what the ops of a trainer say, in one pass over each program."""
    trainer = TrainerFacts(role, programs)
    trainer.initialised = {
        name
        for block in programs.startup.blocks
        for op in block.ops
        # it makes room for a table, and gives it no value
        if op.type != "fake_init"
        for name in op.output_arg_names
    }
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


def _read_main(trainer: TrainerFacts, site: Site) -> None:
    kind = site.op.type
    if kind == "send":
        # one that is part of the forward pass hands ids to the communicator (geo-SGD)
        if not site.op.role:
            trainer.local.update(site.op.inputs.get("X", ()))
        elif site.op.inputs.get("X"):
            trainer.sent += trainer.mapped(site, _sent(site))
    elif kind == "recv":
        trainer.fetched += trainer.mapped(site, _received(site))
    elif site.op.communicates is CommKind.SERVER_BARRIER:
        trainer.barriers.append(site)
    elif kind == "split_byref" or kind == "split_selected_rows":
        trainer.splits.append(site)
    elif kind == "concat":
        trainer.joins.append(site)
    elif site.op.attrs.get("table_names") and not kind.endswith("_grad"):
        trainer.looked_up += trainer.mapped(site, _looked_up(site))


def _sent(site: Site) -> list[LinkedVariable] | None:
    """The variables of a send op, with the servers that get them; None where names, sections and endpoints
    differ in number.

    With `sections` the op itself cuts its one variable into rows; one variable and many endpoints means a
    copy to each.
    """
    op = site.op
    names = site.op.inputs["X"]
    endpoints = _endpoints(op)
    sections = [int(rows) for rows in op.attrs.get("sections", ())]
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
    # a step counter goes to every server
    if len(names) == 1 and endpoints:
        return [_piece(site, names[0], (remote or names)[0], endpoint) for endpoint in endpoints]
    return _zipped(site, names, names, endpoints)


def _received(site: Site) -> list[LinkedVariable] | None:
    """The variables of a recv op, with the servers that have them; with `recv_varnames` the op itself joins
    the pieces into its one variable.
    """
    op = site.op
    names = site.op.outputs.get("Out", [])
    joined = [str(name) for name in op.attrs.get("recv_varnames", ())]
    if joined and joined != names:
        if len(names) != 1 or len(joined) != len(_endpoints(op)):
            return None
        whole = _piece(site, names[0], names[0], "")
        return [
            whole._replace(remote=name, endpoint=endpoint, shape=whole.shape if len(joined) == 1 else None)
            for name, endpoint in zip(joined, _endpoints(op), strict=True)
        ]
    remote = [str(name) for name in op.attrs.get("varnames", ())]
    return _zipped(site, names, remote or names, _endpoints(op))


def _looked_up(site: Site) -> list[LinkedVariable] | None:
    """The shards of the table whose rows a look-up fetches."""
    op = site.op
    tables = [str(name) for name in op.attrs["table_names"]]
    heights = [int(rows) for rows in op.attrs.get("height_sections", ())]
    places = op.attrs.get("endpoints") or op.attrs.get("epmap") or ()
    endpoints = [str(endpoint) for endpoint in places]
    table = (op.inputs.get("W") or op.inputs.get("Weight") or [""])[0]
    if not len(tables) == len(heights) == len(endpoints):
        return None
    whole = _piece(site, table, table, "")
    tail = None if whole.shape is None else whole.shape[1:]
    return [
        whole._replace(
            remote=name, endpoint=endpoint, shape=None if tail is None else (rows, *tail), sparse=False
        )
        for name, endpoint, rows in zip(tables, endpoints, heights, strict=True)
    ]


def _endpoints(op: Operator) -> list[str]:
    return [str(endpoint) for endpoint in op.attrs.get("epmap", ())]


def _zipped(
    site: Site, local: list[str], remote: list[str], endpoints: list[str]
) -> list[LinkedVariable] | None:
    if not len(local) == len(remote) == len(endpoints):
        return None
    return [_piece(site, *item) for item in zip(local, remote, endpoints, strict=True)]


def _piece(site: Site, local: str, remote: str, endpoint: str) -> LinkedVariable:
    var = declared(site.op.block, local)
    shape, dtype = (None, None) if var is None else (var.shape or None, var._dtype)
    return LinkedVariable(
        site, local, remote, endpoint, shape, dtype, var is not None and var.type == VarType.SELECTED_ROWS
    )


# ---------------------------------------------------------------------- servers
def read_server(role: JobRole, programs: Programs) -> ServerFacts | None:
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
    gradients, bad = _entries(attrs.get("grad_to_block_id", ()))
    server = ServerFacts(
        role,
        programs,
        listen,
        endpoint=str(attrs.get("endpoint", "")),
        fanin=int(attrs.get("Fanin", 0)),
        expected=list(listen.op.inputs.get("X", ())),
        gradients=gradients,
        bad_entries=bad,
        blocks=[int(block.idx) for block in attrs.get("optimize_blocks", ())],
        geo=attrs.get("distributed_mode") == DistributedMode.GEO,
    )
    startup = programs.startup.global_block()
    for name in sorted(writes(programs.startup)):
        var = declared(block, name) or declared(startup, name)
        if var is not None:
            server.held[name] = var
    for site in server.sites():
        if site.block:
            _note(server.readers, site, site.op.inputs)
            _note(server.writers, site, site.op.outputs)
    return server


def _entries(given: Iterable[object]) -> tuple[dict[str, int], list[str]]:
    """The entries of `grad_to_block_id` as gradient -> block, and those that are not `name:number`."""
    found: dict[str, int] = {}
    bad = []
    for entry in map(str, given):
        ((name, number),) = pairs([entry])
        if number.isdecimal():
            found[name] = int(number)
        else:
            bad.append(entry)
    return found, bad


def _note(into: dict[str, tuple[Site, ...]], site: Site, slots: Mapping[str, list[str]]) -> None:
    """Note that an op uses names; a sum over a thousand trainers is one step."""
    for names in slots.values():
        if into.keys().isdisjoint(names):
            into.update(dict.fromkeys(names, (site,)))
        else:
            into.update({name: (*into.get(name, ()), site) for name in names})
