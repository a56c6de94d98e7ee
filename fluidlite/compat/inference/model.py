"""A model that was read from its files, and what predictors ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import FeedError, did_you_mean
from fluidlite.base.place import Place
from fluidlite.base.records import dataclass
from fluidlite.compat.inference.sources import Source
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.ir.prune import set_test_mode
from fluidlite.ir.trust import check_reach
from fluidlite.ir.variable import Variable
from fluidlite.saving.inference import load_inference_model
from fluidlite.values.scope import Scope, scope_guard
from fluidlite.values.tensor import LoDTensor

__all__ = ["LoadedModel", "Configuration"]

_MOST_FORMS = 256  # of an input that are remembered


class Configuration(Protocol):
    """Of a configuration, what reading the model needs."""

    def source(self) -> Source:
        """The model's files."""

    def place(self) -> Place:
        """The place on which it runs."""

    @property
    def threads(self) -> int | None:
        """The threads of a run; None for as many as there are cores."""


@dataclass(frozen=True)
class LoadedModel:
    """A model in a scope of its own (two models may hold parameters of the same names), and what runs it.

    Predictors that were cloned share one: `run` may be called from several threads at the same time.
    """

    executor: Executor
    scope: Scope
    program: Program
    feeds: list[str]
    targets: list[Variable]
    sized: frozenset[str]
    """The inputs whose declared sizes count: those that `fluid.data` and `paddle.static.data` declared."""
    _fitting: set[tuple[str, Any, Any]] = field(default_factory=set)
    """(input, shape, dtype) that are known to fit."""

    @classmethod
    def read(cls, config: Configuration, trust: bool) -> LoadedModel:
        """The model that `config` names."""
        scope, executor = Scope(), Executor._of_threads(config.place(), config.threads)
        with scope_guard(scope):
            folder, program, params = config.source()
            main, feeds, targets = load_inference_model(folder, executor, program, params)
        check_reach(main, trust)
        # a predictor infers, whatever the file says
        set_test_mode(main)
        inputs = [main.global_block().var(name) for name in feeds]
        sized = frozenset(var.name for var in inputs if var.need_check_feed)
        for var in inputs:
            # the rules here are a predictor's, which takes any number of rows
            var.need_check_feed = False
        # nobody else sees it
        scope.freeze()
        return cls(executor, scope, main, feeds, targets, sized)

    def run(self, given: Mapping[str, LoDTensor]) -> list[LoDTensor]:
        """The results, in arrays that nobody else holds; FeedError where an input is missing or does not
        fit.
        """
        feed = {name: self._fitted(name, given[name]) for name in self.feeds}
        found: list[LoDTensor] = self.executor.run(
            self.program, feed, self.targets, scope=self.scope, return_numpy=False
        )
        return found

    def check_names(self, names: list[str]) -> None:
        """FeedError where `names` are not those of the inputs, in any order."""
        for name in names:
            if name not in self.feeds:
                raise FeedError(f"the model has no input {name!r}{did_you_mean(name, self.feeds)}")
        if len(set(names)) != len(self.feeds):
            raise FeedError(
                f"the model's inputs are {', '.join(self.feeds)}, and {', '.join(names)} are given"
            )

    def _fitted(self, name: str, tensor: LoDTensor) -> LoDTensor:
        """The feed of an input: the tensor, or one with whole numbers as wide as the model's."""
        array = tensor.array
        if array is None:
            raise FeedError(f"input {name!r} holds no value: copy_from_cpu(array) gives it one")
        if (name, array.shape, array.dtype) not in self._fitting or tensor._lod:
            wanted = self._check(self.program.global_block().var(name), tensor)
            if wanted is not None:
                return LoDTensor(array.astype(wanted), tensor._lod)
            if len(self._fitting) < _MOST_FORMS:
                self._fitting.add((name, array.shape, array.dtype))
        return tensor

    def _check(self, var: Variable, tensor: LoDTensor) -> Any:
        """FeedError where a tensor does not fit an input; the dtype that it has to get first, if any."""
        if var.type != VarType.LOD_TENSOR or var._dtype is None:
            return None
        array, wanted = tensor.array, to_numpy(var.dtype)
        is_sequence = bool(var.lod_level or tensor._lod)
        if not is_sequence and not _fits(array.shape, tuple(var.shape), var.name in self.sized):
            raise FeedError(
                f"input {var.name!r} is of shape {_dims(var.shape)}, but was given an array of shape "
                f"{_dims(array.shape)}"
            )
        if not tensor.has_valid_recursive_sequence_lengths():
            raise FeedError(
                f"input {var.name!r} was given {len(array)} rows and the level of detail {tensor.lod()}, "
                "which does not cover them"
            )
        if array.dtype == wanted:
            return None
        # a narrower whole number is the same number: 2.6.2's lookups take both
        if array.dtype.kind in "iu" and wanted.kind == "i" and np.can_cast(array.dtype, wanted):
            return wanted
        raise FeedError(
            f"input {var.name!r} is of {wanted}, but was given an array of {array.dtype}: "
            f"array.astype({str(wanted)!r})"
        )


def _fits(shape: tuple[int, ...], declared: tuple[int, ...], sizes_count: bool) -> bool:
    """True if the model can take an array of a shape, whatever the number of its rows: files of networks say
    1 where they mean a batch. Without `sizes_count` the rank alone has to fit, and ops say the rest.
    """
    missing = declared[len(shape) :]
    # [N] fits [-1, 1], as it does for Executor.run
    if len(shape) > len(declared) or any(dim != 1 for dim in missing):
        return False
    pairs = zip(declared[1:], shape[1:], strict=False)
    return not sizes_count or all(dim < 0 or dim == size for dim, size in pairs)


def _dims(shape: tuple[int, ...]) -> str:
    return f"[{', '.join('None' if size < 0 else str(size) for size in shape)}]"
