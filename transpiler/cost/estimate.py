"""What a job costs before it is run: bytes and messages on each link, memory of each role, and the time of a
step.

docs/PLAN.md states the model and works an example. Everything is computed from the original program, the
job's slices and one trainer's program: a plan of 10,000 trainers and 1,000 servers makes one program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fluidlite.base.errors import TranspilerError
from fluidlite.ir.operator import Operator
from fluidlite.transpiler.check.ranks import is_collective
from fluidlite.transpiler.cost.facts import ROW_ID_BYTES, Facts, Sizes, Tensor, peak_activations, read_facts
from fluidlite.transpiler.parts.roles import Job, Role, Slice

__all__ = ["Link", "Load", "Plan", "Row", "Scale", "Traffic", "plan"]

TRAINERS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 5000, 10000)


@dataclass(frozen=True)
class Link:
    """A network port: each message takes `latency_s` seconds and its bytes at `bytes_per_s`, one message
    after another.

    The defaults are a cloud machine's 10 Gb/s Ethernet with a remote call of 50 us.
    """

    latency_s: float = 50e-6
    bytes_per_s: float = 1.25e9

    def __post_init__(self) -> None:
        if not (self.latency_s >= 0 and self.bytes_per_s > 0):
            raise TranspilerError(
                f"a link needs a latency of 0 s or more and a positive speed, not {self.latency_s} s, "
                f"{self.bytes_per_s} B/s"
            )

    def one_way(self, load: Load) -> float:
        """The time of a load that must go out before anything comes in: a synchronous step pushes, then
        pulls.
        """
        return load.messages * self.latency_s + (load.out + load.into) / self.bytes_per_s

    def both_ways(self, load: Load) -> float:
        """The time of a load that goes out while as much comes in: rings, and asynchronous steps."""
        return load.messages * self.latency_s + max(load.out, load.into) / self.bytes_per_s

    def seconds(self, load: Load, mode: str) -> float:
        """The time of a load in a job of a mode."""
        return self.one_way(load) if mode == "pserver" else self.both_ways(load)


class Load(NamedTuple):
    """What crosses one port in a step: bytes out, bytes in, messages (requests that carry values, and
    barriers).
    """

    out: float = 0.0
    into: float = 0.0
    messages: float = 0.0

    def __add__(self, other: object) -> Load:  # type: ignore[override]
        assert isinstance(other, Load)
        return Load(self.out + other.out, self.into + other.into, self.messages + other.messages)

    def times(self, count: float) -> Load:
        """`count` of these."""
        return Load(self.out * count, self.into * count, self.messages * count)

    def turned(self) -> Load:
        """The same seen from the other end."""
        return Load(self.into, self.out, self.messages)


class Traffic(NamedTuple):
    """What goes from one role to another in a step."""

    sender: str
    receiver: str
    bytes: float
    messages: float


class Row(NamedTuple):
    """One line of `Plan.table()`: sizes in bytes, `seconds` what the role itself is busy in a step."""

    role: str
    ops: int
    parameters: int
    state: int
    activations: int
    bytes_out: float
    bytes_in: float
    messages: float
    seconds: float


class Scale(NamedTuple):
    """One line of `Plan.scaling()`: `seconds` a step, bytes that one trainer sends and receives, samples a
    second of all trainers.
    """

    mode: str
    trainers: int
    seconds: float
    bytes_out: float
    bytes_in: float
    samples_per_s: float


@dataclass(frozen=True)
class Plan:
    """The cost of one step of a job; see `plan`.

    Attributes
    ----------
    step_s: estimated seconds of a step. compute_s: those of one trainer's forward and backward pass alone.
    flops: multiplications and additions of one trainer's matrix products and convolutions, forward and
    backward. links: what goes from trainer0 to each server and back, or to its neighbour in the ring; other
    trainers do the same. bottleneck: the role whose port is busy longest.
    """

    job: Job
    facts: Facts
    sizes: Sizes
    link: Link
    compute_s: float
    step_s: float
    bottleneck: str
    links: tuple[Traffic, ...]
    rows: tuple[Row, ...] = field(repr=False)

    @property
    def flops(self) -> int:
        """Multiplications and additions of one trainer's step."""
        return self.facts.flops

    def table(self) -> tuple[Row, ...]:
        """A row for the trainers, who are alike (`trainer0..9`), and one for each server."""
        return self.rows

    def scaling(
        self,
        trainers: Sequence[int] = TRAINERS,
        modes: Sequence[str] | None = None,
        servers: int | None = None,
    ) -> tuple[Scale, ...]:
        """The estimated step of every mode for other numbers of trainers, each with the same batch.

        `servers` (default: the job's, or as many as trainers where it has none, 64 at most) stays the same
        for all.
        """
        from fluidlite.transpiler.cost.scaling import scaling

        return tuple(scaling(self, trainers, modes, servers))


def plan(
    job: Job,
    link: Link | None = None,
    batch: int = 32,
    sequence: int = 1,
    compute_s: float | None = None,
    flops: float | None = None,
) -> Plan:
    """The cost of one step of `job`, in which each trainer takes `batch` samples.

    Parameters
    ----------
    link: the speed of each machine's port.
    sequence: mean steps of a sample where the data has a level of detail.
    compute_s: seconds of a forward and backward pass of one trainer; or `flops`, how many multiplications and
    additions a trainer
        does in a second, from which it is estimated. Without either, communication alone counts.
    """
    _check_arguments(batch, sequence, compute_s, flops)
    sizes, link = Sizes(batch, sequence), link or Link()
    facts = read_facts(job.main, sizes)
    seconds = compute_s if compute_s is not None else facts.flops / flops if flops else 0.0
    draft = _Draft(job, facts, sizes, link, seconds)
    return draft.with_servers() if job.has_servers else draft.with_ring()


def _check_arguments(batch: int, sequence: int, compute_s: float | None, flops: float | None) -> None:
    for name, value in (("batch", batch), ("sequence", sequence)):
        if value < 1:
            raise TranspilerError(f"{name} should be 1 or more, not {value}")
    if compute_s is not None and flops is not None:
        raise TranspilerError("give compute_s or flops, not both")
    for name, speed in (("compute_s", compute_s), ("flops", flops)):
        if speed is not None and not speed >= 0:
            raise TranspilerError(f"{name} should not be negative, it is {speed}")


# ---------------------------------------------------------------------- parameter servers
def exchange(part: Slice, tensor: Tensor) -> Load:
    """What one trainer exchanges with the server of a slice in one step: the gradient out, the parameter in.

    A sparse table's gradient has a row, and its number, for each id of the batch (none twice: an upper
    bound), spread evenly over the slices; each look-up sends its ids and gets their rows.
    """
    if not tensor.sparse:
        size = part.shape[0] * tensor.row_bytes
        return Load(size, size, 2)
    rows = tensor.rows * part.shape[0] / tensor.shape[0]
    return Load(rows * (tensor.row_bytes + 2 * ROW_ID_BYTES), rows * tensor.row_bytes, 1 + tensor.lookups)


def exchange_of_geo(part: Slice, tensor: Tensor, every: int) -> Load:
    """The mean step of geo-SGD, which exchanges differences and parameters once in `every` steps."""
    size = part.shape[0] * tensor.row_bytes
    if tensor.sparse:
        rows = min(tensor.rows * every, tensor.shape[0]) * part.shape[0] / tensor.shape[0]
        size = math.ceil(rows) * (tensor.row_bytes + ROW_ID_BYTES)
    return Load(size, size, 2).times(1 / every)


def loads_of_servers(
    slices: Iterable[Slice], facts: Facts, endpoints: Sequence[str], mode: str, every: int
) -> dict[str, Load]:
    """What one trainer exchanges with each server in a step, seen from the trainer; synchronous steps pass
    two barriers each.
    """
    tensors = {tensor.name: tensor for tensor in facts.tensors}
    found = {endpoint: Load(messages=2.0 if mode == "pserver" else 0.0) for endpoint in endpoints}
    for part in slices:
        tensor = tensors[part.param]
        found[part.endpoint] += (
            exchange_of_geo(part, tensor, every) if mode == "geo_sgd" else exchange(part, tensor)
        )
    return found


def total(loads: Iterable[Load]) -> Load:
    """The sum."""
    found = Load()
    for load in loads:
        found += load
    return found


# ---------------------------------------------------------------------- rings
def ring(kind: str, size: float, count: int) -> Load:
    """What one rank sends and receives in a collective of `size` bytes over a ring of `count` ranks.

    An all-reduce sends 2 (n - 1) messages of 1/n of the bytes; a reduce-scatter or all-gather half of that; a
    broadcast or a reduction passes everything on once, in pieces: n - 1 messages.
    """
    if count < 2:
        return Load()
    if kind.startswith(("c_allreduce", "allreduce")):
        share = 2 * (count - 1) / count * size
        return Load(share, share, 2 * (count - 1))
    if kind == "c_allgather":
        return Load((count - 1) * size, (count - 1) * size, count - 1)
    if kind == "c_reducescatter":
        return Load((count - 1) / count * size, (count - 1) / count * size, count - 1)
    return Load(size, size, count - 1)


def hierarchical(size: float, count: int, inner: int) -> Load:
    """The leader's part of an all-reduce in groups of `inner`: reduced in the group, all-reduced among
    leaders, broadcast in the group.
    """
    return (
        ring("c_reduce", size, inner)
        + ring("c_allreduce", size, count // inner)
        + ring("c_broadcast", size, inner)
    )


def sparse_gather(tensor: Tensor, count: int) -> Load:
    """Rows of a sparse gradient cannot be added place by place: every rank gets the rows of all."""
    return ring("c_allgather", tensor.rows * (tensor.row_bytes + ROW_ID_BYTES), count)


def reduce_all(facts: Facts, count: int, inner: int = 0) -> Load:
    """One all-reduce for each parameter."""

    def load(tensor: Tensor) -> Load:
        if tensor.sparse:
            return sparse_gather(tensor, count)
        return (
            hierarchical(tensor.bytes, count, inner)
            if inner > 1
            else ring("c_allreduce", tensor.bytes, count)
        )

    return total(load(tensor) for tensor in facts.tensors)


# ---------------------------------------------------------------------- the plan of one job
@dataclass(frozen=True)
class _Draft:
    """A plan in the making."""

    job: Job
    facts: Facts
    sizes: Sizes
    link: Link
    compute_s: float

    def finished(self, step_s: float, bottleneck: str, links: Iterable[Traffic], rows: Iterable[Row]) -> Plan:
        return Plan(
            self.job,
            self.facts,
            self.sizes,
            self.link,
            self.compute_s,
            step_s,
            bottleneck,
            tuple(links),
            tuple(rows),
        )

    def trainer_row(self, load: Load, parameters: int, state: int, mode: str) -> Row:
        program = self.job.trainer(0).main
        name = "trainer0" if self.job.trainers == 1 else f"trainer0..{self.job.trainers - 1}"
        ops = sum(len(block.ops) for block in program.blocks)
        return Row(
            name,
            ops,
            parameters + self.facts.other_bytes,
            state,
            peak_activations(program, self.sizes),
            load.out,
            load.into,
            load.messages,
            self.compute_s + self.link.seconds(load, mode),
        )

    def with_servers(self) -> Plan:
        """Parameter servers: the trainers' ports and the busiest server's port bound the step."""
        job = self.job
        mode = job.mode if job.sync_mode or job.mode == "geo_sgd" else "async"
        loads = loads_of_servers(job.slices, self.facts, job.endpoints, mode, geo_steps(job))
        mine = total(loads.values())
        geo = mode == "geo_sgd"
        held = sum(tensor.bytes for tensor in self.facts.tensors if geo or not tensor.sparse)
        state = sum(tensor.state for tensor in self.facts.tensors) if geo else 0
        rows = [self.trainer_row(mine, held, state, mode), *self.server_rows(loads, mode)]
        busiest = max(rows, key=lambda row: row.seconds - (self.compute_s if row is rows[0] else 0.0))
        links = [
            item
            for role in job.roles
            if role.kind != "trainer"
            for item in self.both_ways(role, loads[role.endpoint])
        ]
        port = self.link.seconds(mine, mode)
        return self.finished(
            step_seconds(mode, self.compute_s, port, max(row.seconds for row in rows[1:])),
            busiest.role,
            links,
            rows,
        )

    @staticmethod
    def both_ways(role: Role, load: Load) -> Iterable[Traffic]:
        return (
            Traffic("trainer0", role.name, load.out, load.messages),
            Traffic(role.name, "trainer0", load.into, load.messages),
        )

    def server_rows(self, loads: dict[str, Load], mode: str) -> list[Row]:
        tensors = {tensor.name: tensor for tensor in self.facts.tensors}
        held: dict[str, list[Slice]] = {endpoint: [] for endpoint in self.job.endpoints}
        for part in self.job.slices:
            held[part.endpoint].append(part)
        rows = []
        for role in self.job.roles[self.job.trainers :]:
            parts = held[role.endpoint]
            load = loads[role.endpoint].turned().times(self.job.trainers)
            rows.append(
                Row(
                    role.name,
                    self.server_ops(parts, tensors),
                    sum(part.shape[0] * tensors[part.param].row_bytes for part in parts),
                    self.server_state(parts, tensors),
                    0,
                    load.out,
                    load.into,
                    load.messages,
                    self.link.seconds(load, mode),
                )
            )
        return rows

    def server_state(self, parts: Iterable[Slice], tensors: dict[str, Tensor]) -> int:
        if self.job.mode == "geo_sgd":
            return 0
        return sum(
            tensors[part.param].state_rows * part.shape[0] // tensors[part.param].shape[0]
            + tensors[part.param].state_fixed
            for part in parts
        )

    def server_ops(self, parts: Sequence[Slice], tensors: dict[str, Tensor]) -> int:
        """listen_and_serv, the learning rate's schedule, and a block a slice: sum and scale where all
        trainers wait, and the update.
        """
        if self.job.mode == "geo_sgd":
            return 1 + len(parts)
        joined = 2 if self.job.sync_mode and self.job.trainers > 1 else 0
        schedule = self.facts.schedule_ops if parts else 0
        return 1 + schedule + sum(joined + tensors[part.param].update_ops for part in parts)

    def with_ring(self) -> Plan:
        """Collective modes: what one rank's program reduces, or each gradient where the executor reduces
        (nccl2).
        """
        job, count = self.job, self.job.trainers
        block, config = job.trainer(0).main.global_block(), job.config
        ops = [op for op in block.ops if is_collective(op)]
        parts = {
            op.outputs["FusedOutput"][0]: op.outputs["Output"]
            for op in block.ops
            if op.type == "coalesce_tensor"
        }
        inner = (
            int(config.hierarchical_allreduce_inter_nranks or 0) if config.use_hierarchical_allreduce else 0
        )
        load = (
            total(ring(op.type, self.moved(op, parts), count) for op in ops)
            if ops
            else reduce_all(self.facts, count, inner)
        )
        row = self.trainer_row(
            load,
            sum(tensor.bytes for tensor in self.facts.tensors),
            sum(tensor.state for tensor in self.facts.tensors) + self.snapshots(),
            job.mode,
        )
        port = self.link.seconds(load, job.mode)
        neighbour = Traffic("trainer0", f"trainer{1 % count}", load.out, load.messages)
        return self.finished(self.compute_s + port, row.role, (neighbour,) if count > 1 else (), (row,))

    def snapshots(self) -> int:
        return sum(tensor.bytes for tensor in self.facts.tensors) if self.job.mode == "local_sgd" else 0

    def moved(self, op: Operator, parts: Mapping[str, Sequence[str]]) -> int:
        names = [part for name in op.input_arg_names for part in parts.get(name, [name])]
        return sum(self.sizes.bytes(op.block._var_recursive(name)) for name in names)


def step_seconds(mode: str, compute_s: float, trainer_s: float, server_s: float) -> float:
    """Synchronous steps compute, then exchange as fast as the slower port allows; others do both at once."""
    if mode == "pserver":
        return compute_s + max(trainer_s, server_s)
    return max(compute_s, trainer_s, server_s)


def geo_steps(job: Job) -> int:
    """After how many steps geo-SGD exchanges."""
    return max(int(job.config.geo_sgd_need_push_nums or 1), 1)
