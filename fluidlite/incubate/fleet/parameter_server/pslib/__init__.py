"""`fluid.incubate.fleet.parameter_server.pslib`: the fleet of pslib, refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import UnsupportedError
from fluidlite.base.refusals import Refusals

_WHY = "Paddle's closed parameter server (pslib) is not here; fluid.DistributeTranspiler has servers"
_REFUSED = Refusals("fluid.incubate.fleet.parameter_server.pslib", _WHY, classes="PSLib DownpourOptimizer")
__all__ = ["fleet", *_REFUSED.names]


class _Fleet:
    """Stands for pslib's fleet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(f"fluid.incubate.fleet.parameter_server.pslib.fleet.{name}: {_WHY}")


fleet = _Fleet()


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
