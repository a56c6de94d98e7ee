"""Lists of endpoints, as users write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fluidlite.base.errors import TranspilerError, did_you_mean

__all__ = ["parse_endpoints", "rank_of"]

_ENDPOINT = re.compile(r"(?P<host>[^\s:,\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")


def parse_endpoints(given: str | Sequence[str], what: str = "endpoints") -> tuple[str, ...]:
    """The endpoints in `"ip:port,ip:port"` or in a sequence of such; TranspilerError where one is
    malformed or stands twice.
    """
    if not isinstance(given, (str, list, tuple)) or not all(isinstance(item, str) for item in given):
        raise TranspilerError(f"{what} should be 'ip:port,ip:port' or a list of 'ip:port', not {given!r}")
    found = tuple(item.strip() for item in (given.split(",") if isinstance(given, str) else given))
    for item in found:
        match = _ENDPOINT.fullmatch(item)
        if match is None or int(match["port"]) > 65535:
            raise TranspilerError(f"{what}: {item!r} is no 'ip:port' (in {given!r})")
    repeated = [item for item, count in Counter(found).items() if count > 1]
    if repeated:
        raise TranspilerError(f"{what}: {repeated[0]!r} stands there twice (in {given!r})")
    return found


def rank_of(rank: int, endpoints: Sequence[str], current: str, what: str = "trainer_id") -> int:
    """`rank`, held against the endpoints; TranspilerError where it is out of range or `current` is not the
    endpoint of that rank.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < len(endpoints):
        raise TranspilerError(
            f"{what} is {rank!r}, but must be between 0 and {len(endpoints) - 1} for the {len(endpoints)} "
            f"endpoints {','.join(endpoints)}"
        )
    if current not in endpoints:
        raise TranspilerError(
            f"current endpoint {current!r} is not in "
            f"{','.join(endpoints)}{did_you_mean(str(current), endpoints)}"
        )
    if endpoints[rank] != current:
        raise TranspilerError(
            f"{what} {rank} belongs to endpoint {endpoints[rank]}, but the current endpoint is {current}"
        )
    return rank
