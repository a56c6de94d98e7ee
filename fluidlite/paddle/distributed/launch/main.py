"""The command `launch`, a door to `fluidlite.launching`."""

from __future__ import annotations

import sys

from fluidlite.launching import main

__all__ = ["launch"]

_PROGRAM = "python -m fluidlite.paddle.distributed.launch"


def launch() -> None:
    """Start the job that this process's arguments describe, and end with its exit code."""
    sys.exit(main(sys.argv[1:], _PROGRAM))
