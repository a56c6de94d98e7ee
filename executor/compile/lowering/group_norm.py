"""group_norm and instance_norm on a device; on the host they run by their portable kernels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.cuda.rows import DeviceRows
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.conv_geometry import is_channels_last


class _ChannelGroups(NamedTuple):
    """Sizes of images whose channels are normalised in groups."""

    images: int
    groups: int
    of_group: int
    places: int

    @property
    def rows(self) -> int:
        """Groups of all images."""
        return self.images * self.groups

    @property
    def columns(self) -> int:
        """Elements of one of them."""
        return self.of_group * self.places

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return self.groups * self.of_group


def _groups(e: Emitter, x: Value) -> _ChannelGroups:
    """The groups of images; CannotLower where they are not what the kernels take."""
    shape = x.shape or ()
    if e.on_host or not takes(e, x.dtype) or not x.size or len(shape) < 2:
        raise CannotLower("not images on a device")
    places = math.prod(shape[2:])
    if e.op.type.startswith("instance_norm"):
        return _ChannelGroups(shape[0], shape[1], 1, places)
    groups = e.attr("groups")
    if is_channels_last(e.attr("data_layout")) or not 1 <= groups <= shape[1] or shape[1] % groups:
        raise CannotLower("channels last, or groups of several sizes")
    return _ChannelGroups(shape[0], groups, shape[1] // groups, places)


def _factor(e: Emitter, slot: str, x: Value, sizes: _ChannelGroups) -> Value | None:
    """Scale or Bias; None where the op has none."""
    given = e.x(slot) if e.op.inputs.get(slot) else None
    if given is not None and given.size != sizes.channels:
        raise CannotLower("sizes")  # the portable kernel says what is wrong
    return None if given is None else for_kernel(e, given, x.dtype)


def _launch(
    e: Emitter, name: str, x: Value, sizes: _ChannelGroups, factors: tuple[Value | None, ...], *operands: Any
) -> None:
    """One kernel over the rows, or over the channels for their sums."""
    switches = [
        name
        for name, is_there in (
            ("SCALED", factors[0] is not None),
            ("SHIFTED", factors[1] is not None),
            ("FROM_RESULT", e.op.type.startswith("group_norm")),
        )
        if is_there
    ]
    numbers = (*sizes[1:], e.attr("epsilon"))
    shape = (sizes.rows, sizes.columns)
    if name == "group_norm_sums":
        shape = (sizes.channels, sizes.images * sizes.places)
    kernel = e.bind_fresh(name, DeviceRows, name, *shape, x.dtype, numbers, tuple(switches))
    e.run(kernel, *operands)


def _forward(e: Emitter, mean_slot: str, spread_slot: str, shape: tuple[int, ...]) -> None:
    given = e.need("X")
    sizes = _groups(e, given)
    x = for_kernel(e, given, given.dtype)
    factors = _factor(e, "Scale", x, sizes), _factor(e, "Bias", x, sizes)
    y = e.out("Y", x.shape, x.dtype)
    statistics = [
        e.out(slot, shape, x.dtype) if e.op.outputs.get(slot) else e.temp(shape, x.dtype)
        for slot in (mean_slot, spread_slot)
    ]
    _launch(e, "group_norm", x, sizes, factors, x, *factors, Out(y), *map(Out, statistics))


def _backward(e: Emitter, x: Value, mean: Value | None, spread: Value, bias: Value | None) -> None:
    """The gradients from `x`, which is what the op has read or written."""
    sizes = _groups(e, x)
    d = for_kernel(e, e.need("Y@GRAD"), x.dtype)
    if d.size != x.size:
        raise CannotLower("another gradient")
    scale = _factor(e, "Scale", x, sizes)
    if scale is None and e.op.type == "group_norm_grad":
        raise CannotLower("a gradient without the mean's part")
    factors = scale, bias
    given = [x, *factors, mean, for_kernel(e, spread, x.dtype), d]
    if e.wants("X@GRAD"):
        dx = e.out("X@GRAD", x.shape, x.dtype)
        _launch(e, "group_norm_grad", x, sizes, factors, *given, Out(dx))
    slots = ("Scale@GRAD", "Bias@GRAD")
    if not any(map(e.wants, slots)):
        return
    shape = (sizes.channels,)
    outs = [e.out(slot, shape, x.dtype) if e.wants(slot) else e.temp(shape, x.dtype) for slot in slots]
    _launch(e, "group_norm_sums", x, sizes, factors, *given, *map(Out, outs))


@lowering("group_norm")
def _(e: Emitter) -> None:
    sizes = _groups(e, e.need("X"))
    _forward(e, "Mean", "Variance", (sizes.images, sizes.groups))


@lowering("group_norm_grad")
def _(e: Emitter) -> None:
    y = e.need("Y")
    sizes = _groups(e, y)
    _backward(e, for_kernel(e, y, y.dtype), None, e.need("Variance"), _factor(e, "Bias", y, sizes))


@lowering("instance_norm")
def _(e: Emitter) -> None:
    _forward(e, "SavedMean", "SavedVariance", (_groups(e, e.need("X")).rows,))


@lowering("instance_norm_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    mean = for_kernel(e, e.need("SavedMean"), x.dtype)
    _backward(e, for_kernel(e, x, x.dtype), mean, e.need("SavedVariance"), None)
