"""Small networks with one mistake each, made at random: every error is FluidLite's own, names the op or the
layer and the user's line, and shows no frame of the library.
"""

from __future__ import annotations

import copy
import inspect
import random
import re
import traceback
import warnings
from typing import Any

import numpy as np
import pytest
from beside.language import Case, Player, array_of
from beside.networks import make_network

import fluidlite as fluid
from fluidlite.base.tracebacks import is_own_source
from fluidlite.errors import FluidError

CHUNKS, PER_CHUNK = 24, 20
ARGUMENTS = {
    "None": None,
    "a list": [3],
    "two numbers": [2, 3],
    "an empty list": [],
    "a string": "3",
    "a fraction": 2.5,
    "zero": 0,
    "a negative number": -2,
    "a large number": 1000,
    "a tuple": {"$": "tuple", "items": [1, 2, 3]},
    "True": True,
    "a dict": {"$": "dict", "items": {}},
}
FEEDS = {
    "a row less": lambda array: array[:-1],
    "no rows": lambda array: array[:0],
    "a column more": lambda array: np.concatenate([array, array[..., :1]], -1),
    "no columns": lambda array: array[..., :0],
    "a dimension more": lambda array: array[None],
    "large numbers": lambda array: array * 0 + 1000,
    "negative numbers": lambda array: array * 0 - 3,
    "another type": lambda array: array.astype("float64" if array.dtype.kind == "f" else "int16"),
    "text": lambda array: array.astype(str),
    "nothing": lambda array: None,
}
OF_SEQUENCES = ["large numbers", "negative numbers", "another type", "nothing"]
NAMED = re.compile(r"op(erator)? ['\"]|in layers\.|in Variable\.|fed Variable '|feed '")
# words of Python and NumPy that say nothing of the program
RIDDLES = re.compile(
    "not supported between|unsupported operand|object is not|has no attribute|has no len|object cannot be|"
    "(list|tuple) index out of range|indices must be|argument must be a|division by zero$|modulo by zero"
)


def mistaken(seed: int) -> tuple[Case, str]:
    """The network of a seed with one wrong argument or feed, and a description of that."""
    rng = random.Random(seed)
    case = {**copy.deepcopy(make_network(seed // 8)), "wrong": {}}
    if rng.random() < 0.25:
        name = rng.choice(sorted(case["feeds"]))
        # rows of sequences are counted before anything runs
        kind = rng.choice(OF_SEQUENCES if "lengths" in case["feeds"][name] else sorted(FEEDS))
        case["wrong"] = {name: FEEDS[kind](array_of(case["feeds"][name]))}
        return case, f"{name} is fed with {kind}"
    call = rng.choice([one for one in case["calls"] if one.get("call", "").startswith("fluid.layers.")])
    layer = getattr(fluid.layers, call["call"].rpartition(".")[2])
    later = [name for name in inspect.signature(layer).parameters if name != "name"][len(call["args"]) :]
    key, kind = rng.choice([*range(len(call["args"])), *later]), rng.choice(sorted(ARGUMENTS))
    call["args" if isinstance(key, int) else "kwargs"][key] = ARGUMENTS[kind]
    return case, f"{call['call']} gets {kind} as {key}"


def attempt(case: Case, naive: bool, warm: bool) -> None:
    """Build and run a network; `warm`: run it before with what should be fed."""
    main, startup = fluid.Program(), fluid.Program()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    with fluid.unique_name.guard(), fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        names = {}
        for name, feed in case["feeds"].items():
            levels = len(feed.get("lengths", ()))
            names[name] = fluid.data(name, feed["declared"], feed["dtype"], lod_level=levels)
        Player({"fluid": fluid}).play(case["calls"], names)
        exe.run(startup)
        for wrong in [{}, case["wrong"]] if warm else [case["wrong"]]:
            exe.run(main, feed=fed(case, wrong), fetch_list=[names[case["outputs"][0]]])


def fed(case: Case, wrong: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a case, those in `wrong` in place of its own."""
    found = {}
    for name, feed in case["feeds"].items():
        array = wrong.get(name, array_of(feed))
        if array is not None:
            lengths = feed.get("lengths")
            found[name] = fluid.create_lod_tensor(array, lengths, fluid.CPUPlace()) if lengths else array
    return found


def faults(error: BaseException) -> list[str]:
    """The demands that an error does not meet."""
    text = str(error)
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    found = {
        "is not FluidLite's own": not isinstance(error, FluidError),
        "has no line": not re.search(r"(built|declared) at \S+\.py:\d+", text),
        "names neither op nor layer": not NAMED.search(text),
        "speaks in riddles": RIDDLES.search(text.split("\n")[0]),
        "shows frames of the library": any(map(is_own_source, frames)),
        "shows a cause in the library": shown is not None,
    }
    return [fault for fault, holds in found.items() if holds]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_mistakes_at_random(chunk: int) -> None:
    wrong = []
    for seed in range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK):
        case, what = mistaken(seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                attempt(case, naive=seed % 3 == 1, warm=seed % 2 == 1)
        except Exception as error:
            found = faults(error)
            if found:
                wrong.append(f"{seed}: {what}: {type(error).__name__} {', '.join(found)}: {error}")
    assert not wrong, "\n\n".join(wrong)
