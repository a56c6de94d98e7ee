"""Attention on a device: products, softmax and what lies between become one kernel, forward and back."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fluidlite.base.records import dataclass
from fluidlite.executor.cuda.attention import AttentionForm, DeviceAttention
from fluidlite.executor.cuda.rows import DeviceRowKernel
from fluidlite.executor.plan.actions import Bound, Call, Method, Out, recipe_of
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.steps import Product, Step, in_bodies, product_of
from fluidlite.executor.plan.uses import MemoryUses, memories
from fluidlite.executor.plan.values import Storage, Transpose, Value, ValueFactory

__all__ = ["fuse_attention"]

_WIDEST = 128  # elements of a head: rows of them have to fit into shared memory
_HALF_FROM = 64 << 20  # bytes of scores
_FLOATS = ("float16", "float32")


def fuse_attention(plan: Plan) -> Plan:
    """Let one kernel compute softmax(alpha * q k' + bias) v, with dropout, and two its gradient, where nobody
    else reads the scores or the weights: no array holds them.

    The kernels compute in float32 without tensor cores. Products of float16 by cuBLAS are faster, and stay
    where the scores are small.
    """
    if plan.target.on_host:
        return plan
    fetched = {value.root for value in plan.fetches}

    def fused(steps: Sequence[Step], kept: Sequence[Value]) -> Sequence[Step]:
        return _fused(steps, fetched | {value.root for value in kept}, plan.values)

    return replace(plan, steps=in_bodies(plan.steps, plan.fetches, fused))


def _fused(steps: Sequence[Step], kept: set[Value], values: ValueFactory) -> Sequence[Step]:
    places = [place for place, step in enumerate(steps) if _is_rows(step, "softmax")]
    if not places:
        return steps
    known = _PlanSteps(steps, kept)
    changed: dict[int, Step] = {}
    dropped: set[int] = set()
    for place in places:
        found = _Attention.at(known, place)
        if found is not None:
            changed.update(found.replacements(values))
            dropped |= found.replaced
    return [
        changed.get(place, step)
        for place, step in enumerate(steps)
        if place in changed or place not in dropped
    ]


def _is_rows(step: Step, name: str) -> bool:
    """True if the step launches that kernel over rows."""
    recipe = recipe_of(step.action, DeviceRowKernel)
    return recipe is not None and bool(recipe.arguments[0].kernel.name == name)


def _turned(value: Value) -> Value | None:
    """The matrices that a value shows transposed, where those lie without gaps."""
    base, rank = value.base, len(value.shape or ())
    if base is None or not isinstance(value.view, Transpose) or not base.contiguous:
        return None
    return base if value.view.axes == (*range(rank - 2), rank - 1, rank - 2) else None


# ---------------------------------------------------------------------- the way back from a value
@dataclass(frozen=True)
class _ScoreChain:
    """Element-wise steps over one array: source * factor * mask + bias, whose `source` is a step's place."""

    source: int
    places: frozenset[int]
    factor: float = 1.0
    mask: Value | None = None
    bias: Value | None = None
    shape: tuple[int, ...] = ()
    """That of the array where the bias is added."""


class _ChainEnd(NamedTuple):
    """A product at the end of a chain."""

    place: int
    product: Product
    chain: _ScoreChain


class _PlanSteps(MemoryUses):
    """Steps by what they read and write."""

    def __init__(self, steps: Sequence[Step], kept: set[Value]) -> None:
        super().__init__(steps)
        self.kept = kept
        self.products: dict[int, Product] = {}
        for place, step in enumerate(steps):
            product = product_of(step)
            if product is not None and product.out.contiguous:
                self.products[place] = product
        self.ends: dict[int, list[_ChainEnd]] = defaultdict(list)
        """The products whose left operand, transposed or not, comes from a step by element-wise ones."""
        for place, product in self.products.items():
            chain = self.chain(_turned(product.left) or product.left)
            if chain is not None:
                self.ends[chain.source].append(_ChainEnd(place, product, chain))

    def chain(self, value: Value) -> _ScoreChain | None:
        """The steps behind a value, back to one that is not element-wise."""
        found = _ScoreChain(-1, frozenset())
        root = value.root
        while True:
            writers = self.writing[root.memory]
            if len(writers) != 1 or root.storage is not Storage.BUFFER:
                return None
            step = self.steps[writers[0]]
            if step.elementwise is None:
                return replace(found, source=writers[0])
            longer = _longer(found, step, writers[0])
            if longer is None:
                return None
            found = longer
            root = step.reads[0].root

    def gradient_of(self, weights: Value) -> int | None:
        """The place of the gradient of the softmax that gave an array."""
        for place in self.touching[weights.memory]:
            step = self.steps[place]
            if _is_rows(step, "softmax_grad") and step.action.inputs()[0].root is weights:
                return place
        return None

    def unchanged(self, values: Iterable[Value], places: Iterable[int], last: int) -> bool:
        """True if no step writes to memory of the values from where one of `places` reads it up to `last`."""
        order = sorted(places)
        for value in values:
            first = next(place for place in order if value.memory in memories(self.steps[place].all_reads()))
            if self.change([value], first, last):
                return False
        return True

    def alone(self, places: set[int], outs: Sequence[Value]) -> set[int] | None:
        """These steps, and those that name views of what they write, where no other reads that but `outs`."""
        results = {value.root for value in outs}
        inner = {value.root for place in places for value in self.steps[place].writes} - results
        if inner & self.kept:
            return None
        others = {place for root in inner for place in self.touching[root.memory]} - places
        if any(not self.steps[place].is_view or self.steps[place].holds for place in others):
            return None
        return places | others


def _longer(chain: _ScoreChain, step: Step, place: int) -> _ScoreChain | None:
    """The chain with one more step in front; None for a step that has no part in attention."""
    action = step.elementwise
    assert action is not None
    first, *rest = action.operands
    out = step.writes[0]
    if not isinstance(first, Value) or first.shape != out.shape or not (_is_whole(first) and _is_whole(out)):
        return None
    longer = replace(chain, places=chain.places | {place})
    if action.function == "copy" and first.dtype is not None and first.dtype.kind == "f":
        return longer
    other = rest[0] if len(rest) == 1 else None
    if action.function == "mul" and isinstance(other, float | int):
        return replace(longer, factor=chain.factor * other)
    if not isinstance(other, Value) or not other.contiguous:
        return None
    if action.function == "mul" and other.dtype == bool and other.shape == out.shape and chain.mask is None:
        return replace(longer, mask=other)
    # what is added before something else is multiplied would be multiplied, too
    if action.function == "add" and (chain.factor, chain.mask, chain.bias) == (1.0, None, None):
        return replace(longer, bias=other, shape=out.shape or ())
    return None


def _is_whole(value: Value) -> bool:
    """True if a value shows all elements of its memory in order."""
    return value.contiguous and value.size == value.root.size


# ---------------------------------------------------------------------- attention
@dataclass(frozen=True)
class _AttentionGradient:
    """The steps of a gradient, and what they read and write; `place` is where the kernels go."""

    place: int
    places: frozenset[int]
    steep: float
    d: Value
    outs: tuple[Value, Value, Value]

    def is_ready(self, known: _PlanSteps) -> bool:
        """True if `d` is there and the results are not yet read where the kernels go."""
        for out in self.outs:
            first = min(set(known.touching[out.memory]) - self.places, default=self.place)
            is_only = len(known.writing[out.memory]) == 1 and out.root.storage is Storage.BUFFER
            if not is_only or first < self.place:
                return False
        return known.unchanged([self.d], self.places, self.place)


@dataclass(frozen=True)
class _Attention:
    """The steps of one attention in a plan."""

    known: _PlanSteps
    scores: Product
    before: _ScoreChain
    """From the scores to the softmax."""
    after: _ScoreChain
    """From there to the product with the values."""
    softmax: int
    product: int
    """The place of that product."""
    backward: _AttentionGradient | None
    replaced: frozenset[int] = frozenset()

    @staticmethod
    def at(known: _PlanSteps, softmax: int) -> _Attention | None:
        """The attention of a softmax, if it is of one."""
        source, weights = (known.steps[softmax].action.inputs()[at] for at in (0, 1))
        before = known.chain(source)
        scores = None if before is None else known.products.get(before.source)
        if before is None or scores is None or before.mask is not None:
            return None
        readers = [end for end in known.ends[softmax] if _is_whole(end.product.left)]
        if len(readers) != 1:
            return None
        product, _, after = readers[0]
        found = _Attention(known, scores, before, after, softmax, product, None)
        if after.bias is not None or not found._fits():
            return None
        found = replace(found, backward=found._find_backward(weights.value.root))
        return found._checked()

    @property
    def operands(self) -> tuple[Value, Value, Value]:
        """q, k and v."""
        k = _turned(self.scores.right)
        assert k is not None
        return self.scores.left, k, self._weighed.right

    @property
    def _weighed(self) -> Product:
        return self.known.products[self.product]

    def _fits(self) -> bool:
        """True if the kernels take the operands."""
        scores, weighed = self.scores, self._weighed
        if _turned(scores.right) is None:
            return False
        values = (*self.operands, weighed.out)
        stack = (scores.out.shape or ())[:-2]
        is_like = all(
            (value.shape or ())[:-2] == stack and value.dtype == scores.out.dtype for value in values
        )
        if not stack or not is_like or not all(value.contiguous and value.size for value in values):
            return False
        is_wide = any((value.shape or ())[-1] > _WIDEST for value in self.operands)
        if is_wide or str(scores.out.dtype) not in _FLOATS or not self._bias_fits():
            return False
        return scores.out.dtype != np.float16 or scores.out.nbytes >= _HALF_FROM

    def _bias_fits(self) -> bool:
        bias = self.before.bias
        if bias is None:
            return True
        is_alike = self.before.shape == self.scores.out.shape and len(self.before.shape) <= 4
        return is_alike and str(bias.dtype) in _FLOATS

    def _find_backward(self, weights: Value) -> _AttentionGradient | None:
        """The gradient's steps; None where there are none, or others than expected."""
        known, (q, k, v) = self.known, self.operands
        of_values = [end for end in known.ends[self.softmax] if end.place != self.product]
        place = known.gradient_of(weights)
        if place is None or len(of_values) != 1 or len(known.ends[place]) != 2:
            return None
        (of_value,) = of_values
        of_queries, of_keys = sorted(known.ends[place], key=lambda end: not end.product.left.contiguous)
        chain = known.chain(known.steps[place].action.inputs()[1])
        incoming = None if chain is None else known.products.get(chain.source)
        if chain is None or incoming is None or not self._is_same(chain):
            return None
        d = incoming.left
        ends = (of_queries, of_keys, of_value)
        rights = [end.product.right for end in ends]
        is_known = all(map(_is_array, (*rights, _turned(incoming.right)), (k, q, d, v)))
        is_turned = [_turned(end.product.left) is not None for end in ends] == [False, True, True]
        if not is_known or not is_turned or not _are_alike(of_queries.chain, of_keys.chain):
            return None
        places = {place, chain.source, *chain.places}.union(
            *({end.place} | end.chain.places for end in ends[:2])
        )
        places.add(of_value.place)
        outs = (of_queries.product.out, of_keys.product.out, of_value.product.out)
        return _AttentionGradient(place, frozenset(places), of_queries.chain.factor, d, outs)

    def _is_same(self, chain: _ScoreChain) -> bool:
        """True if the gradient is masked as the weights are."""
        masks = [None if each.mask is None else each.mask.root for each in (chain, self.after)]
        return masks[0] is masks[1] and math.isclose(chain.factor, self.after.factor) and chain.bias is None

    @property
    def _forward(self) -> frozenset[int]:
        places = (self.before.source, self.softmax, self.product)
        return self.before.places | self.after.places | {*places}

    def _checked(self) -> _Attention | None:
        """With the places of all steps that the kernels replace; None where something else needs them."""
        places = set(self._forward)
        others = (self.before.bias, self.after.mask)
        given = [*self.operands, *(value for value in others if value is not None)]
        known, back, outs = self.known, self.backward, [self._weighed.out]
        # up to the gradient, which finds the weights again
        last = self.product if back is None else back.place
        if not known.unchanged(given, places, last):
            return None
        if back is not None:
            if known.writing[outs[0].memory] != [self.product] or not back.is_ready(known):
                return None
            places |= back.places
            outs += back.outs
        replaced = known.alone(places, outs)
        return None if replaced is None else replace(self, replaced=frozenset(replaced))

    # ------------------------------------------------------------------ the kernels
    def form(self) -> AttentionForm:
        """Sizes and numbers of the kernels."""
        q, k, v = self.operands
        shape = self.scores.out.shape or ()
        heads = shape[-3] if len(shape) > 3 else 1
        bias = self.before.bias
        return AttentionForm(
            batch=math.prod(shape[:-2]) // heads,
            heads=heads,
            queries=shape[-2],
            keys=shape[-1],
            depth=(k.shape or ())[-1],
            width=(v.shape or ())[-1],
            dtype=str(q.dtype),
            alpha=self.before.factor,
            grown=self.after.factor,
            steep=1.0 if self.backward is None else self.backward.steep,
            masked=self.after.mask is not None,
            bias_dtype=None if bias is None else str(bias.dtype),
            bias_steps=(0, 0, 0, 0) if bias is None else _steps_of(bias, len(shape)),
        )

    def replacements(self, values: ValueFactory) -> Iterator[tuple[int, Step]]:
        """(place, step) of the kernels."""
        form = self.form()
        kernel = Bound("attention", Fresh(DeviceAttention, (form,)))
        rows = form.stacks * form.queries
        statistics = [values.make((rows,), np.float32, Storage.BUFFER) for _ in range(2)]
        given = (*self.operands, self.before.bias, self.after.mask)
        out = self._weighed.out
        call = Call(Method(kernel, "forward"), (*given, Out(out), *map(Out, statistics)))
        steps, back = self.known.steps, self.backward
        yield self.product, _step(call, steps, self.product, self._forward)
        if back is not None:
            call = Call(Method(kernel, "backward"), (*given, out, *statistics, back.d, *map(Out, back.outs)))
            yield back.place, _step(call, steps, back.place, back.places)


def _step(call: Call, steps: Sequence[Step], place: int, replaced: Iterable[int]) -> Step:
    """The step of a kernel, with the ops of those that it replaces."""
    ops = dict.fromkeys(op for number in sorted(replaced) for op in steps[number].ops)
    return Step(steps[place].op, call, fused=tuple(ops))


def _is_array(value: Value | None, other: Value) -> bool:
    """True if a value is all of the array that another is."""
    return value is not None and value.root is other.root and value.shape == other.shape and value.contiguous


def _are_alike(one: _ScoreChain, other: _ScoreChain) -> bool:
    """True if gradients of scores are those of a softmax, with one factor."""
    is_plain = all(chain.mask is None and chain.bias is None for chain in (one, other))
    return is_plain and one.factor == other.factor


def _steps_of(bias: Value, rank: int) -> tuple[int, ...]:
    """Elements between neighbours in batch, head, query and key."""
    shape = bias.shape or ()
    shape = (1,) * (rank - len(shape)) + tuple(shape)
    if rank == 3:
        shape = (shape[0], 1, *shape[1:])
    return tuple(0 if size == 1 else math.prod(shape[at + 1 :]) for at, size in enumerate(shape))
