"""Views of persistable variables that outlive a change of the variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["stale_reads"]


def stale_reads(steps: Iterable[Step], kept: Iterable[Value]) -> list[Value]:
    """Aliases of old versions of persistable variables that a step or a fetch reads after a newer one was
    written.
    """
    steps = tuple(steps)
    # in most plans there is no alias
    if not any(value.alias for step in flat(steps) if step.is_view for value in step.writes):
        return []
    newest: dict[str, int] = {}

    def is_stale(value: Value) -> bool:
        root = value.root
        # a value's number tells its version: numbers grow in the order in which values are made
        if root.storage is not Storage.PARAM or newest.get(root.name, -1) <= root.number:
            return False
        # views that an op makes for itself are meant to see the change; only another variable has to keep
        # what it was
        return value.first_alias is not None

    found: list[Value] = []
    for step in _in_order(steps):
        found += filter(is_stale, step.reads)
        for value in step.writes:
            root = value.root
            # a sub-block that the interpreter runs writes the scope itself, and gives the plan a local name
            if root.storage in (Storage.PARAM, Storage.LOCAL) and not step.is_view:
                newest[root.name] = max(root.number, newest.get(root.name, -1))
    return [*found, *filter(is_stale, kept)]


def _in_order(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps as they run; a loop comes back to its start, so its body counts twice."""
    for step in steps:
        # twice finds what a step of a loop reads after the step before it has written; a third time finds no
        # more
        for _ in range(1 if step.body is None else 2):
            yield from flat([step])
