"""Products and sums over dimensions with labels."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import AttrType, Op, Spec, required
from fluidlite.ops.kernels.labels import Equation, contract, gradient, parse, sizes_of

einsum = Op(
    "einsum",
    "Operands* -> Out InnerCache*? XShape*?",
    attrs={"equation": required(AttrType.STRING)},
    alike=("Operands",),
    lod=None,
    amp_fp16="white",
)


def _parsed(equation: str, operands: list[Any]) -> Equation:
    return parse(equation, [len(each.shape) for each in operands])


@einsum.shape
def _(Operands: list[Spec], equation: str) -> Spec:
    labels = _parsed(equation, Operands)
    sizes = sizes_of(labels, [each.shape for each in Operands])
    return Spec(tuple(sizes[label] for label in labels.out) or (1,), Operands[0].dtype)


@einsum.kernel
def _(xp: Any, Operands: list[Array], equation: str, wants: frozenset[str]) -> dict[str, Any]:
    """In programs that 2.6.2 wrote, the gradient takes the operands from InnerCache, where 2.6.2 keeps them
    rearranged, and XShape is of no use.
    """
    labels = _parsed(equation, Operands)
    sizes = sizes_of(labels, [each.shape for each in Operands])
    found = contract(xp, Operands, labels.operands, labels.out)
    # a sum, a diagonal or another order may be a view of an operand, which is not this op's to give
    made = {"Out": xp.array(found).reshape([sizes[label] for label in labels.out] or [1])}
    if "InnerCache" in wants:
        made["InnerCache"] = [operand.copy() for operand in Operands]
    if "XShape" in wants:
        made["XShape"] = [xp.zeros((0, *operand.shape), operand.dtype) for operand in Operands]
    return made


@einsum.grad("Operands")
def _(
    xp: Any, Operands: list[Array], InnerCache: list[Array], dOut: Array, equation: str
) -> tuple[list[Array]]:
    operands = Operands or InnerCache
    labels = _parsed(equation, operands)
    result = dOut if labels.out else dOut.reshape(())
    return ([gradient(xp, labels, operands, result, number) for number in range(len(operands))],)
