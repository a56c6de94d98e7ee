"""`paddle.distributed.fleet.metrics`: figures over the samples of all workers, from what each has counted.

Values are arrays, or Variables or names that `scope` (default: the global one) holds; `util` (default: that
of `fleet`) exchanges them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import NotFoundError, ShapeError
from fluidlite.executor.executor import global_scope
from fluidlite.ir.variable import Variable
from fluidlite.paddle.distributed import fleet

__all__: list[str] = []


def _held(input: Any, scope: Any) -> Array:
    """The worker's own value."""
    if not isinstance(input, Variable | str):
        return np.asarray(input)
    name = input if isinstance(input, str) else input.name
    found = (scope or global_scope()).find_var(name)
    if found is None or not found.is_initialized():
        raise NotFoundError(f"the scope holds no value of {name!r}: run the program that computes it first")
    return np.array(found.get_tensor())


def _over_all(input: Any, scope: Any, util: Any, how: str = "sum") -> Array:
    """The value of all workers, in the shape of this one's."""
    mine = _held(input, scope)
    return np.asarray((util or fleet.util).all_reduce(mine, how)).reshape(mine.shape)


def _first(value: Array) -> float:
    return float(value.reshape(-1)[0])


def sum(input: Any, scope: Any = None, util: Any = None) -> Array:
    """The sum over all workers, element by element."""
    return _over_all(input, scope, util)


def max(input: Any, scope: Any = None, util: Any = None) -> Array:
    """The largest of all workers, element by element."""
    return _over_all(input, scope, util, "max")


def min(input: Any, scope: Any = None, util: Any = None) -> Array:
    """The smallest of all workers, element by element."""
    return _over_all(input, scope, util, "min")


def auc(stat_pos: Any, stat_neg: Any, scope: Any = None, util: Any = None) -> float:
    """The area under the ROC curve, from the counts [1, buckets] that `paddle.static.auc` keeps; 0.5 without
    samples of both kinds.
    """
    pos = _over_all(stat_pos, scope, util)
    neg = _over_all(stat_neg, scope, util)
    if pos.ndim != 2 or neg.ndim != 2:
        raise ShapeError(
            f"counts of `auc` have the shape [1, buckets], not {list(pos.shape)} and {list(neg.shape)}"
        )
    # from the most certain prediction downwards: trapezoids over the samples that are no hits
    hits, alarms = (np.cumsum(counts[0, ::-1].astype("float64")) for counts in (pos, neg))
    if hits[-1] * alarms[-1] == 0:
        return 0.5
    heights = (hits + np.concatenate([[0.0], hits[:-1]])) / 2
    return float((np.diff(alarms, prepend=0.0) * heights).sum() / (hits[-1] * alarms[-1]))


def mae(abserr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The mean absolute error, from the sums of absolute errors and the numbers of samples."""
    return _first(_over_all(abserr, scope, util)) / _first(_over_all(total_ins_num, scope, util))


def rmse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The root of the mean square error, from the sums of square errors and the numbers of samples."""
    return math.sqrt(mse(sqrerr, total_ins_num, scope, util))


def mse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """The mean square error, from the sums of square errors and the numbers of samples."""
    return mae(sqrerr, total_ins_num, scope, util)


def acc(correct: Any, total: Any, scope: Any = None, util: Any = None) -> float:
    """The accuracy, from the numbers of right guesses and of samples."""
    return mae(correct, total, scope, util)
