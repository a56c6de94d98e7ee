"""Layers of transformers that PaddlePaddle's passes fuse: attention, normalised sums, embeddings."""

from __future__ import annotations

from typing import Any

from fluidlite.ir.fused.onednn import activate
from fluidlite.ir.fused.plain_ops import PlainOps, Rule, UnknownForm
from fluidlite.ir.operator import Operator

__all__ = ["TRANSFORMERS"]


def _always(op: Operator) -> bool:
    return True


def _normalise(plain: PlainOps, scale: str, bias: str, axis: int) -> None:
    """layer_norm of the last result, by the variables in the slots `scale` and `bias`."""
    operands = {"X": plain.value, "Scale": plain.name(scale), "Bias": plain.name(bias)}
    epsilon = plain.attr("epsilon", 1e-5)
    plain.add("layer_norm", operands, "Y", begin_norm_axis=axis, epsilon=epsilon)


def _attention(plain: PlainOps) -> None:
    """softmax(alpha Q K^T + BiasQK) V of each head; W holds the weights of Q, K and V beside each other."""
    heads = int(plain.attr("head_number", 1))
    w = plain.name("W")
    width = _width(plain, w)
    if any(not plain.attr(f"transpose_{part}", default) for part, default in (("Q", True), ("V", True))):
        raise UnknownForm("does not transpose Q or V, which is not known")
    flat = plain.add("reshape2", {"X": w}, shape=[-1, 3 * width])
    plain.add("matmul_v2", {"X": plain.name("Input"), "Y": flat})
    product = plain.value
    bias = plain.add("reshape2", {"X": plain.name("Bias")}, shape=[3 * width])
    plain.add("elementwise_add", {"X": product, "Y": bias})
    plain.then("reshape2", shape=[0, 0, 3, heads, width // heads])
    _attend(plain, width)


def _attend(plain: PlainOps, width: int) -> None:
    """The attention of the last result, [batch, steps, 3, heads, size]: queries, keys and values."""
    plain.then("transpose2", axis=[2, 0, 3, 1, 4])
    together = plain.value
    one: dict[str, Any] = {"axes": [0], "decrease_axis": [0], "infer_flags": [1]}
    q, k, v = (
        plain.add("slice", {"Input": together}, starts=[part], ends=[part + 1], **one) for part in range(3)
    )
    plain.add("scale", {"X": q}, scale=plain.attr("alpha", 1.0))
    plain.add("matmul_v2", {"X": plain.value, "Y": k}, trans_y=True)
    if plain.name("BiasQK"):
        plain.add("elementwise_add", {"X": plain.value, "Y": plain.name("BiasQK")})
    plain.then("softmax", axis=-1)
    plain.add("matmul_v2", {"X": plain.value, "Y": v})
    plain.then("transpose2", axis=[0, 2, 1, 3])
    plain.then("reshape2", shape=[0, 0, width])


def _packed_attention(plain: PlainOps) -> None:
    shape = plain.shape(plain.name("X"))
    if len(shape) != 5 or shape[2] != 3 or min(shape[3:]) < 1:
        raise UnknownForm(f"has X of shape {list(shape)}, wanted [batch, steps, 3, heads, size]")
    plain.value = plain.name("X")
    _attend(plain, shape[3] * shape[4])


def _width(plain: PlainOps, w: str) -> int:
    shape = plain.shape(w)
    if len(shape) not in (3, 4) or shape[1] != 3 or min(shape) < 1:
        raise UnknownForm(f"has weights {w!r} of shape {list(shape)}, wanted [width, 3, width]")
    width = 1
    for size in shape[2:]:
        width *= size
    return width


def _skip_layernorm(plain: PlainOps) -> None:
    plain.add("elementwise_add", {"X": plain.name("X"), "Y": plain.name("Y")})
    _normalise(plain, "Scale", "Bias", int(plain.attr("begin_norm_axis", 2)))


def _embeddings(plain: PlainOps) -> None:
    """layer_norm of the sum of several embeddings."""
    rows = []
    for ids, table in zip(plain.names("Ids"), plain.names("Embs"), strict=True):
        with_one = plain.shape(ids)[-1:] == (1,) and len(plain.shape(ids)) > 2
        rows.append(plain.add("lookup_table" if with_one else "lookup_table_v2", {"W": table, "Ids": ids}))
    plain.add("sum", {"X": rows})
    _normalise(plain, "Scale", "Bias", 2)


def _fc_layernorm(plain: PlainOps) -> None:
    operands = {"Input": plain.name("X"), "W": plain.name("W"), "Bias": plain.name("Bias0")}
    plain.add("fc", operands, in_num_col_dims=plain.attr("x_num_col_dims", 1))
    activate(plain, str(plain.attr("activation_type", "")))
    plain.add("elementwise_add", {"X": plain.value, "Y": plain.name("Y")})
    _normalise(plain, "Scale", "Bias1", int(plain.attr("begin_norm_axis", 1)))


TRANSFORMERS: tuple[Rule, ...] = (
    ("multihead_matmul", _always, _attention),
    ("self_dp_attention", _always, _packed_attention),
    ("skip_layernorm", _always, _skip_layernorm),
    ("fused_embedding_eltwise_layernorm", _always, _embeddings),
    ("fused_fc_elementwise_layernorm", _always, _fc_layernorm),
)
