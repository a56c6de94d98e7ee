"""Sources of the command's programs: a script, a function, a file, or stdin."""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import sys
from collections.abc import Sequence

from fluidlite.base.errors import FluidError, FormatError, did_you_mean
from fluidlite.cli.capture import Captured, capture_call, capture_script
from fluidlite.cli.errors import UsageError, near_file, one_line
from fluidlite.cli.scripts.names import paddle_names
from fluidlite.ir.program import Program
from fluidlite.ir.text import parse as parse_text
from fluidlite.show.json import parse as parse_json

__all__ = ["load", "parse_program"]

# the first word that is no comment
_PROGRAM = re.compile(rb"(\s*#[^\n]*\n|\s)*program\b")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def load(
    source: str, argv: Sequence[str], startup: str | None = None, wanted: str | None = None, batches: int = 0
) -> Captured:
    """The programs that `source` names: "train.py", "package.module:function", "__model__", a folder with
    one, or "-" (stdin).

    `batches` asks a script for so many of its batches.
    """
    path = pathlib.Path(source)
    data = _piped() if source == "-" else None
    is_script = source.endswith(".py") if data is None else _is_python(data)
    if is_script:
        if startup:
            raise UsageError(
                "--startup can only be used with saved programs: a script builds its own startup program"
            )
        if data is None and not path.is_file():
            raise UsageError(f"no such file: {source}{near_file(path)}")
        return capture_script(source, argv, wanted, batches, data)
    if batches:
        raise UsageError(f"only scripts have batches, but {source} is not a script: remove --feeds script")
    if argv:
        raise UsageError(f"only scripts take arguments after --, but {source} is not a script")
    # a file may be called like a function
    if _FUNCTION.fullmatch(source) and not path.exists():
        if startup:
            raise UsageError(
                "--startup can only be used with saved programs: a function returns (main, startup)"
            )
        return _call(source)
    main = _parse(data, "stdin") if data is not None else _read(source)
    return Captured(main, _read(startup) if startup else Program(), path.name if source != "-" else "stdin")


def _piped() -> bytes:
    """All of stdin."""
    return sys.stdin.buffer.read()


def _is_python(data: bytes) -> bool:
    """True for the text of a script: Python that imports something."""
    if re.search(rb"^\s*(import|from)\s+\w", data, re.M) is None or b"\0" in data:
        return False
    return _PROGRAM.match(data) is None


def _call(source: str) -> Captured:
    """The programs of `module:function`; the current folder is searched first."""
    module_name, _, function_name = source.partition(":")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        with paddle_names():
            found = importlib.import_module(module_name)
        for name in function_name.split("."):
            if not hasattr(found, name):
                raise UsageError(f"{module_name} has no {name!r}{did_you_mean(name, dir(found))}")
            found = getattr(found, name)
        if not callable(found):
            raise UsageError(f"{source} is not a function")
        return capture_call(found, source)
    except (FluidError, SystemExit, KeyboardInterrupt):
        raise
    except Exception as error:
        raise UsageError(f"{source}: {type(error).__name__}: {one_line(error)}") from None
    finally:
        sys.path.remove(here)


def _read(source: str) -> Program:
    """A saved program: ProgramDesc bytes, our text, or our JSON."""
    path = _model_file(pathlib.Path(source))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}{near_file(path)}") from None
    return _parse(data, str(path))


def _parse(data: bytes, name: str) -> Program:
    """A program from bytes; `name` is where they come from."""
    if not data.strip():
        raise UsageError(f"{name} is empty")
    try:
        return parse_program(data)
    except FormatError as error:
        raise UsageError(f"{name}: {one_line(error)}") from None


def _model_file(path: pathlib.Path) -> pathlib.Path:
    """The program's file in a folder of a model: `__model__`, or the only file as 2.x names it."""
    if not path.is_dir():
        return path
    named = sorted(path.glob("*.pdmodel"))
    if (path / "__model__").exists() or not named:
        return path / "__model__"
    if len(named) > 1:
        names = ", ".join(item.name for item in named)
        raise UsageError(f"{path} holds {len(named)} programs ({names}): name one of them")
    return named[0]


def parse_program(data: bytes) -> Program:
    """A program from text, JSON or ProgramDesc bytes, whichever it is; FormatError where it is none of
    them.
    """
    head = data.lstrip()[:1]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if head == b"{" and text:
        return parse_json(text)
    if text and _PROGRAM.match(data):
        return parse_text(text)
    return Program.parse_from_string(data)
