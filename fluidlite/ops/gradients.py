"""Second derivatives: how the gradient op of a gradient op is declared, in the family of its op.

The slots of such an op are Paddle's: DDX is the gradient that comes in for X@GRAD, DOut is Out@GRAD, and
DDOut the gradient that goes back to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluidlite.base.derived import derived_grad_rule
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX, GradContext, Op, get

__all__ = ["emits_once_more"]


def emits_once_more(
    grad_op: Op,
    *,
    reads: Mapping[str, str] | None = None,
    incoming: Mapping[str, str],
    writes: Mapping[str, str],
    needs: Mapping[str, str] | None = None,
    type: str = "",
    attr: str = "",
) -> None:
    """Let one op be the gradient of the gradient op `grad_op`: `<grad_op>_grad`, or the op named by `type`.

    Each mapping goes from a slot of the new op to a slot of `grad_op`: `reads` takes the values of input (or
    output) slots, `incoming` the gradients that come in for output slots, and `writes` makes the gradients of
    input slots. A slot that `grad_op` leaves empty is left out. `needs` goes from an output of the new op to
    the incoming slot without which it would be zero, and is left out: as in Paddle, nothing then goes back
    through the forward ops in vain. Where the attribute `attr` is empty, tensors said what it says, which
    `grad_op` does not know: the gradient is derived from its kernel then, as it is where only some variables
    of an incoming slot have gradients.
    """
    emitted = type or grad_op.type + "_grad"

    def rule(context: GradContext) -> None:
        inputs = {
            slot: context.input(source) or context.output(source) for slot, source in (reads or {}).items()
        }
        inputs |= {slot: context.out_grad(source) for slot, source in incoming.items()}
        lacks_some = any(len(inputs[slot]) > 1 and EMPTY_VAR in inputs[slot] for slot in incoming)
        numbers = context.op.attrs.get(attr) if attr else None
        is_told = attr and (not numbers or (isinstance(numbers, list) and min(numbers) < -1))
        if lacks_some or is_told:
            derived_grad_rule(context)
            return
        made = {slot for slot in writes if not needs or slot not in needs or inputs[needs[slot]]}
        outputs = {slot: context.in_grad(source) for slot, source in writes.items() if slot in made}
        if "XShape" in get(emitted).outputs:
            # the shape that this op's gradient op goes back to
            outputs["XShape"] = [f"{name.replace(GRAD_SUFFIX, '.grad')}.xshape" for name in outputs["Out"]]
        context.emit(emitted, {slot: names for slot, names in inputs.items() if names}, outputs)

    grad_op.grad_rule(" ".join(writes.values()))(rule)
