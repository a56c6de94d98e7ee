"""`fluidlite examples`: the example programs, listed, copied or run."""

from __future__ import annotations

import argparse
import ast
import pathlib
import runpy
import shutil
import sys
from collections.abc import Sequence

from fluidlite.base.errors import did_you_mean
from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError
from fluidlite.cli.files import folder_of
from fluidlite.cli.parsing import Parser

__all__ = ["example_names", "main", "parser"]

_EXAMPLES = """\
examples:
  fluidlite examples                         list them
  fluidlite examples --copy .                copy them into ./fluidlite-examples
  fluidlite examples fit_a_line --epochs 5   run one, with its arguments

Most examples need pip install 'fluidlite[examples]'.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code, 2 when there is no such example."""
    return run_command("fluidlite examples", _run, argv)


def parser() -> Parser:
    """The parser of what stands before an example's own arguments."""
    made = Parser(
        prog="fluidlite examples",
        usage="fluidlite examples [--copy FOLDER] [NAME [arguments of the example]]",
        description="List, copy or run the example programs that are installed with FluidLite.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--copy", metavar="FOLDER", help="copy all of them into FOLDER/fluidlite-examples")
    return made


def example_names() -> list[str]:
    """The examples that are programs of their own."""
    return [path.stem for path in _files() if _first_line(path)[1]]


def _files() -> list[pathlib.Path]:
    return sorted(folder_of("examples").glob("*.py"))


def _first_line(path: pathlib.Path) -> tuple[str, bool]:
    """The first sentence of a program's docstring, and true where it is one that runs."""
    text = path.read_text(encoding="utf8")
    about = ast.get_docstring(ast.parse(text)) or ""
    sentence = " ".join(about.split("\n\n")[0].split())
    return sentence, 'if __name__ == "__main__":' in text


def _run(argv: Sequence[str]) -> int:
    made = parser()
    mine, rest = made.split(argv)
    options = made.parse_args(mine)
    if options.copy is not None:
        sys.stdout.write(f"{_copied(pathlib.Path(options.copy))}\n")
    elif rest:
        _run_example(rest[0].removesuffix(".py"), rest[1:])
    else:
        width = max(map(len, example_names()))
        rows = [
            f"{path.stem:<{width}}  {_first_line(path)[0]}\n" for path in _files() if _first_line(path)[1]
        ]
        sys.stdout.write("".join([*rows, f"\nThey are in {folder_of('examples')}.\n"]))
    return 0


def _copied(folder: pathlib.Path) -> pathlib.Path:
    """Copy the folder of examples; UsageError where one of that name is there already."""
    target = folder / "fluidlite-examples"
    if target.exists():
        raise UsageError(f"{target} exists: remove it, or choose another folder")
    shutil.copytree(folder_of("examples"), target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def _run_example(name: str, arguments: Sequence[str]) -> None:
    names = example_names()
    if name not in names:
        raise UsageError(f"there is no example {name!r}{did_you_mean(name, names)} ({', '.join(names)})")
    path = folder_of("examples") / f"{name}.py"
    sys.argv[:] = [str(path), *arguments]
    # they import what they have in common from their own folder
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


if __name__ == "__main__":
    sys.exit(main())
