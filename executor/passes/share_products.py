"""Large matrix products, shared by a team of threads, and by the fastest kernel that there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.onednn.fixed_product import LyingProducts
from fluidlite.executor.fast.products import (
    CalledDescent,
    CalledProduct,
    FastDescent,
    FastProduct,
    FastSharedProducts,
    has_fast_product,
)
from fluidlite.executor.plan.actions import Bound, Call, Out, recipe_of
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.sizes import about, same_shape
from fluidlite.executor.plan.steps import Product, Step, in_bodies, product_of
from fluidlite.executor.plan.uses import Footprint
from fluidlite.executor.plan.values import Transpose, Value
from fluidlite.executor.run.products import DESCENT, ProductCut, ProductForm, SharedProducts, stack_axis

__all__ = ["share_products"]

LARGE_WORK = 5 << 20  # multiply-adds (100 us) from which waking a second thread pays, also on a busy machine
LARGE_RESULT = 1 << 18  # and elements of the result, for products whose time goes into writing them
SMALL_WORK = 1 << 18  # multiply-adds below which a product is not worth cutting beside others


def share_products(plan: Plan) -> Plan:
    """Split large matrix products over the team by the rows, batches or columns of their results, waking it
    once for those that do not need each other.
    """
    if not plan.target.on_host:
        return plan
    sharing = _Sharing(plan.target.threads, plan.target.asked, plan.target.loops)

    def shared(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
        return list(_gathered(sharing.steps(steps)))

    return replace(plan, steps=in_bodies(plan.steps, plan.fetches, shared))


@dataclass(frozen=True)
class _Sharing:
    """How products are computed: by so many threads, and by other kernels than NumPy's from that run on."""

    threads: int
    asked: int
    loops: str

    def steps(self, steps: Sequence[Step]) -> Iterator[Step]:
        """The steps, with products as calls of `SharedProducts` where that pays."""
        group: list[Step] = []
        for step in steps:
            # a view computes nothing, so it may as well be named ahead of the products around it
            if step.is_view:
                yield step
                continue
            product = _product_at(step)
            may_join = product is not None and _is_large(product) and _cut_of(product, self.threads)
            is_free = may_join and (_is_free(step, group) or self._follows(step, group))
            if group and not is_free:
                yield from self._together(group)
                group = []
            if may_join:
                group.append(step)
            else:
                yield step
        yield from self._together(group)

    def _together(self, group: Sequence[Step]) -> Iterator[Step]:
        """SharedProducts that do not need each other, as one step if a team shares them."""
        products = [product for step in group if (product := _product_at(step)) is not None]
        if self.threads > 1 and _pays(products):
            yield self._call(group, products, self._cuts(products), self.threads)
            return
        for step, product in zip(group, products, strict=True):
            yield self._call([step], [product], [ProductCut.NONE], 1) if _is_faster(product) else step

    def _follows(self, step: Step, group: Sequence[Step]) -> bool:
        """True if a step moves a weight of which others read the transpose alone, and needs nothing else of
        them: cut by rows of the weight, each part reads only those that it moves itself, and moves them then.
        """
        product = _product_at(step)
        if product is None or product.rate is None:
            return False
        weight = product.out.memory
        needed = {value.memory for value in (product.left, product.right, product.rate)}
        for other in group:
            before = _product_at(other)
            assert before is not None
            if not needed.isdisjoint(value.memory for value in other.writes) or before.out.memory == weight:
                return False
            if before.left.memory == weight or (before.rate is not None and before.rate.memory == weight):
                return False
            if before.right.memory == weight and not _is_turned(before.right):
                return False
        return about((product.out.shape or (0,))[0]) >= 2 * self.threads

    def _cuts(self, products: Sequence[Product]) -> list[ProductCut]:
        """The cuts of products that are computed together."""
        cuts = [_cut_of(product, self.threads) or ProductCut.NONE for product in products]
        for number, product in enumerate(products):
            for place, other in enumerate(products[:number]):
                if product.rate is not None and other.right.memory == product.out.memory:
                    cuts[place], cuts[number] = ProductCut.COLUMNS, ProductCut.ROWS
        return cuts

    def _call(
        self, group: Sequence[Step], products: Sequence[Product], cuts: Sequence[ProductCut], members: int
    ) -> Step:
        """The step of some products that a team of so many members shares."""
        shares_calls = members > 1 and self.loops != "off"
        forms = tuple(
            replace(self._form(product, shares_calls), cut=cut)
            for product, cut in zip(products, cuts, strict=True)
        )
        kind = FastSharedProducts if shares_calls else SharedProducts
        made = Bound("products", Fresh(kind, (forms, members)))
        operands: list[Value | Out] = []
        for product in products:
            operands += [product.left, product.right, Out(product.out)]
            operands += [] if product.rate is None else [product.rate]
        return _joined(group, Call(made, tuple(operands)))

    def _form(self, product: Product, shares_calls: bool) -> ProductForm:
        """The way to compute a whole product."""
        if product.rate is not None:
            if _is_faster(product):
                return ProductForm(partial(FastDescent, self.asked), 4)
            return ProductForm(CalledDescent, 4) if shares_calls else DESCENT
        if _is_faster(product):
            return ProductForm(partial(FastProduct, self.asked))
        return ProductForm(CalledProduct) if shares_calls else ProductForm()


def _gathered(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, with one call for products with fixed weights that do not need each other, as those of
    queries, keys and values.
    """
    group: list[Step] = []
    for step in steps:
        if step.is_view:
            yield step
            continue
        is_one = _calls_lying(step)
        if group and not (is_one and _is_free(step, group)):
            yield _as_one(group)
            group = []
        if is_one:
            group.append(step)
        else:
            yield step
    if group:
        yield _as_one(group)


def _calls_lying(step: Step) -> bool:
    return recipe_of(step.action, LyingProducts) is not None


def _as_one(group: Sequence[Step]) -> Step:
    """The products of some steps in one call."""
    calls = [step.action for step in group if isinstance(step.action, Call)]
    operands = tuple(item for call in calls for item in call.operands)
    return _joined(group, replace(calls[0], operands=operands))


def _joined(group: Sequence[Step], action: Call) -> Step:
    """The step for all of a group that do not need each other."""
    ops = tuple(dict.fromkeys(op for step in group for op in step.ops))
    return replace(
        group[0],
        action=action,
        reads=tuple(value for step in group for value in step.reads),
        writes=tuple(value for step in group for value in step.writes),
        fused=ops if len(ops) > 1 else group[0].fused,
    )


def _product_at(step: Step) -> Product | None:
    """The product that a step is, with those that move a weight."""
    action = step.action
    if not isinstance(action, Call) or not isinstance(action.callee, Bound):
        return product_of(step)
    if recipe_of(action, SharedProducts) is None:
        return None
    left, right, _, rate = action.operands
    return Product("dot", left, right, step.writes[0], rate)


def _is_free(step: Step, group: Sequence[Step]) -> bool:
    """True if a step neither needs nor changes what those of a group read or write."""
    mine = Footprint(step)
    return all(mine.is_apart(Footprint(other)) for other in group)


def _cut_of(product: Product, threads: int) -> ProductCut | None:
    """The way to cut a product for so many threads; None where it cannot be cut."""
    left = product.left.shape
    right = product.right.shape
    out = product.out.shape
    # a vector's product has no rows to share
    if left is None or right is None or out is None or len(left) < 2 or len(left) != len(out):
        return None
    # at least two rows (or matrices of a stack) for each member of the team: less is not worth waking it
    if product.function == "matmul" and len(right) > 2:
        is_cut = stack_axis(tuple(map(about, out)), threads) is not None
        return ProductCut.STACK if is_cut and same_shape(left[:-2], right[:-2]) else None
    if all(about(extent) < 2 * threads for extent in (out if len(out) == 2 else out[:1])):
        return None
    # the operand that is not cut is packed by every member: let it be the smaller one
    by_columns = len(out) == 2 and about(out[1]) > about(out[0])
    return ProductCut.COLUMNS if by_columns else ProductCut.ROWS


def _is_turned(value: Value) -> bool:
    """True for the transpose of a whole matrix."""
    return isinstance(value.view, Transpose) and value.base is not None and value.size == value.root.size


def _is_large(product: Product) -> bool:
    return bool(about(product.work) >= SMALL_WORK or about(product.out.size) >= LARGE_RESULT)


def _pays(products: Sequence[Product]) -> bool:
    """True if products together are large enough for more than one thread."""
    work = sum(product.work for product in products)
    return bool(
        about(work) >= LARGE_WORK or any(about(product.out.size) >= LARGE_RESULT for product in products)
    )


def _is_faster(product: Product) -> bool:
    """True if another kernel than NumPy's is the faster one for all of a product, or for all of a stack."""
    left = product.left.shape
    right = product.right.shape
    out = product.out.shape
    if left is None or right is None or out is None or min(map(len, (left, right, out))) < 2:
        return False
    rows, depth, columns = map(about, (*left[-2:], out[-1]))
    return has_fast_product(rows, depth, columns, _is_turned(product.right), product.out.dtype)
