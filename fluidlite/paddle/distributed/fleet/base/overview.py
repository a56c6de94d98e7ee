"""The table that a `DistributedStrategy` prints: parts that are on, with their options, then other fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fluidlite.paddle.distributed.fleet.base.messages import plain_value

__all__ = ["overview"]

_WIDTH = 78
_DOUBLE = f"    +{'=' * _WIDTH}+"
_SINGLE = f"    +{'-' * _WIDTH}+"


def overview(message: Any) -> str:
    """The fields of a strategy's message as 2.6.2 prints them."""
    names = [field.name for field in message.DESCRIPTOR.fields]
    switches = [name for name in names if f"{name}_configs" in names]
    lines = [_DOUBLE, _heading(""), _heading("DistributedStrategy Overview"), _heading("")]
    for name in (name for name in switches if getattr(message, name)):
        configs = f"{name}_configs"
        lines += [_DOUBLE, _heading(f"{name}=True <-> {configs}"), _SINGLE]
        lines += _rows(getattr(message, configs), _fields(getattr(message, configs)))
    others = [name for name in names if name not in switches and not _has_part(name)]
    lines += [_DOUBLE, _heading("Environment Flags, Communication Flags"), _SINGLE]
    lines += _rows(message, others)
    for title, part in (
        ("Build Strategy", message.build_strategy),
        ("Execution Strategy", message.execution_strategy),
    ):
        lines += [_DOUBLE, _heading(title), _SINGLE, *_rows(part, _fields(part))]
    return "".join(f"{line}\n" for line in [*lines, _DOUBLE])


def _has_part(name: str) -> bool:
    """True for fields that are parts of the table, or none of it."""
    return name.endswith("_configs") or name in ("build_strategy", "execution_strategy")


def _fields(message: Any) -> list[str]:
    return [field.name for field in message.DESCRIPTOR.fields]


def _heading(text: str) -> str:
    return f"    |{text:^{_WIDTH}}|"


def _rows(message: Any, names: Iterable[str]) -> Iterator[str]:
    """A line for each field; for a list of numbers or names one for each element."""
    fields = {field.name: field for field in message.DESCRIPTOR.fields}
    for name in names:
        value = plain_value(message, fields[name])
        is_list = isinstance(value, list) and fields[name].message_type is None
        for place, shown in enumerate(value if is_list else [value]):
            yield f"    |{'' if place else name:>38}  {shown!s:^38}|"
