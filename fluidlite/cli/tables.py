"""Tables for terminals and pipes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fluidlite.transpiler.cost.estimate import Plan
from fluidlite.transpiler.parts.roles import Job

__all__ = ["amount", "plan_text", "roles_text", "seconds", "table"]

_STEPS = ("B", "kB", "MB", "GB", "TB", "PB")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, colour: bool = False) -> str:
    """Columns as wide as their widest cell; the first `left` of them start at the left, the others end at
    the right.
    """
    widths = [max(len(row[index]) for row in (heads, *rows)) for index in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    head = line(heads)
    return "\n".join([f"\x1b[1m{head}\x1b[0m" if colour else head, *map(line, rows)]) + "\n"


def amount(size: float) -> str:
    """Bytes for people: `4.01 MB`."""
    step = 0
    while abs(size) >= 999.5 and step < len(_STEPS) - 1:
        size, step = size / 1000, step + 1
    return f"{size:.0f} B" if step == 0 else f"{size:.3g} {_STEPS[step]}"


def seconds(time: float) -> str:
    """`12.3 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if time * factor >= 1:
            return f"{time * factor:.3g} {unit}"
    return f"{time * 1e6:.3g} us"


def roles_text(job: Job, plan: Plan, only: str | None, colour: bool) -> str:
    """The roles: what each runs, holds, sends and receives in a step."""
    servers = (
        {role.name: role.endpoint for role in job.roles if role.kind == "pserver"}
        if len(job.endpoints) <= 1000
        else {}
    )
    rows = [
        (
            row.role,
            servers.get(row.role, ""),
            str(row.ops),
            amount(row.parameters),
            amount(row.bytes_out),
            amount(row.bytes_in),
        )
        for row in plan.table()
        if only is None or _covers(row.role, only)
    ]
    with_servers = any(row[1] for row in rows)
    heads = ("role", "endpoint", "ops", "parameters", "sent a step", "received a step")
    if not with_servers:
        heads, rows = (heads[0], *heads[2:]), [(row[0], *row[2:]) for row in rows]  # type: ignore[assignment,misc]
    return table(heads, rows, 2 if with_servers else 1, colour)


def _covers(label: str, name: str) -> bool:
    """Whether a row called `trainer0..9` is about the role `trainer3`."""
    first, dots, last = label.partition("..")
    if not dots:
        return label == name
    kind = first.rstrip("0123456789")
    number = name[len(kind) :]
    return name.startswith(kind) and number.isdigit() and int(first[len(kind) :]) <= int(number) <= int(last)


def plan_text(plan: Plan, colour: bool) -> str:
    """The plan: memory and traffic of each role, links, the step, and other numbers of trainers."""
    return "\n".join(_plan_parts(plan, colour))


def _plan_parts(plan: Plan, colour: bool) -> Iterator[str]:
    heads = ("role", "ops", "parameters", "state", "activations", "sent", "received", "messages", "busy")
    yield table(
        heads,
        [
            (
                row.role,
                str(row.ops),
                amount(row.parameters),
                amount(row.state),
                amount(row.activations),
                amount(row.bytes_out),
                amount(row.bytes_in),
                f"{row.messages:.4g}",
                seconds(row.seconds),
            )
            for row in plan.table()
        ],
        colour=colour,
    )
    links = plan.links[:20]
    yield table(
        ("from", "to", "bytes a step", "messages"),
        [(link.sender, link.receiver, amount(link.bytes), f"{link.messages:.4g}") for link in links],
        2,
        colour,
    )
    if len(links) < len(plan.links):
        yield f"... and {len(plan.links) - len(links)} more links\n"
    computing = f", {seconds(plan.compute_s)} of it computing" if plan.compute_s else " on the links alone"
    yield (
        f"a step takes about {seconds(plan.step_s)}{computing}; {plan.bottleneck} is busy longest "
        f"(port: {seconds(plan.link.latency_s)} a message, {amount(plan.link.bytes_per_s)}/s)\n"
    )
    yield table(
        ("mode", "trainers", "step", "sent", "received", "samples a second"),
        [
            (
                row.mode,
                str(row.trainers),
                seconds(row.seconds),
                amount(row.bytes_out),
                amount(row.bytes_in),
                f"{row.samples_per_s:,.0f}",
            )
            for row in plan.scaling()
        ],
        colour=colour,
    )
