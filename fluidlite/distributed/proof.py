"""The result of running a job beside its reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fluidlite.base.cells import table_cell
from fluidlite.base.records import dataclass
from fluidlite.distributed.tables import table
from fluidlite.distributed.traffic import SLACK_BYTES, SLACK_SHARE, LinkCount

__all__ = ["Proof"]

_SHOWN = 20
_TIMES, _MOST = 10.0, 2e-3
"""Allowed where rounding alone makes much: so many times that, and never more than so much."""


@dataclass(frozen=True)
class Proof:
    """Differences between a job and its reference, and bytes on the job's links.

    Attributes
    ----------
    reference: what the job was compared with, in words.
    differences: parameter -> largest difference after the last step on any role, divided by the parameter's
        largest value.
    tolerance: what `equal` allows for them where rounding makes no more.
    rounding: where a difference is larger than `tolerance`, how far one process ends from itself when it
        rounds otherwise; else 0. Optimizers blow rounding up: the first step of Adam is as long for a tiny
        gradient as for a large one.
    links: bytes on each link, beside those that were estimated.
    by_design: why the job differs from one process on the whole batches, though it does what its program
        says: the ops, each with its reason.
    """

    mode: str
    steps: int
    trainers: int
    servers: int
    reference: str
    differences: Mapping[str, float]
    tolerance: float
    rounding: float
    links: Sequence[LinkCount]
    by_design: Sequence[str] = ()

    @property
    def allowed(self) -> float:
        """The largest difference that `equal` allows: `tolerance`, or a few times what rounding does,
        within reason.
        """
        return max(self.tolerance, min(_TIMES * self.rounding, _MOST))

    @property
    def equal(self) -> bool:
        """True if the job computes what its reference does."""
        return all(difference <= self.allowed for difference in self.differences.values())

    @property
    def as_planned(self) -> bool:
        """True if every link carried what was estimated (at most that, where rows of sparse gradients go
        over it).
        """
        return all(link.ok for link in self.links)

    @property
    def ok(self) -> bool:
        """True if the job is equal to its reference, and its links are as planned."""
        return self.equal and self.as_planned

    @property
    def traffic(self) -> Mapping[tuple[str, str], float]:
        """Bytes from one role to another, startup and end included."""
        return {(link.source, link.target): link.besides + link.a_step * self.steps for link in self.links}

    # ------------------------------------------------------------------ text
    def __str__(self) -> str:
        verdict = "ok" if self.ok else "FAILED"
        slack = f"(as planned: within {SLACK_SHARE:.0%} and {SLACK_BYTES:.0f} bytes)\n"
        return f"{''.join(self._head())}\n\n{self._parameters()}\n{self._links()}{slack}{verdict}"

    def _repr_html_(self) -> str:
        """Both tables, as a notebook shows them."""
        verdict = f"{'ok' if self.ok else 'FAILED'}: {''.join(self._head())}"
        order = sorted(self.differences, key=self.differences.__getitem__, reverse=True)[:_SHOWN]
        rows = [(name, f"{self.differences[name]:.1e}") for name in order]
        heads = ("from", "to", "start and end", "bytes a step", "planned", "")
        links = table_cell("links", heads, map(_cells, self.links[:_SHOWN]), good=self.as_planned)
        return table_cell(verdict, ("parameter", "difference"), rows, good=self.equal) + links

    def _head(self) -> Iterator[str]:
        worst = max(self.differences, key=self.differences.__getitem__)
        yield f"{self.mode}, {self.trainers} trainers"
        yield f", {self.servers} servers" if self.servers else ""
        yield f", {self.steps} steps: {'equal to' if self.equal else 'NOT EQUAL to'} {self.reference}\n"
        if self.by_design:
            yield f"not to one process on the whole batches, by design: {'; '.join(self.by_design)}\n"
        yield f"largest relative difference {self.differences[worst]:.1e} in {worst}"
        yield f", allowed {self.allowed:.0e}"
        yield f" (rounding alone accounts for {self.rounding:.0e} here)" if self.rounding else ""

    def _parameters(self) -> str:
        order = sorted(self.differences, key=self.differences.__getitem__, reverse=True)
        rows = []
        for name in order[:_SHOWN]:
            difference = self.differences[name]
            rows.append((name, f"{difference:.1e}", "" if difference <= self.allowed else "TOO LARGE"))
        text = table(("parameter", "difference", ""), rows)
        hidden = len(order) - len(rows)
        return text + (f"... and {hidden} more, with smaller differences\n" if hidden else "")

    def _links(self) -> str:
        shown = self.links[:_SHOWN]
        heads = ("from", "to", "start and end", "bytes a step", "planned", "")
        text = table(heads, [_cells(link) for link in shown], 2)
        hidden = len(self.links) - len(shown)
        return text + (f"... and {hidden} more links\n" if hidden else "")


def _cells(link: LinkCount) -> tuple[str, ...]:
    planned = ""
    if link.planned is not None:
        planned = f"{'at most ' if link.bound else ''}{link.planned:,.0f}"
    verdict = "" if link.ok else "NOT AS PLANNED"
    return link.source, link.target, f"{link.besides:,}", f"{link.a_step:,.0f}", planned, verdict
