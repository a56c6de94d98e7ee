"""Scopes: where variables live between runs."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any, TypeVar

from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.place import is_array
from fluidlite.values.rank_table import RankTable
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows, rebinds

__all__ = ["Scope", "ScopeVariable", "global_scope", "scope_guard"]

Held = TypeVar("Held")
Number = TypeVar("Number", int, float)


class ScopeVariable:
    """A named place that holds one value; the first accessor decides its kind."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Any = None
        self._handle: SelectedRows | None = None  # that a user has taken

    def _held(self, kind: type[Held]) -> Held:
        """The value held here, made by `kind` if nothing is held yet; EnforceNotMet where it is of another
        kind.
        """
        if self.value is None:
            self.value = kind()
            if isinstance(self.value, LoDTensor):
                self.value.hold()
        if not isinstance(self.value, kind):
            raise EnforceNotMet(
                f"The Variable type must be {kind.__name__}, but the type it holds is "
                f"{type(self.value).__name__} (variable {self.name!r})"
            )
        return self.value

    def get_tensor(self) -> LoDTensor:
        """The LoDTensor held here, made empty if nothing is held yet."""
        return self._held(LoDTensor)

    def get_selected_rows(self) -> SelectedRows:
        """The SelectedRows held here, made empty if nothing is held yet."""
        self._handle = self._held(SelectedRows)
        return self._handle

    def get_lod_tensor_array(self) -> LoDTensorArray:
        """The list of LoDTensors held here, made empty if nothing is held yet."""
        return self._held(LoDTensorArray)

    get_fetch_list = get_lod_tensor_array

    def get_lod_rank_table(self) -> RankTable:
        """The order of sequences held here, made empty if nothing is held yet."""
        return self._held(RankTable)

    def set(self, value: Any) -> None:
        """Hold a run-time value: an array becomes a LoDTensor."""
        if is_array(value):
            if isinstance(self.value, LoDTensor):
                self.value.array = value
            else:
                self.value = LoDTensor(value)
                self.value.hold()
                rebinds.count += 1
            return
        if isinstance(value, SelectedRows) and self._handle is not None and self.value is self._handle:
            # a handle shows what runs write; without one the old rows stay as they are, since a communicator
            # may
            # still have to send them
            self._handle.take(value)
            return
        if value is not self.value:
            rebinds.count += 1
        self.value = value
        if isinstance(value, LoDTensor):
            value.hold()

    def set_int(self, value: int) -> None:
        """Hold a Python integer."""
        self.value = operator.index(value)

    def get_int(self) -> int:
        """The integer held here."""
        return self._number(int)

    def is_int(self) -> bool:
        """True if an integer is held here."""
        return isinstance(self.value, int)

    def set_float(self, value: float) -> None:
        """Hold a Python number."""
        self.value = float(value)

    def get_float(self) -> float:
        """The number held here."""
        return self._number(float)

    def is_float(self) -> bool:
        """True if a number that is not an integer is held here."""
        return isinstance(self.value, float)

    def _number(self, kind: type[Number]) -> Number:
        if self.value is None:
            raise EnforceNotMet(f"Variable is not initialized ({self.name!r}).")
        return self._held(kind)

    def is_initialized(self) -> bool:
        """True if anything is held here."""
        return self.value is not None and (
            not isinstance(self.value, LoDTensor) or self.value.form is not None
        )


class Scope:
    """Variables by name; a name not found here is looked up in the parent."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.variables: dict[str, ScopeVariable] = {}
        self.kids: list[Scope] = []
        self.runs = 0  # of programs by an executor: whoever keeps copies of variables looks here

    def var(self, name: str) -> ScopeVariable:
        """The variable of this scope itself, made if it is not there."""
        found = self.variables.get(name)
        if found is None:
            if not isinstance(name, str):
                raise TypeError(f"a variable's name must be a string, not {name!r}")
            # not counted as a change: no plan is bound to a variable that was not there
            found = self.variables[name] = ScopeVariable(name)
        return found

    # `| Any`, not `| None`: `scope.find_var("w").get_tensor()` is what every program writes
    def find_var(self, name: str) -> ScopeVariable | Any:
        """The variable of this scope or of a parent, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return None

    def twin(self) -> Scope:
        """The same scope, with the same variables, for who works on it and must not keep it alive: references
        to this one end with its owner, whatever the twin's holder does.
        """
        other = Scope.__new__(Scope)
        other.__dict__ = self.__dict__
        return other

    def new_scope(self) -> Scope:
        """A scope below this one."""
        kid = Scope(self)
        self.kids.append(kid)
        return kid

    def drop_kids(self) -> None:
        """Forget the scopes below this one."""
        self.kids.clear()

    def _remove_from_pool(self) -> None:
        """Do nothing: scopes are kept in no pool, and go when nobody holds them."""

    def _kids(self) -> list[Scope]:
        return list(self.kids)

    def freeze(self) -> None:
        """Freeze its tensors (`LoDTensor.freeze`), for its owner: a process or an object that only infers."""
        for held in self.variables.values():
            if isinstance(held.value, LoDTensor):
                held.value.freeze()

    def erase(self, names: list[str]) -> None:
        """Forget variables of this scope."""
        for name in [names] if isinstance(names, str) else names:
            self.variables.pop(name, None)
        rebinds.count += 1

    def local_var_names(self) -> list[str]:
        """Names of this scope's own variables."""
        return list(self.variables)


_current = [Scope()]


def global_scope() -> Scope:
    """The scope that runs use when none is named."""
    return _current[-1]


def _switch_scope(scope: Scope) -> Scope:
    old, _current[-1] = _current[-1], scope
    return old


@contextlib.contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Inside the `with`, `scope` is the global scope."""
    old = _switch_scope(scope)
    try:
        yield
    finally:
        _switch_scope(old)
