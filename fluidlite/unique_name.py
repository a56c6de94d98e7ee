"""Names for variables that the user did not name: `key_0`, `key_1`, ... with one counter a key."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names

__all__ = ["generate", "guard", "switch"]


class UniqueNameGenerator:
    """Counters by key, with an optional prefix in front of every name."""

    def __init__(self, prefix: str | None = None) -> None:
        self.ids: dict[str, int] = defaultdict(int)
        self.prefix = prefix or ""

    def __call__(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(f"the prefix of a name must be a string, not {key!r}")
        number = self.ids[key]
        self.ids[key] += 1
        return f"{self.prefix}{key}_{number}"


class DygraphParameterNameChecker:
    """Names that imperative parameters have taken: none here, as programs keep the names of theirs.

    It comes and goes with the generator, so that scripts can hand both back to `switch`.
    """

    def __init__(self) -> None:
        self._name_set: set[str] = set()


class _Current:
    """The counters in use: fluid's module shows them as variables of its own."""

    def __init__(self) -> None:
        self.generator = UniqueNameGenerator()
        self.dygraph_parameter_name_checker = DygraphParameterNameChecker()


_current = _Current()


def generate(key: str) -> str:
    """The next unused name that starts with `key`."""
    return _current.generator(key)


generate_with_ignorable_key = generate


def switch(
    new_generator: UniqueNameGenerator | None = None,
    new_para_name_checker: DygraphParameterNameChecker | None = None,
) -> tuple[UniqueNameGenerator, DygraphParameterNameChecker]:
    """Start new counters, or take those of `new_generator`.

    Returns the pair before, which `switch(*pair)` puts back.
    """
    old = _current.generator, _current.dygraph_parameter_name_checker
    _current.generator = UniqueNameGenerator() if new_generator is None else new_generator
    _current.dygraph_parameter_name_checker = new_para_name_checker or DygraphParameterNameChecker()
    return old


@contextlib.contextmanager
def guard(new_generator: str | UniqueNameGenerator | None = None) -> Iterator[None]:
    """Use new counters inside the `with`; a string is a prefix for the names made there."""
    if isinstance(new_generator, (str, bytes)):
        prefix = new_generator.decode() if isinstance(new_generator, bytes) else new_generator
        new_generator = UniqueNameGenerator(prefix)
    old = switch(new_generator)
    try:
        yield
    finally:
        switch(*old)


if TYPE_CHECKING:
    generator: UniqueNameGenerator
    dygraph_parameter_name_checker: DygraphParameterNameChecker
else:
    _imported, __dir__ = imported_names(__name__)

    def __getattr__(name: str) -> Any:
        return vars(_current)[name] if name in vars(_current) else _imported(name)
