"""Names of Paddle's that FluidLite leaves out: they can be imported, and say why when they are used.

_LEFT_OUT = Refusals("fluid.dygraph.nn", WHY, classes="Conv2D Linear", functions="conv")

def __getattr__(name: str) -> Any:
    return _LEFT_OUT.get(name)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from fluidlite.base.errors import UnsupportedError, did_you_mean

__all__ = ["Refusals", "why_left_out"]


class Refusals:
    """Classes and functions of one module: calling one, or making an object of a class that is derived from
    one, is an UnsupportedError with the reason.
    """

    def __init__(self, module: str, reason: str, classes: str = "", functions: str = "") -> None:
        self.module = module
        self._home = (
            "fluidlite" + module.removeprefix("fluid")
            if module.startswith("fluid.")
            else f"fluidlite.{module}"
        )
        self.reason = reason
        self.classes = classes.split()
        self.functions = functions.split()
        self._made: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """All names."""
        return [*self.classes, *self.functions]

    def get(self, name: str) -> Any:
        """The class or function of that name, the same each time; AttributeError where there is none."""
        if name not in self._made:
            if name not in self.names:
                raise AttributeError(
                    f"module {self.module!r} has no attribute {name!r}{did_you_mean(name, self.names)}"
                )
            make = self._class if name in self.classes else self._function
            self._made[name] = make(name)
        return self._made[name]

    def _class(self, name: str) -> type:
        refuse = self._function(name)
        # in __new__, because classes of old scripts have an __init__ of their own
        facts = {"__doc__": refuse.__doc__, "__module__": self._home, "__refused__": self.reason}
        return type(name, (), {"__new__": refuse, **facts})

    def _function(self, name: str) -> Callable[..., NoReturn]:
        def refuse(*unused: Any, **options: Any) -> NoReturn:
            raise UnsupportedError(f"{self.module}.{name}: {self.reason}")

        refuse.__name__, refuse.__qualname__ = name, name
        refuse.__module__ = self._home
        refuse.__doc__ = f"Refused: {self.reason}."
        vars(refuse)["__refused__"] = self.reason
        return refuse


def why_left_out(thing: Any) -> str | None:
    """The reason for which a class or function is refused; None for any other thing."""
    return getattr(thing, "__refused__", None) if callable(thing) else None
