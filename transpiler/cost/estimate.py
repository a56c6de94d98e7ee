"""The cost of a job before it is run: bytes and messages on each link, memory of each role, and the time of
a step.

docs/COST.md states the model and works an example. Everything is computed from the original program, the
job's slices and one trainer's program: an estimate of 10,000 trainers and 1,000 servers makes one program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fluidlite.base.cells import table_cell
from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.records import dataclass
from fluidlite.base.units import amount, seconds
from fluidlite.transpiler.cost.facts import Sizes, TrainingFacts, read_facts
from fluidlite.transpiler.cost.model import CostCase, CostRow, Port, StepCost, Traffic
from fluidlite.transpiler.modes import Job, TrainingMode, all_modes

__all__ = ["TRAINERS", "CostEstimate", "ScaledCost", "estimate"]

TRAINERS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 5000, 10000)
_MOST_SERVERS = 64  # of a comparison, where the job itself has none
_SHOWN = 20  # rows of a notebook's table
_FEW_TRAINERS = (2, 8, 32, 128)
_ROLE_HEADS = ("role", "ops", "parameters", "state", "activations", "sent", "received", "busy")


class ScaledCost(NamedTuple):
    """One line of `CostEstimate.scaling()`: `seconds` a step, bytes that one trainer sends and receives,
    samples a second of all trainers.
    """

    mode: str
    trainers: int
    seconds: float
    bytes_out: float
    bytes_in: float
    samples_per_s: float


@dataclass(frozen=True)
class CostEstimate:
    """The cost of one step of a job; see `estimate`."""

    job: Job
    case: CostCase
    cost: StepCost

    @property
    def facts(self) -> TrainingFacts:
        """Facts of the training program."""
        return self.case.facts

    @property
    def flops(self) -> int:
        """Multiplications and additions of one trainer's matrix products and convolutions in a step."""
        return self.case.facts.flops

    @property
    def port(self) -> Port:
        """The port of each machine."""
        return self.case.port

    @property
    def compute_s(self) -> float:
        """Seconds of one trainer's forward and backward pass."""
        return self.case.compute_s

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.cost.step_s

    @property
    def bottleneck(self) -> str:
        """The role whose port is busy longest."""
        return self.cost.bottleneck

    @property
    def links(self) -> tuple[Traffic, ...]:
        """Traffic from trainer0 to each server and back, or to its neighbour in the ring."""
        return self.cost.links

    def _repr_html_(self) -> str:
        """The step, each role, each link, and other numbers of trainers, as a notebook shows them."""
        computing = f"{seconds(self.compute_s)} of it computing" if self.compute_s else "on the links alone"
        title = f"Cost: a step takes about {seconds(self.step_s)}, {computing}; {self.bottleneck} is busiest"
        links = [(*link[:2], amount(link.bytes), round(link.messages, 2)) for link in self.links[:_SHOWN]]
        others = [
            (line.mode, line.trainers, seconds(line.seconds), amount(line.bytes_out), int(line.samples_per_s))
            for line in self.scaling(_FEW_TRAINERS)
        ]
        tables = (
            (title, _ROLE_HEADS, map(_role_cells, self.table()[:_SHOWN])),
            ("links", ("from", "to", "bytes a step", "messages"), links),
            ("other jobs", ("mode", "trainers", "step", "sent", "samples a second"), others),
        )
        return "".join(table_cell(*parts) for parts in tables)

    def table(self) -> tuple[CostRow, ...]:
        """A row for the trainers, who are alike (`trainer0..9`), and one for each server."""
        return self.cost.rows

    def scaling(
        self,
        trainers: Sequence[int] = TRAINERS,
        modes: Sequence[str] | None = None,
        servers: int | None = None,
    ) -> tuple[ScaledCost, ...]:
        """The estimated step of every mode for other numbers of trainers, each with the same batch.

        Parameters
        ----------
        modes: names of lines to show; default: all.
        servers: how many, for all numbers of trainers; default: the job's, or as many as its trainers where
            it has none, 64 at most.
        """
        if any(count < 1 for count in trainers):
            raise TranspilerError(f"trainers should be positive numbers, not {list(trainers)}")
        if servers is None:
            job = self.job
            servers = len(job.endpoints) if job.has_servers else min(job.trainers, _MOST_SERVERS)
        return tuple(line for mode in _compared(modes) for line in self._lines(mode, trainers, servers))

    def _lines(self, mode: TrainingMode, trainers: Sequence[int], servers: int) -> Iterator[ScaledCost]:
        step = mode.step(self.job, self.case, servers)
        for count in trainers:
            seconds, load = step(count)
            samples = count * self.case.sizes.batch
            rate = samples / seconds if seconds else 0.0
            yield ScaledCost(mode.scaled_as, count, seconds, load.out, load.into, rate)


def _role_cells(row: CostRow) -> tuple[object, ...]:
    sizes = (row.parameters, row.state, row.activations, row.bytes_out, row.bytes_in)
    return row.role, row.ops, *map(amount, sizes), seconds(row.seconds)


def _compared(names: Sequence[str] | None) -> list[TrainingMode]:
    """The modes that have lines of their own, or those of the given names."""
    known = {mode.scaled_as: mode for mode in all_modes() if mode.scaled_as}
    for name in names or ():
        if name not in known:
            raise TranspilerError(f"no mode {name!r}{did_you_mean(name, known)} (modes: {', '.join(known)})")
    return [known[name] for name in names or known]


def estimate(
    job: Job,
    port: Port | None = None,
    batch: int = 32,
    sequence: int = 1,
    compute_s: float | None = None,
    flops: float | None = None,
    fed: Mapping[str, int] | None = None,
) -> CostEstimate:
    """The cost of one step of `job`, in which each trainer takes `batch` samples.

    Parameters
    ----------
    port: the speed of each machine's network port.
    sequence: mean steps of a sample where the data has a level of detail.
    compute_s: seconds of a forward and backward pass of one trainer.
    flops: or how many multiplications and additions a trainer does in a second, from which `compute_s` is
        estimated. Without either, communication alone counts.
    fed: elements of the fed variables in the largest step. With them the estimate is a bound for any step:
        all rows of a sparse table that it touches may lie in one slice.
    """
    _check_arguments(batch, sequence, compute_s, flops)
    sizes = Sizes(batch, sequence) if fed is None else Sizes(batch, sequence, fed, even=False)
    facts = read_facts(job.main, sizes)
    seconds = compute_s or 0.0
    if flops:
        seconds = facts.flops / flops
    case = CostCase(facts, sizes, port or Port(), seconds)
    return CostEstimate(job, case, job.mode.cost(job, case))


def _check_arguments(batch: int, sequence: int, compute_s: float | None, flops: float | None) -> None:
    for name, value in (("batch", batch), ("sequence", sequence)):
        if value < 1:
            raise TranspilerError(f"{name} should be 1 or more, not {value}")
    if compute_s is not None and flops is not None:
        raise TranspilerError("give compute_s or flops, not both")
    for name, speed in (("compute_s", compute_s), ("flops", flops)):
        if speed is not None and not speed >= 0:
            raise TranspilerError(f"{name} should not be negative, it is {speed}")
