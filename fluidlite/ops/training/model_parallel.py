"""Layers whose weights the ranks of a group share: columns, rows, or parts of a vocabulary.

`c_identity` stands where every rank has the whole value and goes on with its part of the weight; what comes
out of the parts is added (`mp_allreduce_sum`) or put side by side (`c_concat`).
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import LONG, AttrType, GradContext, Op, Spec, later, required, same_as
from fluidlite.ops.kernels.row_calls import checked_labels

_RING = {"ring_id": 0, "use_calc_stream": False, "use_model_parallel": later(False)}
_PART = {"ring_id": 0, "use_calc_stream": True, "use_model_parallel": True}
_PLACE = {"rank": 0, "nranks": 1}

# ---------------------------------------------------------------------- in front of and behind shared weights
c_identity = Op(
    "c_identity", "X -> Out", attrs=_PART, idle=("ring_id", "use_model_parallel"), amp_fp16="gray"
)
c_identity.shape(same_as("X"))


@c_identity.kernel
def _(X: Array) -> Any:
    return X


# every rank's part of the weight adds its share to the gradient of what they all started from
@c_identity.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("c_allreduce_sum", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


mp_allreduce_sum = Op(
    "mp_allreduce_sum",
    "X -> Out",
    attrs={"ring_id": 0, "use_calc_stream": False},
    communicates=CommKind.SHARED_SUM,
)
mp_allreduce_sum.shape(same_as("X"))


# all ranks go on with the same sum, so that each has the whole gradient already
@mp_allreduce_sum.grad_rule("X")
def _(context: GradContext) -> None:
    attrs = {name: context.op.attrs[name] for name in ("ring_id", "use_calc_stream")}
    context.emit("c_identity", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")}, attrs)


# ---------------------------------------------------------------------- columns
c_concat = Op(
    "c_concat", "X -> Out", attrs={**_PLACE, **_PART}, communicates=CommKind.ALL_GATHER, amp_fp16="gray"
)
c_split = Op(
    "c_split",
    "X -> Out",
    attrs={**_PLACE, **_PART, "use_calc_stream": False},
    idle=("ring_id", "use_model_parallel"),
)


@c_concat.shape
def _(X: Spec, nranks: int) -> Spec:
    columns = X.shape[-1]
    return X.with_shape((*X.shape[:-1], columns * nranks if columns >= 0 else -1))


@c_concat.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("c_split", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


@c_split.shape
def _(X: Spec, rank: int, nranks: int) -> Spec:
    columns = X.shape[-1]
    if not 0 <= rank < nranks or (columns >= 0 and columns % nranks):
        raise ShapeError(
            f"op 'c_split': rank {rank} of {nranks} ranks cannot get an equal part of the "
            f"{columns} columns of X{list(X.shape)}"
        )
    return X.with_shape((*X.shape[:-1], columns // nranks if columns >= 0 else -1))


@c_split.kernel
def _(xp: Any, X: Array, rank: int, nranks: int) -> Any:
    columns = X.shape[-1] // nranks
    return xp.ascontiguousarray(X[..., rank * columns : (rank + 1) * columns])


# 2.6.2 emits c_allgather here, which stacks the ranks' columns as rows: a gradient of another shape than X
@c_split.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("c_concat", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


# ---------------------------------------------------------------------- a part of a vocabulary
c_embedding = Op(
    "c_embedding",
    "W Ids -> Out",
    attrs={"start_index": LONG(0), "vocab_size": later(LONG(-1))},
    idle=("vocab_size",),
)


@c_embedding.shape
def _(W: Spec, Ids: Spec) -> Spec:
    if len(W.shape) != 2 or Ids.dtype not in (VarType.INT32, VarType.INT64):
        raise ShapeError(
            f"op 'c_embedding': W{list(W.shape)} should be a table of rows, and Ids of an integer type, not "
            f"{Ids.dtype.name}"
        )
    return W.with_shape((*Ids.shape, W.shape[1]))


def _rows(xp: Any, W: Array, Ids: Array, start_index: int) -> tuple[Any, Any]:
    """The row of this part for each id, and True where the id is one of this part."""
    rows = Ids.astype(xp.int64) - start_index
    mine = (rows >= 0) & (rows < W.shape[0])
    return xp.where(mine, rows, 0), mine


@c_embedding.kernel
def _(xp: Any, W: Array, Ids: Array, start_index: int) -> Any:
    rows, mine = _rows(xp, W, Ids, start_index)
    return W[rows] * mine[..., None].astype(W.dtype)


@c_embedding.grad("W")
def _(xp: Any, W: Array, Ids: Array, dOut: Array, start_index: int) -> Any:
    rows, mine = _rows(xp, W, Ids, start_index)
    found = xp.zeros_like(W)
    d = dOut * mine[..., None].astype(W.dtype)
    xp.add.at(found, rows.reshape(-1), d.reshape(-1, W.shape[1]))
    return found


# ---------------------------------------------------------------------- a part of the classes
c_softmax_with_cross_entropy = Op(
    "c_softmax_with_cross_entropy",
    "Logits Label -> Softmax Loss",
    attrs={
        "ring_id": 0,
        "rank": required(AttrType.INT),
        "nranks": required(AttrType.INT),
        "ignore_index": LONG(-100),
    },
    communicates=CommKind.OTHER,
    amp_fp16="black",
)


@c_softmax_with_cross_entropy.shape
def _(Logits: Spec, Label: Spec) -> tuple[Spec, Spec]:
    wanted = (*Logits.shape[:-1], 1)
    pairs = zip(wanted, Label.shape, strict=False)
    if len(Label.shape) != len(wanted) or any(a != b and min(a, b) >= 0 for a, b in pairs):
        raise ShapeError(
            f"op 'c_softmax_with_cross_entropy': Label has the shape {list(Label.shape)}, wanted "
            f"{list(wanted)}"
        )
    return Logits.with_shape(Logits.shape), Logits.with_shape(wanted)


@c_softmax_with_cross_entropy.grad("Logits")
def _(xp: Any, Softmax: Array, Label: Array, dLoss: Array, rank: int, ignore_index: int) -> Any:
    classes = xp.arange(Softmax.shape[-1]) + rank * Softmax.shape[-1]
    # chosen, not multiplied: the softmax of an ignored row may be nan
    return xp.where(Label == ignore_index, dLoss.dtype.type(0), dLoss * (Softmax - (Label == classes)))


# ---------------------------------------------------------------------- cosines with a margin
_NONE = -(1 << 62)  # no label is ignored
_MARGINS = {"margin1": 1.0, "margin2": 0.5, "margin3": 0.0, "scale": 64.0}
margin_cross_entropy = Op(
    "margin_cross_entropy",
    "Logits Label -> Softmax Loss",
    attrs={**_MARGINS, "return_softmax": False, "ring_id": 0, "rank": 0, "nranks": 1},
    lod=None,
    idle=("return_softmax", "ring_id", "rank"),
)


@margin_cross_entropy.shape
def _(Logits: Spec, Label: Spec, nranks: int) -> tuple[Spec, Spec]:
    if nranks != 1:
        raise ShapeError(
            f"op 'margin_cross_entropy': classes that {nranks} ranks share are refused; nranks must be 1"
        )
    if len(Logits.shape) != 2 or Label.dtype not in (VarType.INT32, VarType.INT64):
        raise ShapeError(
            f"op 'margin_cross_entropy': Logits{list(Logits.shape)} must be [batch, classes], "
            f"and Label an integer type, not {Label.dtype.name}"
        )
    return Logits.with_shape(Logits.shape), Logits.with_shape((Logits.shape[0], 1))


def _wider(xp: Any, cosine: Array, margin1: float, margin2: float, margin3: float) -> tuple[Array, Array]:
    """The cosine of margin1 times the angle plus margin2, minus margin3, and its slope by `cosine`."""
    angle = xp.arccos(cosine)
    wider = margin1 * angle + margin2
    # the slope is infinite where the angle is 0 or a half circle: the least distance keeps it finite
    sine = xp.maximum(xp.sin(angle), xp.finfo(cosine.dtype).eps)
    return xp.cos(wider) - margin3, margin1 * xp.sin(wider) / sine


@margin_cross_entropy.kernel
def _(
    xp: Any, Logits: Array, Label: Array, margin1: float, margin2: float, margin3: float, scale: float
) -> tuple[Array, Array]:
    """The loss of ArcFace (Deng et al., 2019), whose logits are cosines."""
    labels, _ = checked_labels(xp, "margin_cross_entropy", Label.reshape(-1), Logits.shape[1], _NONE)
    rows = xp.arange(len(Logits))
    scaled = Logits.copy()
    scaled[rows, labels] = _wider(xp, Logits[rows, labels], margin1, margin2, margin3)[0]
    scaled *= scale
    scaled -= scaled.max(1, keepdims=True)
    softmax = xp.exp(scaled)
    sums = softmax.sum(1, keepdims=True)
    softmax /= sums
    return softmax, xp.log(sums) - scaled[rows, labels][:, None]


@margin_cross_entropy.grad("Logits")
def _(
    xp: Any,
    Softmax: Array,
    Logits: Array,
    Label: Array,
    dLoss: Array,
    margin1: float,
    margin2: float,
    margin3: float,
    scale: float,
) -> Array:
    rows, labels = xp.arange(len(Logits)), Label.reshape(-1)
    found = Softmax.copy()
    found[rows, labels] -= 1
    found[rows, labels] *= _wider(xp, Logits[rows, labels], margin1, margin2, margin3)[1]
    found *= dLoss * Logits.dtype.type(scale)
    return found
