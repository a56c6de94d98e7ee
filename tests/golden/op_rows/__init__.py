"""Rows of single ops that 1.8.5 has run: unusual attributes, types, shapes and sequences."""

from __future__ import annotations

import gzip
import importlib
import json
import os
from typing import Any, Dict, List

from .rows import Row

HERE = os.path.dirname(os.path.abspath(__file__))
_TOOLS = ("__init__", "observe", "rows")
FAMILIES = sorted(name[:-3] for name in os.listdir(HERE) if name.endswith(".py") and name[:-3] not in _TOOLS)


def rows_of(family: str) -> Dict[str, Row]:  # noqa: UP006
    """The rows of a family by name."""
    found: List[Row] = importlib.import_module("golden.op_rows." + family).ROWS  # noqa: UP006
    named: Dict[str, Row] = {}  # noqa: UP006
    for row in found:
        key, count = str(row), 2
        while key in named:
            key, count = f"{row}-{count}", count + 1
        named[key] = row
    return named


def recorded(family: str) -> Any:
    """The recorded facts of a family, by row."""
    with gzip.open(os.path.join(HERE, family + ".json.gz"), "rt") as source:
        return json.load(source)
