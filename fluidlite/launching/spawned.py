"""One process of a job whose work is a function: `python spawned.py FILE`, started by `spawn`.

The file says, as an encoded object, where the function is and what it is given.
"""

from __future__ import annotations

import importlib
import pathlib
import runpy
import sys
from typing import Any

from fluidlite.executor.comm.objects import decode


def function_of(module: str, path: str, name: str) -> Any:
    """The function called `name` in a module, or in the script at `path`, which runs under another name than
    __main__ so that it starts nothing again.
    """
    if path:
        sys.path.insert(0, str(pathlib.Path(path).parent))
        found: Any = runpy.run_path(path, run_name="__mp_main__")[name.partition(".")[0]]
        names = name.split(".")[1:]
    else:
        found = importlib.import_module(module)
        names = name.split(".")
    for part in names:
        found = getattr(found, part)
    return found


def main() -> None:
    """Call the function."""
    job = decode(pathlib.Path(sys.argv[1]).read_bytes())
    sys.path[:0] = job["path"]
    function_of(job["module"], job["script"], job["name"])(*job["arguments"])


if __name__ == "__main__":
    main()
