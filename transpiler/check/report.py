"""A static check over the programs of all roles of a job: what would hang, be lost, or be computed
wrongly, before it is run.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluidlite.base.cells import table_cell
from fluidlite.base.comm_kind import CommKind
from fluidlite.base.records import dataclass
from fluidlite.transpiler.check.arrivals import check_arrivals
from fluidlite.transpiler.check.cluster import Cluster
from fluidlite.transpiler.check.coverage import check_coverage
from fluidlite.transpiler.check.facts import Finding, Findings, Site, writes
from fluidlite.transpiler.check.flow import check_flow, fed_names, never_written
from fluidlite.transpiler.check.links import check_links
from fluidlite.transpiler.check.order import check_barriers, check_cycles, step_of_ranks, step_of_servers
from fluidlite.transpiler.check.original import check_against_original
from fluidlite.transpiler.check.point_to_point import check_point_to_point
from fluidlite.transpiler.check.ranks import check_ranks, read_rank, sequence
from fluidlite.transpiler.check.reading import ServerFacts, TrainerFacts, read_server, read_trainer
from fluidlite.transpiler.check.servers import check_servers
from fluidlite.transpiler.check.slices import check_placement, check_slices
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole, Programs

__all__ = ["RULES", "Finding", "Report", "check"]

RULES: Mapping[str, str] = {
    "as-written": "ops have the attributes of the original program, and servers have all ops of each update",
    "average": "gradients of all trainers are summed and divided by their number, once",
    "barrier": "every trainer passes the same barriers of every server as often as the server waits for them",
    "beginning": "a server initialises its variables as the original startup program does",
    "blocks": "listen_and_serv runs every block of the server for a gradient that the block uses",
    "broadcast": "every parameter is broadcast once, from one root that exists, before training",
    "collective-args": "collectives that meet agree in shape, type, root and kind of reduction",
    "collective-order": "every rank calls the same collectives on the same variables in the same order",
    "control": "send_barrier waits for every send, and recv for send_barrier",
    "deadlock": "no roles wait for each other in a cycle",
    "dtype": "both ends of a link agree in the element type",
    "endpoints": "every endpoint is a server of the job, and an op has one for each variable",
    "fanin": "a server waits for as many trainers as there are",
    "fetched-twice": "a trainer fetches a variable once a step",
    "listen": "a server's main program has a listen_and_serv op",
    "no-receiver": "the server at the endpoint receives every variable that a trainer sends to it",
    "no-sender": "every variable that a server waits for is sent by the trainer that owns it",
    "not-fetched": "every parameter that a server updates comes back to every trainer",
    "not-held": "the server at the endpoint initialises every variable that a trainer fetches from it",
    "not-updated": "the server updates every variable that a trainer fetches in each step",
    "nranks": "communicators have the job's number of ranks, and its endpoints",
    "order": "a step writes, sends, passes the barrier, fetches and joins, in this order",
    "pairing": "a parameter's gradient updates that parameter",
    "point-to-point": "every send has a matching receive on the rank it names, and the ranks exist",
    "reduce": "each gradient is reduced once, after its last write and before its first use",
    "ring": "a ring is made once, before it is used",
    "sent-twice": "a trainer sends a variable to a server once a step",
    "shape": "both ends of a link, and the inputs of an update, agree in shape",
    "shared-name": "two trainers of a synchronous job never send the same name",
    "slices": "slices are whole rows that tile their parameter in order",
    "snapshot": "local SGD averages differences from a snapshot that is taken first and updated each time",
    "startup": "a trainer starts with the servers' parameters",
    "sync": "a collective starts after its input is written and is complete before its output is read",
    "trainer-id": "the programs of trainer i carry the number i, and no two trainers carry the same number",
    "undeclared": "an op uses only declared variables",
    "undefined": "an op reads only variables that have been written before",
    "uninitialised": "persistable variables are initialised or received by the startup program; "
    "`fake_init` alone is neither",
    "unused": "every received variable is read",
    "updated-twice": "a parameter is updated in one place",
}
"""What each rule asks for."""


@dataclass(frozen=True)
class Report:
    """Findings of the check; `looked_at` are the roles whose programs were read, `ops` the number of their
    ops, `pieces` that of variables which cross links.
    """

    findings: tuple[Finding, ...]
    looked_at: tuple[JobRole, ...]
    ops: int
    pieces: int

    @property
    def ok(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    def rules(self) -> frozenset[str]:
        """The rules that were broken."""
        return frozenset(finding.rule for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.findings), self._headline()])

    def _headline(self) -> str:
        seen = (
            f"{len(self.looked_at)} roles, {self.ops} ops, {self.pieces} variables a step on the links or in "
            "collectives"
        )
        return f"ok: {seen}" if self.ok else f"{len(self.findings)} findings in {seen}"

    def _repr_html_(self) -> str:
        """The findings as a table, as a notebook shows them."""
        rows = [
            (found.rule, found.role.name, found.message, "" if found.site is None else str(found.site))
            for found in self.findings
        ]
        return table_cell(self._headline(), ("rule", "role", "finding", "op"), rows, good=self.ok)


def check(
    job: Job | Mapping[JobRole, Programs], trainers: int | None = None, made_by: Job | None = None
) -> Report:
    """Check the programs of all roles against each other; time grows linearly with the ops that are read.

    Of a `Job`'s trainers the first two and the last are read, since they differ in their numbers only; of a
    mapping all are. `trainers` is their number where the mapping does not hold all of them. With `made_by`
    the mapping's programs, which somebody may have edited, are also held against that job's original ones.
    """
    if isinstance(job, Job):
        picked = {role: job.programs(role) for role in _sample(job)}
        # who sends to whom is a matter of all ranks
        ops = (op for made in picked.values() for op in made.main.global_block().ops)
        if any(op.communicates in (CommKind.SEND, CommKind.RECEIVE) for op in ops):
            picked = {role: job.programs(role) for role in job.roles}
        return _Check(picked, job.trainers, job).report()
    count = sum(role.kind == "trainer" for role in job) if trainers is None else trainers
    return _Check(job, count, made_by).report()


def _sample(job: Job) -> list[JobRole]:
    # the first two differ in every number that may differ; the last one shows a count that is off by one
    return [role for role in job.roles if role.kind != "trainer" or role.index in (0, 1, job.trainers - 1)]


class _Check:
    """One run of the check."""

    def __init__(self, programs: Mapping[JobRole, Programs], count: int, job: Job | None) -> None:
        self.found = Findings()
        self.programs = programs
        self.count = count
        self.job = job
        self.trainers = [read_trainer(role, programs[role]) for role in programs if role.kind == "trainer"]
        self.servers = self.listening()
        self.pieces = 0

    def listening(self) -> dict[str, ServerFacts]:
        """The servers by endpoint."""
        found: dict[str, ServerFacts] = {}
        for role, programs in self.programs.items():
            if role.kind == "trainer":
                continue
            server = read_server(role, programs)
            if server is None:
                self.found.add("listen", role, "its main program has no listen_and_serv op in block 0")
            elif server.endpoint in found:
                self.found.add(
                    "endpoints",
                    server.listen,
                    f"{found[server.endpoint].role.name} listens at {server.endpoint!r} too",
                )
            else:
                found[server.endpoint] = server
        return found

    def report(self) -> Report:
        """Apply all rules."""
        self.check_numbers()
        # a mapping has no table of slices: there the programs are all that is known
        if self.job is not None:
            if self.job.slices:
                check_placement(self.found, self.job, self.servers)
            check_against_original(self.found, self.job, self.programs, self.servers)
        for trainer in self.trainers:
            self.check_trainer_flow(trainer)
        if any(role.kind != "trainer" for role in self.programs):
            self.check_servers()
        else:
            self.check_collectives()
        ops = sum(
            len(block.ops)
            for item in self.programs.values()
            for program in (item.main, item.startup)
            for block in program.blocks
        )
        return Report(tuple(self.found.items.values()), tuple(self.programs), ops, self.pieces)

    def check_numbers(self) -> None:
        """No two roles are the same one."""
        seen: dict[str, JobRole] = {}
        for role in self.programs:
            if role.name in seen:
                self.found.add("trainer-id", role, f"two roles are called {role.name!r}")
            if role.kind == "trainer" and not 0 <= role.index < self.count:
                self.found.add("trainer-id", role, f"the job has {self.count} trainers, numbered from 0")
            seen[role.name] = role

    def check_trainer_flow(self, trainer: TrainerFacts) -> None:
        """Definition before use in a trainer's programs."""
        program = trainer.programs.main
        startup = trainer.programs.startup
        check_flow(self.found, trainer.role, "startup", startup, (), trainer.local)
        # What the original job lacks too (a variable fed, or set through the scope) is the user's to give
        fed = (
            fed_names(program)
            if self.job is None
            else never_written(self.job.main) - writes(self.job.startup)
        )
        check_flow(self.found, trainer.role, "main", program, trainer.initialised, fed | trainer.local)

    def check_servers(self) -> None:
        """The rules of parameter-server jobs."""
        for server in self.servers.values():
            check_flow(self.found, server.role, "startup", server.programs.startup, ())
            check_flow(
                self.found,
                server.role,
                "main",
                server.programs.main,
                server.held.keys(),
                server.expected_set | server.gradients.keys() | {"@TRAINER_ID@"},
            )
        present = {trainer.role.index for trainer in self.trainers}
        cluster = Cluster(
            self.found,
            self.trainers,
            self.servers,
            self.count,
            tuple(i for i in range(self.count) if i not in present),
            self.is_sync(),
            any(server.geo for server in self.servers.values()),
        )
        for rules in (check_links, check_servers, check_arrivals, check_coverage):
            rules(cluster)
        check_slices(cluster)
        check_barriers(cluster)
        check_cycles(self.found, *step_of_servers(cluster))
        self.pieces = sum(
            len(trainer.sent) + len(trainer.fetched) + len(trainer.looked_up) for trainer in self.trainers
        )

    def is_sync(self) -> bool:
        """True if the trainers take each step together: a barrier says so, or that gradients arrive under
        each trainer's name.
        """
        if self.job is not None:
            return self.job.mode.in_step
        barriers = any(
            site.op.type == "send_barrier" and not site.op.attrs.get("half_async")
            for trainer in self.trainers
            for site in trainer.barriers
        )
        return barriers or any(
            server.gradients.keys() - server.expected_set
            for server in self.servers.values()
            if not server.geo
        )

    def check_collectives(self) -> None:
        """The rules of jobs without servers."""
        ranks = [read_rank(trainer.role, trainer.programs, self.count) for trainer in self.trainers]
        check_ranks(self.found, ranks, self.count)
        check_point_to_point(self.found, ranks, self.count)
        for label in ("startup", "main"):
            steps: dict[JobRole, list[tuple[int, Site]]] = {}
            for rank in ranks:
                steps[rank.role] = sequence(getattr(rank, label))
                self.pieces += len(steps[rank.role])
            check_cycles(self.found, *step_of_ranks(steps))
