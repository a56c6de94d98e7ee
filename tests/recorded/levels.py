"""The levels of detail that layers give for operands with sequences, of 1.8.5: `levels.json.gz`.

Each line of `levels.txt` is a layer's name, a colon, and its call on the operands x, y, i, v, p. Under a
Python with PaddlePaddle 1.8.5, `cd tests && python recorded/levels.py` records what they give; the same
source runs under FluidLite (`tests/layers/test_levels.py`): `fluid` is an argument.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
from typing import Any, Dict, List

import numpy as np

HERE = pathlib.Path(__file__).parent
PATH = str(HERE / "levels.json.gz")
ROWS = 5
# the lengths of the sequences that x, i and v fall into, and those of y
LENGTHS: Dict[str, List[List[int]]] = {  # noqa: UP006
    "sequences": [[2, 3]],
    "empty": [[0, 2, 0, 3]],
    "nested": [[1, 2], [2, 0, 3]],
}
OTHERS = [[4, 1]]


def calls() -> Dict[str, str]:  # noqa: UP006
    """Name -> call."""
    lines = (HERE / "levels.txt").read_text().splitlines()
    return {name: code.strip() for name, _, code in (line.partition(":") for line in lines)}


def _operands(fluid: Any, levels: int) -> Dict[str, Any]:  # noqa: UP006
    """x, y: [5, 4], i: images [5, 4, 4, 4], v: whole numbers [5, 1], all with sequences; p: as x, without."""
    return {
        "x": fluid.data("x", [-1, 4], lod_level=levels),
        "y": fluid.data("y", [-1, 4], lod_level=1),
        "i": fluid.data("i", [-1, 4, 4, 4], lod_level=levels),
        "v": fluid.data("v", [-1, 1], "int64", lod_level=levels),
        "p": fluid.data("p", [-1, 4]),
    }


def _feed(fluid: Any, lengths: List[List[int]]) -> Dict[str, Any]:  # noqa: UP006
    rng = np.random.RandomState(0)
    rows = rng.uniform(0.2, 0.9, (ROWS, 4)).astype("float32")
    images = rng.rand(ROWS, 4, 4, 4).astype("float32")
    numbers = np.array([[0], [1], [0], [1], [1]], "int64")
    fed = {
        "x": (rows, lengths),
        "y": (rows[::-1].copy(), OTHERS),
        "i": (images, lengths),
        "v": (numbers, lengths),
    }
    place = fluid.CPUPlace()
    return {
        "p": rows * 2,
        **{name: fluid.create_lod_tensor(array, to, place) for name, (array, to) in fed.items()},
    }


def observe(fluid: Any, call: str, lengths: List[List[int]], naive: bool = False) -> Any:  # noqa: UP006
    """Of each result its sequence lengths and the number of levels that it declares."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        names = {"fluid": fluid, "layers": fluid.layers, "np": np, **_operands(fluid, len(lengths))}
        made = eval(call, names)
    results = [each for each in (made if isinstance(made, (list, tuple)) else [made]) if each is not None]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    with fluid.scope_guard(fluid.core.Scope()):
        exe.run(startup)
        found = exe.run(main, feed=_feed(fluid, lengths), fetch_list=results, return_numpy=False)
    return [[tensor.recursive_sequence_lengths(), int(var.lod_level)] for tensor, var in zip(found, results)]


def load() -> Any:
    """Name -> kind of lengths -> what `observe` gives, or the name of an error."""
    with gzip.open(PATH, "rt") as source:
        return json.load(source)


# ---------------------------------------------------------------------- recording
def _write(fluid: Any, names: List[str], out: Any) -> None:  # noqa: UP006
    """Write what each layer gives, a line each."""
    for name in names:
        found: Dict[str, Any] = {}  # noqa: UP006
        for kind, lengths in LENGTHS.items():
            try:
                found[kind] = observe(fluid, calls()[name], lengths)
            except Exception as error:
                found[kind] = type(error).__name__
        out.write(json.dumps([name, found]) + "\n")
        out.flush()


def _in_children(fluid: Any, names: List[str]) -> Dict[str, Any]:  # noqa: UP006
    """Observations of all layers, by forked children: what ends Paddle's process costs one layer."""
    found: Dict[str, Any] = {}  # noqa: UP006
    while names:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                _write(fluid, names, out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as source:
            done = dict(json.loads(line) for line in source)
        os.waitpid(child, 0)
        found.update(done)
        names = names[len(done) :]
        if names:
            found[names[0]] = dict.fromkeys(LENGTHS, "crash")
            names = names[1:]
    return found


def main() -> None:
    import paddle.fluid as fluid

    found = _in_children(fluid, list(calls()))
    with gzip.GzipFile(PATH, "wb", mtime=0) as out:
        out.write(json.dumps(found, sort_keys=True).encode())
    print(len(found), "layers")


if __name__ == "__main__":
    main()
