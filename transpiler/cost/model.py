"""The alpha-beta model of a job's network: ports, the loads that cross them, and what a step then costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import NamedTuple

from fluidlite.base.errors import TranspilerError
from fluidlite.base.records import dataclass
from fluidlite.transpiler.cost.facts import Sizes, TrainingFacts
from fluidlite.transpiler.parts.roles import TRAINER

__all__ = ["CostCase", "CostRow", "Load", "Port", "StepCost", "Traffic", "total"]


class Load(NamedTuple):
    """Traffic through one port in a step: bytes out, bytes in, messages (requests that carry values, and
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


def total(loads: Iterable[Load]) -> Load:
    """The sum of loads."""
    found = Load()
    for load in loads:
        found += load
    return found


@dataclass(frozen=True)
class Port:
    """A machine's network port: each message takes `latency_s` seconds and its bytes go at `bytes_per_s`,
    one message after another.

    The defaults are a cloud machine's 10 Gb/s Ethernet with a remote call of 50 us.
    """

    latency_s: float = 50e-6
    bytes_per_s: float = 1.25e9

    def __post_init__(self) -> None:
        if not (self.latency_s >= 0 and self.bytes_per_s > 0):
            raise TranspilerError(
                f"a port needs a latency of 0 s or more and a positive speed, not {self.latency_s} s, "
                f"{self.bytes_per_s} B/s"
            )

    def one_way(self, load: Load) -> float:
        """Seconds of a load that must go out before anything comes in: a synchronous step pushes, then
        pulls.
        """
        return load.messages * self.latency_s + (load.out + load.into) / self.bytes_per_s

    def both_ways(self, load: Load) -> float:
        """Seconds of a load that goes out while as much comes in: rings, and asynchronous steps."""
        return load.messages * self.latency_s + max(load.out, load.into) / self.bytes_per_s


@dataclass(frozen=True)
class CostCase:
    """A training program with the batch and the machines that its cost is asked for.

    `compute_s`: seconds of one trainer's forward and backward pass.
    """

    facts: TrainingFacts
    sizes: Sizes
    port: Port
    compute_s: float


class Traffic(NamedTuple):
    """Bytes and messages from one role to another in a step."""

    sender: str
    receiver: str
    bytes: float
    messages: float


@dataclass(frozen=True)
class CostRow:
    """One line of `CostEstimate.table()`: roles `first` to `last` of a kind, which are alike.

    Sizes are in bytes; `seconds` is how long the role itself is busy in a step.
    """

    kind: str
    first: int
    last: int
    ops: int
    parameters: int
    state: int
    activations: int
    bytes_out: float
    bytes_in: float
    messages: float
    seconds: float

    @property
    def role(self) -> str:
        """`pserver1`; `trainer0..9` for several."""
        several = f"..{self.last}" if self.last > self.first else ""
        return f"{self.kind}{self.first}{several}"

    @property
    def trains(self) -> bool:
        """True for the line of the trainers."""
        return self.kind == TRAINER


@dataclass(frozen=True)
class StepCost:
    """The cost of one step of a job.

    Attributes
    ----------
    step_s: seconds of a step.
    bottleneck: the role whose port is busy longest.
    links: traffic from trainer0 to each server and back, or to its neighbour in the ring; other trainers do
        the same.
    rows: a line for the trainers, and one for each server.
    """

    step_s: float
    bottleneck: str
    links: tuple[Traffic, ...]
    rows: tuple[CostRow, ...] = field(repr=False)
