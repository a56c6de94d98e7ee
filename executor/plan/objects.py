"""The objects that the source of a plan refers to, and the protocol that all of them have.

A plan belongs to its program, and several scopes may share it: it holds recipes, and objects that no run
changes. A binding asks each for the object of its own (`bind`). `explain` asks how it computes (`explained`,
`kernel_of`), and a plan for several sizes for what it is bound to once more when these change (`sizes`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fluidlite.base.records import dataclass
from fluidlite.executor.plan.sizes import Resolver, resolver
from fluidlite.ir.operator import Operator

__all__ = ["BindContext", "Fresh", "FreshDraws", "FreshTable", "OpCall", "OwnObject", "Plain", "PlanObject"]


@dataclass
class BindContext:
    """The surroundings that a binding gives to the objects of its plan."""

    module: Any
    """The array module; that of a device by the namespace that plans use."""
    on_host: bool
    interpreter: Any
    """Runs ops on the scope of the binding (`fluidlite.executor.run.interpreter.Interpreter`)."""
    values: Sequence[Any]
    """Those of the plan's sizes."""
    buffers: Any
    """The memory of the plan's values (`fluidlite.executor.run.buffers.Buffers`)."""
    tables: dict[FreshTable, Any]
    """The last objects that hold addresses of it."""


class PlanObject:
    """An object that the source of a plan refers to."""

    needs_blas_threads = False
    """True if BLAS is to keep its own threads while the plan runs."""
    may_write = False
    """True if it may write to persistable variables by itself."""

    def bind(self, context: BindContext) -> Any:
        """The object that one binding uses."""
        return self

    def explained(self) -> str:
        """The way in which it computes, as a line for people; empty where it is NumPy's."""
        return ""

    def kernel_of(self, method: str) -> str:
        """The same in brief, of one of its methods."""
        return self.explained()

    def sizes(self) -> Resolver | None:
        """The resolver of what it is made of; None where it is the same for all sizes of the feeds."""
        return None


@dataclass(eq=False)
class Plain(PlanObject):
    """A function, an op or another thing that all bindings share as it is, and that no size goes into."""

    thing: Any

    def bind(self, context: BindContext) -> Any:
        """The thing itself."""
        return self.thing


class OpCall(PlanObject):
    """The call of an op that has no lowering rule."""

    op: Operator
    is_block: ClassVar[bool]
    """True if the interpreter runs it, with its sub-blocks."""

    def is_alone(self) -> bool:
        """True if a graph of a device can hold it."""
        return False


class OwnObject:
    """A class of objects with state of their own, such as scratch memory: recipes make them."""

    only_computes = False
    """True if a call gives a value and has no effect: it may run in a branch that is not taken."""

    @classmethod
    def explained(cls, *arguments: Any) -> str:
        """`PlanObject.explained` of a recipe with these arguments."""
        return ""

    @classmethod
    def kernel_of(cls, method: str, *arguments: Any) -> str:
        """`PlanObject.kernel_of` of a recipe with these arguments."""
        return cls.explained(*arguments)


# compared by identity: what they hold need not be hashable
@dataclass(frozen=True, eq=False)
class Fresh(PlanObject):
    """A recipe for an object with scratch state: each binding of a plan makes its own, for its array
    module.
    """

    factory: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    # asked for at each binding
    @functools.cached_property
    def _resolver(self) -> Resolver | None:
        return resolver(self.arguments)

    def sizes(self) -> Resolver | None:
        """The function that gives the arguments for values of sizes."""
        return self._resolver

    def given(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with such values of sizes."""
        found: tuple[Any, ...] = self.arguments if self._resolver is None else self._resolver(values)
        return found

    def bind(self, context: BindContext) -> Any:
        """A new object."""
        return self.factory(context.module, *self.given(context.values))

    @property
    def kind(self) -> type[OwnObject]:
        """The class that says how its objects compute."""
        factory = self.factory
        return factory if isinstance(factory, type) and issubclass(factory, OwnObject) else OwnObject

    def explained(self) -> str:
        """The line of its class."""
        return self.kind.explained(*self.arguments)

    def kernel_of(self, method: str) -> str:
        """The kernel that its class says."""
        return self.kind.kernel_of(method, *self.arguments)


class FreshDraws(Fresh):
    """The same for an object that draws random numbers: it is given the source of the run, too."""

    def bind(self, context: BindContext) -> Any:
        """A new object."""
        return self.factory(context.module, context.interpreter.random, *self.given(context.values))


class FreshTable(Fresh):
    """The same for an object that writes down where arrays lie: for other sizes its `resized` makes the next
    one, as long as buffers keep their places.
    """

    def bind(self, context: BindContext) -> Any:
        """A new object, made from the last one where there is one."""
        last = context.tables.get(self)
        make = self.factory if last is None else last.resized
        context.tables[self] = table = make(context.module, *self.given(context.values))
        return table
