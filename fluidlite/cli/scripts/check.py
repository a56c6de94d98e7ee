"""The names of Paddle's that a script uses and FluidLite lacks or refuses, before the script is run."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from fluidlite.base.errors import did_you_mean
from fluidlite.base.imperative import STATIC_ONLY, instead_of
from fluidlite.base.refusals import why_left_out
from fluidlite.cli.scripts.usage import Use, files_of, uses_of

__all__ = ["lacking", "problem", "problems_of"]

# start of a name -> what to say of it: these are there, and refuse when they are called, or were never there
_REASONS = {
    "paddle.fluid.dygraph.guard": STATIC_ONLY,
    "paddle.fluid.enable_dygraph": STATIC_ONLY,
    "paddle.fluid.enable_imperative": STATIC_ONLY,
    "paddle.disable_static": STATIC_ONLY,
    "paddle.to_tensor": f"{STATIC_ONLY}; feed an array to a paddle.static.data",
    "paddle.v2": "the interface before fluid, which 1.8.5 does not have either",
    "paddle.trainer": "the interface before fluid, which 1.8.5 does not have either",
    "paddle.trainer_config_helpers": "the interface before fluid, which 1.8.5 does not have either",
    "paddle.imperative": STATIC_ONLY,
    "paddle.incubate.hapi": f"{STATIC_ONLY}; paddle.Model trains a static graph",
}


def lacking(script: str) -> list[str]:
    """A line for each use that would fail: `train.py:7: fluid.layers.fcc: ...`; [] where there is none."""
    return [f"{file}:{line}: {said}" for file in files_of(script) for line, said in problems_of(file)]


def problems_of(file: str) -> Iterator[tuple[int, str]]:
    """Line and text of each use in one file that would fail."""
    seen = set()
    for use in uses_of(file):
        said = problem(use)
        # the import of a name and its first use on one line say the same
        if said is not None and (use.line, said) not in seen:
            seen.add((use.line, said))
            yield use.line, said


def problem(use: Use) -> str | None:
    """The reason for which a use fails; None where nothing speaks against it."""
    for start, reason in _REASONS.items():
        if use.name == start or use.name.startswith(f"{start}."):
            return f"{_shown(use.name)}: {reason}"
    root, *parts = use.name.split(".")
    found: Any = importlib.import_module(root)
    for place, part in enumerate(parts):
        inner = _inner(found, part)
        if inner is _NOTHING:
            owner = ".".join([root, *parts[:place]])
            return f"{_shown(f'{owner}.{part}')}: not there{instead_of(part, _names(found))}"
        if why_left_out(inner) is not None:
            return f"{_shown(use.name)}: {why_left_out(inner)}"
        found = inner
        if not isinstance(found, (ModuleType, type)):
            # what a function gives, or an object has, is known when the script runs
            if place + 1 < len(parts):
                return None
            break
    return None if use.keywords is None else _call_problem(found, use)


_NOTHING = object()


def _inner(owner: Any, name: str) -> Any:
    """An attribute, or a module that nobody has imported yet."""
    try:
        return getattr(owner, name)
    except (AttributeError, ImportError):
        pass
    if not isinstance(owner, ModuleType):
        return _NOTHING
    try:
        return importlib.import_module(f"{owner.__name__}.{name}")
    except ImportError:
        return _NOTHING


def _names(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


def _call_problem(function: Any, use: Use) -> str | None:
    """Keywords that a function does not know, and arguments of which it does not take so many."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = {parameter.kind for parameter in parameters}
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for keyword in use.keywords or ():
            if keyword not in named:
                near = did_you_mean(keyword, named) or f" (it takes {', '.join(named)})"
                return f"{_shown(use.name)}: no argument {keyword!r}{near}"
    most = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if inspect.Parameter.VAR_POSITIONAL not in kinds and use.positions > most:
        return f"{_shown(use.name)}: called with {use.positions} arguments, but it takes {most}"
    return None


def _shown(name: str) -> str:
    """A name as scripts have it: `fluid.layers.fc`."""
    for root in ("paddle.fluid", "fluidlite"):
        if name.startswith(f"{root}."):
            return f"fluid.{name[len(root) + 1 :]}"
    return name
