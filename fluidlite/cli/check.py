"""`fluidlite check`: what FluidLite does not support in the scripts of a folder; none of them is run."""

from __future__ import annotations

import argparse
import ast
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError
from fluidlite.cli.parsing import Parser
from fluidlite.cli.scripts.check import problems_of
from fluidlite.cli.scripts.names import install_as_paddle
from fluidlite.distributed.tables import table

__all__ = ["main", "parser"]

_EXAMPLES = """\
examples:
  fluidlite check old_scripts                     all .py files of a folder and of those in it
  fluidlite check train.py                        one script
  fluidlite check old_scripts --json > todo.json  the same as JSON: file, line, text

exit code: 0; 1 where something is not supported; 2 when there is no such file.
"""

# methods of Tensors, layers and optimizers that only imperative mode has
_IMPERATIVE = {
    "backward": "use optimizer.minimize(loss), or static.gradients",
    "step": "use optimizer.minimize(loss), and run the program",
    "clear_grad": "gradients are computed anew in each run",
    "clear_gradients": "gradients are computed anew in each run",
    "numpy": "fetch it: exe.run(..., fetch_list=[x])",
    "item": "fetch it: exe.run(..., fetch_list=[x])",
}
_SCHEDULES = ("scheduler", "schedule", "lr")


class Unsupported(NamedTuple):
    """One line of the table."""

    file: str
    line: int
    text: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 where something is not supported."""
    return run_command("fluidlite check", _check, argv)


def parser() -> Parser:
    """The parser of `fluidlite check`."""
    made = Parser(
        prog="fluidlite check",
        description="List, with file and line, what FluidLite does not support in the scripts of a folder: "
        "names of Paddle, and calls that only imperative mode has. No script is run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("path", help="a folder, whose .py files are read, or one script")
    made.add_argument("--json", action="store_true", help="write JSON instead of a table")
    return made


def _check(argv: Sequence[str]) -> int:
    options = parser().parse_args(list(argv))
    files = _files(pathlib.Path(options.path))
    install_as_paddle(shadow=True)
    found = sorted({one for file in files for one in _unsupported(file)})
    if options.json:
        sys.stdout.write(json.dumps([one._asdict() for one in found], indent=1) + "\n")
        return 1 if found else 0
    if found:
        rows = [[f"{one.file}:{one.line}", one.text] for one in found]
        sys.stdout.write(table(["line", "not supported"], rows, left=2))
    counted = len({one.file for one in found})
    sys.stdout.write(f"{len(files)} files read, {counted} with {len(found)} lines that are not supported\n")
    return 1 if found else 0


def _files(path: pathlib.Path) -> list[str]:
    if path.is_file():
        return [str(path)]
    if not path.is_dir():
        raise UsageError(f"no such file or folder: {path}")
    return sorted(str(file) for file in path.rglob("*.py") if not _is_hidden(file.relative_to(path)))


def _is_hidden(path: pathlib.Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def _unsupported(file: str) -> Iterator[Unsupported]:
    for line, text in problems_of(file):
        yield Unsupported(file, line, text)
    try:
        tree = ast.parse(pathlib.Path(file).read_bytes(), file)
    except (SyntaxError, ValueError) as error:
        yield Unsupported(
            file, getattr(error, "lineno", None) or 1, f"cannot be parsed by this Python: {error}"
        )
        return
    if _uses_paddle(tree):
        for line, text in _imperative(tree):
            yield Unsupported(file, line, text)


def _uses_paddle(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(name.split(".")[0] in ("paddle", "fluidlite") for name in names):
            return True
    return False


def _imperative(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Calls without arguments of methods of imperative mode; a schedule has a `step` of its own."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        hint = _IMPERATIVE.get(node.func.attr)
        owner = ast.unparse(node.func.value)
        is_schedule = node.func.attr == "step" and owner.rpartition(".")[2].lower().endswith(_SCHEDULES)
        if hint and not node.args and not is_schedule:
            yield node.lineno, f"{owner}.{node.func.attr}() needs imperative mode: {hint}"


if __name__ == "__main__":
    sys.exit(main())
