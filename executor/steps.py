"""The steps of a run under fluid's names, for programs that take them one by one:

    program = exe._add_feed_fetch_ops(main, feed, fetch_list, "feed", "fetch")
    exe._feed_data(program, feed, "feed", scope)
    exe._default_executor.run(program.desc, scope, 0, True, True, ["fetch"])
    found = exe._fetch_data(fetch_list, "fetch", scope)

`Executor.run` computes the same without the two lists in the scope, and without a copy of the program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.place import Place
from fluidlite.executor.fetching import members, split_fetches
from fluidlite.executor.run.feeding import (
    _as_lodtensor,
    _get_strong_program_cache_key,
    _to_name_str,
    check_feed_shape_type,
    has_feed_operators,
    has_fetch_operators,
)
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.values.holders import get_fetch_variable, set_feed_variable
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["RunSteps"]


class RunSteps:
    """The part of `Executor.run` in front of a run and behind it, with the programs kept for the next.

    Programs are kept by keys of `_get_strong_program_cache_key`, until the program is collected that they
    were made of.
    """

    place: Place

    def __init__(self) -> None:
        self.program_caches: dict[str, Program] = {}
        self.ctx_caches: dict[str, Any] = {}
        # a scope that nobody else has any more is not kept alive
        self.scope_caches: MutableMapping[str, Scope] = weakref.WeakValueDictionary()
        self.pruned_program_caches: dict[str, Any] = {}
        self.pruned_program_scope_caches: dict[str, Any] = {}
        self._last_kept: tuple[tuple[Any, ...], Callable[[], Scope | None]] = ((), lambda: None)
        """The request that the caches were filled for last, and its scope."""
        self._made_of: dict[str, tuple[int, int]] = {}  # serial and version of the program behind an entry

    # ------------------------------------------------------------------ what is kept
    def _get_program_cache(self, program_cache_key: str) -> Program | None:
        return self.program_caches.get(program_cache_key)

    def _add_program_cache(self, program_cache_key: str, program: Program) -> None:
        self.program_caches[program_cache_key] = program

    def _get_ctx_cache(self, program_cache_key: str) -> Any:
        return self.ctx_caches.get(program_cache_key)

    def _add_ctx_cache(self, ctx_cache_key: str, ctx: Any) -> None:
        self.ctx_caches[ctx_cache_key] = ctx

    def _get_scope_cache(self, program_cache_key: str) -> Scope | None:
        return self.scope_caches.get(program_cache_key)

    def _add_scope_cache(self, scope_cache_key: str, scope: Scope) -> None:
        self.scope_caches[scope_cache_key] = scope

    def _get_pruned_program_cache(self, program_cache_key: str) -> Any:
        return self.pruned_program_caches.get(program_cache_key)

    def _add_pruned_program_cache(self, program_cache_key: str, program: Any) -> None:
        self.pruned_program_caches[program_cache_key] = program

    def _get_pruned_program_scope_cache(self, program_cache_key: str) -> Any:
        return self.pruned_program_scope_caches.get(program_cache_key)

    def _add_pruned_program_scope_cache(self, program_cache_key: str, program: Any) -> None:
        self.pruned_program_scope_caches[program_cache_key] = program

    def _is_current(self, cache: Mapping[str, Any], key: str, program: Any) -> bool:
        """True if the entry of a cache was made of the program as it is now; where it was not, whoever asks
        makes a new one.
        """
        plain = _plain(program)
        version = plain.serial, plain.version
        if key in cache and self._made_of.get(key) == version:
            return True
        if key not in self._made_of:
            weakref.finalize(program, _forget, weakref.ref(self), key).atexit = False
        self._made_of[key] = version
        return False

    # ------------------------------------------------------------------ pruning
    def _split_optimize_ops_in_fetch_list(self, fetch_list: Any) -> tuple[list[Any], list[Operator]]:
        """The names and Variables of a fetch list, and the optimizer ops in it."""
        _, targets = split_fetches(fetch_list)
        rest = [found for item in fetch_list for found in members(item) if not isinstance(found, Operator)]
        return rest, list(targets)

    def _prune_program(
        self, program: Any, feed: Any = None, fetch_list: Any = None, optimize_ops: Any = None
    ) -> Any:
        """A program with the ops that the fetches and the optimizer ops need, given the feeds; all optimizer
        ops where none are named. A compiled program is itself set to its pruned one.
        """
        plain = _plain(program)
        parts = feed if isinstance(feed, (list, tuple)) else [feed or {}]
        feeds = [name for part in parts for name in part]
        ops = optimize_ops or [op for block in plain.blocks for op in block.ops if op._is_optimize_op()]
        pruned = plain._prune_with_input(feeds, [*(fetch_list or []), *ops])
        if plain is program:
            return pruned
        program._set_program(pruned)
        return program

    def _pruned(self, program: Any, feed: Any, fetch_list: Any) -> Any:
        """The kept program that `_prune_program` makes for such a run."""
        key = _get_strong_program_cache_key(program, feed, fetch_list)
        if self._is_current(self.pruned_program_caches, key, program):
            return self._get_pruned_program_cache(key)
        rest, ops = self._split_optimize_ops_in_fetch_list(fetch_list)
        made = program if isinstance(program, Program) else self._sharing_copy(program)
        made = self._prune_program(made, feed, rest, ops)
        self._add_pruned_program_cache(key, made)
        return made

    def _sharing_copy(self, compiled: Any) -> Any:
        """A copy of a compiled program that has its variables on several devices in common with all other
        copies.
        """
        key = str(id(compiled))
        first = self._get_pruned_program_scope_cache(key)
        made = compiled._sharing_with(first)
        if first is None:
            self._add_pruned_program_scope_cache(key, made)
            weakref.finalize(compiled, _forget, weakref.ref(self), key).atexit = False
        return made

    def _update_feed(self, program: Any, feed: Any) -> Any:
        """The feeds without those that the program does not know, of which it warns; a dict, or a list of
        dicts.
        """
        block = _plain(program).global_block()
        if isinstance(feed, (list, tuple)):
            return [_known_feeds(block, part) for part in feed]
        return _known_feeds(block, feed) if isinstance(feed, Mapping) else feed

    # ------------------------------------------------------------------ feeds and fetches in the scope
    def _add_feed_fetch_ops(
        self,
        program: Program,
        feed: Mapping[str, Any],
        fetch_list: Sequence[Variable | str],
        feed_var_name: str,
        fetch_var_name: str,
    ) -> Program:
        """A copy of a program with an op for each feed and each fetch, unless it has them; a warning for a
        feed that the program does not know.
        """
        made = program.clone()
        block = made.global_block()
        feed_var = _holder(block, feed_var_name, VarType.FEED_MINIBATCH)
        fetch_var = _holder(block, fetch_var_name, VarType.FETCH_LIST)
        if not has_feed_operators(block, feed, feed_var_name):
            for index, name in enumerate(feed):
                if not block.has_var(name):
                    warn_user(_NOT_FOUND.format(name))
                    continue
                block._prepend_op(
                    type="feed", inputs={"X": [feed_var]}, outputs={"Out": [name]}, attrs={"col": index}
                )
        if not has_fetch_operators(block, fetch_list, fetch_var_name):
            for index, var in enumerate(fetch_list):
                assert isinstance(var, (Variable, str)), f"Wrong type for fetch_list[{index}]: {type(var)}"
                block.append_op(
                    type="fetch",
                    inputs={"X": [_to_name_str(var)]},
                    outputs={"Out": [fetch_var]},
                    attrs={"col": index},
                )
        return made

    def _feed_data(self, program: Program, feed: Mapping[str, Any], feed_var_name: str, scope: Scope) -> None:
        """Put what is fed into the scope, for the feed ops at the start of a program."""
        block = program.global_block()
        for op in block.ops:
            if op.type != "feed":
                break
            var = block.var(op.output("Out")[0])
            value = feed[var.name]
            if not isinstance(value, LoDTensor):
                value = _as_lodtensor(value, self.place, var.dtype)
            check_feed_shape_type(var, value)
            set_feed_variable(scope, value, feed_var_name, op.attr("col"))

    def _fetch_data(self, fetch_list: Sequence[Any], fetch_var_name: str, scope: Scope) -> list[Any]:
        """The tensors that the fetch ops of a program put into the scope."""
        return [get_fetch_variable(scope, fetch_var_name, index) for index in range(len(fetch_list))]


_NOT_FOUND = "The variable {} is not found in program. It is not declared or is pruned."


def _plain(program: Any) -> Program:
    return program if isinstance(program, Program) else program._program


def _holder(block: Block, name: str, kind: VarType) -> Variable:
    found = block.vars.get(name)
    return block.create_var(name=name, type=kind, persistable=True) if found is None else found


def _known_feeds(block: Block, feed: Mapping[str, Any]) -> dict[str, Any]:
    for name in feed:
        if not block.has_var(name):
            warn_user(_NOT_FOUND.format(name))
    return {name: value for name, value in feed.items() if block.has_var(name)}


def _forget(steps: weakref.ref[RunSteps], key: str) -> None:
    """Drop what was made of a program that is gone: another may get its number."""
    kept = steps()
    if kept is None:
        return
    caches: Iterable[MutableMapping[str, Any]] = (
        kept.program_caches,
        kept.ctx_caches,
        kept.scope_caches,
        kept.pruned_program_caches,
        kept.pruned_program_scope_caches,
        kept._made_of,
    )
    for cache in caches:
        cache.pop(key, None)
