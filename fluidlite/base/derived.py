"""The gradient op of a gradient op, made from that one's kernel; and of that one, to any order.

`softmax_grad` reads Out and Out@GRAD and writes X@GRAD. `softmax_grad_grad` reads the same and X@GRAD@GRAD,
the gradient that comes in for X@GRAD, and writes Out@GRAD and Out@GRAD@GRAD: its kernel runs the one of
`softmax_grad` on arrays that record what is computed with them (`fluidlite.base.differentiation`), and goes
back along the record. So the mathematics of an op stands once, in the kernels of op and gradient op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fluidlite.base.differentiation import GradientTape, Traced, TracedModule, plain, pull
from fluidlite.base.errors import UnsupportedError
from fluidlite.base.gradient_names import GRAD_SUFFIX

__all__ = ["Vjp", "derived_grad_rule", "derived_slots", "parameter_name"]

_GRAD_TYPE = "_grad"


def incoming_slot(op_type: str, slot: str, inputs: Mapping[str, Any]) -> str:
    """The slot of the gradient that comes in for the output `slot` of an op with the slots `inputs`."""
    name = slot + GRAD_SUFFIX
    order = op_type.count("_grad")
    return name if order < 2 and name not in inputs else f"{name}@{order + 1}"


def derived_slots(op: Any) -> tuple[str, dict[str, str]]:
    """Slots of the gradient op of `op`, as `Op` takes them, and output slot -> the slot of its gradient."""
    incoming = {slot: incoming_slot(op.type, slot, op.inputs) for slot in op.outputs}
    read = []
    written = []
    for name, slot in op.inputs.items():
        # all of them optional, as in gradient ops that are declared
        end = "*?" if slot.many else "?"
        read.append(name + end)
        written.append(name + GRAD_SUFFIX + end)
    for name, slot in op.outputs.items():
        end = "*?" if slot.many else "?"
        read.append(incoming[name] + end)
    return f"{' '.join(read)} -> {' '.join(written)}", incoming


def parameter_name(slot: str) -> str:
    """The name of a slot as a parameter of a kernel: @ may not stand in one."""
    return slot.replace("@", "_")


def fixed_slots(op: Any) -> frozenset[str]:
    """Slots that count as constants in gradients of all orders: those of `constants`, and the inputs by which
    the op, or the one whose gradient it is, has no gradient, such as labels.
    """
    found = frozenset() if op.forward is None else fixed_slots(op.forward)
    left_out = set(op.inputs).difference(op.grad_slots) if op.grad_slots else ()
    return found.union(op.constants, left_out)


def derived_grad_rule(context: Any) -> None:
    """Emit the gradient op that is made from a kernel: it reads what the op reads, and its gradients."""
    op = context.op.definition
    _, incoming = derived_slots(op)
    inputs = {slot: context.input(slot) for slot in op.inputs}
    inputs |= {incoming[slot]: context.out_grad(slot) for slot in op.outputs if context.output(slot)}
    fixed = fixed_slots(op)
    slots = [slot for slot in op.inputs if slot not in fixed and context.may_vary(slot)]
    outputs = {slot + GRAD_SUFFIX: context.in_grad(slot) for slot in slots}
    is_wanted = any(name.endswith(GRAD_SUFFIX) for names in outputs.values() for name in names)
    if is_wanted and op.sparse and context.op.attrs.get("is_sparse"):
        raise UnsupportedError(
            f"op {op.type!r} has no gradient when its attribute is_sparse is true: selected rows "
            f"have none\n  {context.op.call_text()}\n  built at {context.op.where}"
        )
    context.emit(op.type + _GRAD_TYPE, {slot: names for slot, names in inputs.items() if names}, outputs)


class Vjp:
    """The product of incoming gradients and the derivative of a kernel: `compute` of an op with `arguments`.

    `incoming` goes from an output slot to the name of its gradient among the arguments of a call. The call
    returns, by name, the gradients of the input slots `of` that are wanted: X@GRAD for X.
    """

    def __init__(
        self,
        compute: Callable[..., Any],
        by_slot: Callable[[Any], dict[str, Any]],
        arguments: tuple[Any, ...],
        incoming: Mapping[str, str],
    ) -> None:
        self.compute = compute
        self.by_slot = by_slot
        self.arguments = arguments
        self.incoming = incoming

    def carried(self) -> tuple[Any, ...]:
        """The arguments that a derived op takes over: attributes, levels of detail, the context."""
        return tuple(each for each in self.arguments if each.kind not in ("in", "out", "xp", "wants"))

    def __call__(self, xp: Any, given: Mapping[str, Any], wants: frozenset[str]) -> dict[str, Any]:
        tape = GradientTape(getattr(xp, "level", 0) + 1)
        known = {slot: parameter_name(name) for slot, name in self.incoming.items()}
        known = {slot: name for slot, name in known.items() if _some(given.get(name))}
        places: dict[str, list[Any]] = {}
        call: dict[str, Any] = {}
        for name, kind, key in self.arguments:
            call[name] = given.get(parameter_name(key) if kind == "in" else name)
            if kind == "in" and _some(call[name]):
                call[name] = _placed(tape, call[name], key, wants, places)
            elif kind == "xp":
                call[name] = TracedModule(xp, tape)
            elif kind == "wants":
                call[name] = frozenset(known)
            elif kind == "ctx":
                call[name] = _InnerContext(call[name], self.incoming)
        found = self.by_slot(self.compute(**call))
        pairs = [pair for slot, name in known.items() for pair in _pairs(found.get(slot), given[name])]
        slots = list(places)
        variables = [place for slot in slots for place in places[slot] if place is not None]
        gradients = iter(_filled(variables, pull(pairs, variables)))
        result = {}
        for slot in slots:
            values = [None if place is None else next(gradients) for place in places[slot]]
            result[slot + GRAD_SUFFIX] = (
                values if isinstance(given[parameter_name(slot)], list) else values[0]
            )
        return result


class _InnerContext:
    """The context of the derived op, as the op whose kernel it runs would have it."""

    # arrays that record what is computed with them are none for machine code, nor to be written over
    compiled = searches = None
    spare: frozenset[str] = frozenset()
    # a tape is the order of the steps of one thread
    threads = 1

    def __init__(self, context: Any, incoming: Mapping[str, str]) -> None:
        self._context = context
        self._incoming = incoming

    @property
    def op(self) -> _InnerContext:
        """The op, of which kernels ask how many outputs it has."""
        return _InnerContext(self._context.op, self._incoming)

    def output(self, slot: str) -> list[str]:
        """A name for each output in a slot."""
        names: list[str] = self._context.input(self._incoming[slot])
        return names

    def share(self, count: int, task: Callable[[slice], None]) -> None:
        """Run `task` on all rows."""
        task(slice(0, count))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _some(value: Any) -> bool:
    """True for an array, and for a list with one."""
    return any(item is not None for item in value) if isinstance(value, list) else value is not None


def _placed(tape: Any, value: Any, slot: str, wants: frozenset[str], places: dict[str, list[Any]]) -> Any:
    """`value` as variables of the tape where a gradient of its slot is wanted, and as constants otherwise: as
    the array that it is, a kernel could know it, and what was computed with it before.
    """
    items = value if isinstance(value, list) else [value]
    if any(item is not None and item.dtype.kind != "f" for item in items):
        return value
    is_wanted = slot + GRAD_SUFFIX in wants
    place = tape.variable if is_wanted else lambda item: Traced(tape, item)
    placed = [None if item is None else place(item) for item in items]
    if is_wanted:
        places[slot] = placed
    return placed if isinstance(value, list) else placed[0]


def _pairs(found: Any, incoming: Any) -> list[tuple[Any, Any]]:
    """Values of one output slot with their incoming gradients, where both are there."""
    if hasattr(found, "height"):
        raise UnsupportedError("selected rows have no gradient")
    pairs = zip(found, incoming, strict=False) if isinstance(incoming, list) else [(found, incoming)]
    known = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
    found = [(getattr(value, "value", value) if hasattr(value, "lod") else value, d) for value, d in known]
    # one number has the shape [] in programs of 2.x, and [1] in kernels
    return [(value, d if d.shape == value.shape else d.reshape(value.shape)) for value, d in found]


def _filled(variables: list[Any], gradients: list[Any]) -> list[Any]:
    """Zeros where the results do not depend on a variable."""
    return [
        np.zeros_like(plain(variable)) if gradient is None else gradient
        for variable, gradient in zip(variables, gradients, strict=True)
    ]
