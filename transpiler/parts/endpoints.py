"""Endpoints, as users write them, and the ranks that they stand for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.records import dataclass

__all__ = ["RankClaim", "RingMember", "parse_endpoints"]

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
            raise TranspilerError(f"{what}: {item!r} is not of the form 'ip:port' (in {given!r})")
    repeated = [item for item, count in Counter(found).items() if count > 1]
    if repeated:
        raise TranspilerError(f"{what}: {repeated[0]!r} occurs twice (in {given!r})")
    return found


@dataclass(frozen=True)
class RingMember:
    """One of the processes of a collective job, and the endpoints of all of them by rank."""

    index: int
    endpoints: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of ranks."""
        return len(self.endpoints)

    @property
    def endpoint(self) -> str:
        """The endpoint of this rank."""
        return self.endpoints[self.index]

    @property
    def others(self) -> list[str]:
        """The endpoints of the other ranks."""
        return [endpoint for endpoint in self.endpoints if endpoint != self.endpoint]


@dataclass(frozen=True)
class RankClaim:
    """A process's claim, as its user writes it: it is number `index` of `endpoints`, and at `current`."""

    index: int
    endpoints: str | Sequence[str]
    current: str

    def checked(self, index_name: str = "trainer_id", endpoints_name: str = "trainers") -> RingMember:
        """The rank; TranspilerError for endpoints that are malformed or repeated, a number out of range, or
        another endpoint than `current`.
        """
        known = parse_endpoints(self.endpoints, endpoints_name)
        index = self.index
        current = self.current
        text = ",".join(known)
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(known):
            raise TranspilerError(
                f"{index_name} is {index!r}, but must be between 0 and {len(known) - 1} for the {len(known)} "
                f"endpoints {text}"
            )
        if current not in known:
            raise TranspilerError(
                f"current endpoint {current!r} is not in {text}{did_you_mean(str(current), known)}"
            )
        if known[index] != current:
            raise TranspilerError(
                f"{index_name} {index} belongs to endpoint {known[index]}, but the current endpoint is "
                f"{current}"
            )
        return RingMember(index, known)
