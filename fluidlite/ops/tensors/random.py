"""Ops that draw random numbers: with a seed those of PaddlePaddle 1.8.5's CPU kernels, without one those of
the run's own generator.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import LONGS, AttrType, KernelContext, Op, Spec, required
from fluidlite.ops.kernels.minstd import (
    MODULUS,
    OLD_MULTIPLIER,
    RANGE,
    between,
    first_state,
    minstd_integers,
    minstd_normal,
    minstd_states,
    minstd_uniform,
    truncated_normal,
)
from fluidlite.ops.kernels.numbers import check_from_zero, given_ints, unknown_sizes
from fluidlite.ops.tensors.creation import as_declared
from fluidlite.values.tensor import SelectedRows


# ---------------------------------------------------------------------- shapes
def _shape_spec(
    shape: Sequence[int], dtype: int, ShapeTensor: Spec | None, ShapeTensorList: Sequence[Spec | None]
) -> Spec:
    if ShapeTensorList:
        given = tuple(shape) if len(shape) == len(ShapeTensorList) else (-1,) * len(ShapeTensorList)
        return Spec(tuple(max(dim, -1) for dim in given), VarType(dtype))
    if ShapeTensor is not None and not shape:
        return Spec(unknown_sizes(ShapeTensor.shape), VarType(dtype))
    return Spec(tuple(int(dim) for dim in shape), VarType(dtype))


def _kind(dtype: int) -> Any:
    """The type to draw in: float64 for itself, float32 for the others."""
    return np.float64 if dtype == VarType.FP64 else np.float32


def _finish(xp: Any, values: Array, shape: Sequence[int], dtype: int) -> Array:
    result: Array = xp.asarray(values.astype(to_numpy(VarType(dtype)), copy=False).reshape(tuple(shape)))
    return result


# ---------------------------------------------------------------------- ops
_DIAGONAL = {"diag_num": 0, "diag_step": 0, "diag_val": 1.0}


def _uniform(
    ctx: KernelContext, shape: Sequence[int], low: float, high: float, seed: int, dtype: int
) -> Array:
    n, kind = math.prod(shape), _kind(dtype)
    if seed:
        return minstd_uniform(seed, n, low, high, kind)
    return between(ctx.rng(0).random(n, dtype=kind), low, high)


def _normal(
    ctx: KernelContext, shape: Sequence[int], mean: float, std: float, seed: int, dtype: int
) -> Array:
    n, kind = math.prod(shape), _kind(dtype)
    if seed:
        return minstd_normal(seed, n, mean, std, kind)
    values: Array = ctx.rng(0).standard_normal(n, dtype=kind) * kind(std) + kind(mean)
    return values


uniform_random = Op(
    "uniform_random",
    "ShapeTensor? ShapeTensorList*? -> Out",
    random=True,
    lod=None,
    attrs={"shape": LONGS(), "min": -1.0, "max": 1.0, "seed": 0, "dtype": 5, **_DIAGONAL},
    cuttable=True,
    amp_fp16="gray",
)


@uniform_random.shape
def _(
    shape: Sequence[int],
    dtype: int,
    min: float,
    max: float,
    ShapeTensor: Spec | None,
    ShapeTensorList: Sequence[Spec | None],
) -> Spec:
    if min >= max:
        raise ShapeError(f"op 'uniform_random': min {min} must be below max {max}")
    return _shape_spec([] if ShapeTensorList else shape, dtype, ShapeTensor, ShapeTensorList)


@uniform_random.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    ShapeTensor: Array | None,
    ShapeTensorList: Sequence[Array],
    shape: Sequence[int],
    min: float,
    max: float,
    seed: int,
    dtype: int,
    diag_num: int,
    diag_step: int,
    diag_val: float,
) -> Array | SelectedRows:
    dims = given_ints(ShapeTensor, ShapeTensorList, shape)
    values = _uniform(ctx, dims, min, max, seed, dtype)
    if diag_num > 0:
        if math.prod(dims) <= (diag_num - 1) * (diag_step + 1):
            raise ShapeError(
                f"op 'uniform_random': {diag_num} diagonal elements, {diag_step + 1} apart, leave "
                f"{list(dims)}"
            )
        values[np.arange(diag_num) * (diag_step + 1)] = diag_val
    return as_declared(ctx, _finish(xp, values, dims, dtype))


gaussian_random = Op(
    "gaussian_random",
    "ShapeTensor? ShapeTensorList*? -> Out",
    random=True,
    lod=None,
    attrs={"shape": LONGS(), "mean": 0.0, "std": 1.0, "seed": 0, "dtype": 5, "use_mkldnn": False},
    cuttable=True,
    version=1,
    amp="gray",
)
gaussian_random.shape(_shape_spec)


@gaussian_random.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    ShapeTensor: Array | None,
    ShapeTensorList: Sequence[Array],
    shape: Sequence[int],
    mean: float,
    std: float,
    seed: int,
    dtype: int,
) -> Array:
    dims = given_ints(ShapeTensor, ShapeTensorList, shape)
    return _finish(xp, _normal(ctx, dims, mean, std, seed, dtype), dims, dtype)


truncated = Op(
    "truncated_gaussian_random",
    "-> Out",
    random=True,
    lod=None,
    attrs={"shape": required(AttrType.INTS), "mean": 0.0, "std": 1.0, "seed": 0, "dtype": 5},
    cuttable=True,
    version=1,
    newer={"a": -2.0, "b": 2.0},
)


@truncated.shape
def _(shape: Sequence[int], dtype: int) -> Spec:
    return Spec(tuple(int(dim) for dim in shape), VarType(dtype))


@truncated.kernel
def _(
    xp: Any, ctx: KernelContext, shape: Sequence[int], mean: float, std: float, seed: int, dtype: int
) -> Array:
    smallest = float(np.finfo(np.float32).tiny)
    return _finish(
        xp, truncated_normal(_uniform(ctx, shape, smallest, 1.0, seed, dtype), mean, std), shape, dtype
    )


def _like_spec(
    Input: Spec, shape: Sequence[int], input_dim_idx: int, output_dim_idx: int, dtype: int
) -> Spec:
    dims = list(shape)
    check_from_zero(input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx)
    dims[output_dim_idx] = Input.shape[input_dim_idx]
    return Spec(tuple(dims), VarType(dtype))


def _like(shape: Sequence[int], source: Array, input_dim_idx: int, output_dim_idx: int) -> list[int]:
    """`shape` with one dimension of `source` in it."""
    dims = [int(dim) for dim in shape]
    dims[output_dim_idx] = source.shape[input_dim_idx]
    return dims


_LIKE = {"shape": required(AttrType.INTS), "input_dim_idx": 0, "output_dim_idx": 0, "seed": 0, "dtype": 5}
uniform_like = Op(
    "uniform_random_batch_size_like",
    "Input -> Out",
    random=True,
    lod=None,
    attrs={"min": -1.0, "max": 1.0, **_LIKE, **_DIAGONAL},
    only={"diag_num": 0},
    idle=("diag_step", "diag_val"),
    amp="gray",
)
uniform_like.shape(_like_spec)


@uniform_like.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    shape: Sequence[int],
    input_dim_idx: int,
    output_dim_idx: int,
    min: float,
    max: float,
    seed: int,
    dtype: int,
) -> Array:
    dims = _like(shape, Input, input_dim_idx, output_dim_idx)
    return _finish(xp, _uniform(ctx, dims, min, max, seed, dtype), dims, dtype)


gaussian_like = Op(
    "gaussian_random_batch_size_like",
    "Input -> Out",
    random=True,
    lod=None,
    attrs={"mean": 0.0, "std": 1.0, **_LIKE},
    amp="gray",
    amp_fp16="",
)
gaussian_like.shape(_like_spec)


@gaussian_like.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Input: Array,
    shape: Sequence[int],
    input_dim_idx: int,
    output_dim_idx: int,
    mean: float,
    std: float,
    seed: int,
    dtype: int,
) -> Array:
    dims = _like(shape, Input, input_dim_idx, output_dim_idx)
    return _finish(xp, _normal(ctx, dims, mean, std, seed, dtype), dims, dtype)


randint = Op(
    "randint",
    "ShapeTensor? ShapeTensorList*? -> Out",
    random=True,
    lod=None,
    attrs={
        "shape": LONGS(),
        "low": required(AttrType.INT),
        "high": required(AttrType.INT),
        "seed": 0,
        "dtype": 3,
    },
)


@randint.shape
def _(
    low: int,
    high: int,
    shape: Sequence[int],
    dtype: int,
    ShapeTensor: Spec | None,
    ShapeTensorList: Sequence[Spec | None],
) -> Spec:
    if low >= high:
        raise ShapeError(f"op 'randint': low must be less than high, but low = {low} and high = {high}")
    return _shape_spec(shape, dtype, ShapeTensor, ShapeTensorList)


@randint.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    ShapeTensor: Array | None,
    ShapeTensorList: Sequence[Array],
    shape: Sequence[int],
    low: int,
    high: int,
    seed: int,
    dtype: int,
) -> Array:
    dims = given_ints(ShapeTensor, ShapeTensorList, shape)
    n = math.prod(dims)
    values = minstd_integers(seed, n, low, high - 1) if seed else ctx.rng(0).integers(low, high, n)
    return _finish(xp, values, dims, dtype)


def _shuffled(n: int, draw: Callable[[int], int]) -> Array:
    """0 ... n-1 after swapping each position i with position draw(i) <= i; each swap sees the ones before
    it.
    """
    order = list(range(n))
    for i in range(1, n):
        j = draw(i)
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


def _c_rand(seed: int) -> Iterator[int]:
    """The numbers of the C library's `srand(seed)` and `rand()`: an additive feedback generator, 310
    numbers discarded.
    """
    state = [(int(seed) + 2**31) % 2**32 - 2**31 or 1]
    for _ in range(30):
        state.append(OLD_MULTIPLIER * state[-1] % MODULUS)
    state += state[:3]
    produced = 0
    while True:
        state.append((state[-3] + state[-31]) & 0xFFFFFFFF)
        produced += 1
        if produced > 310:
            yield state[-1] >> 1
        del state[:-31]


def _permutation(n: int, seed: int) -> Array:
    """The permutation that a seed stands for: the same in each run."""
    rand = _c_rand(seed)
    return _shuffled(n, lambda i: next(rand) % (i + 1))


_MOST_KEPT = 1 << 16  # numbers of a permutation that is not made anew for each run
_kept_permutation = functools.lru_cache(maxsize=8)(_permutation)

randperm = Op(
    "randperm", "-> Out", random=True, lod=None, attrs={"n": required(AttrType.INT), "seed": 0, "dtype": 3}
)


@randperm.shape
def _(n: int, dtype: int) -> Spec:
    if n < 1:
        raise ShapeError(f"op 'randperm': n must be at least 1, but is {n}")
    return Spec((n,), VarType(dtype))


@randperm.kernel
def _(xp: Any, ctx: KernelContext, n: int, seed: int, dtype: int) -> Array:
    if not seed:
        return _finish(xp, ctx.rng(0).permutation(n), (n,), dtype)
    found = _kept_permutation(n, seed).copy() if n <= _MOST_KEPT else _permutation(n, seed)
    return _finish(xp, found, (n,), dtype)


sampling_id = Op("sampling_id", "X. -> Out", random=True, attrs={"min": 0.0, "max": 1.0, "seed": 0})


@sampling_id.shape
def _(X: Spec, min: float, max: float) -> Spec:
    if min >= max:
        raise ShapeError(f"op 'sampling_id': min must be less than max, but min = {min} and max = {max}")
    if len(X.shape) != 2:
        raise ShapeError(f"op 'sampling_id': X has shape {list(X.shape)}, wanted [batch, probabilities]")
    return Spec(X.shape[:1], VarType.INT64)


@sampling_id.kernel
def _(xp: Any, ctx: KernelContext, X: Array, min: float, max: float, seed: int) -> Array:
    dtype = VarType.FP64 if X.dtype == np.float64 else VarType.FP32
    drawn = xp.asarray(_uniform(ctx, X.shape[:1], min, max, seed, dtype))
    classes: Array | None = None if ctx.searches is None else ctx.searches.drawn_classes(X, drawn)
    if classes is not None:
        return classes
    below = xp.count_nonzero(xp.cumsum(X, axis=1, dtype=X.dtype) < drawn[:, None], axis=1)
    return xp.minimum(below, X.shape[1] - 1).astype(np.int64)


random_crop = Op(
    "random_crop",
    "X Seed? -> Out SeedOut?",
    random=True,
    attrs={"shape": required(AttrType.INTS), "startup_seed": 0},
    lod=None,
)


@random_crop.shape
def _(X: Spec, shape: Sequence[int]) -> Spec:
    if len(shape) >= len(X.shape):
        raise ShapeError(
            f"op 'random_crop': a crop to {list(shape)} needs more dimensions than X {list(X.shape)} has"
        )
    for dim, size in zip(X.shape[-len(shape) :], shape, strict=True):
        if -1 < dim < size:
            raise ShapeError(f"op 'random_crop': X {list(X.shape)} is smaller than the crop {list(shape)}")
    return X.with_shape((*X.shape[: -len(shape)], *shape))


def _held_seed(ctx: KernelContext, Seed: Array | None, startup_seed: int) -> int:
    """The seed that the last run left in the scope; in the first run the attribute.

    A plan made before the first run does not pass the variable, so the scope is asked.
    """
    if Seed is None:
        held = next((ctx.scope.find_var(name) for name in ctx.op.input("Seed")), None)
        Seed = None if held is None else getattr(held.value, "array", None)
    return startup_seed if Seed is None or Seed.size == 0 else int(Seed.reshape(-1)[0])


@random_crop.kernel
def _(
    xp: Any, ctx: KernelContext, X: Array, Seed: Array | None, shape: Sequence[int], startup_seed: int
) -> tuple[Array, Array]:
    batch = X.shape[: -len(shape)]
    sizes = X.shape[-len(shape) :]
    count = math.prod(batch)
    seed = _held_seed(ctx, Seed, startup_seed)
    states = minstd_states(seed, count * len(shape) + 1)
    draws = (states[:-1] - np.uint64(1)).reshape(count, len(shape))
    flat = X.reshape(count, *sizes)
    offsets = [
        np.minimum(draws[:, axis] // np.uint64(RANGE // (dim - size + 1)), dim - size).astype(np.int64)
        for axis, (dim, size) in enumerate(zip(sizes, shape, strict=True))
    ]
    left = xp.asarray(states[-1:].astype(np.int64))
    if xp is np:
        # whole windows are copied, where an index for each element would take three times as long
        windows = sliding_window_view(flat, tuple(shape), tuple(range(1, flat.ndim)))
        return windows[(np.arange(count), *offsets)].reshape(*batch, *shape), left
    index: list[Any] = [xp.arange(count).reshape(-1, *(1,) * len(shape))]
    for axis, size in enumerate(shape):
        window = offsets[axis][:, None] + np.arange(size)
        index.append(
            xp.asarray(window.reshape(count, *(size if i == axis else 1 for i in range(len(shape)))))
        )
    return flat[tuple(index)].reshape(*batch, *shape), left


class _OldEngine:
    """`std::minstd_rand0`, one number at a time."""

    def __init__(self, seed: int) -> None:
        self.state = first_state(seed)

    def next(self) -> int:
        """The next state."""
        self.state = self.state * OLD_MULTIPLIER % MODULUS
        return self.state

    def up_to(self, top: int) -> int:
        """`std::uniform_int_distribution(0, top)`."""
        width = RANGE // (top + 1)
        while True:
            drawn = self.next() - 1
            if drawn < width * (top + 1):
                return drawn // width


shuffle_batch = Op(
    "shuffle_batch", "X Seed? -> Out ShuffleIdx SeedOut", random=True, attrs={"startup_seed": 0}
)


@shuffle_batch.shape
def _(X: Spec, Seed: Spec | None) -> tuple[Spec, Spec, Spec]:
    # the layer declares a seed of nothing, which is one number from the first run on
    seed = (1,) if Seed is None or Seed.shape == (0,) else Seed.shape
    return Spec(X.shape, X.dtype), Spec((-1,), VarType.INT64), Spec(seed, VarType.INT64)


@shuffle_batch.kernel
def _(
    xp: Any, ctx: KernelContext, X: Array, Seed: Array | None, startup_seed: int
) -> tuple[Array, Array, Array]:
    engine = _OldEngine(_held_seed(ctx, Seed, startup_seed))
    rows = math.prod(X.shape[:-1])
    order = xp.asarray(_shuffled(rows, engine.up_to))
    flat = X.reshape(rows, X.shape[-1])
    out = xp.zeros_like(flat)
    out[order] = flat
    return out.reshape(X.shape), order, xp.asarray(np.array([engine.next()], np.int64))


@shuffle_batch.grad("X", shape=lambda dOut: Spec(dOut.shape, dOut.dtype))
def _(ShuffleIdx: Array, dOut: Array) -> Array:
    return dOut.reshape(len(ShuffleIdx), -1)[ShuffleIdx].reshape(dOut.shape)


seed_op = Op("seed", "-> Out", random=True, lod=None, attrs={"seed": 0}, version=1, once=True)


@seed_op.shape
def _() -> Spec:
    return Spec((1,), VarType.INT32)


@seed_op.kernel
def _(xp: Any, ctx: KernelContext, seed: int) -> Array:
    drawn = seed or ctx.rng(0).integers(1, 2**31 - 1)
    return _finish(xp, np.array([drawn]), (1,), VarType.INT32)
