"""Program -> results: plans, arrays, devices, communicators. Also `fluid.executor`, under the names that
programs use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import offered

__all__ = ["Executor", "FetchHandler", "global_scope", "scope_guard"]

_NAMES = {
    "executor": "Executor global_scope scope_guard _switch_scope",
    "fetching": "as_numpy _fetch_var",
    "datasets": "FetchHandler",
    "run.feeding": "_as_lodtensor _get_program_cache_key _get_strong_program_cache_key _to_name_str "
    "check_feed_shape_type dimension_is_compatible_with dtype_is_compatible_with "
    "has_feed_operators has_fetch_operators",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

_imported, _public = imported_names(__name__)


def _load(name: str) -> Any:
    if name not in _HOMES:
        return _imported(name)
    return offered(getattr(importlib.import_module(f"fluidlite.executor.{_HOMES[name]}"), name), __name__)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _load, _public
