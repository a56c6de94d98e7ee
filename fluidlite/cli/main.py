"""`fluidlite`: one command for all others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import fluidlite
from fluidlite.base.errors import did_you_mean
from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError

__all__ = ["main"]

# name -> its module, and what it does
COMMANDS = {
    "run": ("fluidlite.cli.run", "run a script of Paddle 1.x or 2.x, or a saved model (fluidlite-run)"),
    "check": ("fluidlite.cli.check", "list what FluidLite does not support in the scripts of a folder"),
    "transpile": ("fluidlite.cli.transpile", "print the programs of a distributed job (fluidlite-transpile)"),
    "launch": ("fluidlite.cli.launch", "start the processes of a job (fluidlite-launch)"),
    "show": ("fluidlite.cli.show", "show programs and jobs in the browser (fluidlite-show)"),
    "docs": ("fluidlite.cli.docs", "show the documentation of a subject or of a name"),
    "examples": ("fluidlite.cli.examples", "list, copy or run the example programs"),
    "doctor": ("fluidlite.cli.doctor", "report what is installed, and try it"),
}


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: fluidlite COMMAND [options]",
            "",
            "Static graphs of PaddlePaddle 1.x and 2.x in readable Python.",
            "",
            "commands:",
            *lines,
            "",
            "examples:",
            "  fluidlite run train.py --epochs 3            run an old script",
            "  fluidlite run --model saved --input x=x.npy  run a saved model",
            "  fluidlite check scripts                      see what would fail first",
            "  fluidlite transpile train.py --check         the programs of a job, checked",
            "  fluidlite show train.py                      the program as a page",
            "  fluidlite docs start                         how to begin",
            "",
            "fluidlite COMMAND --help explains a command; fluidlite --version prints the version;",
            "source <(fluidlite --completion bash) completes commands and options; also zsh, fish.",
            "",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code, 2 when the user must change something."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given and given[0] in COMMANDS:
        module, _ = COMMANDS[given[0]]
        code: int = importlib.import_module(module).main(given[1:])
        return code
    return run_command("fluidlite", _without_command, given)


def _without_command(given: Sequence[str]) -> int:
    if not given or given[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0
    if given[0] == "--version":
        sys.stdout.write(f"fluidlite {fluidlite.__version__}\n")
        return 0
    if given[0] == "--completion":
        made = importlib.import_module("fluidlite.cli.completion")
        sys.stdout.write(made.completion_of_all(given[1:], COMMANDS))
        return 0
    hint = did_you_mean(given[0], COMMANDS) or f": use one of {', '.join(COMMANDS)}"
    raise UsageError(f"there is no command {given[0]!r}{hint}")


if __name__ == "__main__":
    sys.exit(main())
