"""Programs whose transpilation is recorded, and how each is transpiled.

The same source builds under PaddlePaddle 1.8.5 (which records) and under FluidLite (which is compared), so nothing here
may import either: `fluid` always comes in as an argument. Runs on Python 3.7.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Tuple  # noqa: UP035

Build = Callable[[Any], None]
Make = Callable[[Any], Any]

SERVERS = "127.0.0.1:6174,127.0.0.1:6175"


@dataclass(frozen=True)
class Case:
    """One program and one way to transpile it."""

    build: Build
    mode: str = "pserver"                       # what does it: see `transpiled_roles.py`
    trainers: int = 2
    endpoints: str = SERVERS                    # of the servers, or of the trainers where there are none
    sync: bool = True                           # the argument sync_mode
    ids: Tuple[int, ...] = (0,)                 # the trainers that are recorded  # noqa: UP006
    config: Dict[str, Any] = field(default_factory=dict)  # noqa: UP006
    seed: int = 0                               # random_seed of both programs
    pairs: bool = False                         # servers by get_pserver_programs

    @property
    def servers(self) -> List[str]:             # noqa: UP006
        return self.endpoints.split(",")


# ------------------------------------------------------------------------------------------------ networks
def two_fc(fluid: Any, hidden: int = 100) -> Any:
    """200 -> 100 -> 1: of the four parameters only the first has slices, two of 100 rows."""
    x, y = fluid.data("x", [None, 200]), fluid.data("y", [None, 1])
    guess = fluid.layers.fc(fluid.layers.fc(x, hidden, act="relu"), 1)
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y))


def wide_fc(fluid: Any) -> Any:
    """One parameter that five servers could share, by 200 rows each, and one that nobody shares."""
    x, y = fluid.data("x", [None, 1000]), fluid.data("y", [None, 1])
    guess = fluid.layers.fc(fluid.layers.fc(x, 50, bias_attr=False), 1, bias_attr=False)
    return fluid.layers.mean(fluid.layers.square_error_cost(guess, y))


def trained(make: Make, net: Make = two_fc) -> Build:
    """A builder of `net` and the optimizer that `make` makes."""
    def build(fluid: Any) -> None:
        loss = net(fluid)
        make(fluid).minimize(loss)
    return build


def sgd(fluid: Any) -> Any:
    return fluid.optimizer.SGD(0.1)


def momentum(fluid: Any) -> Any:
    return fluid.optimizer.Momentum(0.1, 0.9)


def adam(fluid: Any) -> Any:
    return fluid.optimizer.Adam(0.01)


def with_exponential_decay(fluid: Any) -> Any:
    return fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 100, 0.9))


def with_l2(fluid: Any) -> Any:
    return fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(1e-4))


CASES: Dict[str, Case] = {  # noqa: UP006
    "sgd": Case(trained(sgd), ids=(0, 1)),
    "sgd_async": Case(trained(sgd), sync=False, ids=(0, 1)),
    "sgd_whole": Case(trained(sgd), config={"slice_var_up": False}, seed=7),
    "sgd_small_blocks": Case(trained(sgd, wide_fc), endpoints=",".join(f"10.0.0.{i}:6170" for i in range(1, 6))),
    "sgd_large_blocks": Case(trained(sgd, wide_fc), config={"min_block_size": 25000}),
    "momentum": Case(trained(momentum)),
    "adam": Case(trained(adam)),
    "exponential_decay": Case(trained(with_exponential_decay)),
    "l2": Case(trained(with_l2)),
    "sgd_three_trainers": Case(trained(sgd), trainers=3, ids=(0, 1, 2)),
}
