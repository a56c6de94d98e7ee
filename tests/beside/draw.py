"""Random arguments of functions: what the generators beside the op rows (`tests/ops/draws`) are written with.

A generator draws one call, or a few, of a function whose name it is given:

    @draws("fluid.layers.softmax", "paddle.nn.functional.softmax")
    def _(draw: Draw, name: str) -> Any:
        x = draw.tensor(rank=(1, 5))
        return draw.call(name, x, axis=draw.maybe(draw.axis(x)))

It returns what is compared: a result of `draw.call`, or a list of them. Everything that holds for all
functions (special values, unknown sizes, levels of detail, f(x, x), the same call twice, what stands in
front and behind, frozen inputs) is added by `beside.variations` afterwards: a generator says only what its
function takes.
"""

from __future__ import annotations

import importlib
import pathlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beside.language import Case, listed

__all__ = ["OMIT", "Draw", "Value", "draws", "generators", "make_case"]

Generator = Callable[["Draw", str], Any]
GENERATORS: dict[str, Generator] = {}
FOLDER = pathlib.Path(__file__).parents[1] / "ops" / "draws"
ROOTS = {"18": "fluid", "26": "paddle"}


class _Omit:
    """Marks an argument that is left out."""


OMIT = _Omit()


@dataclass(frozen=True)
class Value:
    """A Variable of the case, with what is known about it; shape and dtype are None for results of calls."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    index: tuple[int, ...] = ()

    def __getitem__(self, index: int) -> Value:
        """One of several results of a call."""
        return Value(self.name, None, None, (*self.index, index))

    def __iter__(self) -> Any:
        raise TypeError(f"the results of a call are taken by index: {self.name}[0]")

    @property
    def rank(self) -> int:
        """The number of dimensions of a fed tensor."""
        assert self.shape is not None, f"{self.name} is the result of a call"
        return len(self.shape)


def draws(*names: str) -> Callable[[Generator], Generator]:
    """Declare the generator of functions: paths below `fluid` (1.8.5's) or `paddle` (2.6.2's)."""

    def declare(generator: Generator) -> Generator:
        for name in names:
            if name in GENERATORS:
                raise ValueError(f"{name} has two generators")
            GENERATORS[name] = generator
        return generator

    return declare


def generators(door: str) -> dict[str, Generator]:
    """Function -> generator, of the door "18" or "26"."""
    for file in sorted(FOLDER.glob("*.py")):
        if file.stem != "__init__":
            importlib.import_module(f"ops.draws.{file.stem}")
    root = ROOTS[door]
    return {name: GENERATORS[name] for name in sorted(GENERATORS) if name.startswith(root + ".")}


def encoded(item: Any) -> Any:
    """An argument as `beside.language` writes it down."""
    if isinstance(item, Value):
        if item.index:
            return {"$": "item", "of": item.name, "index": list(item.index)}
        return {"$": "var", "name": item.name}
    if isinstance(item, tuple):
        return {"$": "tuple", "items": [encoded(one) for one in item]}
    if isinstance(item, list):
        return [encoded(one) for one in item]
    if isinstance(item, dict) and "$" not in item:
        return {"$": "dict", "items": {key: encoded(one) for key, one in item.items()}}
    if isinstance(item, slice):
        return {"$": "slice", "parts": [encoded(part) for part in (item.start, item.stop, item.step)]}
    if item is Ellipsis:
        return {"$": "ellipsis"}
    if isinstance(item, np.ndarray):
        return {"$": "array", "dtype": str(item.dtype), "shape": list(item.shape), "values": listed(item)}
    if isinstance(item, np.generic):
        return encoded(item.item())
    if isinstance(item, complex):
        return {"$": "complex", "value": [item.real, item.imag]}
    if isinstance(item, float) and not np.isfinite(item):
        return {"$": "float", "value": str(item)}
    return item


@dataclass
class Draw:
    """Draws one case; `rng` decides everything."""

    rng: random.Random
    door: str
    feeds: dict[str, Any] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    random: bool = False
    """True for functions whose results are drawn: shapes and dtypes alone are compared."""
    gradients: bool = True
    """False for calls that make gradients themselves, such as `minimize`."""
    count: int = 0
    empty: float | None = None
    """The chance that a size is 0, in place of the door's own."""

    # ------------------------------------------------------------------ choices
    def int(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return self.rng.randint(low, high)

    def real(self, low: float = -2.0, high: float = 2.0) -> float:
        """A number of few digits."""
        return round(self.rng.uniform(low, high), 2)

    def choice(self, *items: Any) -> Any:
        """One of the items."""
        return self.rng.choice(items)

    def flag(self, chance: float = 0.5) -> bool:
        """True with this chance."""
        return self.rng.random() < chance

    def maybe(self, value: Any, chance: float = 0.6) -> Any:
        """The value, or `OMIT`: the argument is left out."""
        return value if self.flag(chance) else OMIT

    def some(self, items: Sequence[Any], least: int = 1) -> list[Any]:
        """Some of the items, in random order."""
        return self.rng.sample(list(items), self.int(min(least, len(items)), len(items)))

    def size(self, low: int = 1, high: int = 4) -> int:
        """A size: mostly small, 1 and 0 at times (0 where `low` is 1 and the cases allow it)."""
        if self.rng.random() < 0.12:
            return 1 if low <= 1 else low
        # 1.8.5 refuses most tensors of nothing
        least = 0.005 if self.door == "18" else 0.02
        if low <= 1 and self.rng.random() < (least if self.empty is None else self.empty):
            return 0
        return self.int(low, high)

    def shape(self, rank: int | tuple[int, int] = (1, 4), low: int = 1, high: int = 4) -> tuple[int, ...]:
        """Sizes of so many dimensions; a pair says from how many to how many."""
        count = rank if isinstance(rank, int) else self.int(*rank)
        if self.door == "18":
            count = max(count, 1)
        return tuple(self.size(low, high) for _ in range(count))

    def axis(self, x: Value | int, negative: bool = True) -> int:
        """An axis of x, counted from either end."""
        rank = x if isinstance(x, int) else x.rank
        if rank == 0:
            return self.choice(0, -1)
        return self.int(-rank if negative else 0, rank - 1)

    def axes(self, x: Value | int, least: int = 1, negative: bool = True) -> list[int]:
        """Several axes of x, none twice, counted from either end."""
        rank = x if isinstance(x, int) else x.rank
        chosen = self.some(range(rank), least)
        return [axis - rank if negative and self.flag(0.4) else axis for axis in chosen]

    # ------------------------------------------------------------------ tensors
    def tensor(
        self,
        shape: Sequence[int] | None = None,
        dtype: str | Sequence[str] = ("float32", "float64", "float64"),
        low: float = -2.0,
        high: float = 2.0,
        *,
        rank: int | tuple[int, int] = (1, 4),
        distinct: bool = False,
        fixed: bool = False,
        known: bool = False,
        lengths: Sequence[Sequence[int]] | None = None,
    ) -> Value:
        """A fed tensor.

        `dtype`: one, or several to choose from; whole numbers go from `low` to `high`, both included.
        `distinct`: no two elements are alike. `fixed`: other runs feed the same values, since the function
        asks something of them as a whole. `known`: its sizes are declared as they are. `lengths`: those of
        its sequences, level by level.
        """
        sizes = tuple(self.shape(rank) if shape is None else shape)
        kind = dtype if isinstance(dtype, str) else self.choice(*dtype)
        array = self.numbers(sizes, kind, low, high, distinct)
        made = self.feed(array, fixed=fixed, known=known, lengths=lengths)
        self.feeds[made.name]["distinct"] = distinct
        return made

    def numbers(
        self, shape: Sequence[int], dtype: str, low: float = -2.0, high: float = 2.0, distinct: bool = False
    ) -> np.ndarray:
        """An array of random numbers of few digits."""
        count = int(np.prod(shape, dtype=int))
        if dtype == "bool":
            found: list[Any] = [self.flag() for _ in range(count)]
        elif dtype.startswith(("int", "uint")):
            low = max(low, 0) if dtype == "uint8" else low
            found = [self.int(int(low), int(max(high, low))) for _ in range(count)]
        elif distinct:
            found = [round(low + (high - low) * (at + 0.5) / max(count, 1), 4) for at in range(count)]
            self.rng.shuffle(found)
        else:
            found = [round(self.rng.uniform(low, high), 3) for _ in range(count)]
        if dtype.startswith("complex"):
            found = [complex(one, round(self.rng.uniform(low, high), 3)) for one in found]
        return np.array(found, dtype).reshape(tuple(shape))

    def feed(
        self,
        array: np.ndarray,
        *,
        fixed: bool = False,
        known: bool = False,
        lengths: Sequence[Sequence[int]] | None = None,
    ) -> Value:
        """A fed tensor with these values; see `tensor`."""
        name = f"x{len(self.feeds)}"
        self.feeds[name] = {
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "values": listed(array),
            "declared": list(array.shape),
            "stop": array.dtype.kind not in "fc",
            "fixed": fixed,
            "known": known,
        }
        if lengths is not None:
            self.feeds[name]["lengths"] = [list(level) for level in lengths]
            self.feeds[name]["declared"][0] = -1  # the number of rows is not that of sequences
        return Value(name, tuple(array.shape), str(array.dtype))

    def batches(self, *args: Any, **options: Any) -> Value:
        """A tensor whose first size is unknown when the program is built."""
        made = self.tensor(*args, **options)
        self.feeds[made.name]["declared"][0] = -1
        return made

    def sequences(
        self, width: Sequence[int] = (3,), dtype: str | Sequence[str] = ("float32", "float64"), **options: Any
    ) -> Value:
        """A tensor that falls into sequences, some of them empty at times; `width` is the shape of a row."""
        lengths = self.lengths(options.pop("empty", True))
        return self.tensor((sum(lengths), *width), dtype, lengths=[lengths], **options)

    def lengths(self, empty: bool = True) -> list[int]:
        """Lengths of some sequences, at least one row in all."""
        found = [self.int(0 if empty and self.flag(0.3) else 1, 4) for _ in range(self.int(1, 3))]
        return found if sum(found) else [*found, 2]

    # ------------------------------------------------------------------ calls
    def call(self, path: str, *args: Any, **kwargs: Any) -> Value:
        """The result of a call; arguments that are `OMIT` are left out.

        A path may begin with a Value's name (`f"{layer.name}"` calls an object, `f"{x.name}.exp"` a method);
        `paddle.Tensor.exp` is the method of the first argument, as the names of generators say it.
        """
        if path.startswith("paddle.Tensor."):
            path, args = f"{args[0].name}.{path.rpartition('.')[2]}", args[1:]
        self.count += 1
        name = f"y{self.count}"
        self.calls.append({"to": name, **self.made(path, *args, **kwargs)})
        return Value(name)

    def within(self, path: str, *args: Any, build: Callable[..., Any], named: bool = False) -> Any:
        """The result of `build`, whose calls are made in the context that a call gives (`with
        rnn.step():`); `named`: it is given the context (`with Switch() as switch:`).
        """
        outer, self.calls = self.calls, []
        self.count += 1
        to = {"to": f"y{self.count}"} if named else {}
        given = build(*map(Value, to.values()))
        item = {"with": path, "args": [encoded(one) for one in args], "calls": self.calls, **to}
        self.calls = [*outer, item]
        return given

    def made(self, path: str, *args: Any, **kwargs: Any) -> Case:
        """A call within an argument, such as that of `fluid.ParamAttr`."""
        found = {
            "$": "call",
            "call": path,
            "args": [encoded(one) for one in args if one is not OMIT],
            "kwargs": {key: encoded(one) for key, one in kwargs.items() if one is not OMIT},
        }
        return found

    def block(self, takes: Sequence[str], build: Callable[..., Any]) -> Case:
        """A Python function as argument: `build` draws its calls, given Values of these names."""
        outer, self.calls = self.calls, []
        gives = encoded(build(*map(Value, takes)))
        inner, self.calls = self.calls, outer
        return {"$": "block", "takes": list(takes), "calls": inner, "gives": gives}

    def variable(self, value: Any, dtype: str) -> Value:
        """A number, or a list of them, as a Variable of the program: an attribute that comes as a tensor."""
        return self.feed(np.array(value, dtype).reshape(np.shape(value) or (1,)), fixed=True, known=True)

    def attr(self, chance: float = 0.3) -> Any:
        """A ParamAttr, or `OMIT`."""
        if not self.flag(chance):
            return OMIT
        return self.made(f"{ROOTS[self.door]}.ParamAttr", name=self.choice("p", "q"))

    def out(self, dtype: str | None, chance: float = 0.2) -> Any:
        """A Variable for a result to be written to, or `OMIT`."""
        if not self.flag(chance):
            return OMIT
        return self.call("fluid.layers.create_tensor", dtype)

    def act(self, *names: str) -> Any:
        """An activation by name, or `OMIT`."""
        return self.maybe(self.choice(*(names or ("relu", "tanh", "sigmoid"))), 0.3)


def make_case(door: str, seed: int, only: Sequence[str] = (), empty: float | None = None) -> Case:
    """The case of a seed; `only`: of functions whose names hold one of these words; `empty`: how often a size
    is 0.
    """
    known = generators(door)
    chosen = [name for name in known if not only or any(word in name for word in only)]
    if not chosen:
        raise ValueError(f"no function of door {door} is called like {', '.join(only)}")
    rng = random.Random(f"{door} {seed}")
    name = chosen[rng.randrange(len(chosen))]
    draw = Draw(rng, door, empty=empty)
    given = known[name](draw, name)
    outputs = given if isinstance(given, list) else [given]
    return {
        "door": door,
        "seed": seed,
        "function": name,
        "feeds": draw.feeds,
        "calls": draw.calls,
        "outputs": [value.name for value in outputs],
        "wrt": [key for key, feed in draw.feeds.items() if draw.gradients and not feed["stop"]],
        "random": draw.random,
        "sums": rng.random() < 0.25,
        "second": rng.random() < 0.15,
    }
