"""Run the golden cases under PaddlePaddle and write one `runs/<case>.npz` each.

From the folder `tests`, with the Python that has PaddlePaddle 1.8.5:

    python -m golden.record [CASE ...]        without names: every case that has no file yet

With the Python that has 2.6.2, the same command records the cases of `programs_2x`.

A file holds `meta` (JSON as bytes), `startup` and `program<i>` (serialised ProgramDesc as bytes; call stacks
removed), the persistables of three moments (`init`: after the startup program; `final`: what ten steps
changed; `after<i>`: what the i-th run after the last step changed), packed into one flat array
`<moment>.<dtype>` each, and `feed/<i>/<k>` and `fetch/<i>/<k>`, all steps flattened into one array. Names,
shapes and sequence lengths are in `meta`. One array a variable would triple the files: an entry of an
archive costs 300 bytes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from typing import Any

import numpy as np
import paddle

try:
    import paddle.fluid as fluid
    from paddle.fluid.proto import framework_pb2

    CASES = "programs"
except ImportError:  # 2.6 has the same classes under another name
    import paddle.base as fluid
    from paddle.base.proto import framework_pb2

    paddle.enable_static()
    CASES = "programs_2x"

from .cases import STEPS, Build, Built, Fed, Run, construct, load_cases, make_feeds

RUNS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runs")
LARGEST = 150 * 1000


def program_bytes(program: Any) -> np.ndarray:
    """The serialised program without call stacks, which only name folders of the recording machine."""
    desc = framework_pb2.ProgramDesc.FromString(program.desc.serialize_to_string())
    for block in desc.blocks:
        for op in block.ops:
            for attr in op.attrs:
                if attr.name == "op_callstack":
                    del attr.strings[:]
    return np.frombuffer(desc.SerializeToString(), np.uint8)


def python_side(program: Any) -> dict[str, list[Any]]:
    """Facts of variables that 1.8.5 knows only in Python: its files hold neither of the two."""
    pairs = [(block.idx, var) for block in program.blocks for var in block.vars.values()]
    return {
        "stop_gradient": sorted([index, var.name] for index, var in pairs if var.stop_gradient),
        "parameters": sorted(
            [index, var.name, var.trainable]
            for index, var in pairs
            if isinstance(var, fluid.framework.Parameter)
        ),
    }


def persistables(programs: list[Any], scope: Any) -> dict[str, np.ndarray]:
    """Every initialised persistable dense variable of the programs, by name."""
    values: dict[str, np.ndarray] = {}
    for program in programs:
        for var in program.list_vars():
            if not var.persistable or var.type != fluid.core.VarDesc.VarType.LOD_TENSOR:
                continue
            found = scope.find_var(var.name)
            if found is not None and found.get_tensor()._is_initialized():
                values[var.name] = np.array(found.get_tensor())
    return values


def distinct_seeds(startup: Any) -> Any:
    """The startup program with a seed for every initialiser: one seed gives all layers the same numbers."""
    copy = startup.clone()
    for number, op in enumerate(copy.global_block().ops):
        if op.has_attr("seed"):
            op._set_attr("seed", number + 1)
    return copy


def to_tensor(fed: Fed) -> Any:
    array, lengths = fed
    if not lengths:
        return array
    return fluid.create_lod_tensor(array, lengths, fluid.CPUPlace())


class Track:
    """The values that one variable had in all steps, flattened into one array."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arrays: list[np.ndarray] = []
        self.lengths: list[list[list[int]]] = []

    def add(self, array: np.ndarray, lengths: list[list[int]]) -> None:
        self.arrays.append(np.asarray(array))
        self.lengths.append([[int(n) for n in level] for level in lengths])

    def flat(self) -> np.ndarray:
        return np.concatenate([array.ravel() for array in self.arrays])

    def meta(self) -> dict[str, Any]:
        result: dict[str, Any] = {"name": self.name, "shapes": [list(array.shape) for array in self.arrays]}
        if any(self.lengths):
            result["lengths"] = self.lengths
        return result


class RunRecord:
    """Feeds and fetches of one `Run`, over all steps."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.program = program_bytes(run.program)
        self.python = python_side(run.program)
        self.feeds = [Track(name) for name in run.feeds]
        self.fetches = [Track(var if isinstance(var, str) else var.name) for var in run.fetch]

    def step(self, exe: Any, rng: np.random.RandomState, step: int) -> None:
        made = make_feeds(self.run.feeds, rng, step)
        for track in self.feeds:
            track.add(*made[track.name])
        values = exe.run(
            self.run.program,
            feed={name: to_tensor(fed) for name, fed in made.items()},
            fetch_list=self.run.fetch,
            return_numpy=False,
        )
        for track, value in zip(self.fetches, values):
            track.add(np.array(value), value.recursive_sequence_lengths())

    def arrays(self, index: int) -> dict[str, np.ndarray]:
        result = {f"program{index}": self.program}
        for kind, tracks in (("feed", self.feeds), ("fetch", self.fetches)):
            for number, track in enumerate(tracks):
                if track.arrays:
                    result[f"{kind}/{index}/{number}"] = track.flat()
        return result

    def meta(self) -> dict[str, Any]:
        return {
            "feeds": [track.meta() for track in self.feeds],
            "fetches": [track.meta() for track in self.fetches],
            **self.python,
        }


def changed(before: dict[str, np.ndarray], now: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name: value
        for name, value in now.items()
        if name not in before or before[name].tobytes() != value.tobytes()
    }


class Moments:
    """The persistables after the startup program, and what changed from one moment to the next."""

    def __init__(self, programs: list[Any], scope: Any) -> None:
        self.programs, self.scope = programs, scope
        self.latest: dict[str, np.ndarray] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.index: dict[str, list[Any]] = {}

    def add(self, moment: str) -> None:
        now = persistables(self.programs, self.scope)
        fresh = changed(self.latest, now)
        self.latest = now
        self.index[moment] = [[name, str(value.dtype), list(value.shape)] for name, value in fresh.items()]
        for dtype in sorted({str(value.dtype) for value in fresh.values()}):
            parts = [value.ravel() for value in fresh.values() if str(value.dtype) == dtype]
            self.arrays[moment + "." + dtype] = np.concatenate(parts)


def record(built: Built, startup: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Run the case: the arrays for the file, and what `meta` says."""
    records = [RunRecord(run) for run in built.all_runs()]
    last = len(built.steps) + len(built.after)
    exe, rng, scope = fluid.Executor(fluid.CPUPlace()), np.random.RandomState(11), fluid.Scope()
    moments = Moments([startup] + [one.run.program for one in records], scope)
    with fluid.scope_guard(scope):
        exe.run(distinct_seeds(startup))
        moments.add("init")
        for step in range(STEPS):
            for one in records[: len(built.steps)]:
                one.step(exe, rng, step)
        moments.add("final")
        for number, one in enumerate(records[len(built.steps) : last]):
            one.step(exe, rng, STEPS)
            moments.add(f"after{number}")
    arrays = dict(moments.arrays, startup=program_bytes(startup))
    for index, one in enumerate(records):
        arrays.update(one.arrays(index))
    return arrays, {
        "steps": STEPS,
        "step_runs": len(built.steps),
        "unrun": len(built.unrun),
        "persistables": moments.index,
        "startup": python_side(startup),
        "runs": [one.meta() for one in records],
    }


def record_case(name: str, build: Build) -> None:
    arrays, meta = record(*construct(fluid, build))
    meta.update({"case": name, "paddle": paddle.__version__})
    bad = [key for key, value in arrays.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
    if bad:
        print("  warning: not finite:", bad)
    arrays["meta"] = np.frombuffer(json.dumps(meta, separators=(",", ":")).encode(), np.uint8)
    path = os.path.join(RUNS, name + ".npz")
    np.savez_compressed(path, **arrays)
    size = os.path.getsize(path)
    first = arrays.get("fetch/0/0", np.zeros(2))
    print(f"{name:28} {size:6} bytes{'  TOO LARGE' if size > LARGEST else ''}  {first[[0, -1]]}")


def recorded_in_child(name: str, build: Build) -> bool:
    """True if the case was recorded; in a child, because a wrong program can end the process."""
    child = os.fork()
    if child == 0:
        try:
            record_case(name, build)
        except Exception:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    cases = load_cases(CASES)
    os.makedirs(RUNS, exist_ok=True)
    missing = [name for name in cases if not os.path.exists(os.path.join(RUNS, name + ".npz"))]
    failed = [name for name in names or missing if not recorded_in_child(name, cases[name])]
    sys.exit("failed: " + " ".join(failed) if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
