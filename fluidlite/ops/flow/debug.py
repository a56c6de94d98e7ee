"""Ops that look in from outside: print, assert, and functions of the user's own."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import AssertError, KernelError, NotFoundError, of_user
from fluidlite.base.plain_text import printable
from fluidlite.base.registry import (
    EMPTY_VAR,
    STRINGS,
    AttrType,
    GradContext,
    Lod,
    Op,
    WithLod,
    required,
    same_as,
)
from fluidlite.ir.operator import Operator
from fluidlite.values.tensor import LoDTensor, host

# ---------------------------------------------------------------------- print
_PRINT_ATTRS: dict[str, Any] = {
    "first_n": required(AttrType.INT),
    "message": required(AttrType.STRING),
    "summarize": required(AttrType.INT),
    "print_tensor_name": required(AttrType.BOOLEAN),
    "print_tensor_type": required(AttrType.BOOLEAN),
    "print_tensor_shape": required(AttrType.BOOLEAN),
    "print_tensor_lod": required(AttrType.BOOLEAN),
    "print_phase": limited("BOTH", one_of("BACKWARD", "BOTH", "FORWARD")),
    "is_forward": True,
}
_TYPE_LETTERS = {
    "float32": "f",
    "float64": "d",
    "int32": "i",
    "int64": "l",
    "bool": "b",
    "uint8": "h",
    "int8": "a",
    "int16": "s",
}
# weak: a count goes with its op
_printed: weakref.WeakKeyDictionary[Operator, int] = weakref.WeakKeyDictionary()

print_op = Op(
    "print",
    "In -> Out",
    attrs=_PRINT_ATTRS,
    effect=True,
    booleans=True,
    version=1,
    newer={"print_tensor_layout": True},
)
print_op.shape(same_as("In"))


@print_op.kernel
def _(ctx: Any, In: Array, In_lod: Lod, first_n: int, print_phase: str, is_forward: bool) -> Array:
    times = _printed.get(ctx.op, 0)
    if print_phase in ("BOTH", "FORWARD" if is_forward else "BACKWARD") and (first_n <= 0 or times < first_n):
        _printed[ctx.op] = times + 1
        sys.stdout.write(_printout(ctx, In, In_lod))
        sys.stdout.flush()
    return In


def _printout(ctx: Any, value: Array, lod: Lod) -> str:
    attrs = ctx.op.attrs
    # of a loaded program these may be commands to the terminal
    message = "\n".join(map(printable, attrs["message"].split("\n")))
    lines = [f"{int(time.time())}\t{message}\tThe place is:{ctx.place!r}"]
    if attrs["print_tensor_name"]:
        lines.append(f"Tensor[{printable(ctx.op.input('In')[0])}]")
    if attrs["print_tensor_shape"]:
        lines.append(f"\tshape: [{_listed(value.shape)}]")
    if attrs["print_tensor_type"]:
        lines.append(f"\tdtype: {_TYPE_LETTERS.get(str(value.dtype), str(value.dtype))}")
    if attrs["print_tensor_lod"] and lod:
        lines.append(f"\tLoD: [{''.join(f'[ {_listed(level)} ]' for level in lod)}]")
    lines.append(f"\tdata: {_listed(_shown(value, attrs['summarize']))}")
    return "\n".join(lines) + "\n"


def _shown(value: Array, count: int) -> list[Any]:
    """The first `count` elements, all for a negative count."""
    flat = host(value).reshape(-1)
    if count >= 0:
        flat = flat[:count]
    # truth values are printed as 0 and 1
    if flat.dtype == bool:
        flat = flat.astype(int)
    return flat.tolist()


def _listed(values: Sequence[Any]) -> str:
    return "".join(f"{value:g}," if isinstance(value, float) else f"{value}," for value in values)


@print_op.grad_rule("In")
def _(context: GradContext) -> None:
    context.emit(
        "print",
        {"In": context.out_grad("Out")},
        {"Out": context.in_grad("In")},
        {**context.op.attrs, "is_forward": False},
    )


# ---------------------------------------------------------------------- assert
assert_op = Op("assert", "Cond Data*? ->", attrs={"summarize": -1}, effect=True, lod=None)


@assert_op.kernel
def _(ctx: Any, Cond: Array, Data: list[Array], summarize: int) -> dict[str, Any]:
    if not bool(host(Cond).reshape(-1)[0]):
        shown = "".join(
            f"\n  {name} {list(value.shape)}: {_listed(_shown(value, summarize))}"
            for name, value in zip(ctx.op.input("Data"), Data, strict=True)
        )
        raise AssertError(
            f"op 'assert': the condition {ctx.op.input('Cond')[0]!r} is false{shown}\n  built at "
            f"{ctx.op.where}"
        )
    return {}


# ---------------------------------------------------------------------- py_func
# attributes of ops hold numbers and texts, no functions: so an op names one by its number, as in fluid
_functions: list[Callable[..., Any]] = []


def remember(function: Callable[..., Any]) -> int:
    """Keep a function for as long as the process lives; programs refer to it by the number returned."""
    _functions.append(function)
    return len(_functions) - 1


def remembered(number: int) -> Callable[..., Any]:
    """The function of that number."""
    if not 0 <= number < len(_functions):
        raise NotFoundError(
            f"op 'py_func': this process has no function with the id {number}; functions are not "
            "saved with a program"
        )
    return _functions[number]


def remembered_count() -> int:
    """Number of functions that are kept."""
    return len(_functions)


py_func = Op(
    "py_func",
    "X*? -> Out*?",
    effect=True,
    lod=None,
    dynamic=True,
    attrs={"forward_callable_id": 0, "backward_callable_id": -1, "backward_skip_vars": STRINGS()},
    idle=("backward_callable_id", "backward_skip_vars"),
    reaches="calls a function of this process",
    makes_lod=True,
    booleans=True,
)


@py_func.kernel
def _(
    ctx: Any, xp: Any, X: list[Array | None], X_lod: list[Lod], forward_callable_id: int
) -> dict[str, list[Any]]:
    # copies: the function may keep, or change, what it is given
    tensors = [
        None if value is None else LoDTensor(np.array(host(value)), lod)
        for value, lod in zip(X, X_lod, strict=False)
    ]
    function = remembered(forward_callable_id)
    try:
        returned = function(*tensors)
    except Exception as error:
        raise of_user(error)  # noqa: B904
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    names = ctx.op.output("Out")
    if len(results) == 1 and results[0] is None and not names:
        return {"Out": []}
    if len(results) != len(names):
        raise KernelError(f"the function returned {len(results)} values for {len(names)} outputs")
    for name, result in zip(names, results, strict=True):
        # what is no variable at all is the gradient of something that has none
        if result is None and name != EMPTY_VAR:
            raise KernelError(f"the function returned None for the output {name!r}")
    return {
        "Out": [
            None if result is None else WithLod(xp.array(np.asarray(result)), getattr(result, "_lod", ()))
            for result in results
        ]
    }


@py_func.grad_rule("X")
def _(context: GradContext) -> None:
    backward = context.op.attrs["backward_callable_id"]
    if backward < 0:
        return
    skipped = set(context.op.attrs["backward_skip_vars"])
    # the user named variables; `op` may have other names for what they were before they were written over
    meant = (*context.forward.input("X"), *context.forward.output("Out"))
    seen = (*context.input("X"), *context.output("Out"))
    inputs = [name for name, var in zip(seen, meant, strict=True) if var not in skipped]
    context.emit(
        "py_func",
        {"X": inputs + context.out_grad("Out")},
        {"Out": context.in_grad("X")},
        {"forward_callable_id": backward, "backward_callable_id": -1, "backward_skip_vars": []},
    )
