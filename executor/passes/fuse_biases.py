"""A bias that is added in front of a softmax's loss, by the kernel of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.executor.plan.actions import Bound, Call, Elementwise, recipe_of
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.steps import Step, in_bodies
from fluidlite.executor.plan.uses import MemoryUses
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.executor.run.rows import LabelledRows
from fluidlite.ops.kernels.row_kernels import RowForm

__all__ = ["fuse_biases"]

_SCORES, _BIAS = "logits", "bias"  # of the row kernel of the loss


def fuse_biases(plan: Plan) -> Plan:
    """Let the kernel of a loss add the bias to scores that nobody else reads: one walk over them less."""
    fetched = {value.root for value in plan.fetches}

    def fused(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
        return _fused(steps, fetched | {value.root for value in kept})

    return replace(plan, steps=in_bodies(plan.steps, plan.fetches, fused))


def _fused(steps: Sequence[Step], kept: set[Value]) -> list[Step]:
    changed: dict[int, Step] = {}
    dropped = set()
    uses = MemoryUses(steps)
    for number, step in enumerate(steps):
        loss = _loss_of(step)
        place = None if loss is None else _sum_before(uses, number, loss.operands[0], kept)
        if place is not None:
            changed[number] = _with_bias(step, steps[place])
            dropped.add(place)
    return [changed.get(number, step) for number, step in enumerate(steps) if number not in dropped]


def _loss_of(step: Step) -> Call | None:
    """The call of a row kernel that could add a bias to what it reads first, and has none."""
    action = step.action
    recipe = recipe_of(action, LabelledRows)
    if recipe is None or not isinstance(action, Call):
        return None
    form: RowForm = recipe.arguments[0]
    return action if form.given.get(_BIAS, "") is None and form.inputs[0] == _SCORES else None


def _sum_before(uses: MemoryUses, number: int, scores: Value, kept: set[Value]) -> int | None:
    """The place of the step that makes the scores of a loss by adding a bias, for this loss alone."""
    if scores.base is not None or scores.storage is not Storage.BUFFER or scores in kept:
        return None
    touched = uses.touching[scores.memory]
    if len(touched) != 2 or touched[1] != number:
        return None
    place = touched[0]
    action = uses.steps[place].action
    if not isinstance(action, Elementwise) or action.function != "add":
        return None
    wide, row = action.operands
    if not isinstance(wide, Value) or not isinstance(row, Value):
        return None
    shape = scores.shape or ()
    if wide.shape != shape or row.shape != shape[1:] or wide.dtype != row.dtype:
        return None
    return None if uses.change([wide, row], place + 1, number - 1) else place


def _with_bias(loss: Step, added: Step) -> Step:
    assert isinstance(loss.action, Call) and isinstance(added.action, Elementwise)
    recipe = recipe_of(loss.action, LabelledRows)
    assert isinstance(loss.action.callee, Bound) and recipe is not None
    wide, row = added.action.operands
    form, *others = recipe.arguments
    form = form.with_axes(**{_BIAS: "c"})
    place = form.inputs.index(_BIAS)
    operands = (wide, *loss.action.operands[1:place], row, *loss.action.operands[place:])
    callee = Bound(loss.action.callee.hint, Fresh(LabelledRows, (form, *others)))
    ops = tuple(dict.fromkeys((*added.ops, *loss.ops)))
    return replace(loss, action=replace(loss.action, callee=callee, operands=operands), reads=(), fused=ops)
