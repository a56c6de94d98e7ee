"""Program -> results: plans, arrays, devices, communicators. Also `fluid.executor`, under the names that programs use."""
from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"Executor": "executor", "as_numpy": "executor", "_fetch_var": "executor", "global_scope": "executor", "scope_guard": "executor",
          "_switch_scope": "executor"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fluidlite.executor' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fluidlite.executor.{_HOMES[name]}"), name)
