"""Quantisation: real numbers as whole multiples of a scale, and back.

With b bits and the scale s, the largest magnitude, x becomes q = round(x / s * (2**(b-1) - 1)), after x is
clipped to [-s, s]. The `fake_` ops keep q as real numbers, so that a program that trains can hold them;
`quantize` and its kin store integers. As in Paddle none has a gradient op: a program that trains with them
feeds its gradient ops the quantised values and takes their results for gradients of the real ones (the
straight-through estimator, Bengio, Leonard and Courville 2013).

1.8.5 rounds halves to even numbers; 2.x away from zero, unless `round_type` is 0.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import between, limited
from fluidlite.base.dtypes import Array, VarType, is_float
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, LONG, OF_2X_ATTR, AttrType, Op, Spec, later, required, same_as
from fluidlite.ops.kernels.numbers import as_matrix
from fluidlite.ops.kernels.regions import round_half_away
from fluidlite.ops.neural.embedding import NO_PADDING, check_range
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"

_TINY = 1e-30  # scales up to this one are those of tensors of zeros
_SAME = 1e-6  # magnitudes closer than this count as one
_ROUNDING: dict[str, Any] = {"round_type": later(1), OF_2X_ATTR: later(False)}
_BITS = limited(8, between(1, 16))
_MOVING = {"moving_rate": 0.9, "bit_length": _BITS, "is_test": False, **_ROUNDING}
_AVERAGED = "X. InScale InAccum.? InState.? -> Out OutScale OutState? OutAccum?"


def _levels(bits: int) -> int:
    """The largest integer of so many bits, of which one is the sign."""
    return (1 << (bits - 1)) - 1


def _check_bits(type: str, bits: int) -> None:
    if not 1 <= bits <= 16:
        raise ShapeError(f"op {type!r}: 'bit_length' should be between 1 and 16, but is {bits}")


def _along(X: Array, scale: Array, axis: int) -> Array:
    """Scales as they go with X: one for all, or one for each index of dimension `axis`."""
    return scale.reshape((-1,) + (1,) * (X.ndim - 1 - axis)) if scale.size > 1 else scale.reshape(())


def _round(xp: Any, X: Array, scale: Array, bits: int, away: bool, axis: int = 0) -> Array:
    """X in steps of scale / levels; `scale` is one number, or one along dimension `axis`.

    Halves go to even numbers, or `away` from zero.
    """
    scale = _along(X, scale, axis)
    one = X.dtype.type(1)
    inverse = one / xp.where(scale <= _TINY, scale + X.dtype.type(_SAME), scale)
    out = xp.clip(X, -scale, scale)
    out *= X.dtype.type(_levels(bits)) * inverse  # Paddle rounds this factor, too
    if away:
        return round_half_away(xp, out)
    # 1.8.5 does so but for the last elements, too few for its vector instructions
    return xp.rint(out, out=out)


def _largest(xp: Any, X: Array) -> Array:
    return abs(X).max().reshape(1)


def _scalar_spec(X: Spec) -> Spec:
    return X.with_shape((1,))


# ---------------------------------------------------------------------- the scale of this tensor alone
def _own_scale(type: str, dequantize: bool, **facts: Any) -> None:
    """An op that quantises by the largest magnitude of this tensor, and goes back where asked to."""
    op = Op(type, "X. -> Out OutScale", attrs={"bit_length": _BITS, **_ROUNDING}, **facts)

    @op.shape
    def _(X: Spec, bit_length: int) -> tuple[Spec, Spec]:
        _check_bits(type, bit_length)
        return X, _scalar_spec(X)

    @op.kernel
    def _(xp: Any, X: Array, bit_length: int, round_type: int, of_2x: bool) -> tuple[Array, Array]:
        scale = _largest(xp, X)
        return _quantised(xp, X, scale, bit_length, of_2x and round_type == 1, 0, dequantize), scale

    if dequantize:
        _pass_through(op)


def _scale_by_channel(type: str, dequantize: bool, **facts: Any) -> None:
    """The same with a scale for each index of dimension `quant_axis`."""
    attrs = {"bit_length": _BITS, "quant_axis": later(0), **_ROUNDING}
    op = Op(type, "X. -> Out OutScale", attrs=attrs, idle=() if dequantize else ("is_test",), **facts)

    @op.shape
    def _(X: Spec, bit_length: int, quant_axis: int) -> tuple[Spec, Spec]:
        _check_bits(type, bit_length)
        _check_axis(type, X, quant_axis)
        return X, X.with_shape((X.shape[quant_axis],))

    @op.kernel
    def _(
        xp: Any, X: Array, bit_length: int, quant_axis: int, round_type: int, of_2x: bool
    ) -> tuple[Array, Array]:
        scale = _by_channel(xp, X, quant_axis)
        away = of_2x and round_type == 1
        return _quantised(xp, X, scale, bit_length, away, quant_axis, dequantize), scale

    if dequantize:
        _pass_through(op)


def _by_channel(xp: Any, X: Array, axis: int) -> Array:
    """The largest magnitude at each index of dimension `axis`."""
    return as_matrix(abs(xp.moveaxis(X, axis, 0))).max(1)


def _quantised(xp: Any, X: Array, scale: Array, bits: int, away: bool, axis: int, dequantize: bool) -> Array:
    out = _round(xp, X, scale, bits, away, axis)
    if dequantize:
        out *= _along(X, scale, axis)
        out /= X.dtype.type(_levels(bits))
    return out


def _pass_through(op: Op) -> None:
    """The straight-through estimator: rounding counts as doing nothing. Fluid's ops have no gradient."""

    @op.grad("X")
    def _(dOut: Array) -> Array:
        return dOut


def _check_axis(type: str, X: Spec, axis: int) -> None:
    if not 0 <= axis < max(len(X.shape), 1):
        raise ShapeError(f"op {type!r}: 'quant_axis' is {axis}, but X has the shape {list(X.shape)}")


_own_scale("fake_quantize_abs_max", False)
_own_scale("fake_quantize_dequantize_abs_max", True, amp_fp16="white", amp_bf16="black")
_scale_by_channel("fake_channel_wise_quantize_abs_max", False, version=1)
_scale_by_channel("fake_channel_wise_quantize_dequantize_abs_max", True)


# ---------------------------------------------------------------------- the largest scale of the last steps
fake_quantize_range_abs_max = Op(
    "fake_quantize_range_abs_max",
    "X. InScale. Iter? -> Out OutScale OutScales?",
    attrs={"window_size": 10000, "bit_length": _BITS, "is_test": False, **_ROUNDING},
    updates=("OutScales",),
)


@fake_quantize_range_abs_max.shape
def _(X: Spec, window_size: int, bit_length: int) -> tuple[Spec, Spec, Spec]:
    _check_bits("fake_quantize_range_abs_max", bit_length)
    return X, _scalar_spec(X), X.with_shape((window_size,))


@fake_quantize_range_abs_max.kernel
def _(
    xp: Any,
    X: Array,
    InScale: Array,
    Iter: Maybe,
    OutScales: Maybe,
    window_size: int,
    bit_length: int,
    is_test: bool,
    round_type: int,
    of_2x: bool,
) -> tuple[Array, Array, Maybe]:
    away = of_2x and round_type == 1
    if is_test:
        return _round(xp, X, InScale, bit_length, away), InScale.copy(), None
    step = 0 if Iter is None else int(Iter.reshape(-1)[0])
    window = xp.zeros(window_size, X.dtype) if OutScales is None else OutScales.copy()
    place, found = step % window_size, _largest(xp, X)
    removed = float(window[place])
    last = float(InScale.reshape(-1)[0])
    window[place] = found[0]
    if last < float(found[0]):
        scale = found
    elif abs(removed - last) < _SAME:  # the largest has left the window: look for the next one
        # Paddle does not count the entry just written until the window is full
        scale = window[: max(min(step, window_size), 1)].max().reshape(1)
    else:
        scale = InScale.reshape(1).copy()
    return _round(xp, X, scale, bit_length, away), scale, window


# ---------------------------------------------------------------------- a moving average of scales
def _average(xp: Any, X: Array, accum: Maybe, state: Maybe, rate: float) -> tuple[Array, Array, Array]:
    """Scale, state and accumulator: accum / state is the mean of all scales, weighted by rate**age."""
    one, rate = X.dtype.type(1), X.dtype.type(rate)
    state = xp.ones(1, X.dtype) if state is None else rate * state.reshape(1) + one
    found = _largest(xp, X)
    accum = found if accum is None else rate * accum.reshape(1) + found
    return accum / state, state, accum


def _moving(type: str, dequantize: bool, **facts: Any) -> None:
    """An op that quantises by a moving average of scales, and goes back to real numbers where asked to."""
    op = Op(type, _AVERAGED, attrs=_MOVING, **facts)

    @op.shape
    def _(X: Spec, bit_length: int) -> tuple[Spec, ...]:
        _check_bits(type, bit_length)
        return X, _scalar_spec(X), _scalar_spec(X), _scalar_spec(X)

    @op.kernel
    def _(
        xp: Any,
        X: Array,
        InScale: Array,
        InAccum: Maybe,
        InState: Maybe,
        moving_rate: float,
        bit_length: int,
        is_test: bool,
        round_type: int,
        of_2x: bool,
    ) -> tuple[Array, Array, Maybe, Maybe]:
        scale, state, accum = InScale.reshape(1).copy(), InState, InAccum
        if not is_test:
            scale, state, accum = _average(xp, X, InAccum, InState, moving_rate)
        out = _round(xp, X, scale, bit_length, of_2x and round_type == 1)
        if dequantize:
            out *= scale / X.dtype.type(_levels(bit_length))
        return out, scale, state, accum


_moving("fake_quantize_moving_average_abs_max", False)
_moving("fake_quantize_dequantize_moving_average_abs_max", True, amp_fp16="white", amp_bf16="black")

moving_average_abs_max_scale = Op(
    "moving_average_abs_max_scale",
    "X. InAccum.? InState.? -> Out OutScale OutState? OutAccum?",
    attrs={"moving_rate": 0.9, "is_test": False},
    updates=("OutScale",),
    version=2,
)


@moving_average_abs_max_scale.shape
def _(X: Spec) -> tuple[Spec, ...]:
    return X, _scalar_spec(X), _scalar_spec(X), _scalar_spec(X)


@moving_average_abs_max_scale.kernel
def _(
    xp: Any, X: Array, InAccum: Maybe, InState: Maybe, OutScale: Maybe, moving_rate: float, is_test: bool
) -> tuple[Array, Maybe, Maybe, Maybe]:
    if is_test:  # the scale stays what training left
        return X.copy(), xp.zeros(1, X.dtype) if OutScale is None else OutScale, InState, InAccum
    return (X.copy(), *_average(xp, X, InAccum, InState, moving_rate))


# ---------------------------------------------------------------------- back to real numbers
fake_dequantize_max_abs = Op(
    "fake_dequantize_max_abs", "X. Scale. -> Out", attrs={"max_range": required(AttrType.FLOAT)}
)
fake_dequantize_max_abs.shape(same_as("X"))


@fake_dequantize_max_abs.kernel
def _(X: Array, Scale: Array, max_range: float) -> Array:
    return Scale.reshape(()) * X / X.dtype.type(max_range)


fake_channel_wise_dequantize_max_abs = Op(
    "fake_channel_wise_dequantize_max_abs",
    "X. Scales.* -> Out",
    attrs={"quant_bits": INTS([8]), "quant_axis": later(0), "x_num_col_dims": later(1)},
    version=2,
)


@fake_channel_wise_dequantize_max_abs.shape
def _(X: Spec, Scales: list[Spec], quant_bits: list[int]) -> Spec:
    if not 1 <= len(Scales) <= min(2, len(quant_bits)):
        raise ShapeError(
            "op 'fake_channel_wise_dequantize_max_abs': Scales takes those of the weight, and that of the "
            f"activation if X is a product of both; {len(Scales)} are given, with 'quant_bits' {quant_bits}"
        )
    return X


@fake_channel_wise_dequantize_max_abs.kernel
def _(X: Array, Scales: list[Array], quant_bits: list[int], quant_axis: int, x_num_col_dims: int) -> Array:
    kind = X.dtype.type
    if len(Scales) == 1:  # a weight: an output channel has a scale
        return _along(X, Scales[0], quant_axis) * X / kind(_levels(quant_bits[0]))
    # a product of quantised weight and input: the channels are in the second dimension, or where 2.x says
    scale = _along(X, Scales[0], x_num_col_dims)
    range_ = kind(_levels(quant_bits[0]) * _levels(quant_bits[1]))
    return scale * Scales[1].reshape(()) * X / range_


# ---------------------------------------------------------------------- with scales that the file has
_LINEAR: dict[str, Any] = {
    "quant_axis": 0,
    "bit_length": _BITS,
    "round_type": 0,
    "is_test": True,
    "only_observer": False,
    "moving_rate": 0.9,
}
_LINEAR_SLOTS = "X Scale. ZeroPoint? InAccum.? InState.? -> Y OutState? OutAccum? OutScale?"
quantize_linear = Op("quantize_linear", _LINEAR_SLOTS, attrs=_LINEAR)
dequantize_linear = Op("dequantize_linear", _LINEAR_SLOTS, attrs=_LINEAR)


def _linear_specs(type: str, X: Spec, Scale: Spec, quant_axis: int, bit_length: int) -> dict[str, Spec]:
    _check_bits(type, bit_length)
    if quant_axis >= 0:
        _check_axis(type, X, quant_axis)
        wanted, given = X.shape[quant_axis], int(np.prod(Scale.shape))
        if given != wanted and min(given, wanted) >= 0:
            raise ShapeError(
                f"op {type!r}: Scale{list(Scale.shape)} has {given} elements, but dimension {quant_axis} of "
                f"X{list(X.shape)} has {wanted}"
            )
    scalar = Spec((1,), Scale.dtype)
    real = X if is_float(X.dtype) else Spec(X.shape, Scale.dtype)
    return {"Y": real, "OutState": scalar, "OutAccum": scalar, "OutScale": Spec(Scale.shape, Scale.dtype)}


@quantize_linear.shape
def _(X: Spec, Scale: Spec, quant_axis: int, bit_length: int) -> dict[str, Spec]:
    return _linear_specs("quantize_linear", X, Scale, quant_axis, bit_length)


@dequantize_linear.shape
def _(X: Spec, Scale: Spec, quant_axis: int, bit_length: int) -> dict[str, Spec]:
    return _linear_specs("dequantize_linear", X, Scale, quant_axis, bit_length)


def _check_zero_point(xp: Any, type: str, zero: Maybe) -> None:
    """2.6.2 does not read ZeroPoint: with another than 0 its numbers would not be what the file says."""
    if zero is not None and bool(xp.any(zero)):
        raise ShapeError(f"op {type!r}: ZeroPoint is not 0, and only symmetric quantisation is known")


@quantize_linear.kernel
@with_attrs(_LINEAR)
def _(
    xp: Any, X: Array, Scale: Array, ZeroPoint: Maybe, InAccum: Maybe, InState: Maybe, attrs: dict[str, Any]
) -> dict[str, Any]:
    """Y = X / Scale * levels, rounded; in training Scale is the mean of the steps' largest magnitudes."""
    _check_zero_point(xp, "quantize_linear", ZeroPoint)
    axis, bits = attrs["quant_axis"], attrs["bit_length"]
    made: dict[str, Any] = {"OutScale": Scale.copy(), "OutState": InState, "OutAccum": InAccum}
    if not attrs["is_test"]:
        if axis >= 0:
            made["OutScale"] = _by_channel(xp, X, axis)
        else:
            scale, state, accum = _average(xp, X, InAccum, InState, attrs["moving_rate"])
            made = {"OutScale": scale, "OutState": state, "OutAccum": accum}
    if attrs["only_observer"]:
        return {"Y": X.copy(), **made}
    scale = made["OutScale"]
    if attrs["round_type"] == 1:
        return {"Y": _round(xp, X, scale, bits, True, max(axis, 0)), **made}
    # 2.6.2 clips what is rounded, where the other kind clips before
    levels = X.dtype.type(_levels(bits))
    scale = _along(X, scale, max(axis, 0))
    safe = xp.where(scale <= _TINY, scale + X.dtype.type(_SAME), scale)
    return {"Y": xp.clip(xp.rint(X * (levels / safe)), -levels - 1, levels), **made}


@dequantize_linear.kernel
@with_attrs(_LINEAR)
def _(xp: Any, X: Array, Scale: Array, ZeroPoint: Maybe, attrs: dict[str, Any]) -> dict[str, Any]:
    _check_zero_point(xp, "dequantize_linear", ZeroPoint)
    real = X.astype(Scale.dtype)
    if not attrs["only_observer"]:
        real = (
            real
            * _along(X, Scale, max(attrs["quant_axis"], 0))
            / Scale.dtype.type(_levels(attrs["bit_length"]))
        )
    return {"Y": real, "OutScale": Scale.copy()}


@quantize_linear.grad("X")
def _(dY: Array) -> Array:
    return dY


# ---------------------------------------------------------------------- integers
dequantize_abs_max = Op("dequantize_abs_max", "X Scale -> Out", attrs={"max_range": required(AttrType.FLOAT)})
dequantize_abs_max.shape(same_as("X", VarType.FP32))


@dequantize_abs_max.kernel
def _(X: Array, Scale: Array, max_range: float) -> Array:
    return Scale.reshape(()) * X.astype(Scale.dtype) / Scale.dtype.type(max_range)


dequantize_log = Op("dequantize_log", "X Dict -> Out")
dequantize_log.shape(same_as("X", VarType.FP32))


@dequantize_log.kernel
def _(xp: Any, X: Array, Dict: Array) -> Array:
    place = X.astype("int64")
    negative = place < 0
    found = Dict.reshape(-1)[xp.where(negative, place + 128, place)]
    return xp.where(negative, -found, found)


lookup_table_dequant = Op(
    "lookup_table_dequant", "W Ids -> Out", attrs={"padding_idx": LONG(NO_PADDING)}, lod="Ids"
)
_HEAD = 2  # a row starts with its smallest and its largest number; then each float holds four bytes


@lookup_table_dequant.shape
def _(W: Spec, Ids: Spec) -> Spec:
    is_table = len(W.shape) == 2 and not 0 <= W.shape[1] <= _HEAD
    if not is_table or not Ids.shape or Ids.shape[-1] not in (1, -1):
        raise ShapeError(
            "op 'lookup_table_dequant': W needs rows of more than 2 numbers, and Ids a last dimension of 1, "
            f"but they have shapes {list(W.shape)} and {list(Ids.shape)}"
        )
    return W.with_shape((*Ids.shape[:-1], (W.shape[1] - _HEAD) * 4))


@lookup_table_dequant.kernel
def _(xp: Any, W: Array, Ids: Array, padding_idx: int) -> Array:
    ids = Ids.reshape(Ids.shape[:-1])
    check_range(xp, ids, len(W))
    rows = W[ids]
    least, most = rows[..., :1], rows[..., 1:_HEAD]
    steps = xp.ascontiguousarray(rows[..., _HEAD:]).view("uint8").astype(W.dtype)
    out = (most - least) / W.dtype.type(256) * steps + least
    if padding_idx != NO_PADDING:
        out[ids == padding_idx] = 0
    return out


def _saturated(xp: Any, values: Array, dtype: str) -> Array:
    least, most = (-128, 127) if dtype == "int8" else (0, 255)
    return xp.clip(xp.rint(values), least, most).astype(dtype)


quantize = Op(
    "quantize",
    "Input. -> Output",
    attrs={"is_negative_input": False, "Scale": 1.0, "output_format": "NHWC"},
    only={"Shift": 0.0, "bfloat16": False},
    version=2,
)


@quantize.shape
def _(Input: Spec, is_negative_input: bool) -> Spec:
    return Spec(Input.shape, VarType.INT8 if is_negative_input else VarType.UINT8)


@quantize.kernel
def _(xp: Any, Input: Array, is_negative_input: bool, Scale: float) -> Array:
    return _saturated(xp, Input * Input.dtype.type(Scale), "int8" if is_negative_input else "uint8")


dequantize = Op("dequantize", "Input -> Output", attrs={"Scale": 1.0}, only={"Shift": 0.0}, version=1)
dequantize.shape(same_as("Input", VarType.FP32))


@dequantize.kernel
def _(Input: Array, Scale: float) -> Array:
    return Input.astype("float32") * (1 / Scale)


requantize = Op(
    "requantize",
    "Input -> Output",
    attrs={"Scale_in": 1.0, "Scale_out": 1.0},
    only={"Shift_in": 0.0, "Shift_out": 0.0},
    version=1,
)
requantize.shape(same_as("Input"))


@requantize.kernel
def _(xp: Any, Input: Array, Scale_in: float, Scale_out: float) -> Array:
    return _saturated(xp, Input.astype("float32") * (Scale_out / Scale_in), str(Input.dtype))
