"""Completion scripts for shells, made from the parsers: of `fluidlite` with all its commands, and of
`fluidlite-transpile`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Mapping, Sequence

from fluidlite.cli.docs import page_names
from fluidlite.cli.errors import UsageError
from fluidlite.cli.examples import example_names
from fluidlite.cli.options import SHELLS, job_modes, parser
from fluidlite.show import FORMATS
from fluidlite.transpiler.config import DistributeTranspilerConfig

__all__ = ["completion", "completion_of_all"]

Parsers = Mapping[str, argparse.ArgumentParser]


def completion(shell: str) -> str:
    """The text to put where the shell looks for completions: `source <(fluidlite-transpile --completion
    bash)`.
    """
    if shell == "bash":
        return _bash("fluidlite-transpile", {"": parser()}, {})
    if shell == "zsh":
        lines = ["#compdef fluidlite-transpile", *_zsh_arguments(parser(), "files")]
        return "\n".join(lines) + "\n"
    return "".join(_fish_options("fluidlite-transpile", parser(), ""))


def completion_of_all(shells: Sequence[str], commands: Mapping[str, tuple[str, str]]) -> str:
    """The same for `fluidlite`; `commands` are names with the module and the sentence of each."""
    if len(shells) != 1 or shells[0] not in SHELLS:
        raise UsageError(f"--completion takes the name of a shell: {', '.join(SHELLS)}")
    (shell,) = shells
    parsers: Parsers = {name: importlib.import_module(home).parser() for name, (home, _) in commands.items()}
    about = {name: text for name, (_, text) in commands.items()}
    if shell == "bash":
        return _bash("fluidlite", parsers, about)
    if shell == "zsh":
        return _zsh_of_all(parsers, about)
    lines = [
        f"complete -c fluidlite -n __fish_use_subcommand -x -a {name} -d '{_quoted(text)}'\n"
        for name, text in about.items()
    ]
    for name, made in parsers.items():
        where = f" -n '__fish_seen_subcommand_from {name}'"
        words = " ".join(_words(name))
        lines += [f"complete -c fluidlite{where} -x -a '{words}'\n"] if words else []
        lines += _fish_options("fluidlite", made, where)
    return "".join(lines)


def _values() -> dict[str, Sequence[str]]:
    return {
        "--mode": job_modes(),
        "--format": tuple(FORMATS),
        "--completion": SHELLS,
        "--role": ("trainer0", "pserver0"),
        "--feeds": ("random", "script"),
        "--config": [f"{name}=" for name in DistributeTranspilerConfig.names()],
    }


def _words(command: str) -> Sequence[str]:
    """Words that may follow a command instead of a file."""
    return {"docs": page_names, "examples": example_names}.get(command, list)()


def _actions(made: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in made._actions if action.option_strings]


def _options(made: argparse.ArgumentParser) -> str:
    return " ".join(option for action in _actions(made) for option in action.option_strings)


# ---------------------------------------------------------------------- bash
def _bash(program: str, parsers: Parsers, about: Mapping[str, str]) -> str:
    function = f"_{program.replace('-', '_')}"
    lines = [
        f"{function}() {{",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options="" words=""',
        *_bash_commands(parsers, about),
        '  case "$before" in',
        *(
            f'    {option}) COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$word")); return ;;'
            for option, values in _values().items()
        ),
        '    -o|--output|--copy) COMPREPLY=($(compgen -d -- "$word")); return ;;',
        "  esac",
        '  if [[ "$word" == -* ]]; then',
        '    COMPREPLY=($(compgen -W "$options" -- "$word"))',
        '  elif [[ -n "$words" ]]; then',
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "  else",
        '    COMPREPLY=($(compgen -f -- "$word"))',
        "  fi",
        "}",
        f"complete -o filenames -F {function} {program}",
    ]
    return "\n".join(lines) + "\n"


def _bash_commands(parsers: Parsers, about: Mapping[str, str]) -> Iterator[str]:
    """The options of the command that stands first, or the commands where none does yet."""
    if not about:
        yield f'  options="{_options(parsers[""])}"'
        return
    known = " ".join([*about, "--help", "--version", "--completion"])
    yield "  if [[ $COMP_CWORD == 1 ]]; then"
    yield f'    COMPREPLY=($(compgen -W "{known}" -- "$word")); return'
    yield "  fi"
    yield '  case "${COMP_WORDS[1]}" in'
    for name, made in parsers.items():
        words = " ".join(_words(name))
        yield f'    {name}) options="{_options(made)}" words="{words}" ;;'
    yield "  esac"


# ---------------------------------------------------------------------- zsh and fish
def _quoted(text: str) -> str:
    """One line for single quotes, in which shells know no escape, without what only the long help needs."""
    return text.replace("'", "").split(" (", 1)[0]


def _zsh_of_all(parsers: Parsers, about: Mapping[str, str]) -> str:
    lines = [
        "#compdef fluidlite",
        "_fluidlite() {",
        "  if (( CURRENT == 2 )); then",
        "    local -a commands=(",
    ]
    lines += [f"      '{name}:{_quoted(text)}'" for name, text in about.items()]
    lines += ["    )", "    _describe command commands", "    return", "  fi"]
    lines += ["  local command=$words[2]", "  shift words", "  (( CURRENT-- ))", '  case "$command" in']
    for name, made in parsers.items():
        words = " ".join(_words(name))
        lines += [f"  {name})", *_zsh_arguments(made, f"({words})" if words else "files"), "  ;;"]
    return "\n".join([*lines, "  esac", "}", "compdef _fluidlite fluidlite"]) + "\n"


def _zsh_arguments(made: argparse.ArgumentParser, first: str) -> list[str]:
    values = _values()
    lines = []
    for action in _actions(made):
        # brackets and colons divide what zsh reads here
        about = _quoted(action.help or "").replace("[", "(").replace("]", ")").replace(":", " -")
        for option in action.option_strings:
            takes = ":value:_files"
            if action.nargs == 0:
                takes = ""
            elif option in values:
                takes = f":value:({' '.join(values[option])})"
            lines.append(f"  '*{option}[{about}]{takes}' \\")
    return ["_arguments \\", *lines, f"  '1:source:{'_files' if first == 'files' else first}'"]


def _fish_options(program: str, made: argparse.ArgumentParser, where: str) -> list[str]:
    values = _values()
    lines = []
    for action in _actions(made):
        for option in action.option_strings:
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            takes = " -r"
            if action.nargs == 0:
                takes = ""
            elif option in values:
                takes = f" -x -a '{' '.join(values[option])}'"
            lines.append(f"complete -c {program}{where} {flag}{takes} -d '{_quoted(action.help or '')}'\n")
    return lines
