"""Quantisation: real numbers as whole multiples of a scale, and back.

With b bits and the scale s, the largest magnitude, x becomes q = round(x / s * (2**(b-1) - 1)), after x is
clipped to [-s, s]. The `fake_` ops keep q as real numbers, so that a program that trains can hold them;
`quantize` and its kin store integers. As in Paddle none has a gradient op: a program that trains with them
feeds its gradient ops the quantised values and takes their results for gradients of the real ones (the
straight-through estimator, Bengio, Leonard and Courville 2013).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, LONG, AttrType, Op, Spec, required, same_as
from fluidlite.ops.kernels.numbers import as_matrix
from fluidlite.ops.neural.embedding import NO_PADDING, check_range

Maybe: TypeAlias = "Array | None"

_TINY = 1e-30  # scales up to this one are those of tensors of zeros
_SAME = 1e-6  # magnitudes closer than this count as one
_MOVING = {"moving_rate": 0.9, "bit_length": 8, "is_test": False}
_AVERAGED = "X. InScale InAccum.? InState.? -> Out OutScale OutState? OutAccum?"


def _levels(bits: int) -> int:
    """The largest integer of so many bits, of which one is the sign."""
    return (1 << (bits - 1)) - 1


def _check_bits(type: str, bits: int) -> None:
    if not 1 <= bits <= 16:
        raise ShapeError(f"op {type!r}: 'bit_length' should be between 1 and 16, but is {bits}")


def _round(xp: Any, X: Array, scale: Array, bits: int) -> Array:
    """X in steps of scale / levels; `scale` is one number, or one along the first dimension."""
    scale = scale.reshape((-1,) + (1,) * (X.ndim - 1)) if scale.size > 1 else scale.reshape(())
    one = X.dtype.type(1)
    inverse = one / xp.where(scale <= _TINY, scale + X.dtype.type(_SAME), scale)
    out = xp.clip(X, -scale, scale)
    out *= X.dtype.type(_levels(bits)) * inverse  # Paddle rounds this factor, too
    # halves to even numbers, as Paddle does but for the last elements, too few for its vector instructions
    return xp.rint(out, out=out)


def _largest(xp: Any, X: Array) -> Array:
    return abs(X).max().reshape(1)


def _scalar_spec(X: Spec) -> Spec:
    return X.with_shape((1,))


# ---------------------------------------------------------------------- the scale of this tensor alone
fake_quantize_abs_max = Op("fake_quantize_abs_max", "X. -> Out OutScale", attrs={"bit_length": 8})


@fake_quantize_abs_max.shape
def _(X: Spec, bit_length: int) -> tuple[Spec, Spec]:
    _check_bits("fake_quantize_abs_max", bit_length)
    return X, _scalar_spec(X)


@fake_quantize_abs_max.kernel
def _(xp: Any, X: Array, bit_length: int) -> tuple[Array, Array]:
    scale = _largest(xp, X)
    return _round(xp, X, scale, bit_length), scale


fake_channel_wise_quantize_abs_max = Op(
    "fake_channel_wise_quantize_abs_max",
    "X. -> Out OutScale",
    attrs={"bit_length": 8},
    only={"quant_axis": 0},
    idle=("is_test",),
)


@fake_channel_wise_quantize_abs_max.shape
def _(X: Spec, bit_length: int) -> tuple[Spec, Spec]:
    _check_bits("fake_channel_wise_quantize_abs_max", bit_length)
    return X, X.with_shape(X.shape[:1])


@fake_channel_wise_quantize_abs_max.kernel
def _(xp: Any, X: Array, bit_length: int) -> tuple[Array, Array]:
    scale = as_matrix(abs(X)).max(1)
    return _round(xp, X, scale, bit_length), scale


# ---------------------------------------------------------------------- the largest scale of the last steps
fake_quantize_range_abs_max = Op(
    "fake_quantize_range_abs_max",
    "X. InScale. Iter? -> Out OutScale OutScales?",
    attrs={"window_size": 10000, "bit_length": 8, "is_test": False},
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
) -> tuple[Array, Array, Maybe]:
    if is_test:
        return _round(xp, X, InScale, bit_length), InScale.copy(), None
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
    return _round(xp, X, scale, bit_length), scale, window


# ---------------------------------------------------------------------- a moving average of scales
def _average(xp: Any, X: Array, accum: Maybe, state: Maybe, rate: float) -> tuple[Array, Array, Array]:
    """Scale, state and accumulator: accum / state is the mean of all scales, weighted by rate**age."""
    one, rate = X.dtype.type(1), X.dtype.type(rate)
    state = xp.ones(1, X.dtype) if state is None else rate * state.reshape(1) + one
    found = _largest(xp, X)
    accum = found if accum is None else rate * accum.reshape(1) + found
    return accum / state, state, accum


def _moving(type: str, dequantize: bool) -> None:
    """An op that quantises by a moving average of scales, and goes back to real numbers where asked to."""
    op = Op(type, _AVERAGED, attrs=_MOVING)

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
    ) -> tuple[Array, Array, Maybe, Maybe]:
        scale, state, accum = InScale.reshape(1).copy(), InState, InAccum
        if not is_test:
            scale, state, accum = _average(xp, X, InAccum, InState, moving_rate)
        out = _round(xp, X, scale, bit_length)
        if dequantize:
            out *= scale / X.dtype.type(_levels(bit_length))
        return out, scale, state, accum


_moving("fake_quantize_moving_average_abs_max", False)
_moving("fake_quantize_dequantize_moving_average_abs_max", True)

moving_average_abs_max_scale = Op(
    "moving_average_abs_max_scale",
    "X. InAccum.? InState.? -> Out OutScale OutState? OutAccum?",
    attrs={"moving_rate": 0.9, "is_test": False},
    updates=("OutScale",),
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
    attrs={"quant_bits": INTS([8])},
    only={"quant_axis": 0, "x_num_col_dims": 1},
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
def _(X: Array, Scales: list[Array], quant_bits: list[int]) -> Array:
    kind = X.dtype.type
    if len(Scales) == 1:  # a weight: an output channel has a scale
        scale = Scales[0].reshape((-1,) + (1,) * (X.ndim - 1))
        return scale * X / kind(_levels(quant_bits[0]))
    # a product of quantised weight and input: the channels are in the second dimension
    scale = Scales[0].reshape((1, -1) + (1,) * (X.ndim - 2))
    range_ = kind(_levels(quant_bits[0]) * _levels(quant_bits[1]))
    return scale * Scales[1].reshape(()) * X / range_


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
    if len(W.shape) != 2 or 0 <= W.shape[1] <= _HEAD or not Ids.shape or Ids.shape[-1] not in (1, -1):
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
)


@quantize.shape
def _(Input: Spec, is_negative_input: bool) -> Spec:
    return Spec(Input.shape, VarType.INT8 if is_negative_input else VarType.UINT8)


@quantize.kernel
def _(xp: Any, Input: Array, is_negative_input: bool, Scale: float) -> Array:
    return _saturated(xp, Input * Input.dtype.type(Scale), "int8" if is_negative_input else "uint8")


dequantize = Op("dequantize", "Input -> Output", attrs={"Scale": 1.0}, only={"Shift": 0.0})
dequantize.shape(same_as("Input", VarType.FP32))


@dequantize.kernel
def _(Input: Array, Scale: float) -> Array:
    return Input.astype("float32") * (1 / Scale)


requantize = Op(
    "requantize",
    "Input -> Output",
    attrs={"Scale_in": 1.0, "Scale_out": 1.0},
    only={"Shift_in": 0.0, "Shift_out": 0.0},
)
requantize.shape(same_as("Input"))


@requantize.kernel
def _(xp: Any, Input: Array, Scale_in: float, Scale_out: float) -> Array:
    return _saturated(xp, Input.astype("float32") * (Scale_out / Scale_in), str(Input.dtype))
