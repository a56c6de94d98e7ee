"""How plans run ops fast: lowering rules by family. An op without a rule runs by its portable kernel."""

from __future__ import annotations

import functools
import importlib
import pkgutil


@functools.cache
def load() -> None:
    """Import every family, so that its rules are declared."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
