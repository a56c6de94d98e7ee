"""A script, or a module of a package, as the `__main__` of this process: what Python itself would set up."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import linecache
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, ModuleType, TracebackType
from typing import Any

from fluidlite.base.errors import ArgumentError, did_you_mean
from fluidlite.base.records import dataclass

__all__ = [
    "MainCode",
    "as_main",
    "code_of_file",
    "code_of_module",
    "code_of_text",
    "run_as_main",
    "show_from",
]

CHILDREN = str(pathlib.Path(__file__).resolve().parent / "children")


@dataclass(frozen=True)
class MainCode:
    """Code to run as `__main__`: where it stands, how it is called in `sys.argv`, the folder in which it
    finds the modules beside it, and its spec if it belongs to a package.
    """

    code: CodeType
    file: str
    called: str
    folder: str
    spec: importlib.machinery.ModuleSpec | None = None

    def module(self) -> ModuleType:
        """A `__main__` that has not run yet."""
        made = ModuleType("__main__")
        loader = importlib.machinery.SourceFileLoader("__main__", self.file)
        found: dict[str, Any] = {
            "__file__": self.file,
            "__builtins__": __builtins__,
            "__spec__": self.spec,
            "__package__": None if self.spec is None else self.spec.parent,
            "__loader__": loader if self.spec is None else self.spec.loader,
            "__cached__": None if self.spec is None else self.spec.cached,
        }
        made.__dict__.update(found)
        return made


def code_of_file(path: str, shown: str | None = None) -> MainCode:
    """The script at `path`; OSError where it cannot be read, SyntaxError where it is no Python.

    `shown` is the name in tracebacks and `__file__`: the whole path, as Python has it, unless it is given.
    """
    file = shown or path
    if shown is None and not os.path.isabs(path):
        # the current folder may be gone, which a whole path does not need
        file = os.path.join(os.getcwd(), path)
    source = pathlib.Path(path).read_bytes()
    # Python finds the modules beside the file that a link points to
    return MainCode(_compiled(source, file), file, path, str(pathlib.Path(path).resolve().parent))


def code_of_text(source: bytes) -> MainCode:
    """The script that came through stdin."""
    file = "<stdin>"
    code = _compiled(source, file)
    # what shows its lines later cannot read it again
    lines = importlib.util.decode_source(source).splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)
    return MainCode(code, file, "-", os.getcwd())


def _compiled(source: bytes, file: str) -> CodeType:
    """The code of a script, without the `from __future__ import ...` of this module."""
    return compile(source, file, "exec", dont_inherit=True)


def code_of_module(name: str) -> MainCode:
    """The module that `python -m name` would run, searched for in the current folder first."""
    here = os.getcwd()
    with _searched(here):
        spec = _spec_of(name)
        if spec.submodule_search_locations is not None:
            spec = _spec_of(f"{name}.__main__")
        code = getattr(spec.loader, "get_code", lambda _: None)(spec.name)
    if code is None or spec.origin is None:
        raise ArgumentError(f"{name} has no Python code to run")
    return MainCode(code, spec.origin, spec.origin, here, spec)


def _spec_of(name: str) -> importlib.machinery.ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # a parent that is not there; one that itself imports what is missing fails as it does in Python
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
        spec = None
    if spec is None:
        beside = (path.stem for path in pathlib.Path().iterdir() if path.suffix in ("", ".py"))
        raise ArgumentError(f"no module named {name}{did_you_mean(name, beside)}")
    return spec


@contextlib.contextmanager
def _searched(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextlib.contextmanager
def as_main(main: MainCode, argv: Sequence[str]) -> Iterator[ModuleType]:
    """Inside the `with`, this process is `python script.py argv`: `__main__`, `sys.argv`, `sys.path`."""
    module = main.module()
    argv_before = sys.argv
    path_before = sys.path[:]
    main_before = sys.modules.get("__main__")
    sys.argv = [main.called, *argv]
    sys.path.insert(0, main.folder)
    # dataclasses and pickle look up a class's module by its name
    sys.modules["__main__"] = module
    try:
        yield module
    finally:
        sys.argv = argv_before
        # in place: others may hold the list
        sys.path[:] = path_before
        if main_before is not None:
            sys.modules["__main__"] = main_before


# ------------------------------------------------------------------------------------------------ for good
def run_as_main(main: MainCode, argv: Sequence[str]) -> None:
    """Run a script as this process's own, for the rest of its life.

    What the script raises leaves as it would leave Python: SystemExit, KeyboardInterrupt and errors go up to
    the interpreter, with tracebacks that begin in the script.
    """
    _enter(main, argv)
    try:
        exec(main.code, sys.modules["__main__"].__dict__)
    except BaseException:
        show_from(main.code)
        raise


_kept: list[ModuleType] = []


def _enter(main: MainCode, argv: Sequence[str]) -> None:
    """Make this process the script's."""
    # the command's own `__main__` would be cleared while its functions still run
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main.module()
    sys.argv = [main.called, *argv]
    # the first entry is the folder of the command, as Python put it there
    sys.path[: 0 if getattr(sys.flags, "safe_path", False) else 1] = [main.folder]
    # processes that the script starts: a new Python, or multiprocessing's, which is given this `sys.path`
    sys.path.insert(1, CHILDREN)
    beyond = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = CHILDREN if not beyond else os.pathsep.join([CHILDREN, beyond])


def show_from(code: CodeType | None) -> None:
    """Have tracebacks begin in the script: the frames before it are the command's. None where the script
    never began: there is no traceback at all.
    """
    hook = sys.excepthook

    def show(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code is not code:
            trace = trace.tb_next
        # Python shows the traceback that the error itself has
        hook(kind, value.with_traceback(trace), trace)

    sys.excepthook = show
