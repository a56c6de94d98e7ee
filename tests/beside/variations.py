"""Variations that hold for all functions, added to a drawn case: special values, unknown sizes, levels of
detail, f(x, x), the same call twice, what stands in front and behind and around (`beside.surroundings`),
frozen inputs. And the tags of a case, by which rows of docs/DIFFERENCES.md say when they hold.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from beside.chains import followed, viewed
from beside.job_tags import job_tags
from beside.language import Case, array_of, listed
from beside.spellings import as_doubles, dtype_objects, named, numpy_numbers, tuples
from beside.surroundings import in_body, of_other_dtype, of_views, once_more, replaced, with_attributes

__all__ = ["apart", "in_double", "ordinary", "shaken", "tags", "vary"]

FRONT = {
    "18": [
        ("fluid.layers.scale", {"scale": 1.0}),
        ("fluid.layers.assign", {}),
        ("fluid.layers.tanh", {}),
        ("fluid.layers.square", {}),
        ("fluid.layers.elementwise_add", {"y": None}),
        ("fluid.layers.dropout", {"dropout_prob": 0.0}),
    ],
    "26": [
        ("paddle.scale", {"scale": 1.0}),
        ("paddle.assign", {}),
        ("paddle.tanh", {}),
        ("paddle.square", {}),
        ("paddle.add", {"y": None}),
        ("paddle.nn.functional.relu", {}),
    ],
}
BEHIND = {
    "18": [
        ("fluid.layers.tanh", {}),
        ("fluid.layers.scale", {"scale": 0.5}),
        ("fluid.layers.square", {}),
        ("fluid.layers.reduce_mean", {}),
        ("fluid.layers.concat", {"axis": -1}),
        ("fluid.layers.stack", {"axis": -1}),
    ],
    "26": [
        ("paddle.tanh", {}),
        ("paddle.scale", {"scale": 0.5}),
        ("paddle.square", {}),
        ("paddle.mean", {}),
        ("paddle.concat", {"axis": -1}),
        ("paddle.stack", {"axis": -1}),
    ],
}
SPECIAL = {
    "nan": ["nan"],
    "inf": ["inf", "-inf"],
    "zero": [0.0, -0.0],
    "large": [1e30, -1e30, 1e4, -300.0],
    "tiny": [1e-40, -1e-38, 1e-20],
}


def vary(case: Case, rng: random.Random, often: Mapping[str, float] | None = None) -> Case:
    """The case with variations, each at times; the case itself stays as it is.

    `often`: names of variations with other chances than their own.
    """
    case = copy.deepcopy(case)
    changes = CHANGES if case["door"] == "18" else [*CHANGES, *OF_2X]
    for chance, change in changes:
        if rng.random() < (often or {}).get(change.__name__.lstrip("_"), chance):
            change(case, rng)
    return case


def _floating(case: Case) -> list[str]:
    return [name for name, feed in case["feeds"].items() if feed["dtype"].startswith("float")]


def _special_values(case: Case, rng: random.Random) -> None:
    """Some elements of one input are nan, infinite, zeros of both signs, or very large or small."""
    names = [name for name in _floating(case) if not case["feeds"][name]["fixed"]]
    if not names:
        return
    feed = case["feeds"][rng.choice(names)]
    words = list(SPECIAL[rng.choice(list(SPECIAL))])
    for at in range(len(feed["values"])):
        if rng.random() < 0.4 and words:
            word = feed["values"][at] = rng.choice(words)
            if feed.get("distinct"):
                words.remove(word)


def _ties(case: Case, rng: random.Random) -> None:
    """Elements of one input are alike."""
    feeds = case["feeds"]
    names = [name for name in _floating(case) if not feeds[name]["fixed"] and not feeds[name].get("distinct")]
    if names:
        feed = feeds[rng.choice(names)]
        values = feed["values"]
        feed["values"] = [rng.choice(values[: max(len(values) // 3, 1)]) for _ in values]


def _unknown_sizes(case: Case, rng: random.Random) -> None:
    """Declared sizes are -1: of the batch, of all dimensions, or of some."""
    how = rng.choice(["batch", "batch", "all", "some"])
    for feed in case["feeds"].values():
        if feed["known"]:
            continue
        for at in range(len(feed["declared"])):
            if how == "all" or (how == "batch" and at == 0) or (how == "some" and rng.random() < 0.4):
                feed["declared"][at] = -1


def _lengths(case: Case, rng: random.Random) -> None:
    """One input falls into sequences, some of them empty, whatever the function makes of it."""
    names = [
        name
        for name, feed in case["feeds"].items()
        if len(feed["shape"]) > 1 and not feed.get("lengths") and not feed["known"]
    ]
    if not names:
        return
    feed = case["feeds"][rng.choice(names)]
    rest, lengths = feed["shape"][0], []
    while rest or not lengths:
        lengths.append(rng.randint(0, rest))
        rest -= lengths[-1]
    feed["lengths"] = [lengths]
    feed["declared"][0] = -1


def _same_twice(case: Case, rng: random.Random) -> None:
    """f(x, x): one input takes the place of another that looks like it."""
    feeds = case["feeds"]
    pairs = [
        (one, two)
        for one in feeds
        for two in feeds
        if one < two
        and all(feeds[one].get(key) == feeds[two].get(key) for key in ("shape", "dtype", "lengths", "fixed"))
    ]
    if not pairs:
        return
    keep, drop = rng.choice(pairs)
    drops = [drop]
    if case["door"] == "26" and rng.random() < 0.4:  # and f(x, x, x)
        drops = [two for one, two in pairs if one == keep]
    for drop in drops:
        case["calls"] = [replaced(call, drop, keep) for call in case["calls"]]
        del feeds[drop]
    feeds[keep]["shared"] = True
    case["wrt"] = [name for name in case["wrt"] if name not in drops]


def _in_front(case: Case, rng: random.Random) -> None:
    """One input passes through another function first."""
    names = [name for name in _floating(case) if not case["feeds"][name]["fixed"]]
    if not names:
        return
    name = rng.choice(names)
    path, kwargs = rng.choice(FRONT[case["door"]])
    var = {"$": "var", "name": name}
    kwargs = {key: var if value is None else value for key, value in kwargs.items()}
    front = {"to": "front", "call": path, "args": [var], "kwargs": kwargs}
    case["calls"] = [front, *(replaced(call, name, "front") for call in case["calls"])]


def _behind(case: Case, rng: random.Random) -> None:
    """An output passes through another function, or through two whose results are both compared."""
    name = rng.choice(case["outputs"])
    var = {"$": "var", "name": name}
    for count in range(rng.randint(1, 2)):
        path, kwargs = rng.choice(BEHIND[case["door"]])
        args = [[var, var]] if path.endswith(("concat", "stack")) else [var]
        to = f"behind{count}"
        case["calls"].append({"to": to, "behind": name, "call": path, "args": args, "kwargs": kwargs})
        case["outputs"].append(to)
    if rng.random() < 0.5:
        case["outputs"].remove(name)


def _twice(case: Case, rng: random.Random) -> None:
    """The last call is made once more."""
    last = copy.deepcopy(case["calls"][-1])
    if "to" in last and last["to"] in case["outputs"] and "calls" not in last:
        last["to"] = "twice"
        case["calls"].append(last)
        case["outputs"].append("twice")


def _frozen(case: Case, rng: random.Random) -> None:
    """One input has no gradient."""
    if len(case["wrt"]) > 1:
        name = rng.choice(case["wrt"])
        case["wrt"].remove(name)
        case["feeds"][name]["stop"] = True


CHANGES: list[tuple[float, Callable[[Case, random.Random], None]]] = [
    (0.20, _special_values),
    (0.06, _ties),
    (0.06, _same_twice),
    (0.08, _lengths),
    (0.35, _unknown_sizes),
    (0.10, _twice),
    (0.15, _in_front),
    (0.15, _behind),
    (0.10, _frozen),
    (0.10, of_views),
    (0.06, with_attributes),
    (0.04, of_other_dtype),
    (0.08, in_body),
    (0.04, once_more),
]

OF_2X: list[tuple[float, Callable[[Case, random.Random], None]]] = [
    (0.15, viewed),
    (0.15, followed),
    (0.10, numpy_numbers),
    (0.10, tuples),
    (0.30, dtype_objects),
    (0.05, named),
    (0.04, as_doubles),
]


# ---------------------------------------------------------------------- tags
def tags(case: Case) -> set[str]:
    """Words for what is special in a case, which rows of docs/DIFFERENCES.md ask for."""
    if "job" in case:
        return job_tags(case["job"])
    found = _tags_of_feeds(case)
    for item in _arrays(case["calls"]):
        found |= _tags_of(item)
    found |= _tags_of_case(case)
    calls = _calls(case["calls"])
    for call in calls:
        found |= {
            word for key, value in call.get("kwargs", {}).items() for word in _tags_of_keyword(key, value)
        }
        found |= {
            f"{key}=negative variable"
            for key, value in call.get("kwargs", {}).items()
            if _is_negative(case, value)
        }
    if "'learning_rate': 0.0" in repr(case["calls"]):
        found.add("rate of 0")
    found |= _tags_of_names(calls)
    found |= {f"with {call['with'].rpartition('.')[2]}" for call in calls if "with" in call}
    if any("front" in call.get("to", "") and call.get("call", "").endswith("relu") for call in calls):
        found |= {"ties", "zero", "relu in front"}
    found |= {name.rpartition(".")[2] for name in _called(case["calls"])}
    if _steps_back(case, case["calls"]):
        found.add("negative step")
    if any(map(_copies, calls)):
        found.add("copies")
    if "'is_sparse': True" in repr(case["calls"]) or "'sparse': True" in repr(case["calls"]):
        found.add("sparse")
    return found


def _tags_of_case(case: Case) -> set[str]:
    """Tags of what is asked of all calls together."""
    checks = {
        "random": case.get("random"),
        "given gradients": not case.get("sums", True),
        "chained targets": any(call.get("behind") in case["outputs"] for call in case["calls"]),
        "all dimensions named": _names_all_dimensions(case),
    }
    return {name for name, holds in checks.items() if holds}


def _tags_of_names(calls: list[Case]) -> set[str]:
    """The tag of two calls that are given one name."""
    names = [call["kwargs"]["name"] for call in calls if "name" in call.get("kwargs", {})]
    return {"named twice" for name in names if names.count(name) > 1}


def _names_all_dimensions(case: Case) -> bool:
    """True if a list among the arguments has each dimension of a feed once."""
    ranks = {len(feed["shape"]) for feed in case["feeds"].values()} - {0}
    lists = _lists([[call.get("args", []), call.get("kwargs", {})] for call in case["calls"]])
    return any(
        len(item) > 1 and {at % rank for at in item} == set(range(rank)) for item in lists for rank in ranks
    )


def _tags_of_feeds(case: Case) -> set[str]:
    """Tags of each feed, and of all of them beside one another."""
    feeds = list(case["feeds"].values())
    found = {tag for feed in feeds for tag in _tags_of(feed)}
    if len({feed["dtype"] for feed in feeds}) > 1:
        found.add("mixed dtypes")
    ranks = [len(feed["shape"]) for feed in feeds]
    if ranks[1:] and ranks[1] > ranks[0]:
        found.add("wider second")
    return found


def _tags_of_keyword(key: str, value: Any) -> list[str]:
    """The keyword, and its value where that is short, or that it is a variable."""
    if isinstance(value, (bool, str, int)):
        return [key, f"{key}={value}"]
    return [key, f"{key}=variable"] if isinstance(value, dict) and value.get("$") == "var" else [key]


def _is_negative(case: Case, value: Any) -> bool:
    """True if an argument is a fed number below 0."""
    if not isinstance(value, dict) or value.get("$") != "var" or value["name"] not in case["feeds"]:
        return False
    values = case["feeds"][value["name"]]["values"]
    return len(values) == 1 and isinstance(values[0], (int, float)) and values[0] < 0


def _steps_back(case: Case, item: Any) -> bool:
    """True if a slice of an index goes backwards, or `strided_slice` does, by fed strides too."""
    if isinstance(item, dict) and item.get("call", "").endswith("strided_slice"):
        strides = item["kwargs"].get("strides", item["args"][-1:])
        fed = [case["feeds"][name]["values"] for name in _names(strides) if name in case["feeds"]]
        return any(isinstance(step, int) and step < 0 for step in _flat([strides, *fed]))
    if isinstance(item, dict) and item.get("$") == "slice":
        return any(isinstance(step, int) and step < 0 for step in _flat(item["parts"][2:]))
    items = list(item.values()) if isinstance(item, dict) else item
    return isinstance(items, list) and any(_steps_back(case, one) for one in items)


def _names(item: Any) -> list[str]:
    """The Variables within an argument."""
    if isinstance(item, dict) and item.get("$") == "var":
        return [item["name"]]
    items = list(item.values()) if isinstance(item, dict) else item
    return [name for one in items for name in _names(one)] if isinstance(items, list) else []


REPEATS = ("tile", "expand", "expand_as", "broadcast_to", "repeat_interleave", "quantile", "nanquantile")
"""Functions whose results hold one element several times; quantiles do where there are few elements."""


def _copies(call: Case) -> bool:
    """True if a call joins a Variable to itself, or repeats it."""
    path = call.get("call", "").rpartition(".")[2]
    if path in REPEATS:
        return True
    joined = _names(call.get("args", [])) if path in ("concat", "stack") else []
    return len(joined) > len(set(joined))


def _flat(item: Any) -> list[Any]:
    """The items of lists and tuples within each other."""
    if isinstance(item, dict) and item.get("$") == "numpy":
        return [item["value"]]
    if isinstance(item, dict):
        return _flat(item.get("items", item.get("values", [])))
    return [found for one in item for found in _flat(one)] if isinstance(item, list) else [item]


def _lists(item: Any) -> list[list[int]]:
    """The lists of whole numbers within arguments."""
    if isinstance(item, dict):
        return _lists(list(item.values()))
    if not isinstance(item, list):
        return []
    if item and all(type(one) is int for one in item):
        return [item]
    return [found for one in item for found in _lists(one)]


def _arrays(item: Any) -> list[Any]:
    if isinstance(item, list):
        return [found for one in item for found in _arrays(one)]
    if isinstance(item, dict):
        if item.get("$") == "array":
            return [item]
        return [found for one in item.values() for found in _arrays(one)]
    return []


def _called(item: Any) -> list[str]:
    """The names of the functions that are called, also those that make arguments, such as clips."""
    return [call["call"] for call in _calls(item) if call.get("$") == "call"]


def _calls(item: Any) -> list[Case]:
    """All calls and contexts: those in blocks and arguments, too."""
    if isinstance(item, list):
        return [call for one in item for call in _calls(one)]
    if isinstance(item, dict):
        own = [item] if isinstance(item.get("call"), str) or "with" in item else []
        return own + [call for one in item.values() for call in _calls(one)]
    return []


def ordinary(case: Case) -> Case:
    """The case with numbers near 1 in place of nan, infinities, and what is very large or small."""
    case = copy.deepcopy(case)
    for name in _floating(case):
        feed = case["feeds"][name]
        values = array_of(feed).reshape(-1)
        odd = ~np.isfinite(values) | (np.abs(values) > 80) | (np.abs(values) < 1e-15)
        feed["values"] = [
            0.7 + at % 7 / 10 if strange else value
            for at, (strange, value) in enumerate(zip(odd, feed["values"], strict=True))
        ]
    return case


def in_double(case: Case) -> Case:
    """The case with float64 in place of float32, whose differences have digits near kinks, too."""
    case = copy.deepcopy(case)
    for feed in case["feeds"].values():
        feed["dtype"] = {"float32": "float64"}.get(feed["dtype"], feed["dtype"])
    return case


FRONTS = ("front", "viewed", "word")
"""Names of what stands between an input and its function."""


def apart(case: Case) -> Case:
    """The case with an input of its own for each place of f(x, x): one of them may count as a constant."""
    case = copy.deepcopy(case)
    for name in [name for name, feed in case["feeds"].items() if feed.pop("shared", False)]:
        spread = _Apart([name])
        case["calls"] = spread.calls(case["calls"])
        for count in range(1, spread.most):
            case["feeds"][f"{name}_{count}"] = copy.deepcopy(case["feeds"][name])
            if name in case["wrt"]:
                case["wrt"].append(f"{name}_{count}")
    return case


@dataclass
class _Apart:
    """Numbers the places of names within each call: x, x_1, x_2; `most` is how many a call has.

    What stands in front of the function is made for each number, and its name becomes one of the names.
    """

    names: list[str]
    most: int = 1
    seen: int = 0

    def calls(self, calls: list[Case]) -> list[Case]:
        """The statements of a block, from the last: those in front are made for all numbers."""
        self.names += [call["to"] for call in calls if call.get("to") in FRONTS]
        inner = [self.place(call) if call.get("to") not in FRONTS else call for call in calls]
        return [one for call in inner for one in self._each(call)]

    def _each(self, call: Case) -> list[Case]:
        if call.get("to") not in FRONTS:
            return [call]
        return [call, *(self._numbered(call, count) for count in range(1, self.most))]

    def _numbered(self, call: Case, count: int) -> Case:
        found = {**call, "to": f"{call['to']}_{count}"}
        for name in self.names:
            found = replaced(found, name, f"{name}_{count}")
        return found

    def place(self, item: Any) -> Any:
        """The same with numbers; each call counts for itself."""
        if isinstance(item, list):
            return [self.place(one) for one in item]
        if not isinstance(item, dict):
            return item
        if "calls" in item:
            return {**item, "calls": self.calls(item["calls"])}
        if "to" in item:
            self.seen = 0
        if item.get("$") == "var" and item["name"] in self.names:
            self.seen += 1
            self.most = max(self.most, self.seen)
            return {**item, "name": item["name"] + (f"_{self.seen - 1}" if self.seen > 1 else "")}
        return {key: self.place(one) for key, one in item.items()}


def shaken(case: Case, number: int) -> Case:
    """The case with numbers and parameters that differ from its own as much as rounding does."""
    case = {**copy.deepcopy(case), "shake": number}
    for name in _floating(case):
        feed = case["feeds"][name]
        step = 1e-6 if feed["dtype"] == "float32" else 1e-14
        values = array_of(feed).reshape(-1)
        moved = values * (1 + step * np.sin(number * (1.0 + np.arange(values.size))))
        feed["values"] = [
            float(new) if np.isfinite(new) else old for new, old in zip(moved, feed["values"], strict=True)
        ]
    return case


def _tags_of(feed: Case) -> set[str]:
    array = array_of(feed)
    found = {str(array.dtype), f"rank {array.ndim}"}
    if array.dtype.kind == "f":
        magnitude = np.abs(array[np.isfinite(array)])
        checks = {
            "nan": np.isnan(array).any(),
            "inf": np.isinf(array).any(),
            "zero": (array == 0).any(),
            "negative zero": (np.signbit(array) & (array == 0)).any(),
            "large": (magnitude > 80).any(),
            "halves": (magnitude % 1 == 0.5).any(),
            "quarters": (magnitude % 0.5 == 0.25).any(),
            "tiny": ((magnitude > 0) & (magnitude < 1e-15)).any(),
        }
        found |= {name for name, holds in checks.items() if holds}
    if len(set(map(str, listed(array)))) < array.size:
        found.add("ties")
    if array.size == 0:
        found.add("empty")
    if array.ndim == 0:
        found.add("number")
    if feed.get("lengths"):
        found.add("lod")
        if any(0 in level for level in feed["lengths"]):
            found.add("empty sequence")
    if -1 in feed.get("declared", ())[1:]:
        found.add("unknown sizes")
    if feed.get("declared", [0])[:1] == [-1]:
        found.add("unknown batch")
    return found
