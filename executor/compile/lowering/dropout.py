"""dropout: one mask of booleans a step, which forward and backward multiply with."""

from __future__ import annotations

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.cuda.draws import DeviceKeptMask
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.draws import KeptMask


def _upscales(e: Emitter) -> bool:
    """True if kept elements grow while training, False if all of them shrink at inference."""
    return bool(e.attr("dropout_implementation") == "upscale_in_train")


def _masked(e: Emitter, x: Value, mask: Value, out: Value) -> None:
    """out = x * mask, scaled as the op has it."""
    probability = e.attr("dropout_prob")
    if not _upscales(e):
        e.elementwise("x * mask", out, x=x, mask=mask)
        return
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    e.elementwise("x * mask * scale", out, x=x, mask=mask, scale=scale)


def _for_inference(e: Emitter, x: Value, slot: str) -> None:
    if _upscales(e):
        e.alias(slot, x)
    else:
        out = e.out(slot, x.shape, x.dtype, inplace=True)
        e.elementwise("x * kept", out, x=x, kept=1 - e.attr("dropout_prob"))


def _kept(e: Emitter, count: int, seed: int | None) -> Bound:
    """The object that draws which elements are kept."""
    probability = e.attr("dropout_prob")
    if e.on_host:
        return e.bind_draws("kept", KeptMask, count, probability, seed, e.threads)
    return e.bind_draws("kept", DeviceKeptMask, count, probability, seed)


@lowering("dropout")
def _(e: Emitter) -> None:
    x = e.need("X")
    if e.op.inputs.get("Seed") or x.dtype is None or x.dtype.kind != "f":
        raise CannotLower("random numbers with a seed from a tensor, or not of floats")
    if e.attr("is_test"):
        _for_inference(e, x, "Out")
        return
    mask = e.temp(x.shape or (), "bool")
    seed = e.attr("seed") if e.attr("fix_seed") else None
    e.run(_kept(e, x.size, seed), Out(mask))
    _masked(e, x, mask, e.out("Out", x.shape, x.dtype))
    if e.op.outputs.get("Mask"):
        # for whoever looks at it: the gradient takes the truth values, and mostly this copy is dropped
        shown = e.out("Mask", x.shape, "uint8")
        e.copy(mask, shown)
        e.remember(("dropped", shown), mask)


@lowering("dropout_grad")
def _(e: Emitter) -> None:
    d = e.need("Out@GRAD")
    if e.attr("is_test"):
        _for_inference(e, d, "X@GRAD")
        return
    mask = e.recall(("dropped", e.need("Mask")))
    if mask is None or mask.shape != d.shape:
        raise CannotLower("the mask was drawn in another plan")
    _masked(e, d, mask, e.out("X@GRAD", d.shape, d.dtype))
