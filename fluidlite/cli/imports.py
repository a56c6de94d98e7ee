"""`import paddle.fluid` in old scripts: the names of Paddle's packages stand for FluidLite's modules.

    with paddle_names():
        import paddle.fluid as fluid          # fluid is fluidlite

Inside the `with`, `paddle.fluid.X` is `fluidlite.X`, the same module object; `paddle.batch` and
`paddle.reader` are there as well. `paddle.dataset` has every data set's name but no data: a reader says so
when it is read. What was imported under these names before, a real Paddle perhaps, is put aside and comes
back afterwards.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from fluidlite.base.errors import FluidError
from fluidlite.reading.decorators import batch

__all__ = ["PADDLE_VERSION", "paddle_names"]

PADDLE_VERSION = "1.8.5"
_HOMES = {"paddle.fluid": "fluidlite", "paddle.reader": "fluidlite.reading.decorators"}
_READERS = (
    "train",
    "test",
    "train10",
    "train100",
    "test10",
    "test100",
    "valid",
    "validation",
    "val",
    "trainval",
)


@contextlib.contextmanager
def paddle_names() -> Iterator[None]:
    """Inside the `with`, imports of `paddle` find FluidLite."""
    finder = _Finder()
    aside = _take_out()
    # in front: an installed Paddle must not be found first
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _take_out()
        sys.modules.update(aside)


def _take_out() -> dict[str, ModuleType]:
    """Forget all modules called `paddle` or `paddle.x`; returns them."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".", 1)[0] == "paddle"}


def _home(name: str) -> str | None:
    """The module of ours that `paddle.fluid.x` stands for."""
    for prefix, home in _HOMES.items():
        if name == prefix or name.startswith(f"{prefix}."):
            return home + name[len(prefix) :]
    return None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `paddle` and what is below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        """A spec for the names that there are; None for others."""
        # packages all: Python looks for `paddle.fluid` only in a module that has a `__path__`
        if fullname == "paddle" or fullname == "paddle.dataset" or fullname.startswith("paddle.dataset."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        home = _home(fullname)
        if home is None or not _exists(home):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """A module of our own for `paddle` and its data sets; for the others an empty one that
        `exec_module` replaces.
        """
        if spec.name == "paddle":
            return _Paddle(spec.name)
        return _PaddleDatasets(spec.name) if spec.name.startswith("paddle.dataset") else None

    def exec_module(self, module: ModuleType) -> None:
        """Put FluidLite's module in the place of the empty one: Python takes what stands in `sys.modules`
        afterwards.
        """
        home = _home(module.__name__)
        if home is not None:
            sys.modules[module.__name__] = importlib.import_module(home)


def _exists(home: str) -> bool:
    try:
        return importlib.util.find_spec(home) is not None
    except ModuleNotFoundError:
        return False


class _Paddle(ModuleType):
    """The package `paddle` itself."""

    __version__ = PADDLE_VERSION

    def __getattr__(self, name: str) -> Any:
        if name == "batch":
            return batch
        if name in ("fluid", "reader", "dataset"):
            return importlib.import_module(f"paddle.{name}")
        raise AttributeError(
            f"module 'paddle' has no attribute {name!r} (FluidLite has paddle.fluid, paddle.reader and "
            f"paddle.batch)"
        )


class _PaddleDatasets(ModuleType):
    """`paddle.dataset` and the data sets below it, none of which FluidLite has."""

    def __getattr__(self, name: str) -> Any:
        # the import system asks for these and takes AttributeError for "there is none"
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "paddle.dataset":
            return importlib.import_module(f"paddle.dataset.{name}")
        whole = f"{self.__name__}.{name}"
        # `train()` makes a reader, so it is the reader that refuses: scripts call the maker as they begin
        return _reader_maker(whole) if name in _READERS else _refuse(whole)


def _reader_maker(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: _refuse(name)


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise FluidError(
            f"{name}() would download a data set, which FluidLite does not: read the data in another way"
        )

    return refuse
