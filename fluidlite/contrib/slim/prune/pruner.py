"""`fluid.contrib.slim.prune.pruner`: which parts of a parameter can go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Pruner", "StructurePruner"]


class Pruner:
    """A way to choose parts of a parameter."""

    def prune(self, param: Any) -> Any:
        """The parameter without these parts; None for a pruner that does not say."""


class StructurePruner(Pruner):
    """Prunes whole slices of parameters along an axis.

    Parameters
    ----------
    pruning_axis: name of a parameter, or "*" for all others -> the axis.
    criterions: name of a parameter, or "*" -> how slices are compared; `l1_norm`, the sum of magnitudes.
    """

    def __init__(self, pruning_axis: Mapping[str, int], criterions: Mapping[str, str]) -> None:
        self.pruning_axis, self.criterions = pruning_axis, criterions

    def cal_pruned_idx(self, name: str, param: Any, ratio: float, axis: int | None = None) -> Any:
        """The slices of the parameter `name` that can go: a share of `ratio`, those that the criterion puts
        last.
        """
        criterion = self.criterions.get(name, self.criterions.get("*"))
        if criterion != "l1_norm":
            raise ValueError(
                f"StructurePruner compares slices of {name!r} by 'l1_norm', not by {criterion!r}"
            )
        if axis is None:
            axis = self.pruning_axis.get(name, self.pruning_axis.get("*"))
        assert axis is not None, f"StructurePruner has no axis for {name!r}"
        others = tuple(one for one in range(np.ndim(param)) if one != axis)
        norms = np.sum(np.abs(param), axis=others)
        return norms.argsort()[: round(np.shape(param)[axis] * ratio)]

    def prune_tensor(
        self, tensor: Any, pruned_idx: Sequence[int], pruned_axis: int, lazy: bool = False
    ) -> Any:
        """The tensor without some slices or, with `lazy`, with zeros in them."""
        if not lazy:
            return np.delete(tensor, pruned_idx, axis=pruned_axis)
        zeroed = np.array(tensor)
        zeroed[(slice(None),) * pruned_axis + (np.asarray(pruned_idx, int),)] = 0
        return zeroed
