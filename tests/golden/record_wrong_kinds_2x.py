"""Record what PaddlePaddle 2.6.2 raises for the calls of `wrong_kinds_2x.py`, into `wrong_kinds_2x.json.gz`.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2: `python -m
golden.record_wrong_kinds_2x`. Some calls end its process: others are recorded by a next one.
"""

from __future__ import annotations

import gzip
import json
import os
import warnings
from collections.abc import Iterator
from typing import Any

import paddle

from .wrong_kinds_2x import all_rows, calls, raised

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrong_kinds_2x.json.gz")
ENDS = "ends the process"


def outcomes(codes: list[str]) -> Iterator[tuple[str, str]]:
    """(Code, outcome), as far as a process of its own comes: the last one is that of a call that ends it."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writer, "w") as file:
            for code in codes:
                print(json.dumps([code, ENDS]), file=file, flush=True)
                print(json.dumps([code, raised(paddle, code).split(" ")[0]]), file=file, flush=True)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        yield from map(json.loads, file)
    os.wait()


def all_outcomes(codes: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    left = codes
    while left:
        found.update(outcomes(left))
        left = [code for code in left if code not in found]
    return found


def main() -> None:
    paddle.enable_static()
    warnings.simplefilter("ignore")
    meant = all_outcomes(all_rows())
    rows = [code for code, outcome in meant.items() if not outcome]
    made = calls(rows)
    found = all_outcomes(sorted({code for cases in made.values() for code in cases.values()}))
    functions: dict[str, Any] = {
        function: {case: found[code] for case, code in cases.items()} for function, cases in made.items()
    }
    text = json.dumps({"rows": rows, "functions": functions}, separators=(",", ":"))
    with open(PATH, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(text.encode())
    print(len(found), "calls of", len(functions), "functions,", os.path.getsize(PATH), "bytes")
    print("refused as they are:", *sorted(set(all_rows()) - set(rows)), sep="\n  ")


if __name__ == "__main__":
    main()
