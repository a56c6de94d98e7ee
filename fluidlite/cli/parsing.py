"""Command lines: a parser whose mistakes are one line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from fluidlite.base.command_line import PrintingParser
from fluidlite.base.errors import did_you_mean
from fluidlite.cli.errors import UsageError

__all__ = ["Parser"]


class Parser(PrintingParser):
    """A parser that raises UsageError and knows what was meant."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise UsageError(f"{message} (see --help)")

    def options(self) -> list[str]:
        """All option strings."""
        return [text for action in self._actions for text in action.option_strings]

    def choose(self, options: argparse.Namespace, name: str, known: Sequence[str]) -> None:
        """UsageError, with the nearest name, where an option's value is not one of `known`."""
        value = getattr(options, name)
        for item in value if isinstance(value, list) else [value]:
            if item is not None and item not in known:
                raise UsageError(
                    f"no {name} {item!r}{did_you_mean(item, known)} ({name}s: {', '.join(known)})"
                )

    def split(self, argv: Sequence[str]) -> tuple[list[str], list[str]]:
        """The command's own options at the beginning, and what stands from the script's name on.

        argparse would take the script's options for the command's.
        """
        takes = {text: action.nargs != 0 for action in self._actions for text in action.option_strings}
        place = 0
        while place < len(argv) and argv[place].startswith("-") and argv[place] not in ("-", "--"):
            option = argv[place]
            place += 2 if takes.get(option) else 1
            if option == "-m":
                # the module is the script: what follows is its own
                return list(argv[:place]), list(argv[place:])
        rest = list(argv[place:])
        return list(argv[:place]), rest[1:] if rest[:1] == ["--"] else rest

    def parse(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The options with one `source` among them, and what stands after `--`; UsageError, with the nearest
        option, for what is unknown.
        """
        cut = list(argv).index("--") if "--" in argv else len(argv)
        # the unknown ones are answered here, with the nearest option, instead of by argparse
        options, unknown = self.parse_known_args(list(argv[:cut]))
        if unknown:
            name = unknown[0].split("=", 1)[0]
            if not name.startswith("-"):
                raise UsageError(f"give only one {self.source}, not both {options.source} and {unknown[0]}")
            near = did_you_mean(name, self.options())
            raise UsageError(f"there is no option {name!r}{near} (arguments of the script come after --)")
        return options, list(argv[cut + 1 :])

    @property
    def source(self) -> str:
        """The word for what the command reads, as its help has it."""
        words = [str(action.metavar) for action in self._actions if action.dest == "source"]
        return words[0] if words else "source"
