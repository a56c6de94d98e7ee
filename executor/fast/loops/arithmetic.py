"""The functions of scalar expressions on vectors: which of them a compiled loop can hold, of what dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.executor.fast.loops import functions
from fluidlite.executor.fast.loops.vectors import KINDS, Code, Number, Vector
from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.sizes import Size
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.scalar import PREDICATES

__all__ = ["applied", "can_hold", "common_dtype", "result_of"]

_INTRINSICS = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "rint": "rint"}
_OWN: Mapping[str, Callable[[Vector], Vector]] = {
    "exp": functions.exp,
    "log": functions.log,
    "log1p": functions.log1p,
    "tanh": functions.tanh,
    "erf": functions.erf,
}
# of ordered numbers as C has them: a comparison with NaN holds only where it is `!=`
_RELATIONS = {
    "gt": ("ogt", "sgt"),
    "ge": ("oge", "sge"),
    "lt": ("olt", "slt"),
    "le": ("ole", "sle"),
    "eq": ("oeq", "eq"),
    "ne": ("une", "ne"),
}
_LOGIC = {"both": "and", "either": "or", "differ": "xor"}
_ANY_NUMBER = frozenset(("add", "sub", "mul", "maximum", "minimum", "square", "neg"))
_FLOATING = frozenset(("div", "sign", "isnan", *_INTRINSICS))


def can_hold(action: Elementwise, out: Value) -> bool:
    """True if a compiled loop computes an element-wise action as NumPy does, but for rounding."""
    kinds = tuple([item.dtype if isinstance(item, Value) else type(item) for item in action.operands])
    return _holds(action.function, kinds, out.dtype)


# asked several times for each step of a plan, and of few kinds: names of dtypes alone took 30 ms of 600 ops
@functools.lru_cache(4096)
def _holds(function: str, kinds: tuple[Any, ...], out: Any) -> bool:
    """The same for operands of these kinds: a dtype for an array, a type for a number."""
    dtypes = [kind for kind in kinds if not isinstance(kind, type)]
    if any(str(kind) not in KINDS for kind in (*dtypes, out)):
        return False
    common = common_dtype(function, dtypes, out)
    # a fraction beside integers would make them floating point
    # (what follows from the sizes of the feeds may be one for others)
    if common.kind != "f" and any(kind in (float, Size) for kind in kinds):
        return False
    if function in ("copy", "where"):
        return _converts(dtypes[1 if function == "where" and not isinstance(kinds[0], type) else 0 :], out)
    if function in _OWN:
        return bool(common == np.float32 and out == np.float32)
    if function in _FLOATING:
        return common.kind == "f"
    if function in _LOGIC or function == "invert":
        return common.kind == "b"
    if function in _RELATIONS:
        return common.kind in "fi"
    return function in _ANY_NUMBER and common.kind in "fi" and bool(out == common)


def _converts(dtypes: Sequence[np.dtype[Any]], out: np.dtype[Any]) -> bool:
    """True if all arrays can be converted to the type of the output: a float to an integer is C's affair."""
    return all(dtype.kind != "f" or out.kind in "fb" for dtype in dtypes)


def common_dtype(function: str, dtypes: Sequence[np.dtype[Any]], out: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that a function computes in."""
    if not dtypes or function in ("copy", "where"):
        return out
    # what gives truth values has a dtype of its own
    if function in PREDICATES:
        return np.result_type(*dtypes)
    return np.result_type(*dtypes, *({out} if out.kind == "f" else ()))


def applied(code: Code, action: Elementwise, out: Value, values: Mapping[Value, Vector]) -> Vector:
    """The vector that an action gives."""
    dtypes = [item.dtype for item in action.operands if isinstance(item, Value) and item.dtype is not None]
    assert out.dtype is not None
    common = KINDS[str(common_dtype(action.function, dtypes, out.dtype))][0]
    target = KINDS[str(out.dtype)][0]
    function = action.function

    def operand(item: Value | Number, kind: str) -> Vector:
        return values[item].converted(kind) if isinstance(item, Value) else code.number(item, kind)

    if function == "where":
        condition, first, second = action.operands
        return code.select(operand(condition, "i1"), operand(first, target), operand(second, target))
    operands = [operand(item, common) for item in action.operands]
    result = result_of(code, function, operands)
    assert result is not None, f"{function} has no code, and `can_hold` says that it has"
    return result.converted(target)


def result_of(code: Code, function: str, operands: Sequence[Vector]) -> Vector | None:
    """The vector that a function of vectors gives; None where there is no code for it."""
    first, second = operands[0], operands[-1]
    if function in _OWN:
        return _OWN[function](first)
    if function in _INTRINSICS:
        return code.call(_INTRINSICS[function], first)
    if function in _RELATIONS:
        return first.compare(_RELATIONS[function][not first.is_float], second)
    if function in _LOGIC:
        return first.bits(_LOGIC[function], second)
    return _PLAIN[function](first, second) if function in _PLAIN else None


def _larger(first: Vector, second: Vector) -> Vector:
    return _chosen(first, second, "ogt", "sgt")


def _smaller(first: Vector, second: Vector) -> Vector:
    return _chosen(first, second, "olt", "slt")


def _chosen(first: Vector, second: Vector, of_floats: str, of_integers: str) -> Vector:
    """One of two by a relation; a NaN wins, wherever it stands. Of 0 and -0 the second wins, as in NumPy."""
    code = first.code
    if not first.is_float:
        return code.select(first.compare(of_integers, second), first, second)
    if second.name.startswith("splat"):
        # a number is no NaN: one comparison that holds for a NaN too
        return code.select(first.compare(f"u{of_floats[1:]}", second), first, second)
    if first.name.startswith("splat"):
        # and this relation is the processor's own instruction
        return code.select(first.compare(of_floats, second), first, second)
    wins = first.compare(of_floats, second).bits("or", first.compare("uno", first))
    return code.select(wins, first, second)


def _sign(x: Vector, _: Vector) -> Vector:
    one = x.code.call("copysign", x.like(1.0), x)
    # zero and NaN are their own signs
    return x.code.select(x.compare("one", 0.0), one, x)


_PLAIN: Mapping[str, Callable[[Vector, Vector], Vector]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "square": lambda x, _: x * x,
    "neg": lambda x, _: -x,
    "copy": lambda x, _: x,
    "maximum": _larger,
    "minimum": _smaller,
    "sign": _sign,
    "isnan": lambda x, _: x.compare("uno", x),
    "invert": lambda x, _: x.bits("xor", True),
}
