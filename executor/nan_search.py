"""The search for the op behind a NaN: steps run by their plans, and one that leaves a NaN runs again, op by
op, with the check on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.warned import warn_user
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, host

__all__ = ["repeatable", "run_and_search"]


def run_and_search(
    program: Program, scope: Scope, random: Any, run: Callable[[], list[Any]], check: Callable[[], Any]
) -> list[Any]:
    """The result of `run`. Where that, or a persistable variable, holds a NaN or an infinity afterwards,
    everything is put back as it was and `check` repeats the step, which names the op: NanInfError. The
    variables are then those from before the step.

    It costs a copy of all persistable variables and a look at each, every step.
    """
    before = _values(program, scope)
    kept = {name: array.copy() for name, array in before.items()}
    state = copy.deepcopy(random.bit_generator.state)
    fetched = run()
    after = _values(program, scope)
    wrong = _not_finite({**{f"fetch {i}": value for i, value in enumerate(fetched)}, **after}.items())
    # a variable that was no number before the step is not this step's doing
    wrong = [name for name in wrong if name not in kept or not _not_finite([(name, kept[name])])]
    if not wrong:
        return fetched
    later = copy.deepcopy(random.bit_generator.state)
    ended = {name: array.copy() for name, array in after.items()}
    _restore(before, kept)
    random.bit_generator.state = state
    try:
        check()
    except Exception:
        _restore(before, kept)
        raise
    _restore(after, ended)
    random.bit_generator.state = later
    text = (
        f"{', '.join(wrong)} held a NaN or an infinity after a step, but not when it was repeated "
        "op by op (in a job only up to the values that other processes send)"
    )
    warn_user(text)
    return fetched


def repeatable(ops: Sequence[Operator]) -> list[Operator]:
    """The ops that a search may run once more: all of a program that talks to nobody. Of another one those of
    the forward and backward pass that need no answer of other processes; nothing is sent twice.
    """
    if not any(op.communicates is not None for op in ops):
        return list(ops)
    found: list[Operator] = []
    unknown: set[str] = set()
    for op in ops:
        if op.role & (OpRole.Optimize | OpRole.LRSched):
            break
        if op.communicates is not None:
            # what is reduced in place keeps this process's own value
            unknown.update(set(op.output_arg_names) - set(op.input_arg_names))
        elif unknown.isdisjoint(op.input_arg_names):
            found.append(op)
        else:
            unknown.update(op.output_arg_names)
    return found


def _values(program: Program, scope: Scope) -> dict[str, Any]:
    """The arrays of the program's persistable variables."""
    found = {}
    for name, var in program.global_block().vars.items():
        held = scope.find_var(name) if var.persistable else None
        value = None if held is None else held.value
        if isinstance(value, LoDTensor) and value.array is not None:
            found[name] = value.array
    return found


def _restore(arrays: dict[str, Any], values: dict[str, Any]) -> None:
    for name, array in arrays.items():
        array[...] = values[name]


def _not_finite(values: Iterable[tuple[str, Any]]) -> list[str]:
    found = []
    for name, value in values:
        array = value.array if isinstance(value, (LoDTensor, SelectedRows)) else value
        if getattr(getattr(array, "dtype", None), "kind", "") == "f" and not np.isfinite(host(array)).all():
            found.append(name)
    return found
