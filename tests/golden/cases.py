"""Golden cases: functions that build programs, with the feeds to make up for them.

The same source is built under PaddlePaddle (which records) and under FluidLite (which is compared), so
nothing here or in `programs/` may import either: `fluid` always comes in as an argument.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Tuple, TypeVar

import numpy as np

# Python 3.7, which PaddlePaddle 1.8.5 needs, cannot say tuple[...] outside annotations.
Fed = Tuple[np.ndarray, List[List[int]]]
Feed = Callable[[np.random.RandomState, int, Dict[str, Fed]], Fed]
Build = Callable[[Any], "Built"]
T = TypeVar("T")

CASES: dict[str, Build] = {}
STEPS = 10


@dataclass
class Run:
    """One `Executor.run`: a program, what it is fed, what is fetched."""

    program: Any
    feeds: dict[str, Feed]
    fetch: list[Any]


@dataclass
class Built:
    """The runs of every step, in order, and the runs that follow the last step.

    `unrun` are programs that are compared and not run, as 1.8.5 has no kernels for them on the CPU.
    """

    steps: list[Run]
    after: list[Run] = field(default_factory=list)
    unrun: list[Any] = field(default_factory=list)

    def all_runs(self) -> list[Run]:
        """The runs, then those of `unrun`, which are fed nothing."""
        return self.steps + self.after + [Run(program, {}, []) for program in self.unrun]


def case(build: Build) -> Build:
    """Register a build function under its own name."""
    return named(build.__name__, build)


def named(name: str, build: Build) -> Build:
    if name in CASES:
        raise ValueError("two golden cases are called " + name)
    CASES[name] = build
    return build


def load_cases(folder: str = "programs") -> dict[str, Build]:
    """The cases of `programs`, which are written against fluid, or of `programs_2x`, against PaddlePaddle
    2.x.
    """
    package = importlib.import_module(f"{__package__}.{folder}")
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(info.name)
    return CASES


def construct(fluid: Any, build: Callable[[Any], T]) -> tuple[T, Any]:
    """Build a case in fresh programs under fresh names; its result and its startup program."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        return build(fluid), startup


def train(fluid: Any, feeds: dict[str, Feed], *fetch: Any) -> Built:
    return Built([Run(fluid.default_main_program(), feeds, list(fetch))])


# ------------------------------------------------------------------------ feeds
def floats(*shape: int, low: float = -1.0, high: float = 1.0) -> Feed:
    def make(rng: np.random.RandomState, step: int, others: dict[str, Fed]) -> Fed:
        return rng.uniform(low, high, shape).astype("float32"), []

    return make


def ids(*shape: int, below: int, dtype: str = "int64") -> Feed:
    def make(rng: np.random.RandomState, step: int, others: dict[str, Fed]) -> Fed:
        return rng.randint(0, below, shape).astype(dtype), []

    return make


def fixed(value: Any, dtype: str = "float32", lengths: list[list[int]] | None = None) -> Feed:
    """The same array in every step."""

    def make(rng: np.random.RandomState, step: int, others: dict[str, Fed]) -> Fed:
        return np.asarray(value, dtype), lengths or []

    return make


def sequences(
    count: int, longest: int, *width: int, below: int | None = None, like: str | None = None
) -> Feed:
    """`count` sequences of 1 to `longest` rows; whole numbers if `below` is given, as long as those of
    `like`.
    """

    def make(rng: np.random.RandomState, step: int, others: dict[str, Fed]) -> Fed:
        lengths = others[like][1] if like else [rng.randint(1, longest + 1, count).tolist()]
        shape = (sum(lengths[-1]),) + width
        if below is None:
            return rng.uniform(-1, 1, shape).astype("float32"), lengths
        return rng.randint(0, below, shape).astype("int64"), lengths

    return make


def make_feeds(feeds: dict[str, Feed], rng: np.random.RandomState, step: int) -> dict[str, Fed]:
    made: dict[str, Fed] = {}
    for name, feed in feeds.items():
        made[name] = feed(rng, step, made)
    return made


# ------------------------------------------------------------- groups of layers
Layer = Callable[[Any], Any]


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def each_layer(fluid: Any, source: Any, made: dict[str, Layer]) -> tuple[Any, list[Any]]:
    """Every layer over its own copy of `source`; the sum of squared outputs, and what to fetch.

    The copies keep the gradients apart: `<copy>@GRAD` is the gradient of one layer only.
    """
    parts, fetch = [], []
    for layer in made.values():
        copy = fluid.layers.scale(source, scale=1.0)
        outs = as_list(layer(copy))
        parts += [fluid.layers.reduce_mean(fluid.layers.square(out)) for out in outs]
        fetch += outs + [copy.name + "@GRAD"]
    return fluid.layers.sums(parts), fetch


def layer_group(fluid: Any, shape: tuple[int, ...], made: dict[str, Layer], low: float = -1.0) -> Built:
    """Each layer over a trained tensor plus fed data, all gradients fetched, ten steps of SGD."""
    data = fluid.data(name="data", shape=list(shape), dtype="float32")
    offset = fluid.layers.create_parameter(
        shape=list(shape), dtype="float32", name="offset", default_initializer=fluid.initializer.Constant(0.0)
    )
    loss, fetch = each_layer(fluid, fluid.layers.elementwise_add(data, offset), made)
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    block = fluid.default_main_program().global_block()  # some layers stop the gradient: then it has no name
    fetch = [one for one in fetch if not isinstance(one, str) or block.has_var(one)]
    return train(fluid, {"data": floats(*shape, low=low)}, loss, *fetch)
