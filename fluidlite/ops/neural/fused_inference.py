"""Ops that saved inference models hold in place of several others, each computed by those that it stands for.

PaddlePaddle's inference passes make them; nothing trains through them, so they have no gradients. Outputs
that PaddlePaddle keeps only as scratch memory are not made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import above, least, limited, one_of
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN, QUANTIZER
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import AttrType, KernelContext, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.activations import ACTIVATIONS, activation
from fluidlite.ops.kernels.cells import CellForm
from fluidlite.ops.kernels.gated_cells import lstm_form
from fluidlite.ops.kernels.numbers import as_matrix
from fluidlite.ops.kernels.recurrent_steps import forward_calls
from fluidlite.ops.kernels.sequence_rows import offsets_of_level, owners, pairs, take_rows
from fluidlite.ops.neural.click_through import cvm
from fluidlite.ops.neural.gru import gru
from fluidlite.ops.neural.lstm import lstm
from fluidlite.ops.sequences.sequence_conv import sequence_conv
from fluidlite.ops.sequences.sequence_pool import sequence_pool
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"

_LSTM = {
    "use_peepholes": True,
    "is_reverse": False,
    "gate_activation": limited("sigmoid", one_of(*ACTIVATIONS)),
    "cell_activation": limited("tanh", one_of(*ACTIVATIONS)),
    "candidate_activation": limited("tanh", one_of(*ACTIVATIONS)),
}
_GRU = {"activation": "tanh", "gate_activation": "sigmoid", "is_reverse": False, "origin_mode": False}
_CELL = {
    "gate_activation": limited("sigmoid", one_of(*ACTIVATIONS)),
    "cell_activation": limited("tanh", one_of(*ACTIVATIONS)),
    "candidate_activation": limited("tanh", one_of(*ACTIVATIONS)),
}
_SCRATCH = "XX? BatchedInput? BatchedHidden? BatchedCell? ReorderedH0? ReorderedC0?"


def _kernel(op: Op) -> Callable[..., Any]:
    assert op.compute is not None
    return op.compute


# ---------------------------------------------------------------------- fully connected layers
_KEPT_BY_FC = {
    **ONEDNN,
    **QUANTIZER,
    "force_fp32_output": False,
    "Scale_in": 1.0,
    "Scale_weights": [1.0],
    "Scale_out": 1.0,
}
fc = Op(
    "fc",
    "Input. W. Bias.? -> Out",
    attrs={"in_num_col_dims": limited(1, least(1)), "activation_type": "", "padding_weights": False},
    kept=_KEPT_BY_FC,
)


@fc.shape
def _(Input: Spec, W: Spec, Bias: Spec | None, in_num_col_dims: int, padding_weights: bool) -> Spec:
    rows, columns = (dim - 4 * padding_weights for dim in W.shape)
    inner = int(np.prod(Input.shape[in_num_col_dims:]))
    if min(Input.shape[in_num_col_dims:], default=0) >= 0 and inner != rows:
        raise ShapeError(
            f"op 'fc': Input{list(Input.shape)} has {inner} elements from dimension {in_num_col_dims} on, "
            f"but W{list(W.shape)} has {rows} rows"
        )
    return Spec((*Input.shape[:in_num_col_dims], columns), Input.dtype, Input.lod_level)


@fc.kernel
def _(
    xp: Any,
    Input: Array,
    W: Array,
    Bias: Maybe,
    in_num_col_dims: int,
    activation_type: str,
    padding_weights: bool,
) -> Array:
    # a pass pads weights by 4 rows and columns where the product is then faster
    weight = W[:-4, :-4] if padding_weights else W
    lead = Input.shape[:in_num_col_dims]
    out = as_matrix(Input, in_num_col_dims) @ weight
    if Bias is not None:
        out += Bias.reshape(-1)
    activation("fc", activation_type or "identity").apply(xp, out)
    return out.reshape(*lead, weight.shape[1])


repeated = Op("fusion_repeated_fc_relu", "X. W.* Bias.* -> ReluOut*? Out", lod=None, makes_lod=True)


@repeated.shape
def _(X: Spec, W: list[Spec]) -> dict[str, Any]:
    return {
        "ReluOut": [Spec((X.shape[0], weight.shape[1]), X.dtype) for weight in W[:-1]],
        "Out": Spec((X.shape[0], W[-1].shape[1]), X.dtype, X.lod_level),
    }


@repeated.kernel
def _(xp: Any, X: Array, X_lod: Lod, W: list[Array], Bias: list[Array]) -> dict[str, Any]:
    layers = [X]
    for weight, bias in zip(W, Bias, strict=True):
        layers.append(xp.maximum(layers[-1] @ weight + bias.reshape(-1), 0))
    return {"ReluOut": layers[1:-1], "Out": WithLod(layers[-1], X_lod) if X_lod else layers[-1]}


squared = Op(
    "fusion_squared_mat_sub", "X. Y. -> SquaredX? SquaredY? SquaredXY? Out", attrs={"scalar": 1.0}, lod=None
)


@squared.shape
def _(X: Spec, Y: Spec) -> dict[str, Spec]:
    return {
        "SquaredX": X.with_shape(X.shape),
        "SquaredY": Y.with_shape(Y.shape),
        "SquaredXY": X.with_shape((X.shape[0], Y.shape[1])),
        "Out": X.with_shape((X.shape[0], Y.shape[1])),
    }


@squared.kernel
def _(X: Array, Y: Array, scalar: float) -> dict[str, Array]:
    """scalar ((X Y)^2 - X^2 Y^2), squares by element: the interactions of a factorisation machine."""
    squares, product = (X * X, Y * Y), X @ Y
    product *= product
    return {
        "SquaredX": squares[0],
        "SquaredY": squares[1],
        "SquaredXY": product,
        "Out": (product - squares[0] @ squares[1]) * X.dtype.type(scalar),
    }


equal_reduce = Op(
    "equal_reduce", "X Y -> Out", attrs={"axis": limited(-1, least(-1))}, lod=None, idle=("axis",)
)


@equal_reduce.shape
def _(X: Spec, Y: Spec) -> Spec:
    return Spec((1,), VarType.BOOL)


@equal_reduce.kernel
def _(xp: Any, X: Array, Y: Array) -> Array:
    return xp.asarray([X.shape == Y.shape and bool((X == Y).all())])


# ---------------------------------------------------------------------- recurrences
fusion_lstm = Op(
    "fusion_lstm",
    f"X. WeightX. WeightH. Bias. H0.? C0.? -> Hidden Cell {_SCRATCH} CheckedCell?",
    attrs={**_LSTM, "use_seq": True},
    dynamic=True,
)
embedding_lstm = Op(
    "fused_embedding_fc_lstm",
    f"Ids Embeddings. WeightH. Bias. H0.? C0.? -> Hidden Cell {_SCRATCH}",
    attrs={**_LSTM, "use_seq": True},
    dynamic=True,
)


@fusion_lstm.shape
def _(X: Spec, WeightX: Spec, WeightH: Spec) -> tuple[Spec, Spec]:
    if X.shape[1] >= 0 and X.shape[1] != WeightX.shape[0]:
        raise ShapeError(
            f"op 'fusion_lstm': X has {X.shape[1]} columns, but WeightX{list(WeightX.shape)} as many rows"
        )
    hidden = Spec((X.shape[0], WeightH.shape[0]), X.dtype, X.lod_level)
    return hidden, hidden


@embedding_lstm.shape
def _(Ids: Spec, Embeddings: Spec, WeightH: Spec) -> tuple[Spec, Spec]:
    hidden = Spec((Ids.shape[0], WeightH.shape[0]), Embeddings.dtype, Ids.lod_level)
    return hidden, hidden


def _lstm(
    xp: Any, Input: Array, lod: Lod, weight: Array, bias: Array, rest: dict[str, Any]
) -> tuple[Any, ...]:
    """Hidden states and cells, by the op `lstm`."""
    found: tuple[Any, ...] = _kernel(lstm)(
        xp=xp, Input=Input, Input_lod=lod, Weight=weight, Bias=bias, **rest
    )
    return found[:2]


@fusion_lstm.kernel
@with_attrs(_LSTM)
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    X_lod: Lod,
    WeightX: Array,
    WeightH: Array,
    Bias: Array,
    H0: Maybe,
    C0: Maybe,
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    return _lstm(xp, X @ WeightX, X_lod, WeightH, Bias, {"ctx": ctx, "H0": H0, "C0": C0, **attrs})


@embedding_lstm.kernel
@with_attrs(_LSTM)
def _(
    xp: Any,
    ctx: KernelContext,
    Ids: Array,
    Ids_lod: Lod,
    Embeddings: Array,
    WeightH: Array,
    Bias: Array,
    H0: Maybe,
    C0: Maybe,
    attrs: dict[str, Any],
) -> tuple[Any, ...]:
    # a row of the table is the word's gates, with the bias of the gates added: of Bias only peepholes count
    peepholes = Bias.copy()
    peepholes.reshape(-1)[: 4 * len(WeightH)] = 0
    rows = take_rows(xp, Embeddings, Ids.reshape(-1))
    return _lstm(xp, rows, Ids_lod, WeightH, peepholes, {"ctx": ctx, "H0": H0, "C0": C0, **attrs})


fusion_gru = Op(
    "fusion_gru",
    "X. H0.? WeightX. WeightH. Bias.? -> ReorderedH0? XX? BatchedInput? BatchedOut? Hidden",
    attrs={**_GRU, "use_seq": True},
    lod=None,
    dynamic=True,
    version=1,
)


@fusion_gru.shape
def _(X: Spec, WeightX: Spec, WeightH: Spec) -> dict[str, Spec]:
    if X.shape[1] >= 0 and X.shape[1] != WeightX.shape[0]:
        raise ShapeError(
            f"op 'fusion_gru': X has {X.shape[1]} columns, but WeightX{list(WeightX.shape)} as many rows"
        )
    return {"Hidden": Spec((X.shape[0], WeightH.shape[0]), X.dtype, X.lod_level)}


@fusion_gru.kernel
@with_attrs(_GRU)
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    X_lod: Lod,
    H0: Maybe,
    WeightX: Array,
    WeightH: Array,
    Bias: Maybe,
    attrs: dict[str, Any],
) -> dict[str, WithLod]:
    *_, hidden = _kernel(gru)(
        xp=xp, ctx=ctx, Input=X @ WeightX, Input_lod=X_lod, H0=H0, Weight=WeightH, Bias=Bias, **attrs
    )
    return {"Hidden": hidden}


multi_gru = Op(
    "multi_gru",
    "X. WeightX.* WeightH.* Bias.*? -> Hidden",
    attrs={
        "activation": "tanh",
        "gate_activation": "sigmoid",
        "origin_mode": False,
        "layers": 1,
        "mkldnn_data_type": "float32",
        "force_fp32_output": False,
    },
    lod=None,
    dynamic=True,
    only={"Scale_data": 1.0, "Shift_data": 0.0},  # of 8-bit inputs, whose slot of scales is not here
    idle=("mkldnn_data_type", "force_fp32_output"),
)


@multi_gru.shape
def _(X: Spec, WeightX: list[Spec], WeightH: list[Spec], layers: int) -> Spec:
    if len(WeightX) != 2 * layers or len(WeightH) != 2 * layers:
        raise ShapeError(
            f"op 'multi_gru': {layers} layers in both directions need {2 * layers} of each weight, but there "
            f"are {len(WeightX)} WeightX and {len(WeightH)} WeightH"
        )
    return Spec((X.shape[0], 2 * WeightH[-1].shape[0]), X.dtype, X.lod_level)


@multi_gru.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    X_lod: Lod,
    WeightX: list[Array],
    WeightH: list[Array],
    Bias: list[Array],
    activation: str,
    gate_activation: str,
    origin_mode: bool,
    layers: int,
) -> WithLod:
    """Layers of GRUs over sequences, in both directions side by side."""
    shared = {"activation": activation, "gate_activation": gate_activation, "origin_mode": origin_mode}
    rows = X
    for layer in range(layers):
        sides = []
        for side in (0, 1):
            place = 2 * layer + side
            given = {"Input": rows @ WeightX[place], "Weight": WeightH[place], "H0": None}
            given["Bias"] = Bias[place] if Bias else None
            *_, hidden = _kernel(gru)(
                xp=xp, ctx=ctx, Input_lod=X_lod, is_reverse=bool(side), **given, **shared
            )
            sides.append(hidden.value)
        rows = xp.concatenate(sides, axis=1)
    return WithLod(rows, X_lod)


attention_lstm = Op(
    "attention_lstm",
    "X C0 H0? AttentionWeight AttentionBias? AttentionScalar? AttentionScalarBias? LSTMWeight LSTMBias "
    "-> Hidden Cell AttentionedX? AttentionFCOut? LSTMX? LSTMOUT?",
    attrs=_CELL,
    dynamic=True,
    makes_lod=True,
)


@attention_lstm.shape
def _(X: Spec, C0: Spec, AttentionWeight: Spec, LSTMWeight: Spec) -> tuple[Spec, Spec]:
    width, size = X.shape[1], LSTMWeight.shape[1] // 4
    if not fits(AttentionWeight.shape, (width + size, 1)) or LSTMWeight.shape[0] != width + size:
        raise ShapeError(
            f"op 'attention_lstm': X{list(X.shape)} and cells of {size} want AttentionWeight of shape "
            f"[{width + size}, 1] and LSTMWeight of shape [{width + size}, {4 * size}], not "
            f"{list(AttentionWeight.shape)} and {list(LSTMWeight.shape)}"
        )
    hidden = Spec((X.shape[0], size), X.dtype, X.lod_level)
    return hidden, hidden


def _attended(xp: Any, scores: Array, scalar: Maybe, scalar_bias: Maybe) -> Array:
    """Weights of a sequence's rows: relu, perhaps a scale with bias and relu, softmax."""
    scores = xp.maximum(scores, 0)
    if scalar is not None:
        scores = scores * scalar.reshape(())
        if scalar_bias is not None:
            scores = scores + scalar_bias.reshape(())
        scores = xp.maximum(scores, 0)
    shares = xp.exp(scores - scores.max())
    return shares / shares.sum()


# of the gates in the order of `gated_cells`, where this op has them: forget, input, output, candidate
_ATTENTION_ORDER = [3, 1, 0, 2]


class _AttentionCell(NamedTuple):
    """The cell of `attention_lstm`, and its weights; those of the state lie above those of the input."""

    xp: Any
    form: CellForm
    weight: Array
    bias: Array

    def step(self, mean: Array, hidden: Maybe, earlier: Array) -> tuple[Array, Array]:
        """The next hidden state and cell."""
        size = len(earlier)
        sums = mean @ self.weight[size:] + self.bias
        if hidden is not None:
            sums += hidden @ self.weight[:size]
        gates = sums.reshape(4, size)[_ATTENTION_ORDER]
        cell, active, state = (self.xp.empty_like(earlier) for _ in range(3))
        forward_calls(self.form)(self.xp, None, gates, cell, active, state, earlier)
        return state, cell


@attention_lstm.kernel
@with_attrs(_CELL)
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    C0: Array,
    H0: Maybe,
    AttentionWeight: Array,
    AttentionBias: Maybe,
    AttentionScalar: Maybe,
    AttentionScalarBias: Maybe,
    LSTMWeight: Array,
    LSTMBias: Array,
    attrs: dict[str, Any],
) -> tuple[WithLod, WithLod]:
    """At each step, a mean of the sequence's rows goes into a cell, weighted by rows and the cell before."""
    width, size = X.shape[1], LSTMWeight.shape[1] // 4
    weight = AttentionWeight.reshape(-1)
    of_rows = X @ weight[:width]
    if AttentionBias is not None:
        of_rows = of_rows + AttentionBias.reshape(())
    form = lstm_form(tuple(activation("attention_lstm", attrs[name]).name for name in _CELL))
    unit = _AttentionCell(xp, form, LSTMWeight, LSTMBias.reshape(-1))
    hidden, cells = (xp.empty((len(X), size), X.dtype) for _ in range(2))
    offsets = offsets_of_level("attention_lstm", "X", X_lod, 0, len(X))
    # a step reads the cell of the step before, so only rows of one step could be taken together
    for sequence, (start, end) in enumerate(pairs(offsets)):
        before = None if H0 is None else H0[sequence]
        cell = C0[sequence]
        for step in range(start, end):
            scores = of_rows[start:end] + cell @ weight[width:]
            shares = _attended(xp, scores, AttentionScalar, AttentionScalarBias)
            before, cell = unit.step(shares @ X[start:end], before, cell)
            hidden[step], cells[step] = before, cell
    return WithLod(hidden, X_lod), WithLod(cells, X_lod)


# ---------------------------------------------------------------------- sequences
seqconv = Op(
    "fusion_seqconv_eltadd_relu",
    "X. Filter. Bias. -> Out ColMat?",
    attrs={
        "contextLength": limited(required(AttrType.INT), above(0)),
        "contextStart": 0,
        "contextStride": limited(1, above(0)),
    },
    only={"contextStride": 1},
)


@seqconv.shape
def _(X: Spec, Filter: Spec, contextLength: int) -> Spec:
    if X.shape[1] >= 0 and Filter.shape[0] != contextLength * X.shape[1]:
        raise ShapeError(
            f"op 'fusion_seqconv_eltadd_relu': a context of {contextLength} rows of X{list(X.shape)} does "
            f"not fit Filter{list(Filter.shape)}"
        )
    return Spec((X.shape[0], Filter.shape[1]), X.dtype, X.lod_level)


@seqconv.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    X_lod: Lod,
    Filter: Array,
    Bias: Array,
    contextLength: int,
    contextStart: int,
) -> Array:
    out = _kernel(sequence_conv)(
        xp=xp,
        ctx=ctx,
        X=X,
        X_lod=X_lod,
        PaddingData=None,
        Filter=Filter,
        contextLength=contextLength,
        contextStart=contextStart,
        paddingTrainable=False,
    )
    return xp.maximum(out + Bias.reshape(-1), 0)


seqexpand = Op(
    "fusion_seqexpand_concat_fc",
    "X.* FCWeight. FCBias.? -> Out FCOut?",
    attrs={"fc_activation": limited("identity", one_of(*ACTIVATIONS))},
    makes_lod=True,
)


@seqexpand.shape
def _(X: list[Spec], FCWeight: Spec) -> Spec:
    first = X[0]
    return Spec((first.shape[0], FCWeight.shape[1]), first.dtype, first.lod_level)


@seqexpand.kernel
def _(
    xp: Any, X: list[Array], X_lod: list[Lod], FCWeight: Array, FCBias: Maybe, fc_activation: str
) -> WithLod:
    """The first X is sequences; a row of each other one stands beside all rows of its sequence."""
    first = X[0]
    lengths = np.diff(offsets_of_level("fusion_seqexpand_concat_fc", "X", X_lod[0], 0, len(first)))
    wide = [take_rows(xp, rows, owners(lengths)) for rows in X[1:]]
    out = xp.concatenate([first, *wide], axis=1) @ FCWeight
    if FCBias is not None:
        out += FCBias.reshape(-1)
    activation("fusion_seqexpand_concat_fc", fc_activation).apply(xp, out)
    return WithLod(out, X_lod[0])


_POOLED = {"pooltype": limited("SUM", one_of("AVERAGE", "SQRT", "SUM")), "axis": limited(1, one_of(1))}
seqpool = Op(
    "fusion_seqpool_concat",
    "X.* -> Out",
    attrs=_POOLED,
    lod=None,
    dynamic=True,
    only={"axis": 1},
    makes_lod=True,
)
seqpool_cvm = Op(
    "fusion_seqpool_cvm_concat",
    "X.* CVM -> Out",
    attrs={**_POOLED, "use_cvm": True},
    lod=None,
    dynamic=True,
    only={"axis": 1},
    makes_lod=True,
)


def _pooled(xp: Any, ctx: KernelContext, X: list[Array], X_lod: list[Lod], pooltype: str) -> list[Array]:
    pool = _kernel(sequence_pool)
    found = (
        pool(xp=xp, ctx=ctx, X=rows, X_lod=lod, pooltype=pooltype, pad_value=0.0)
        for rows, lod in zip(X, X_lod, strict=True)
    )
    return [out.value for out, _ in found]


def _row_each(out: Array) -> Lod:
    """A level in which every row is a sequence, which Paddle gives these two."""
    return (tuple(range(len(out) + 1)),)


@seqpool.shape
def _(X: list[Spec]) -> Spec:
    return Spec((-1, sum(spec.shape[1] for spec in X)), X[0].dtype, 1)


@seqpool.kernel
def _(xp: Any, ctx: KernelContext, X: list[Array], X_lod: list[Lod], pooltype: str) -> WithLod:
    out = xp.concatenate(_pooled(xp, ctx, X, X_lod, pooltype), axis=1)
    return WithLod(out, _row_each(out))


@seqpool_cvm.shape
def _(X: list[Spec], use_cvm: bool) -> Spec:
    columns = sum(spec.shape[1] - (0 if use_cvm else 2) for spec in X)
    return Spec((-1, columns), X[0].dtype, 1)


@seqpool_cvm.kernel
def _(xp: Any, ctx: KernelContext, X: list[Array], X_lod: list[Lod], pooltype: str, use_cvm: bool) -> WithLod:
    pooled = _pooled(xp, ctx, X, X_lod, pooltype)
    parts = [_kernel(cvm)(xp=xp, X=part, use_cvm=use_cvm) for part in pooled]
    out = xp.concatenate(parts, axis=1)
    return WithLod(out, _row_each(out))


each_seqpool_cvm = Op(
    "fused_seqpool_cvm",
    "X.* CVM -> Out*",
    attrs={"pooltype": "SUM", "use_cvm": True},
    lod=None,
    dynamic=True,
    only={"pad_value": 0.0, "cvm_offset": 2},
)


@each_seqpool_cvm.shape
def _(X: list[Spec], use_cvm: bool) -> list[Spec]:
    return [Spec((-1, spec.shape[1] - (0 if use_cvm else 2)), spec.dtype) for spec in X]


@each_seqpool_cvm.kernel
def _(
    xp: Any, ctx: KernelContext, X: list[Array], X_lod: list[Lod], pooltype: str, use_cvm: bool
) -> list[Array]:
    return [_kernel(cvm)(xp=xp, X=part, use_cvm=use_cvm) for part in _pooled(xp, ctx, X, X_lod, pooltype)]
