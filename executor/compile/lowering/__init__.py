"""Lowering rules by family: how plans run ops fast. An op without a rule runs by its portable kernel."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from fluidlite.executor.compile.emitter import Rule, expression_rule, rules
from fluidlite.ir.operator import Operator

__all__ = ["rule_for"]


@functools.cache
def _declared() -> dict[str, Rule]:
    """All rules by op type; the families are imported at the first question, which declares them."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return rules()


def rule_for(op: Operator) -> Rule | None:
    """The lowering rule for an op: its own, or the one made from its scalar expression."""
    found = _declared().get(op.type)
    # Y may be broadcast to X, which the rules of binary ops see to
    if found is not None or op.definition is None or "Y" in op.definition.inputs:
        return found
    return expression_rule(op.definition.expr) if op.definition.expr else None
