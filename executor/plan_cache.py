"""The plans of an executor: found by what is run and by the form of the feeds, and bounded in bytes.

Dimensions that the program leaves open (-1), or that differ from those of an earlier feed, are taken for
sizes that vary (`SizeTable`), and one plan serves all feeds that answer its conditions alike: a new batch
size or length costs new views of the buffers, and no plan. 0 and 1 rows have plans of their own. Where no
plan can be shared, forms get plans of their own, and after 16 of them one plan without shapes serves all
others.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, TypeAlias

from fluidlite.base import flags
from fluidlite.base.cores import memory_limit
from fluidlite.base.forks import in_child
from fluidlite.base.records import dataclass
from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.sizes import SMALLEST, Size, SizeTable
from fluidlite.executor.run.bound import BoundPlan
from fluidlite.executor.run.feeding import Form
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope

__all__ = ["PlanCache"]

MAX_ENTRIES = 256  # forms that are known, over all programs
MAX_PROGRAMS = 64  # with their feeds, fetches and scopes
MAX_FORMS = 16  # plans of one program for feeds of different shapes, before one without shapes serves
Key: TypeAlias = "tuple[Any, ...]"
Free: TypeAlias = "Iterable[tuple[int, int]]"
Make: TypeAlias = "Callable[[Form, SizeTable | None], CompiledPlan]"


@dataclass(eq=False)
class Entry:
    """A plan for one form of the feeds, with its bindings (one for each thread that runs it)."""

    plan: CompiledPlan
    bounds: list[BoundPlan] = field(default_factory=list)
    values: list[Any] | None = None
    """Of a plan for several sizes: the values of its sizes."""

    def release(self) -> None:
        """Let go of the bindings; one that another thread is running goes with its last step."""
        for bound in self.bounds:
            if bound.lock.acquire(blocking=False):
                bound.release()
                bound.lock.release()
        # in place: entries for other sizes share the list
        self.bounds.clear()


@dataclass(eq=False)
class _General:
    """A plan for several sizes: `form` is that of its feeds, with a `Size` where dimensions vary."""

    plan: CompiledPlan
    form: Form
    sizes: SizeTable
    bounds: list[BoundPlan] = field(default_factory=list)

    def values_for(self, form: Form) -> list[Any] | None:
        """The values of its sizes for feeds of a form; None where it does not serve them."""
        inputs: list[Any] = [None] * len(self.sizes.inputs)
        for (shape, *kind), (wanted, *wanted_kind) in zip(form, self.form, strict=True):
            if kind != wanted_kind or not _agree(shape, wanted, inputs):
                return None
        return self.sizes.values_for(inputs)


def _agree(shape: Any, wanted: Any, inputs: list[Any]) -> bool:
    """True if a shape is as wanted; `inputs` receives what stands where sizes are wanted."""
    if shape is None or wanted is None or len(shape) != len(wanted):
        return shape is wanted
    for found, size in zip(shape, wanted, strict=True):
        if not isinstance(size, Size):
            if found != size:
                return False
        elif inputs[size.index] is None:
            inputs[size.index] = found
        elif inputs[size.index] != found:
            return False
    return True


class _Family:
    """The plans of one program, with its feeds, fetches and scope, for all forms of the feeds.

    The program owns it (`Program.belongings`): plans hold their program, so whatever else held them would
    keep both alive. It names the scope without holding it.
    """

    def __init__(self, key: Key, siblings: dict[Key, _Family], free: Free) -> None:
        self.key = key
        self.reference = weakref.ref(self)
        self.siblings = siblings
        """The families of its program, by key."""
        self.scope: Callable[[], Scope | None] = _nobody
        self.entries: dict[Form, Entry] = {}
        self.first: Form = ()
        self.varied = set(free)
        """(feed, dimension) that the program leaves open, or that were not the same in all forms."""
        self.fixed: set[tuple[int, int]] = set()
        """And those that plans had to take for numbers."""
        self.suspected: set[tuple[int, int]] = set()
        """And those that one plan had to."""
        self.general: list[_General] = []
        self.shapeless: dict[Form, Entry] = {}
        """The plans for all further forms, by dtypes."""
        self.made = 0
        self.is_refused = False
        """True if a plan for several sizes would serve no more than one does."""

    def drop(self) -> None:
        """Let go of all plans and their bindings."""
        if self.siblings.get(self.key) is self:
            del self.siblings[self.key]
        several = (Entry(plan.plan, plan.bounds) for plan in self.general)
        for entry in (*self.shapeless.values(), *several, *self.entries.values()):
            entry.release()
        self.entries.clear()

    def find(self, form: Form) -> Entry | None:
        """An entry for a form that one of the general plans serves."""
        for general in self.general:
            values = general.values_for(form)
            if values is not None:
                return Entry(general.plan, general.bounds, values)
        return None

    def generalized(self, form: Form) -> tuple[Form, SizeTable] | None:
        """The form with sizes where it differs from forms seen before; None where nothing does, or not so
        that a plan could be shared.
        """
        places = [(feed, axis) for feed, (shape, _, _) in enumerate(form) for axis in range(len(shape or ()))]
        if self.is_refused or any(
            not _alike(one, other) for one, other in zip(form, self.first, strict=True)
        ):
            return None
        now = {(feed, axis): form[feed][0][axis] for feed, axis in places}
        before = {(feed, axis): self.first[feed][0][axis] for feed, axis in places}
        self.varied.update(place for place in places if now[place] != before[place])
        # one sample at a time, of any length: a single row is no size, its length is
        varied = [place for place in places if place in self.varied - self.fixed and now[place] >= SMALLEST]
        if not varied:
            return None
        # dimensions that are equal in both forms are taken for one size, such as that of the batch
        groups = dict.fromkeys((now[place], before[place]) for place in varied)
        sizes = SizeTable([value for value, _ in groups], flags.is_deterministic())
        size_of = dict(zip(groups, sizes.inputs, strict=True))

        def shape_of(feed: int) -> Any:
            shape = form[feed][0]
            if shape is None:
                return None
            return tuple(
                size_of[now[feed, axis], before[feed, axis]] if (feed, axis) in varied else dim
                for axis, dim in enumerate(shape)
            )

        return tuple((shape_of(feed), *rest) for feed, (_, *rest) in enumerate(form)), sizes  # type: ignore[misc]


def _alike(one: Any, other: Any) -> bool:
    """True if two feeds differ in sizes alone."""
    (shape, *kind), (other_shape, *other_kind) = one, other
    if shape is None or other_shape is None:
        return shape is other_shape and kind == other_kind
    return len(shape) == len(other_shape) and kind == other_kind


class PlanCache:
    """Plans of programs by key (feeds, fetches, scope) and form; `general` allows plans for several sizes.

    It holds no plan itself: plans end with their program, and with their scope. What it has are the orders in
    which they were asked for, and the limits.

    Several threads may run on one executor: who looks for a plan, or changes the bindings of one, holds
    `lock`. Of those that ask for the same plan, such as clones of a predictor, one makes it.
    """

    def __init__(self, general: bool = True) -> None:
        self.general = general
        self.lock = threading.RLock()
        _caches.add(self)
        self._reference = weakref.ref(self)
        self.max_bytes = memory_limit() // 4
        self.made = 0
        """Plans made so far."""
        # the one that was not asked for longest stands first
        self._families: OrderedDict[weakref.ref[_Family], None] = OrderedDict()
        self._entries: OrderedDict[tuple[weakref.ref[_Family], Form], None] = OrderedDict()

    def __bool__(self) -> bool:
        return any(family.entries for family in self._living())

    def _living(self) -> list[_Family]:
        return [family for reference in list(self._families) if (family := reference()) is not None]

    def bounds(self) -> list[BoundPlan]:
        """All bindings, each once."""
        with self.lock:
            entries = (entry for family in self._living() for entry in family.entries.values())
            return list(dict.fromkeys(bound for entry in entries for bound in entry.bounds))

    def clear(self) -> None:
        """Forget all plans."""
        with self.lock:
            for family in self._living():
                self._forget(family)

    def release(self) -> int:
        """Let go of the buffers of all plans, which stay; the number of bytes. Those that another thread is
        running go with its last step.
        """
        with self.lock:
            held = sum(bound.nbytes for bound in self.bounds())
            for family in self._living():
                for entry in family.entries.values():
                    entry.release()
            return held

    def forget(self, program: Program, key: Key) -> None:
        """Forget the plans of a program: the scope holds arrays of other shapes than when they were made."""
        with self.lock:
            family = program.belongings.of(self._reference).get(key)
            if family is not None:
                self._forget(family)

    def _forget(self, family: _Family) -> None:
        reference = family.reference
        self._families.pop(reference, None)
        for form in family.entries:
            self._entries.pop((reference, form), None)
        family.drop()

    def _forget_dead(self) -> None:
        """Forget what was in the orders of programs that are gone, and plans whose scope is."""
        for reference in list(self._families):
            family = reference()
            if family is None:
                del self._families[reference]
            elif family.scope() is None:
                self._forget(family)
        for place in [place for place in self._entries if place[0]() is None]:
            del self._entries[place]

    def _scope_ended(self, family: weakref.ref[_Family]) -> None:
        """Forget the plans of a scope that ended; where another thread is at work here, later (`find`)."""
        if self.lock.acquire(blocking=False):
            try:
                found = family()
                if found is not None:
                    self._forget(found)
            finally:
                self.lock.release()

    def find(self, program: Program, key: Key, form: Form, free: Free, scope: Scope, make: Make) -> Entry:
        """The plan for a form, found or made, for one that holds `lock`; `free` are the (feed, dimension)
        that the program leaves open.
        """
        siblings: dict[Key, _Family] = program.belongings.of(self._reference)
        family = siblings.get(key)
        # the key has the number of a scope, which may be that of another one now
        if family is None or family.scope() is not scope:
            if family is not None:
                self._forget(family)
            family = self._new_family(siblings, key, free, scope)
        reference = family.reference
        place = (reference, form)
        found = family.entries.get(form)
        if found is None:
            found = family.entries[form] = family.find(form) or self._make(family, form, make)
            self._entries[place] = None
            while len(self._entries) > MAX_ENTRIES:
                self._drop_oldest()
        self._entries.move_to_end(place)
        self._families.move_to_end(reference)
        return found

    def _new_family(self, siblings: dict[Key, _Family], key: Key, free: Free, scope: Scope) -> _Family:
        self._forget_dead()
        family = siblings[key] = _Family(key, siblings, free)
        # at exit the names of this module may be gone before a scope is
        reference, cache, is_exit = family.reference, self._reference, sys.is_finalizing

        def ended(_: weakref.ref[Scope]) -> None:
            found = cache()
            if found is not None and not is_exit():
                found._scope_ended(reference)

        family.scope = weakref.ref(scope, ended)
        self._families[reference] = None
        if len(self._families) > MAX_PROGRAMS:
            oldest = next(iter(self._families))()
            if oldest is not None:
                self._forget(oldest)
        return family

    def _make(self, family: _Family, form: Form, make: Make) -> Entry:
        if family.made >= MAX_FORMS:
            shapeless = tuple((None, dtype, has_lod) for _, dtype, has_lod in form)
            found = family.shapeless.get(shapeless)
            if found is None:
                self.made += 1
                found = family.shapeless[shapeless] = Entry(make(shapeless, None))
            return found
        if family.made == 0:
            family.first = form
        if self.general:
            entry = self._make_general(family, form, make)
            if entry is not None:
                return entry
        self.made += 1
        plan = make(form, None)
        family.made += 1
        return Entry(plan)

    def _drop_oldest(self) -> None:
        """Forget the form that was not asked for longest, and its plan, if that serves no other one."""
        (reference, form), _ = self._entries.popitem(last=False)
        family = reference()
        if family is not None:
            entry = family.entries.pop(form)
            if entry.values is None and entry not in family.shapeless.values():
                entry.release()

    def _make_general(self, family: _Family, form: Form, make: Make) -> Entry | None:
        """A plan for several sizes; None where there is none."""
        wanted = family.generalized(form)
        if wanted is None:
            return None
        general_form, sizes = wanted
        try:
            plan = make(general_form, sizes)
        # a rule may stumble over a size in any way: with plain numbers it will not, or says what is wrong
        except Exception:
            family.is_refused = True
            return None
        self.made += 1
        family.made += 1
        fixed = sizes.fixed()
        places = {
            (feed, axis)
            for feed, (shape, *_) in enumerate(general_form)
            for axis, size in enumerate(shape or ())
            if isinstance(size, Size) and size.index in fixed
        }
        # once may be a chance, such as a batch as large as a layer
        family.fixed |= places & family.suspected
        family.suspected |= places
        general = _General(plan, general_form, sizes)
        family.general.append(general)
        found = family.find(form)
        assert found is not None, "a plan serves the form that it was made for"
        return found

    def trim(self, last: BoundPlan) -> None:
        """Drop what was not used for longest while all takes too many bytes, but not `last`: buffers, and
        plans of other scopes, whose variables nobody else may have any more.
        """
        # counted only when there are others than at the last count
        if last.is_counted:
            return
        with self.lock:
            self._trim(last)

    def _trim(self, last: BoundPlan) -> None:
        last.count()
        for reference, form in list(self._entries):
            if self._held(last) <= self.max_bytes:
                break
            family = reference()
            if family is None or form not in family.entries or last in family.entries[form].bounds:
                continue
            scope = family.scope()
            if scope is None or not last.is_of(scope):
                self._forget(family)
                continue
            entry = family.entries[form]
            entry.release()
            if entry.values is None:
                del family.entries[form], self._entries[reference, form]

    def _held(self, last: BoundPlan) -> int:
        """The bytes of all buffers, and of persistable variables in other scopes than that of `last`."""
        bounds = self.bounds()
        others = {
            id(array): array.nbytes
            for bound in bounds
            if not last.is_of(bound.scope)
            for array in bound.held.arrays.values()
        }
        return sum(bound.nbytes for bound in bounds) + sum(others.values())


_caches: weakref.WeakSet[PlanCache] = weakref.WeakSet()


@in_child
def _unlock() -> None:
    """In a forked process nobody gives back what another thread of its parent held."""
    for cache in _caches:
        cache.lock = threading.RLock()


def _nobody() -> None:
    """The scope of a family that has none yet."""
