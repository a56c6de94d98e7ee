"""Layers of transformers that PaddlePaddle's passes fuse: attention, normalised sums, embeddings."""

from __future__ import annotations

from fluidlite.ir.fused.onednn import activate
from fluidlite.ir.fused.plain_ops import PlainOps, Rule, UnknownForm
from fluidlite.ir.operator import Operator

__all__ = ["TRANSFORMERS"]


def _always(op: Operator) -> bool:
    return True


def _normalise(writer: PlainOps, scale: str, bias: str, axis: int = -1) -> None:
    """layer_norm of the last result, by the variables in the slots `scale` and `bias`."""
    operands = {"X": writer.value, "Scale": writer.name(scale), "Bias": writer.name(bias)}
    epsilon = writer.attr("epsilon", 1e-5)
    writer.add("layer_norm", operands, "Y", begin_norm_axis=axis, epsilon=epsilon)


def _attention(writer: PlainOps) -> None:
    """softmax(alpha Q K^T + BiasQK) V of each head; W holds the weights of Q, K and V beside each other."""
    heads = int(writer.attr("head_number", 1))
    w = writer.name("W")
    width = _width(writer, w)
    if any(not writer.attr(f"transpose_{part}", default) for part, default in (("Q", True), ("V", True))):
        raise UnknownForm("does not transpose Q or V, which is not known")
    flat = writer.add("reshape2", {"X": w}, shape=[-1, 3 * width])
    writer.add("matmul_v2", {"X": writer.name("Input"), "Y": flat})
    product = writer.value
    bias = writer.add("reshape2", {"X": writer.name("Bias")}, shape=[3 * width])
    writer.add("elementwise_add", {"X": product, "Y": bias})
    writer.then("reshape2", shape=[0, 0, 3, heads, width // heads])
    writer.then("transpose2", axis=[2, 0, 3, 1, 4])
    together = writer.value
    q, k, v = (
        writer.add(
            "slice",
            {"Input": together},
            axes=[0],
            starts=[part],
            ends=[part + 1],
            decrease_axis=[0],
            infer_flags=[1],
        )
        for part in range(3)
    )
    writer.add("scale", {"X": q}, scale=writer.attr("alpha", 1.0))
    writer.add("matmul_v2", {"X": writer.value, "Y": k}, trans_y=True)
    if writer.name("BiasQK"):
        writer.add("elementwise_add", {"X": writer.value, "Y": writer.name("BiasQK")})
    writer.then("softmax", axis=-1)
    writer.add("matmul_v2", {"X": writer.value, "Y": v})
    writer.then("transpose2", axis=[0, 2, 1, 3])
    writer.then("reshape2", shape=[0, 0, width])


def _width(writer: PlainOps, w: str) -> int:
    shape = writer.shape(w)
    if len(shape) not in (3, 4) or shape[1] != 3 or min(shape) < 1:
        raise UnknownForm(f"has weights {w!r} of shape {list(shape)}, wanted [width, 3, width]")
    width = 1
    for size in shape[2:]:
        width *= size
    return width


def _skip_layernorm(writer: PlainOps) -> None:
    writer.add("elementwise_add", {"X": writer.name("X"), "Y": writer.name("Y")})
    _normalise(writer, "Scale", "Bias", int(writer.attr("begin_norm_axis", 2)))


def _embeddings(writer: PlainOps) -> None:
    """layer_norm of the sum of several embeddings."""
    rows = []
    for ids, table in zip(writer.names("Ids"), writer.names("Embs"), strict=True):
        with_one = writer.shape(ids)[-1:] == (1,) and len(writer.shape(ids)) > 2
        rows.append(writer.add("lookup_table" if with_one else "lookup_table_v2", {"W": table, "Ids": ids}))
    writer.add("sum", {"X": rows})
    _normalise(writer, "Scale", "Bias", 2)


def _fc_layernorm(writer: PlainOps) -> None:
    operands = {"Input": writer.name("X"), "W": writer.name("W"), "Bias": writer.name("Bias0")}
    writer.add("fc", operands, in_num_col_dims=writer.attr("x_num_col_dims", 1))
    activate(writer, str(writer.attr("activation_type", "")))
    writer.add("elementwise_add", {"X": writer.value, "Y": writer.name("Y")})
    _normalise(writer, "Scale", "Bias1", int(writer.attr("begin_norm_axis", 1)))


TRANSFORMERS: tuple[Rule, ...] = (
    ("multihead_matmul", _always, _attention),
    ("skip_layernorm", _always, _skip_layernorm),
    ("fused_embedding_eltwise_layernorm", _always, _embeddings),
    ("fused_fc_elementwise_layernorm", _always, _fc_layernorm),
)
