"""dropout: elements that are dropped at random while training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.attr_limits import between, limited, one_of
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, KernelContext, Op, Spec
from fluidlite.ops.kernels.minstd import minstd_uniform
from fluidlite.ops.signatures import with_attrs

Maybe: TypeAlias = "Array | None"

dropout = Op(
    "dropout",
    "X. Seed? -> Out Mask?",
    random=True,
    attrs={
        "dropout_prob": limited(0.5, between(0.0, 1.0)),
        "is_test": False,
        "fix_seed": False,
        "seed": 0,
        "dropout_implementation": limited(
            "downgrade_in_infer", one_of("downgrade_in_infer", "upscale_in_train")
        ),
    },
    amp="gray",
    follows=True,
)


def _upscales(dropout_implementation: str) -> bool:
    """True if the kept elements grow while training, False if all of them shrink at inference."""
    return dropout_implementation == "upscale_in_train"


@dropout.shape
def _(X: Spec, dropout_prob: float, is_test: bool) -> tuple[Spec, Spec | None]:
    if not 0 <= dropout_prob <= 1:
        raise ShapeError(f"op 'dropout': 'dropout_prob' must be between 0.0 and 1.0, but is {dropout_prob}")
    return X.with_shape(X.shape), None if is_test else Spec(X.shape, VarType.UINT8)


def _uniform(xp: Any, ctx: KernelContext, shape: tuple[int, ...], seed: int | None) -> Array:
    """Numbers in [0, 1); with a seed those of Paddle's CPU kernel."""
    if seed is not None:
        return xp.asarray(minstd_uniform(seed, math.prod(shape))).reshape(shape)
    generator = ctx.rng(0)
    if xp is not np:  # draw where the numbers are needed
        generator = xp.random.default_rng(int(generator.integers(1 << 31)))
    return generator.random(shape, dtype="float32")


@dropout.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    Seed: Maybe,
    dropout_prob: float,
    is_test: bool,
    fix_seed: bool,
    seed: int,
    dropout_implementation: str,
) -> tuple[Array, Maybe]:
    kept = X.dtype.type(1 - dropout_prob)
    if is_test:
        return (X.copy() if _upscales(dropout_implementation) else X * kept), None
    fixed = seed if fix_seed else None
    if Seed is not None:
        fixed = int(Seed.reshape(-1)[0])
    mask = (_uniform(xp, ctx, X.shape, fixed) >= np.float32(dropout_prob)).view("uint8")
    return X * _factor(mask, X.dtype, dropout_prob, dropout_implementation), mask


# ---------------------------------------------------------------------- whole rows
_ND_ATTRS = {
    "dropout_prob": 0.5,
    "is_test": False,
    "fix_seed": False,
    "seed": 0,
    "dropout_implementation": "downgrade_in_infer",
    "axis": INTS([]),
}
dropout_nd = Op("dropout_nd", "X. Seed? -> Out Mask?", random=True, attrs=_ND_ATTRS)


def _mask_shape(shape: Sequence[int], axis: Sequence[int]) -> tuple[int, ...]:
    """Elements along the dimensions `axis` are dropped by themselves, along others together."""
    return tuple(size if at in axis else 1 for at, size in enumerate(shape))


@dropout_nd.shape
def _(X: Spec, dropout_prob: float, is_test: bool, axis: list[int]) -> tuple[Spec, Spec | None]:
    if not 0 <= dropout_prob <= 1 or not all(0 <= one < len(X.shape) for one in axis):
        raise ShapeError(
            f"op 'dropout_nd': 'dropout_prob' is {dropout_prob} and 'axis' {axis}, wanted 0.0 to 1.0 and "
            f"dimensions of X{list(X.shape)}"
        )
    return X.with_shape(X.shape), None if is_test else Spec(_mask_shape(X.shape, axis), VarType.UINT8)


@dropout_nd.kernel
@with_attrs(_ND_ATTRS)
def _(xp: Any, ctx: KernelContext, X: Array, Seed: Maybe, attrs: dict[str, Any]) -> tuple[Array, Maybe]:
    probability, kind = attrs["dropout_prob"], attrs["dropout_implementation"]
    if attrs["is_test"]:
        return (X.copy() if _upscales(kind) else X * X.dtype.type(1 - probability)), None
    fixed = attrs["seed"] if attrs["fix_seed"] else None
    if Seed is not None:
        fixed = int(Seed.reshape(-1)[0])
    shape = _mask_shape(X.shape, attrs["axis"])
    mask = (_uniform(xp, ctx, shape, fixed) >= np.float32(probability)).view("uint8")
    return X * _factor(mask, X.dtype, probability, kind), mask


@dropout_nd.grad("X")
def _(dOut: Array, Mask: Maybe, dropout_prob: float, dropout_implementation: str, is_test: bool) -> Array:
    return _passed_on(dOut, Mask, dropout_prob, dropout_implementation, is_test)


# ---------------------------------------------------------------------- both
def _factor(mask: Array, dtype: Any, dropout_prob: float, dropout_implementation: str) -> Array:
    """The factor of each element."""
    if not _upscales(dropout_implementation):
        return mask
    return mask * dtype.type(1 / (1 - dropout_prob) if dropout_prob < 1 else 0)


@dropout.grad("X")
def _(dOut: Array, Mask: Maybe, dropout_prob: float, dropout_implementation: str, is_test: bool) -> Array:
    return _passed_on(dOut, Mask, dropout_prob, dropout_implementation, is_test)


def _passed_on(dOut: Array, mask: Maybe, probability: float, kind: str, is_test: bool) -> Array:
    if is_test or mask is None:  # as the forward op in inference: there is nothing to leave out
        return dOut if _upscales(kind) else dOut * dOut.dtype.type(1 - probability)
    return dOut * _factor(mask, dOut.dtype, probability, kind)
