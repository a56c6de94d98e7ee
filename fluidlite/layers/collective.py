"""`fluid.layers.collective`: communication among ranks as layers, as fluid's own programs wrote it."""

from __future__ import annotations

from typing import Any

from fluidlite import unique_name
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__: list[str] = []

_REDUCE = {"sum": 0, "prod": 1, "max": 2, "min": 3}


def _allreduce(
    x: Variable, out: Variable | None = None, reduce_type: str = "sum", sync_mode: bool = False
) -> Variable:
    """The "sum", "prod", "max" or "min" over all ranks."""
    helper = LayerHelper("allreduce", x=x, out=out, reduce_type=reduce_type, sync_mode=sync_mode)
    _check(reduce_type)
    out = _like(helper, x, "tmp", stop_gradient=True) if out is None else out
    helper.append_op(
        type="allreduce",
        inputs={"X": [x]},
        outputs={"Out": [out]},
        attrs={"reduce_type": _REDUCE[reduce_type], "sync_mode": sync_mode},
    )
    return out


def _broadcast(x: Variable, root: int, sync_mode: bool = False) -> Variable:
    """`x` of rank `root`, in place."""
    return _apply("broadcast", x, x, root=root, sync_mode=sync_mode)


def _c_allreduce(
    x: Variable,
    out: Variable | None = None,
    reduce_type: str = "sum",
    ring_id: int = 0,
    use_calc_stream: bool = False,
) -> Variable:
    """The "sum", "prod", "max" or "min" over the ranks of a ring."""
    _check(reduce_type)
    return _apply(f"c_allreduce_{reduce_type}", x, out, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_broadcast(x: Variable, root: int = 0, ring_id: int = 0, use_calc_stream: bool = False) -> Variable:
    """`x` of rank `root`, in place."""
    return _apply("c_broadcast", x, x, root=root, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_allgather(x: Variable, nranks: int, ring_id: int = 0, use_calc_stream: bool = False) -> Variable:
    """The rows of all ranks, concatenated."""
    return _apply("c_allgather", x, None, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_reducescatter(x: Variable, nranks: int, ring_id: int = 0, use_calc_stream: bool = False) -> Variable:
    """Each rank its rows of the sum; TypeError unless `nranks` divides the rows."""
    if not isinstance(x, Variable):
        raise TypeError("x must be a Variable")
    if x.shape[0] > 0 and x.shape[0] % nranks != 0:
        raise ValueError(f"x.shape[0]({x.shape[0]}) cannot be evenly divided by nranks({nranks})")
    return _apply("c_reducescatter", x, None, nranks=nranks, ring_id=ring_id, use_calc_stream=use_calc_stream)


def _c_sync_calc_stream(x: Variable) -> Variable:
    """Go on once what computes `x` is done."""
    return _apply("c_sync_calc_stream", x, x)


def _c_sync_comm_stream(x: Variable, ring_id: int) -> Variable:
    """Wait until the transfers of a ring are complete."""
    return _apply("c_sync_comm_stream", x, x, ring_id=ring_id)


def _check(reduce_type: str) -> None:
    if reduce_type not in _REDUCE:
        raise TypeError("reduce type can only be [sum|prod|max|min]")


def _apply(op_type: str, x: Variable, out: Variable | None, **attrs: Any) -> Variable:
    helper = LayerHelper(op_type, x=x)
    out = _like(helper, x, op_type) if out is None else out
    helper.append_op(type=op_type, inputs={"X": [x]}, outputs={"Out": [out]}, attrs=attrs)
    return out


def _like(helper: LayerHelper, x: Variable, kind: str, stop_gradient: bool = False) -> Variable:
    """A variable `<x>.<kind>_N` that looks like `x`."""
    return helper.create_variable(
        name=unique_name.generate(f"{x.name}.{kind}"),
        shape=list(x.shape),
        dtype=x.dtype,
        type=x.type,
        persistable=x.persistable,
        stop_gradient=stop_gradient,
    )
