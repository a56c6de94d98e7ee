"""Gradients of a scaled loss, as PaddlePaddle 2.x trains in half precision: divided by the scale, dropped
where they are not finite, and the scale made smaller or larger in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.values.tensor import SelectedRows

__all__: list[str] = []

check = Op("check_finite_and_unscale", "X* Scale FloatStatus? -> Out* FoundInfinite", lod=None)


@check.shape
def _(X: list[Spec]) -> dict[str, Any]:
    if not X:
        raise ShapeError("op 'check_finite_and_unscale' needs gradients in slot X")
    return {"Out": list(X), "FoundInfinite": Spec((1,), VarType.BOOL)}


@check.kernel
def _(xp: Any, X: Sequence[Array | SelectedRows], Scale: Array) -> tuple[list[Array | SelectedRows], Array]:
    """Divide by the scale; from the first tensor on that is not finite, multiply by 0 as 2.6.2 does, which
    the update of the scale makes good. Of rows of a table, which 2.6.2 cannot check, the values count.
    """
    inverse = (1 / Scale).reshape(())
    found = xp.zeros((1,), bool)
    outputs: list[Array | SelectedRows] = []
    for given in X:
        gradient = given.array if isinstance(given, SelectedRows) else given
        finite = xp.isfinite(gradient)
        found = found | ~finite.all()
        factor = xp.where(found, 0, inverse).astype(gradient.dtype)
        # infinity times 0 is nan; said here, NumPy does not warn of it
        scaled = xp.where(finite, gradient, 0) * factor
        outputs.append(_like(given, xp.where(finite, scaled, xp.asarray(float("nan"), gradient.dtype))))
    return outputs, found


def _like(given: Array | SelectedRows, values: Array) -> Array | SelectedRows:
    """Values in the place of a gradient's: an array, or the same rows of a table."""
    if isinstance(given, SelectedRows):
        return SelectedRows(given.ids, given.height(), values)
    return values


update = Op(
    "update_loss_scaling",
    "X* FoundInfinite PrevLossScaling InGoodSteps InBadSteps StopUpdate? -> "
    "Out* LossScaling OutGoodSteps OutBadSteps",
    lod=None,
    attrs={
        "incr_every_n_steps": 1,
        "decr_every_n_nan_or_inf": 1,
        "incr_ratio": 2.0,
        "decr_ratio": 0.5,
        "stop_update": False,
    },
)


@update.shape
def _(
    X: list[Spec], FoundInfinite: Spec, PrevLossScaling: Spec, InGoodSteps: Spec, InBadSteps: Spec
) -> dict[str, Any]:
    for name, spec in {
        "FoundInfinite": FoundInfinite,
        "PrevLossScaling": PrevLossScaling,
        "InGoodSteps": InGoodSteps,
        "InBadSteps": InBadSteps,
    }.items():
        if spec.static and spec.shape not in ((), (1,)):
            raise ShapeError(
                f"op 'update_loss_scaling': {name} must be one number, but has {list(spec.shape)}"
            )
    return {
        "Out": list(X),
        "LossScaling": PrevLossScaling,
        "OutGoodSteps": InGoodSteps,
        "OutBadSteps": InBadSteps,
    }


@update.kernel
def _(
    xp: Any,
    X: Sequence[Array | SelectedRows],
    FoundInfinite: Array,
    PrevLossScaling: Array,
    InGoodSteps: Array,
    InBadSteps: Array,
    StopUpdate: Array | None,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
    stop_update: bool,
) -> dict[str, Any]:
    """Zeros in the place of gradients that are not finite; the scale grows after `incr_every_n_steps` good
    steps in a row, and shrinks, to 1 at least, after `decr_every_n_nan_or_inf` bad ones.
    """
    found = FoundInfinite.reshape(())
    outputs = []
    for given in X:
        gradient = given.array if isinstance(given, SelectedRows) else given
        outputs.append(_like(given, xp.where(found, xp.zeros((), gradient.dtype), gradient)))
    scale, dtype = PrevLossScaling, PrevLossScaling.dtype
    good = xp.where(found, 0, InGoodSteps + 1)
    bad = xp.where(found, InBadSteps + 1, 0)
    grows = good == incr_every_n_steps
    shrinks = bad == decr_every_n_nan_or_inf
    larger, smaller = scale * dtype.type(incr_ratio), scale * dtype.type(decr_ratio)
    larger = xp.where(xp.isfinite(larger), larger, scale)
    changed = xp.where(grows, larger, xp.where(shrinks, xp.maximum(smaller, 1), scale))
    stop = stop_update if StopUpdate is None else StopUpdate.reshape(())
    return {
        "Out": outputs,
        "LossScaling": xp.where(stop, scale, changed).astype(dtype),
        "OutGoodSteps": xp.where(stop, InGoodSteps, xp.where(grows, 0, good)).astype(InGoodSteps.dtype),
        "OutBadSteps": xp.where(stop, InBadSteps, xp.where(shrinks, 0, bad)).astype(InBadSteps.dtype),
    }
