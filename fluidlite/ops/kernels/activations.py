"""Activations of recurrent layers, each declared once as scalar expressions: its value, and its derivative by
its result.

A gradient has the result only, since what goes in is overwritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES, Ref
from fluidlite.ops.kernels.scalar_steps import Operand, ScalarSteps, steps_of_text

__all__ = [
    "ACTIVATIONS",
    "DECLARED",
    "SLOPE",
    "Activation",
    "activation",
    "expanded",
    "lines_in_place",
    "reads_once",
]

SLOPE = "slope of "
"""In front of an activation's name: the function that gives its derivative."""


class Activation(NamedTuple):
    """The `value` of x, and the `slope` where the result is out."""

    name: str
    value: str
    slope: str

    def apply(self, xp: Any, x: Array) -> None:
        """Overwrite x by its value."""
        _in_place(self.name)(xp, x)


# as a tanh, which vectorises better than exp and a division, and cannot overflow
_SIGMOID = "0.5 * tanh(0.5 * {0}) + 0.5"
_SIGMOID_SLOPE = "out - out * out"
ACTIVATIONS = {
    "identity": Activation("identity", "x", "1"),
    "sigmoid": Activation("sigmoid", _SIGMOID.format("x"), _SIGMOID_SLOPE),
    "tanh": Activation("tanh", "tanh(x)", "1 - out * out"),
    "relu": Activation("relu", "maximum(x, 0)", "out > 0"),
}
# of arguments up to 13, as in Paddle's ops over sequences: an open gate stays a little short of 1; the other
# limit, -40, is far below where a tanh in float32 leaves 0
_CLAMPED = Activation("clamped_sigmoid", _SIGMOID.format("minimum(x, 13)"), _SIGMOID_SLOPE)
_IN_SEQUENCES = {**ACTIVATIONS, "sigmoid": _CLAMPED}
# gradients pass inside the bound, the second operand
_BOUNDED = Activation("bounded", "minimum(maximum(x, -bound), bound)", "abs(out) < bound")
DECLARED = {each.name: each for each in (*ACTIVATIONS.values(), _CLAMPED, _BOUNDED)}
"""All that cells may call, by name."""


def activation(op: str, name: str, unit: bool = False) -> Activation:
    """The activation called `name`, of a `unit` or of an op over sequences; ShapeError, naming the op, where
    there is none.
    """
    if name not in ACTIVATIONS:
        raise ShapeError(f"op {op!r}: activation {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name] if unit else _IN_SEQUENCES[name]


def expanded(function: str, operands: tuple[Operand, ...]) -> tuple[ScalarSteps, Operand] | None:
    """The steps of an activation, or of its slope, and its value; None for a function that is neither.

    The array that it is a function of is called `x`.
    """
    name = function.removeprefix(SLOPE)
    if name not in DECLARED:
        return None
    text = DECLARED[name].value if name == function else DECLARED[name].slope
    names: dict[str, Operand] = dict(zip(("x", "bound"), ("x", *operands[1:]), strict=False))
    return steps_of_text(text, out="x", **names)


# ---------------------------------------------------------------------- calls of an array module
@functools.cache
def _in_place(name: str) -> Callable[[Any, Array], None]:
    """A function of an array module and an array, which is overwritten."""
    lines = lines_in_place(name, ("x",), "x", "x") or ["pass"]
    source = "\n    ".join(["def apply(xp, x):", *lines])
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<fluidlite activation {name}>", "exec"), namespace)
    function: Callable[[Any, Array], None] = namespace["apply"]
    return function


def lines_in_place(function: str, operands: tuple[Operand, ...], source: str, out: str) -> list[str]:
    """The calls that compute an activation or a slope: each reads the array `source`, or `out`, to which the
    call before has written.
    """
    found = expanded(function, operands)
    assert found is not None
    steps, _ = found
    lines = []
    for index, node in enumerate(steps.nodes):
        assert all(item == Ref(index - 1) for item in node.operands if isinstance(item, Ref))
        spelled = [_spelled(item, source, out) for item in node.operands]
        call = f"xp.{FUNCTIONS[node.function][0]}({', '.join(spelled)}"
        # truth values are numbers where another call reads them
        is_truth = node.function in PREDICATES
        lines.append(f"{out}[...] = {call})" if is_truth else f"{call}, out={out})")
    return lines


def _spelled(operand: Operand, source: str, out: str) -> str:
    if isinstance(operand, Ref):
        return out
    return source if isinstance(operand, str) else repr(operand)


def reads_once(function: str, operands: tuple[Operand, ...]) -> bool:
    """True if only the first call reads the source, so that the result can lie in its place."""
    found = expanded(function, operands)
    assert found is not None
    return not any("x" in node.operands for node in found[0].nodes[1:])
