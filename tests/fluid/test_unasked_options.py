"""Options that modes set by themselves: users are told of those that they have set, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fluidlite.base.strategies import ignored
from fluidlite.incubate.fleet.collective import DistributedStrategy
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    StrategyFactory,
)
from fluidlite.paddle.distributed import fleet as fleet_2x


def strategies() -> Iterator[Any]:
    """Every strategy of both fleets as its class makes it, and what it is made of."""
    for make in ("sync", "async", "half_async", "geo"):
        made = getattr(StrategyFactory, f"create_{make}_strategy")()
        yield from (made.get_execute_strategy(), made.get_build_strategy())
    collective = DistributedStrategy()
    yield from (collective, collective.exec_strategy)
    of_2x = fleet_2x.DistributedStrategy()
    yield from (of_2x.build_strategy, of_2x.execution_strategy)


def test_users_are_told_of_nothing_that_they_have_not_set() -> None:
    found = list(strategies())
    assert len(found) == 12 and not [ignored(each) for each in found if ignored(each)]
    for each in found:
        name = "num_threads" if "num_threads" in each._DEFAULTS else "enable_inplace"
        setattr(each, name, not each._DEFAULTS[name] if name == "enable_inplace" else 7)
        assert list(ignored(each)) == [name]
