"""The things that names in the source of a plan stand for, as they follow from sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from fluidlite.base.records import dataclass
from fluidlite.executor.plan.objects import PlanObject
from fluidlite.executor.plan.plan import Source
from fluidlite.executor.plan.sizes import Made, resolver, sizes_in
from fluidlite.executor.plan.values import Reshape, Same, Slices, Storage, Transpose, Value

__all__ = ["Meanings", "ShownAs", "renamed"]


def _reshaped(array: Any, shape: Any) -> Any:
    return array.reshape(shape)


def _transposed(array: Any, axes: Any) -> Any:
    return array.transpose(axes)


def _itself(array: Any, _: Any) -> Any:
    return array


_SHOWN: dict[Any, Callable[[Any, Any], Any]] = {
    Reshape: _reshaped,
    Slices: operator.getitem,
    Transpose: _transposed,
    Same: _itself,
}


class SizedItem:
    """A shape, or other things that may have to do with sizes."""

    def __init__(self, item: Any) -> None:
        self.item = item
        self.maker = resolver(item)

    def given(self, values: Sequence[Any]) -> Any:
        """The same with the values of the sizes."""
        return self.item if self.maker is None else self.maker(values)


class _Index(SizedItem):
    """Ranges of a view, as an array is indexed with them."""

    def __init__(self, ranges: Any) -> None:
        super().__init__(ranges)
        self.index = None if self.maker else Slices(ranges).index()

    def given(self, values: Sequence[Any]) -> Any:
        """The slices with the values of the sizes."""
        return self.index or Slices(super().given(values)).index()


class _Forms:
    """Shapes, ranges and the like, each once: most views have one of a few."""

    def __init__(self) -> None:
        self.items: list[SizedItem] = []
        self._places: dict[Any, int] = {}

    def place(self, form: Any, kind: type[SizedItem] = SizedItem) -> int:
        """The place of a form among `items`."""
        place = self._places.setdefault((kind, form), len(self.items))
        if place == len(self.items):
            self.items.append(kind(form))
        return place

    def of(self, value: Value) -> int:
        """The place of that of a view, or of the arguments of a constant that is made."""
        view = value.view
        if isinstance(view, Reshape):
            return self.place(view.shape)
        if isinstance(view, Slices):
            return self.place(view.ranges, _Index)
        if isinstance(view, Transpose):
            return self.place(view.axes)
        if isinstance(value.constant, Made):
            # what a function takes need not be hashable
            self.items.append(SizedItem(value.constant.arguments))
            return len(self.items) - 1
        return self.place(None)


# name, the name of what it shows, how, and the place of its form
ShownAs: TypeAlias = "tuple[str, str, Callable[[Any, Any], Any], int]"


@dataclass(frozen=True)
class Meanings:
    """The things that names in a source stand for (see `Source`), as they follow from sizes."""

    bound: list[tuple[str, PlanObject]]
    sizes: list[tuple[str, SizedItem]]
    numbers: list[tuple[str, SizedItem, str]]
    """Name, (shape, number), dtype."""
    held: list[tuple[str, Value, int]]
    """Persistable variables and constants, with the place of their arguments in `forms`."""
    buffers: list[tuple[str, Value]]
    views: list[ShownAs]
    """Those of what is before them, too."""
    forms: list[SizedItem]
    groups: list[tuple[str, Sequence[Any]]]
    """Name, and the names, or rows of names, of arrays that it stands for."""

    @classmethod
    def of(cls, source: Source) -> Meanings:
        """The meanings of all names."""
        name_of = {value: name for name, value in source.values}
        forms = _Forms()
        held: list[tuple[str, Value, int]] = []
        buffers: list[tuple[str, Value]] = []
        views: list[ShownAs] = []
        for name, value in source.values:
            if value.base is not None:
                views.append((name, name_of[value.base], _SHOWN[type(value.view)], forms.of(value)))
            elif value.storage is Storage.BUFFER:
                buffers.append((name, value))
            else:
                held.append((name, value, forms.of(value)))
        return cls(
            list(source.bound.items()),
            [(name, SizedItem(size)) for name, size in source.sizes],
            [(name, SizedItem((shape, number)), kind) for name, number, kind, shape in source.numbers],
            held,
            buffers,
            views,
            forms.items,
            [(name, renamed(group, name_of)) for name, group in source.groups.items()],
        )

    def varying(self) -> Meanings:
        """The meanings that are others for other sizes."""
        held = [entry for entry in self.held if self.forms[entry[2]].maker is not None]
        buffers = [entry for entry in self.buffers if sizes_in(entry[1].shape or ())]
        names = {name for name, *_ in (*held, *buffers)}
        views = []
        for entry in self.views:
            name, base, _, form = entry
            if base in names or self.forms[form].maker is not None:
                names.add(name)
                views.append(entry)
        groups = [(name, group) for name, group in self.groups if not names.isdisjoint(_members(group))]
        return replace(
            self,
            bound=[(name, thing) for name, thing in self.bound if thing.sizes() is not None],
            numbers=[entry for entry in self.numbers if entry[1].maker is not None],
            held=held,
            buffers=buffers,
            views=views,
            groups=groups,
        )


def renamed(group: Any, names: Mapping[Any, Any]) -> Any:
    """A group, or a row of one, with what each of its members stands for."""
    if isinstance(group, (tuple, list)):
        return tuple([renamed(item, names) for item in group])
    return names[group]


def _members(group: Iterable[Any]) -> Iterator[str]:
    """The names in a group."""
    for item in group:
        if isinstance(item, tuple):
            yield from item
        else:
            yield item
