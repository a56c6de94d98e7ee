"""`python -m fluidlite.paddle.distributed.launch_ps`: start a job with parameter servers, as 1.8 did."""

from __future__ import annotations

import sys

from fluidlite.launching import main

__all__ = ["launch"]

_PROGRAM = "python -m fluidlite.paddle.distributed.launch_ps"


def launch() -> None:
    """Start the job that this process's arguments describe, two servers and two trainers by default, and end
    with its exit code.
    """
    sys.exit(main(sys.argv[1:], _PROGRAM, servers=True))


if __name__ == "__main__":
    launch()
