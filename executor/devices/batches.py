"""A batch in parts, one a device, and what the devices fetched put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import to_numpy
from fluidlite.base.errors import EnforceNotMet, FeedError, NotFoundError, did_you_mean
from fluidlite.base.place import CUDAPlace, Place
from fluidlite.base.registry import Lod
from fluidlite.executor.run.feeding import check_feed_shape_type
from fluidlite.ir.block import Block
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, host

__all__ = ["merged", "share_out"]

Feeds = list[dict[str, Any]]


# ---------------------------------------------------------------------- into parts
def share_out(block: Block, feed: Any, places: Sequence[Place], trains: bool) -> Feeds:
    """The feeds of each device: device i of N has rows (or sequences) i * B // N to (i + 1) * B // N of a
    dict, or dict i of a list.

    A program that only looks forward runs on fewer devices where there are fewer rows; one that `trains`
    needs a row for each. All feeds but those of persistable variables go to the same number of devices.
    """
    if feed is None or feed == {} or feed == []:
        return [{} for _ in places]
    if isinstance(feed, (list, tuple)):
        return _listed(block, feed, places, trains)
    if not isinstance(feed, Mapping):
        raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
    variables = {name: fed_variable(block, name) for name in feed}
    for name, value in feed.items():
        _check(variables[name], value, len(places))
    counts = {name: _rows(variables[name], value) for name, value in feed.items()}
    split = {name: count for name, count in counts.items() if count is not None}
    parts = min([len(places), *split.values()])
    few = [name for name, count in split.items() if count == parts]
    uneven = any(parts < count for name, count in split.items() if not variables[name].persistable)
    if parts < len(places) and (trains or parts == 0 or uneven):
        raise FeedError(_too_few(few[0], parts, places))
    shares: Feeds = [{} for _ in range(parts)]
    for name, value in feed.items():
        for index, share in enumerate(shares):
            share[name] = value if counts[name] is None else _part(variables[name], value, index, parts)
    return shares


def _too_few(name: str, count: int, places: Sequence[Place]) -> str:
    variable = "CUDA_VISIBLE_DEVICES" if isinstance(places[0], CUDAPlace) else "CPU_NUM"
    kind = "GPU" if isinstance(places[0], CUDAPlace) else "CPU"
    return (
        f"The number({count}) of samples[{name}] of current batch is less than the count({len(places)}) of "
        f"devices({kind}), currently, "
        f"it is not allowed. You should set the environment variable {variable} in the system to determine "
        f"the number of devices you "
        "need."
    )


def _listed(block: Block, feed: Sequence[Any], places: Sequence[Place], trains: bool) -> Feeds:
    for item in feed:
        if not isinstance(item, Mapping):
            raise TypeError("Each element of feed list should be a dict")
        for name, value in item.items():
            _check(fed_variable(block, name), value, 1)
    if len(feed) > len(places) or (trains and len(feed) < len(places)):
        raise FeedError(
            f"The feed data number {len(feed)} does not match the device number {len(places)}. A DataLoader "
            f"gives fewer "
            "batches than devices at the end of the data: set drop_last=True when defining it"
        )
    return [dict(item) for item in feed]


def _check(variable: Variable, value: Any, places: int) -> None:
    """Hold what is fed to a `fluid.data` variable against its declaration, before any device begins."""
    if hasattr(value, "dtype") or (
        isinstance(value, LoDTensor) and value.array is not None and not value._lod
    ):
        check_feed_shape_type(variable, value, places)


def fed_variable(block: Block, name: str) -> Variable:
    """The variable that is fed to a compiled program; NotFoundError where there is none."""
    found = block._find_var_recursive(name)
    if found is None:
        raise NotFoundError(f"var {name} not in this block{did_you_mean(name, list(block.vars))}")
    return found


def _rows(variable: Variable, value: Any) -> int | None:
    """How many rows or sequences there are to share; None for what every device gets whole: a parameter,
    one row for another persistable variable, or a number.
    """
    if isinstance(value, LoDTensor):
        if value.array is None:
            raise FeedError(f"the LoDTensor fed to {variable.name!r} holds no data")
        if value._lod:
            return len(value._lod[0]) - 1
        value = value.array
    shape = np.shape(value)
    whole = isinstance(variable, Parameter) and tuple(shape) == tuple(variable.shape)
    if not shape or whole or (variable.persistable and shape[0] == 1):
        return None
    return int(shape[0])


def _part(variable: Variable, value: Any, index: int, count: int) -> Any:
    if isinstance(value, LoDTensor):
        return _part_of_tensor(value, index, count)
    if not hasattr(value, "dtype"):
        value = np.asarray(value, to_numpy(variable.dtype))
    return value[index * len(value) // count : (index + 1) * len(value) // count]


def _part_of_tensor(tensor: LoDTensor, index: int, count: int) -> LoDTensor:
    if not tensor._lod:
        return LoDTensor(
            tensor.array[index * len(tensor.array) // count : (index + 1) * len(tensor.array) // count]
        )
    sequences = len(tensor._lod[0]) - 1
    start = index * sequences // count
    stop = (index + 1) * sequences // count
    levels = []
    for level in tensor._lod:
        # offsets of a part start from 0 again; the entries themselves say where the level below begins and
        # ends
        levels.append(tuple(offset - level[start] for offset in level[start : stop + 1]))
        start = level[start]
        stop = level[stop]
    return LoDTensor(tensor.array[start:stop], tuple(levels))


# ---------------------------------------------------------------------- together again
def merged(names: Sequence[str], found: Sequence[Sequence[Any]]) -> list[Any]:
    """For each name the devices' values, one behind the other, with their levels of detail."""
    return [_merge(name, [values[index] for values in found]) for index, name in enumerate(names)]


def _merge(name: str, values: Sequence[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, list) for value in values):
        if len({len(value) for value in values}) > 1:
            raise EnforceNotMet(
                f"cannot merge what the devices fetched of {name!r}: arrays of "
                f"{[len(value) for value in values]} tensors; "
                "pass return_merged=False"
            )
        return LoDTensorArray([_merge(name, items) for items in zip(*values, strict=True)])
    if not all(isinstance(value, LoDTensor) for value in values):
        return list(values)
    arrays = [
        host(value.array).reshape(-1) if value.array.ndim == 0 else host(value.array) for value in values
    ]
    if len({array.shape[1:] for array in arrays}) > 1:
        raise EnforceNotMet(
            f"cannot merge what the devices fetched of {name!r}: the shapes "
            f"{[list(array.shape) for array in arrays]} "
            "differ in more than the first dimension; pass return_merged=False"
        )
    return LoDTensor(np.concatenate(arrays), _joined([value._lod for value in values]))


def _joined(lods: Sequence[Lod]) -> Lod:
    if not all(lods):
        return ()
    levels = []
    for parts in zip(*lods, strict=True):
        level = [0]
        for part in parts:
            # each part's offsets start from 0: they go on where the part before ended
            level += [level[-1] + offset for offset in part[1:]]
        levels.append(tuple(level))
    return tuple(levels)
