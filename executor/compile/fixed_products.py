"""Products with parameters that stay as they are, and what follows in the same call.

A rule that finds the product that its input is writes it once more with one step more behind it, a bias or
another array of that shape; what computed its input is then read by nobody, and dropped. Only programs that
change no persistable variable have such products: what is kept of a weight is made anew when any has changed.
"""

from __future__ import annotations

from dataclasses import replace

from fluidlite.base.records import dataclass
from fluidlite.executor.compile import layout
from fluidlite.executor.compile.emitter import Emitter
from fluidlite.executor.fast.onednn.fixed_product import (
    FixedProduct,
    LyingProducts,
    PackedProduct,
    has_fixed_product,
    is_laid_out,
)
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["begin_product", "joins_product"]


@dataclass(frozen=True)
class _ProductTail:
    """A product with a fixed weight as an array of two dimensions, and the steps behind it so far."""

    x: Value
    w: Value
    bias: Value | None = None
    term: Value | None = None


def begin_product(e: Emitter, x: Value, w: Value, out: Value) -> bool:
    """Write out = x @ w for matrices with a weight that is laid out once; False where that does not pay."""
    if not _takes(e, x, w, out):
        return False
    _write(e, _ProductTail(x, w), out)
    return True


def _takes(e: Emitter, x: Value, w: Value, out: Value) -> bool:
    if not e.on_host or w.root.storage is not Storage.PARAM or not e.builder.changes_nothing:
        return False
    if x.shape is None or w.shape is None or len(x.shape) != 2 or w.dtype != x.dtype:
        return False
    # what a plan does not place itself may lie in any order, which the product looks at when it runs
    if not (x.contiguous or x.root.storage is Storage.LOCAL) or not _is_dense(out):
        return False
    sizes = about(x.shape[0]), about(w.shape[0]), about(w.shape[1])
    return has_fixed_product(*sizes, x.dtype)


def _is_dense(value: Value) -> bool:
    """True for a whole buffer of the plan."""
    return value.contiguous and value.root.storage is Storage.BUFFER


def _write(e: Emitter, tail: _ProductTail, out: Value) -> None:
    w = tail.w
    assert tail.x.shape is not None
    kind: type[FixedProduct | LyingProducts] = FixedProduct
    if not is_laid_out(about(tail.x.shape[0]), not w.contiguous):
        kind = LyingProducts
    elif w.storage is Storage.PARAM:
        w = e.builder.values.make(w.shape, w.dtype, Storage.TENSOR, name=w.name)
        kind = PackedProduct
    plan = e.bind_fresh("product", kind, e.threads)
    e.run(plan, tail.x, w, Out(out), tail.bias, tail.term)
    e.remember(("product", out.root), tail)


def joins_product(e: Emitter, x: Value, y: Value) -> bool:
    """True if the op's X + Y is written as a product with one step more behind it."""
    if e.persistable("Out") or e.has_no_dims("Out"):
        return False
    return _adds(e, x, y, "X") or _adds(e, y, x, "Y")


def _adds(e: Emitter, product: Value, other: Value, slot: str) -> bool:
    tail: _ProductTail | None = e.recall(("product", product))
    if tail is None or e.builder.is_needed(e.op.inputs[slot][0], e.op) or e.builder.is_read(product):
        return False
    more = _longer(e, tail, product, other)
    if more is None:
        return False
    out = e.out("Out", product.shape, product.dtype)
    _write(e, more, e.reshape(out, _shape(tail)))
    return True


def _shape(tail: _ProductTail) -> tuple[int, int]:
    assert tail.x.shape is not None and tail.w.shape is not None
    return tail.x.shape[0], tail.w.shape[1]


def _longer(e: Emitter, tail: _ProductTail, product: Value, other: Value) -> _ProductTail | None:
    """The tail with one array more, if it can be added."""
    assert product.shape is not None
    if tail.term is not None or other.dtype != product.dtype:
        return None
    if other.shape == product.shape:
        return replace(tail, term=e.reshape(other, _shape(tail))) if _is_dense(other) else None
    rank = len(product.shape)
    is_bias = other.storage is Storage.PARAM and other.shape == _shape(tail)[1:]
    if tail.bias is None and is_bias and layout.place(1, rank, e.attr("axis")) == rank - 1:
        return replace(tail, bias=other)
    return None
