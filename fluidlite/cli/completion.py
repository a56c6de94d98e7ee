"""Completion scripts for shells, made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fluidlite.cli.options import SHELLS, parser
from fluidlite.show import FORMATS
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes import mode_names

__all__ = ["completion"]


def completion(shell: str) -> str:
    """The text to put where the shell looks for completions: `source <(fluidlite-transpile --completion
    bash)`.
    """
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _values() -> dict[str, Sequence[str]]:
    return {
        "--mode": mode_names(),
        "--format": tuple(FORMATS),
        "--completion": SHELLS,
        "--role": ("trainer0", "pserver0"),
        "--feeds": ("random", "script"),
        "--config": [f"{name}=" for name in DistributeTranspilerConfig.names()],
    }


def _actions() -> list[argparse.Action]:
    return [action for action in parser()._actions if action.option_strings]


def _bash() -> str:
    cases = "\n".join(
        f'    {option}) COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$word")); return ;;'
        for option, values in _values().items()
    )
    options = " ".join(option for action in _actions() for option in action.option_strings)
    return f"""\
_fluidlite_transpile() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  case "$before" in
{cases}
    -o|--output) COMPREPLY=($(compgen -d -- "$word")); return ;;
  esac
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "{options}" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _fluidlite_transpile fluidlite-transpile
"""


def _about(action: argparse.Action) -> str:
    """One line on an option, without what only the long help needs."""
    # the scripts put it between single quotes, in which shells know no escape
    return (action.help or "").replace("'", "").split(" (", 1)[0]


def _zsh() -> str:
    values = _values()
    lines = []
    for action in _actions():
        # brackets and colons divide what zsh reads here
        about = _about(action).replace("[", "(").replace("]", ")").replace(":", " -")
        for option in action.option_strings:
            takes = ":value:_files"
            if action.nargs == 0:
                takes = ""
            elif option in values:
                takes = f":value:({' '.join(values[option])})"
            lines.append(f"  '*{option}[{about}]{takes}' \\")
    return "\n".join(["#compdef fluidlite-transpile", "_arguments \\", *lines, "  '1:source:_files'"]) + "\n"


def _fish() -> str:
    values = _values()
    lines = []
    for action in _actions():
        for option in action.option_strings:
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            takes = " -r"
            if action.nargs == 0:
                takes = ""
            elif option in values:
                takes = f" -x -a '{' '.join(values[option])}'"
            lines.append(f"complete -c fluidlite-transpile {flag}{takes} -d '{_about(action)}'")
    return "\n".join(lines) + "\n"
