"""`import paddle` in old scripts: the names of Paddle's modules stand for FluidLite's.

    import fluidlite; fluidlite.install_as_paddle()
    import paddle.fluid as fluid              # fluid is fluidlite

`paddle.fluid.X` is `fluidlite.X`, and any other `paddle.X` is `fluidlite.paddle.X`: the same module objects,
so classes, default programs and pickles are shared. `paddle` itself has the names of both versions: 1.8's
`paddle.fluid`, `paddle.batch` and `paddle.dataset`, and those of the 2.x door.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any

from fluidlite.base.errors import InstalledPaddleError
from fluidlite.base.imperative import instead_of
from fluidlite.cli.scripts.elsewhere import HOMES, ElsewhereModule, children_of, home_of, is_elsewhere, lend

__all__ = ["PADDLE_VERSION", "install_as_paddle", "paddle_names"]

PADDLE_VERSION = "1.8.5"


def install_as_paddle(shadow: bool = False) -> None:
    """From now on `import paddle` finds FluidLite in this process.

    InstalledPaddleError where a real Paddle is installed or was imported, unless `shadow` asks for FluidLite
    nevertheless; modules of the real one that scripts hold stay what they are. A second call does nothing.
    """
    if isinstance(sys.modules.get("paddle"), PaddleModule) or _installed():
        return
    found = None if shadow else _other_paddle()
    if found is not None:
        raise InstalledPaddleError(
            f"PaddlePaddle is installed at {found}: call install_as_paddle(shadow=True) to use "
            "FluidLite instead of it in this process"
        )
    _take_out()
    # in front: an installed Paddle must not be found first
    sys.meta_path.insert(0, PaddleFinder())


@contextlib.contextmanager
def paddle_names() -> Iterator[None]:
    """Inside the `with`, imports of `paddle` find FluidLite.

    What was imported under these names before, a real Paddle perhaps, is put aside and comes back afterwards.
    """
    finder = PaddleFinder()
    aside = _take_out()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _take_out()
        sys.modules.update(aside)


def _installed() -> bool:
    return any(isinstance(finder, PaddleFinder) for finder in sys.meta_path)


def _other_paddle() -> str | None:
    """The file of a Paddle that is not FluidLite; None where there is none."""
    loaded = sys.modules.get("paddle")
    spec = importlib.util.find_spec("paddle") if loaded is None else loaded.__spec__
    if spec is None and loaded is None:
        return None
    # the folder that child processes of `fluidlite-run` find holds a `paddle` that is FluidLite
    origin = str(getattr(spec, "origin", None) or getattr(loaded, "__file__", None) or "<unknown>")
    ours = importlib.util.find_spec("fluidlite.cli.scripts.children.paddle")
    return None if ours is not None and origin == ours.origin else origin


def _take_out() -> dict[str, ModuleType]:
    """Forget all modules called `paddle` or `paddle.x`; returns them."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".", 1)[0] == "paddle"}


class PaddleFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `paddle` and the modules below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for the names that there are; None for others."""
        home = _spec_of_home(fullname)
        if home is None:
            known = is_elsewhere(fullname)
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if known else None
        is_package = home.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, self, origin=home.origin, is_package=is_package)

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the module that a name stands for: `python -m paddle.distributed.launch` runs it."""
        home = _spec_of_home(fullname)
        loader = None if home is None else home.loader
        if home is None or not isinstance(loader, importlib.abc.InspectLoader):
            return None
        return loader.get_code(home.name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """A module of its own for `paddle` and for names that lie elsewhere; for the others an empty one that
        `exec_module` replaces.
        """
        if spec.name == "paddle":
            return PaddleModule(spec.name)
        return ElsewhereModule(spec.name) if _spec_of_home(spec.name) is None else None

    def exec_module(self, module: ModuleType) -> None:
        """Put FluidLite's module in the place of the empty one: Python takes what stands in `sys.modules`
        afterwards.
        """
        home = home_of(module.__name__)
        if isinstance(module, ElsewhereModule):
            package, _, last = module.__name__.rpartition(".")
            found = vars(sys.modules[package]).get(last)
            # a module that the package has under this name, such as `paddle.utils.unique_name`, stays
            if isinstance(found, ModuleType):
                sys.modules[module.__name__] = found
            return
        if isinstance(module, PaddleModule):
            # `paddle.batch` is a function and a module; an import of the module must not replace the function
            sys.modules["paddle.batch"] = importlib.import_module(HOMES["paddle.batch"])
        elif home:
            sys.modules[module.__name__] = found = importlib.import_module(home)
            lend(module.__name__, found)
            _keep_functions(module.__name__, found)


def _keep_functions(name: str, package: ModuleType) -> None:
    """Name the modules of a package that stand behind a function of their name, such as `layers.rnn`: Python
    would put the module in the function's place when it is imported by a new name.
    """
    start = f"{package.__name__}."
    for inner, found in list(sys.modules.items()):
        child = inner.removeprefix(start)
        if inner.startswith(start) and "." not in child and vars(package).get(child, found) is not found:
            sys.modules[f"{name}.{child}"] = found


def _spec_of_home(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of the module of ours that a name stands for; None where there is none."""
    home = home_of(name)
    try:
        return importlib.util.find_spec(home) if home else None
    except ModuleNotFoundError:
        return None


class PaddleModule(ModuleType):
    """The package `paddle`: the names of 1.8 and those of the 2.x door."""

    __version__ = PADDLE_VERSION
    _modules_of_1x = ("fluid", "base")

    @staticmethod
    def enable_static() -> None:
        """Static graphs are what there is. Programs become those of 2.x when a function of 2.x is called, and
        stay fluid's when fluid's are: scripts between the versions call this first and then use fluid.
        """

    def __getattr__(self, name: str) -> Any:
        # the import system asks for these and takes AttributeError for "there is none"
        if name.startswith("__"):
            raise AttributeError(name)
        door = importlib.import_module("fluidlite.paddle")
        if name in self._modules_of_1x:
            value = importlib.import_module(f"paddle.{name}")
        elif name in dir(door):
            value = getattr(door, name)
            if isinstance(value, ModuleType):
                lend(f"paddle.{name}", value)
        elif name in children_of("paddle"):
            value = importlib.import_module(f"paddle.{name}")
        else:
            raise AttributeError(f"module 'paddle' has no attribute {name!r}{instead_of(name, dir(self))}")
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        door = importlib.import_module("fluidlite.paddle")
        return sorted({*super().__dir__(), *self._modules_of_1x, "enable_static", *dir(door)})
