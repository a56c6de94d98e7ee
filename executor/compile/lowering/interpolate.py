"""Images of another size, in the layout that they lie in."""

from __future__ import annotations

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering, lowering_of_gradients
from fluidlite.executor.compile.layout import lays_out
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.cuda.resizing import DeviceResize
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.resize import ResizedImages
from fluidlite.ops.kernels.conv_geometry import is_channels_last

_LAYOUTS = ("NCHW", "NHWC", "HNWC")


class _ResizingOp:
    """The images of an op: how X lies, and so do its gradient, the result and the result's gradient."""

    def __init__(self, e: Emitter, type: str) -> None:
        self.e = e
        self.x = x = e.laid_need("X")
        if any(e.op.inputs.get(slot) for slot in ("OutSize", "SizeTensor", "Scale")):
            raise CannotLower("the size is computed")
        is_taken = lays_out(e, x) if e.on_host else takes(e, x.dtype)
        if not is_taken or x.shape is None or len(x.shape) != 4:
            raise CannotLower("layout")
        self.type = type
        self.names = "NHWC" if is_channels_last(e.attr("data_layout")) else "NCHW"
        self.order = x.order or (0, 1, 2, 3)
        self.letters = "".join(self.names[axis] for axis in self.order)
        if self.letters not in (_LAYOUTS if e.on_host else _LAYOUTS[:1]):
            raise CannotLower("layout")

    def source(self, value: Value) -> Value:
        """An operand as it lies in memory."""
        if not self.e.on_host:
            return for_kernel(self.e, value, self.x.dtype)
        return self.e.plain(value) if self.x.order is None else self.e.base_in(value, self.order)

    def out(self, slot: str, shape: tuple[int, ...]) -> Value:
        """The output."""
        if self.x.order is None:
            return self.e.out(slot, shape, self.x.dtype)
        return self.e.published(slot, shape, self.x.dtype, self.order)

    def kernel(self) -> Bound:
        """The object that resizes."""
        assert self.x.shape is not None and self.e.op.definition is not None
        shape = tuple(self.x.shape[self.names.index(letter)] for letter in "NCHW")
        attrs = {name: self.e.attr(name) for name in self.e.op.definition.attr_defs}
        kind = self.x.dtype
        if not self.e.on_host:
            return self.e.bind_fresh("resize", DeviceResize, self.type, shape, kind, attrs)
        return self.e.bind_fresh(
            "resize", ResizedImages, self.type, shape, kind, attrs, self.letters, self.e.threads
        )


@lowering("nearest_interp", "bilinear_interp", "bicubic_interp", "nearest_interp_v2", "bilinear_interp_v2")
def _resize(e: Emitter) -> None:
    images = _ResizingOp(e, e.op.type)
    shape = e.inferred_shape("Out")
    if 0 in shape:
        raise CannotLower("no elements")
    kernel = images.kernel()
    e.run(kernel, images.source(images.x), Out(images.out("Out", shape)), method="forward")


@lowering_of_gradients(_resize)
def _(e: Emitter) -> None:
    images = _ResizingOp(e, e.op.type.removesuffix("_grad"))
    d = e.laid_need("Out@GRAD")
    if d.dtype != images.x.dtype or not d.size:
        raise CannotLower("another gradient")
    kernel = images.kernel()
    assert images.x.shape is not None
    out = images.out("X@GRAD", images.x.shape)
    e.run(kernel, images.source(d), Out(out), method="backward")
