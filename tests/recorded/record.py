"""Record the facts of all cases; run under PaddlePaddle 1.8.5, nothing here is needed to use FluidLite.

cd tests && python -m recorded.record
"""

from __future__ import annotations

import gzip
import json
import os

import paddle.fluid as fluid

from . import GROUPS, PATH
from .facts import Facts, observe


def in_child(group: str, name: str) -> Facts:
    """The facts of one case, from a forked child: some mistakes end Paddle's process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as out:
            json.dump(observe(fluid, GROUPS[group](fluid)[name]), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as source:
        text = source.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError(f"case {name} of {group} ended PaddlePaddle")
    facts: Facts = json.loads(text)
    return facts


def main() -> None:
    facts = {group: {name: in_child(group, name) for name in cases(fluid)} for group, cases in GROUPS.items()}
    with gzip.GzipFile(PATH, "wb", mtime=0) as out:
        out.write(json.dumps(facts, sort_keys=True).encode())
    print(sum(map(len, facts.values())), "cases")


if __name__ == "__main__":
    main()
