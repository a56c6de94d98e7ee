"""The cost of a step with parameter servers: ports of trainers and servers, and what each of them holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from fluidlite.base.records import dataclass
from fluidlite.ir.program import Program
from fluidlite.transpiler.cost.facts import ROW_ID_BYTES, Tensor, peak_activations
from fluidlite.transpiler.cost.model import CostCase, CostRow, Load, StepCost, Traffic, total
from fluidlite.transpiler.parts.roles import PSERVER, TRAINER, JobRole, Slice

__all__ = ["Exchange", "ServerCosts", "exchange_each_step"]

Exchange = Callable[[Slice, Tensor], Load]
"""The bytes that one trainer exchanges with the server of a slice in the mean step, seen from the trainer."""

_BARRIERS = 2.0  # that a trainer passes at each server in a synchronous step


def exchange_each_step(part: Slice, tensor: Tensor) -> Load:
    """The gradient out, the parameter in.

    A sparse table's gradient has a row, and its number, for each id of the batch; each look-up sends its ids
    and gets their rows, none twice (an upper bound), where the trainer does not get all of them.
    """
    size = part.shape[0] * tensor.row_bytes
    if not tensor.sparse:
        return Load(size, size, 2)
    gradient = tensor.ids_within(part.shape[0]) * (tensor.row_bytes + ROW_ID_BYTES)
    if not part.sparse:
        return Load(gradient, size, 2)
    # each look-up asks by itself
    rows = min(tensor.ids_within(part.shape[0]), tensor.lookups * part.shape[0])
    return Load(gradient + rows * ROW_ID_BYTES, rows * tensor.row_bytes, 1 + tensor.lookups)


@dataclass(frozen=True)
class ServerCosts:
    """A job with servers, as far as its cost depends on it.

    Attributes
    ----------
    slices, endpoints, trainers: those of the job.
    in_step: all trainers take each step together, by two barriers of each server.
    trainers_update: trainers run the optimizer and hold its state; servers only add up.
    exchange: what a trainer exchanges for one slice.
    """

    case: CostCase
    slices: Sequence[Slice]
    endpoints: Sequence[str]
    trainers: int
    in_step: bool
    trainers_update: bool
    exchange: Exchange

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The trained parameters by name."""
        return {tensor.name: tensor for tensor in self.case.facts.tensors}

    @cached_property
    def loads(self) -> dict[str, Load]:
        """Endpoint -> what one trainer exchanges with that server, seen from the trainer."""
        barriers = Load(messages=_BARRIERS if self.in_step else 0.0)
        found = dict.fromkeys(self.endpoints, barriers)
        for part in self.slices:
            found[part.endpoint] += self.exchange(part, self.tensors[part.param])
        return found

    # ------------------------------------------------------------------ time
    def port_s(self, load: Load) -> float:
        """Seconds of a load at a port: synchronous steps push, then pull; others do both at once."""
        port = self.case.port
        return port.one_way(load) if self.in_step else port.both_ways(load)

    def step_s(self, trainer_s: float, server_s: float) -> float:
        """Synchronous steps compute, then exchange as fast as the slower port allows; others do both at
        once.
        """
        compute_s = self.case.compute_s
        if self.in_step:
            return compute_s + max(trainer_s, server_s)
        return max(compute_s, trainer_s, server_s)

    def step(self) -> Callable[[int], tuple[float, Load]]:
        """A function of the number of trainers: seconds of a step, and what one trainer exchanges."""
        mine = total(self.loads.values())
        port = self.port_s(mine)
        busiest = max(map(self.port_s, self.loads.values()))
        return lambda count: (self.step_s(port, busiest * count), mine)

    # ------------------------------------------------------------------ one job
    def cost(self, trainer: Program) -> StepCost:
        """The cost of one step; `trainer` is the main program of a trainer."""
        mine = total(self.loads.values())
        first = self._trainers(trainer, mine)
        servers = self._servers()
        busy_on_links = {row.role: row.seconds for row in servers}
        busy_on_links[first.role] = first.seconds - self.case.compute_s
        order = [first.role, *(row.role for row in servers)]
        return StepCost(
            self.step_s(self.port_s(mine), max(row.seconds for row in servers)),
            max(order, key=busy_on_links.__getitem__),
            tuple(self._links()),
            (first, *servers),
        )

    def _trainers(self, program: Program, load: Load) -> CostRow:
        facts = self.case.facts
        held = [tensor for tensor in facts.tensors if self.trainers_update or not tensor.sparse]
        return CostRow(
            kind=TRAINER,
            first=0,
            last=self.trainers - 1,
            ops=sum(len(block.ops) for block in program.blocks),
            parameters=sum(tensor.bytes for tensor in held) + facts.other_bytes,
            state=sum(tensor.state for tensor in held) if self.trainers_update else 0,
            activations=peak_activations(program, self.case.sizes),
            bytes_out=load.out,
            bytes_in=load.into,
            messages=load.messages,
            seconds=self.case.compute_s + self.port_s(load),
        )

    def _links(self) -> Iterable[Traffic]:
        trainer = JobRole(TRAINER, 0).name
        for index, endpoint in enumerate(self.endpoints):
            load = self.loads[endpoint]
            server = JobRole(PSERVER, index).name
            yield Traffic(trainer, server, load.out, load.messages)
            yield Traffic(server, trainer, load.into, load.messages)

    def _servers(self) -> list[CostRow]:
        held: dict[str, list[Slice]] = {endpoint: [] for endpoint in self.endpoints}
        for part in self.slices:
            held[part.endpoint].append(part)
        return [
            self._server(index, endpoint, held[endpoint]) for index, endpoint in enumerate(self.endpoints)
        ]

    def _server(self, index: int, endpoint: str, parts: Sequence[Slice]) -> CostRow:
        load = self.loads[endpoint].turned().times(self.trainers)
        return CostRow(
            kind=PSERVER,
            first=index,
            last=index,
            ops=self._ops(parts),
            parameters=sum(part.shape[0] * self.tensors[part.param].row_bytes for part in parts),
            state=0 if self.trainers_update else sum(map(self._state, parts)),
            activations=0,
            bytes_out=load.out,
            bytes_in=load.into,
            messages=load.messages,
            seconds=self.port_s(load),
        )

    def _state(self, part: Slice) -> int:
        tensor = self.tensors[part.param]
        return tensor.state_rows * part.shape[0] // tensor.shape[0] + tensor.state_fixed

    def _ops(self, parts: Sequence[Slice]) -> int:
        """listen_and_serv, the learning rate's schedule, and a block a slice: sum and scale where all
        trainers wait, and the update.
        """
        if self.trainers_update:
            return 1 + len(parts)
        joined = 2 if self.in_step and self.trainers > 1 else 0
        schedule = self.case.facts.schedule_ops if parts else 0
        return 1 + schedule + sum(joined + self.tensors[part.param].update_ops for part in parts)
