"""Gradients of weights that go straight into the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.base.records import dataclass
from fluidlite.executor.plan.actions import Bound, Call, Out
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.plan import Plan, Remark
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.steps import Product, Step, product_of
from fluidlite.executor.plan.uses import MemoryUses
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.executor.run.products import DESCENT, SharedProducts
from fluidlite.ops.kernels.gemm import accumulates
from fluidlite.ops.training.optimizer import descends

__all__ = ["fuse_descents"]

# elements of a weight of which the update costs as much as a call of BLAS by its address (4 us), and of one
# whose product reads other arrays at each step, as feeds are (15 us)
LARGE_WEIGHT = 1 << 15
LARGE_WEIGHT_OF_OTHERS = 1 << 17


def fuse_descents(plan: Plan) -> Plan:
    """Let the product that gives the gradient of a weight move the weight itself, where nothing but sgd reads
    that gradient: BLAS adds to a result in no more time than it takes to write one.
    """
    # most plans have no such step, or no such product
    if not plan.target.on_host or not any(step.op is not None and descends(step.op) for step in plan.steps):
        return plan
    uses = MemoryUses(plan.steps)
    fetched = {value.memory for value in plan.fetches}
    changed: dict[int, Step] = {}
    dropped: set[int] = set()
    remarks = []
    for number, step in enumerate(plan.steps):
        product = product_of(step)
        if product is None or product.out.memory in fetched or not _is_large(product):
            continue
        descent = _descent_by(product, number, uses)
        if descent is not None:
            changed[number] = descent.step(step, product, plan.steps)
            dropped |= {descent.scaled, descent.moved}
            remarks.append(Remark("fused", f"sgd fused into the product that computes {product.out.name}"))
    steps = tuple(
        changed.get(number, step) for number, step in enumerate(plan.steps) if number not in dropped
    )
    return replace(plan, steps=steps, remarks=(*plan.remarks, *remarks))


def _is_large(product: Product) -> bool:
    """True for a product of two matrices for which another call pays."""
    if len(product.out.shape or ()) != 2 or not accumulates(product.out.dtype):
        return False
    is_fixed = product.left.fixed and product.right.fixed
    return bool(about(product.out.size) >= (LARGE_WEIGHT if is_fixed else LARGE_WEIGHT_OF_OTHERS))


@dataclass(frozen=True)
class _FoundDescent:
    """The places of the steps rate * gradient and weight - that, and what they work on."""

    scaled: int
    moved: int
    rate: Value
    weight: Value
    newer: Value

    def step(self, step: Step, product: Product, steps: Sequence[Step]) -> Step:
        """The product that moves the weight."""
        made = Bound("products", Fresh(SharedProducts, ((DESCENT,), 1)))
        call = Call(made, (product.left, product.right, Out(self.newer), self.rate))
        reads = (product.left, product.right, self.rate, self.weight)
        ops = tuple(dict.fromkeys((*step.ops, *steps[self.moved].ops)))
        return replace(step, action=call, reads=reads, writes=(self.newer,), fused=ops)


def _descent_by(product: Product, number: int, uses: MemoryUses) -> _FoundDescent | None:
    """The update of a weight by a product that nobody else reads; None where there is none."""
    steps = uses.steps
    scaled = _reader_of(product.out, number, uses)
    rate = None if scaled is None else _other_of(steps[scaled], "mul", product.out)
    if scaled is None or rate is None or rate.size != 1 or rate.dtype != product.out.dtype:
        return None
    moved = _reader_of(steps[scaled].writes[0], scaled, uses)
    action = None if moved is None else steps[moved].elementwise
    if moved is None or action is None or action.function != "sub":
        return None
    weight, newer = action.operands[0], steps[moved].writes[0]
    if not isinstance(weight, Value) or action.operands[1] is not steps[scaled].writes[0]:
        return None
    if not _fits(weight, newer, product.out):
        return None
    # nothing between may see or change the weight, which moves now at the product's place, or set the rate
    if any(number < place < moved and place != scaled for place in uses.of(weight)):
        return None
    if uses.change([rate], number + 1, moved - 1):
        return None
    return _FoundDescent(scaled, moved, rate, weight, newer)


def _fits(weight: Value, newer: Value, gradient: Value) -> bool:
    """True if a weight is moved in place, and lies as its gradient does."""
    is_in_place = weight.storage is newer.storage is Storage.PARAM and weight.memory == newer.memory
    return is_in_place and weight.shape == gradient.shape and weight.dtype == gradient.dtype


def _reader_of(value: Value, number: int, uses: MemoryUses) -> int | None:
    """The place of the only step that reads what step `number` alone writes; None for more of them."""
    if value.base is not None or value.storage is not Storage.BUFFER or value.dtype is None:
        return None
    places = uses.of(value)
    if len(places) != 2 or places[0] != number or uses.steps[places[1]].body is not None:
        return None
    return places[1]


def _other_of(step: Step, function: str, value: Value) -> Value | None:
    """The operand beside `value` of an array function of two."""
    action = step.elementwise
    if action is None or action.function != function or len(action.operands) != 2:
        return None
    first, second = action.operands
    other = second if first is value else first
    return other if value in (first, second) and isinstance(other, Value) and other is not value else None
