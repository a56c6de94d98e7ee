"""Large matrix products, shared by a team of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.executor.plan.actions import Bound, Call, Function, Shared
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.steps import Product, Step, in_bodies, product_of
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.team import team_of

__all__ = ["share_products"]

LARGE_PRODUCT = 1 << 22  # multiply-adds from which waking a second thread pays
LARGE_RESULT = 1 << 18  # and elements of the result, for products whose time goes into writing them


def share_products(plan: Plan) -> Plan:
    """Split each large matrix product over the team by the rows, batches or columns of its result."""
    threads = plan.target.threads
    if not plan.target.on_host or threads == 1:
        return plan
    team = Bound("team", team_of(threads))

    def shared(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
        return [_shared(step, threads, team) for step in steps]

    return replace(plan, steps=in_bodies(plan.steps, plan.fetches, shared))


def _shared(step: Step, threads: int, team: Bound) -> Step:
    product = product_of(step)
    if product is None or not _pays(product, threads):
        return step
    assert isinstance(step.action, Call) and product.out.shape is not None
    right = product.right.shape
    is_batched = product.function == "matmul" and right is not None and len(right) > 2
    # of some rows of a transposed matrix `dot` makes a copy, and `matmul` has BLAS read them where they are:
    # 512 of 1024 rows by 1024 x 256 take 5.1 ms and 2.8
    call = replace(step.action, callee=Function("matmul"))
    # the operand that is not cut is packed by every member: let it be the smaller one
    by_columns = len(product.out.shape) == 2 and about(product.out.shape[1]) > about(product.out.shape[0])
    extent = product.out.shape[1 if by_columns else 0]
    return replace(step, action=Shared(call, extent, threads, is_batched, team, by_columns))


def _pays(product: Product, threads: int) -> bool:
    """True if a product can be cut and is large enough for more than one thread."""
    left = product.left.shape
    out = product.out.shape
    # a vector's product has no rows to share
    if left is None or out is None or len(left) < 2 or len(left) != len(out):
        return False
    # at least two rows (or matrices of a stack) for each member of the team: less is not worth waking it
    if all(about(extent) < 2 * threads for extent in (out if len(out) == 2 else out[:1])):
        return False
    return bool(about(product.work) >= LARGE_PRODUCT or about(product.out.size) >= LARGE_RESULT)
