"""The way in which every command ends: an exit code, and one line for a mistake."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from fluidlite.base.command_line import BROKEN_PIPE, drop_output
from fluidlite.base.errors import FluidError
from fluidlite.cli.errors import one_line

__all__ = ["run_command"]


def run_command(name: str, run: Callable[[Sequence[str]], int], argv: Sequence[str] | None) -> int:
    """Run a command on its arguments (default: those of the process); returns its exit code, 2 when the
    user must change something.
    """
    _open_closed()
    try:
        code = run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # whoever read our output has seen enough
        drop_output()
        return BROKEN_PIPE
    except OSError as error:
        # a disk that is full, or a device like /dev/full
        drop_output()
        sys.stderr.write(f"{name}: error: {error.strerror or error}{_named(error)}\n")
        return 2
    except (FluidError, RecursionError, MemoryError) as error:
        sys.stderr.write(f"{name}: error: {one_line(error)}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return 130


def _open_closed() -> None:
    """Give the process the streams that whoever started it has closed (`>&-`): what goes there is lost, and
    no file or connection gets their numbers.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf8"))  # noqa: SIM115  # to the end


def _named(error: OSError) -> str:
    """The file of an error; one without is about the output."""
    return f": {error.filename}" if error.filename else ", where the output goes"
