"""`python -m fluidlite script.py`: the command `fluidlite-run`."""

from __future__ import annotations

import sys

from fluidlite.cli.run import main

if __name__ == "__main__":
    sys.exit(main())
