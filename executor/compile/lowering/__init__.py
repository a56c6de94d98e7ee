"""Lowering rules by family: how plans run ops fast. An op without a rule runs by its portable kernel."""

from __future__ import annotations

import functools
import importlib

from fluidlite.executor.compile.emitter import Rule, expression_rule, rules
from fluidlite.executor.compile.lowering.rows import lower_rows
from fluidlite.executor.compile.rule_index import RULES
from fluidlite.ir.operator import Operator

__all__ = ["rule_for"]


@functools.cache
def _modules() -> dict[str, str]:
    """The module with the rule of each op type: to import all of them takes as long as ten small plans."""
    return {op_type: module for module, types in RULES.items() for op_type in types.split()}


def rule_for(op: Operator) -> Rule | None:
    """The lowering rule for an op: its own, or the one made from its row kernel or scalar expression."""
    module = _modules().get(op.type)
    if module is not None:
        importlib.import_module(f"{__name__}.{module}")
    found = rules().get(op.type)
    if found is not None or op.definition is None:
        return found
    use = op.definition.by_rows
    if use is not None:
        return lambda e: lower_rows(e, use)
    # Y may be broadcast to X, which the rules of binary ops see to
    is_alike = "Y" not in op.definition.inputs
    return expression_rule(op.definition.expr) if op.definition.expr and is_alike else None
