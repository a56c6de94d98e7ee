"""Record what PaddlePaddle 1.8.5 does in the rows of `golden.op_rows`; not needed to use FluidLite.

cd tests && python -m golden.record_ops [FAMILY ...]
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from typing import Any

import paddle.fluid as fluid

from .op_rows import FAMILIES, HERE, rows_of
from .op_rows.observe import observe


def _observe_until_it_ends(rows: Any, writer: int) -> None:
    with os.fdopen(writer, "w") as out:
        for name, row in rows:
            out.write(json.dumps([name, observe(fluid, row)]) + "\n")
            out.flush()


def in_children(rows: Any) -> Any:
    """The facts of rows, from forked children: some mistakes end Paddle's process; the next child goes on."""
    facts: Any = {}
    waiting = list(rows.items())
    while waiting:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _observe_until_it_ends(waiting, writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as source:
            found = [json.loads(line) for line in source]
        os.waitpid(child, 0)
        facts.update(found)
        waiting = waiting[len(found) :]
        if waiting:
            facts[waiting.pop(0)[0]] = {"error": ["Crash"], "stage": "crash"}
    return facts


def main() -> None:
    for family in sys.argv[1:] or FAMILIES:
        facts = in_children(rows_of(family))
        for fact in facts.values():
            for part in (fact, fact.get("grad_error", {})):
                part.pop("text", None)
        path = os.path.join(HERE, family + ".json.gz")
        with gzip.GzipFile(path, "wb", mtime=0) as out:
            out.write(json.dumps(facts, sort_keys=True).encode())
        print(family, len(facts), os.path.getsize(path))


if __name__ == "__main__":
    main()
