"""Cases as plain data: how arrays, arguments and calls are written down, run, and printed as a script.

A case is a dict that JSON keeps as it is:

    door      "18" or "26": whose names its calls use
    function  the function that it is about
    feeds     name -> {"shape", "dtype", "values", "declared", "lengths", "stop"}
    calls     statements, see `Player.play`
    outputs   names of what is compared; a name may stand for a list of Variables
    wrt       feeds whose gradients are asked for

An argument is JSON, or a dict with the key "$" for what JSON lacks (`Player.value` lists the kinds). The
names of calls are paths: their first part is a variable of the case, or one of the roots `fluid`, `paddle`,
`np`, `op`.
"""

from __future__ import annotations

import operator
from typing import Any, Dict, Iterable, Iterator, List

import numpy as np

Case = Dict[str, Any]
DTYPES = {
    0: "bool",
    1: "int16",
    2: "int32",
    3: "int64",
    4: "float16",
    5: "float32",
    6: "float64",
    20: "uint8",
    21: "int8",
    22: "bfloat16",
    23: "complex64",
    24: "complex128",
}
WORDS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def number(item: Any) -> Any:
    """A number as JSON keeps it: nan and infinities are words."""
    if isinstance(item, float) and (item != item or item in (WORDS["inf"], WORDS["-inf"])):
        return str(item)
    return item


def listed(array: np.ndarray) -> List[Any]:  # noqa: UP006
    """The elements of an array in order, as JSON keeps them; complex ones as pairs."""
    flat = array.reshape(-1)
    if array.dtype.kind == "c":
        return [[number(float(item.real)), number(float(item.imag))] for item in flat]
    if array.dtype.kind == "f":
        return [number(float(str(item))) for item in flat]  # float32 in its few digits
    return flat.tolist()


def array_of(item: Dict[str, Any]) -> np.ndarray:  # noqa: UP006
    """The array that "shape", "dtype" and "values" describe."""
    values = [WORDS.get(one, one) if isinstance(one, str) else one for one in item["values"]]
    if item["dtype"].startswith("complex"):
        values = [complex(WORDS.get(one, one), WORDS.get(two, two)) for one, two in values]
    return np.array(values, dtype=item["dtype"]).reshape(item["shape"])


def flat(value: Any) -> Iterator[Any]:
    """The items of nested lists and tuples, in order, without None."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    elif value is not None:
        yield value


class Player:
    """Runs the statements of cases with the modules of one system."""

    def __init__(self, roots: Dict[str, Any]) -> None:  # noqa: UP006
        self.handed: List[str] = []  # noqa: UP006  # what stands for a Variable as it was
        self.at = ""  # the name that the call at hand binds
        self.roots = {"np": np, "op": operator}
        self.roots.update(roots)

    def find(self, path: str, names: Dict[str, Any]) -> Any:  # noqa: UP006
        """The variable, function or attribute that a path names."""
        first, *rest = path.split(".")
        found = names[first] if first in names else self.roots[first]
        for part in rest:
            found = getattr(found, part)
        return found

    def value(self, item: Any, names: Dict[str, Any]) -> Any:  # noqa: UP006
        """An argument: lists are lists, and dicts say by "$" what they are."""
        if isinstance(item, list):
            return [self.value(one, names) for one in item]
        if not isinstance(item, dict):
            return item
        made: Any = getattr(self, "_" + item["$"])(item, names)
        return made

    def _var(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return self.find(item["name"], names)

    def _item(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        found = names[item["of"]]
        for index in item["index"]:
            found = found[index]
        return found

    def _tuple(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return tuple(self.value(item["items"], names))

    def _dict(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return {key: self.value(one, names) for key, one in item["items"].items()}

    def _array(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return array_of(item)

    def _float(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return WORDS[item["value"]]

    def _numpy(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return np.dtype(item["dtype"]).type(item["value"])

    def _complex(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return complex(*item["value"])

    def _slice(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return slice(*self.value(item["parts"], names))

    def _ellipsis(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return Ellipsis

    def _call(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        return self.call(item, names)

    def _block(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        """A Python function: its statements run in the names of here, `takes` and its own."""

        def block(*given: Any) -> Any:
            inner = dict(names)
            inner.update(zip(item["takes"], given))
            self.play(item["calls"], inner)
            return self.value(item["gives"], inner)

        return block

    def call(self, item: Case, names: Dict[str, Any]) -> Any:  # noqa: UP006
        """The result of one call."""
        args = [self.value(one, names) for one in item.get("args", ())]
        kwargs = {key: self.value(one, names) for key, one in item.get("kwargs", {}).items()}
        return self.find(item["call"], names)(*args, **kwargs)

    def play(self, calls: Iterable[Case], names: Dict[str, Any]) -> None:  # noqa: UP006
        """Run statements, which bind names.

        {"to": "y", "call": "fluid.layers.relu", "args": [...], "kwargs": {...}}: a call; "to" may be missing.
        {"with": "rnn.step", "args": [...], "calls": [...]}: statements inside of a context; "to" names it.
        {"behind": "y", ...}: a call for a floating Variable y alone; another y is handed on as it is.
        """
        for item in calls:
            if "with" in item:
                with self.call({"call": item["with"], "args": item.get("args", [])}, names) as given:
                    if "to" in item:
                        names[item["to"]] = given
                    self.play(item["calls"], names)
            elif "behind" in item and not is_floating(names[item["behind"]]):
                names[item["to"]] = names[item["behind"]]
                self.handed.append(item["to"])
            else:
                self.at = item.get("to", "")
                made = self.call(item, names)
                if "to" in item:
                    names[item["to"]] = made


def dtype_of(var: Any) -> str:
    """NumPy's name of a Variable's dtype, which every system numbers alike; "" for what has none."""
    try:
        return DTYPES.get(int(var.dtype), str(int(var.dtype)))
    except Exception:
        return ""


def is_floating(var: Any) -> bool:
    """True for a Variable of float32 or float64."""
    return dtype_of(var) in ("float32", "float64")


# ---------------------------------------------------------------------- printing
def text(item: Any) -> str:
    """An argument as Python source."""
    if isinstance(item, list):
        return "[{}]".format(", ".join(map(text, item)))
    if not isinstance(item, dict):
        return repr(item)
    kind = item["$"]
    if kind == "var":
        return str(item["name"])
    if kind == "item":
        return item["of"] + "".join(f"[{index!r}]" for index in item["index"])
    if kind == "tuple":
        return "({})".format("".join(text(one) + ", " for one in item["items"]).rstrip())
    if kind == "dict":
        return "dict({})".format(", ".join(key + "=" + text(one) for key, one in item["items"].items()))
    if kind == "array":
        return array_text(item)
    if kind == "slice":
        return "slice({})".format(", ".join(map(text, item["parts"])))
    if kind == "call":
        return call_text(item)
    if kind == "numpy":
        return "np.{dtype}({value!r})".format(**item)
    if kind == "block":
        return "lambda {}: {}".format(", ".join(item["takes"]), text(item["gives"]))
    return {"float": "float({!r})", "complex": "complex(*{!r})"}.get(kind, "...").format(item.get("value"))


def array_text(item: Case) -> str:
    """An array as Python source."""
    words = {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}
    if item["dtype"].startswith("complex"):
        values = [
            "complex({}, {})".format(*(words.get(part, part) for part in one)) for one in item["values"]
        ]
    else:
        values = [words.get(one, repr(one)) if isinstance(one, str) else repr(one) for one in item["values"]]
    shape = "" if len(item["shape"]) == 1 else ".reshape({})".format(item["shape"])
    return "np.array([{}], {!r}){}".format(", ".join(values), item["dtype"], shape)


def call_text(item: Case) -> str:
    """A call as Python source."""
    args = [text(one) for one in item.get("args", ())]
    args += [key + "=" + text(one) for key, one in item.get("kwargs", {}).items()]
    return "{}({})".format(item["call"], ", ".join(args))


def statements(calls: Iterable[Case], indent: str = "") -> Iterator[str]:
    """Statements as lines of Python; functions with statements of their own are defined in front."""
    for item in calls:
        if "with" in item:
            named = " as " + item["to"] if "to" in item else ""
            context = call_text({"call": item["with"], "args": item.get("args", [])})
            yield f"{indent}with {context}{named}:"
            for line in statements(item["calls"], indent + "    "):
                yield line
            continue
        for count, block in enumerate(_blocks([item.get("args", []), item.get("kwargs", {})])):
            name = f"f{count}"
            yield "{}def {}({}):".format(indent, name, ", ".join(block["takes"]))
            for line in statements(block["calls"], indent + "    "):
                yield line
            yield "{}    return {}".format(indent, text(block["gives"]))
            block.update({"$": "var", "name": name})
        yield indent + (item["to"] + " = " if "to" in item else "") + call_text(item)


def _blocks(item: Any) -> Iterator[Case]:
    """The blocks with statements within arguments."""
    if isinstance(item, list):
        for one in item:
            yield from _blocks(one)
    elif isinstance(item, dict) and item.get("$") != "block":
        yield from _blocks(list(item.values()))
    elif isinstance(item, dict) and item["calls"]:
        yield item
