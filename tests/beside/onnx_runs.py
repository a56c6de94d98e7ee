"""Cases as files of ONNX: what onnxruntime computes beside our own run.

    python -m beside.onnx_runs forward|functions18|functions26[@OPSET] SEED COUNT [FUNCTION...]

prints how many agree, how many are refused and why, and each that differs; and of those that agree how many
are read back and agree again.
"""

from __future__ import annotations

import collections
import pathlib
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime

import fluidlite
import fluidlite.paddle as paddle
from beside.draw import make_case
from beside.forward import make_forward
from beside.language import Case
from beside.observe import Observer
from fluidlite.base.dtypes import VarType
from fluidlite.errors import UnsupportedError, UntrustedError
from fluidlite.saving.onnx.export import OPSET, onnx_model
from fluidlite.saving.onnx.loading.load import load_onnx
from fluidlite.values.tensor import LoDTensor

__all__ = ["Verdict", "compare", "read_back", "session_of", "verdict"]

_ORDINARY = (1e-3, 1e-4)  # relative and absolute: both compute in float32, in other orders


class Verdict(str):
    """How a case went: its `kind` and what there is to say of it; `back` says how its file went as it was
    read back, "" where it computes the same.
    """

    kind: str
    back = ""

    @classmethod
    def of(cls, kind: str, text: object = "") -> Verdict:
        """A verdict of that kind."""
        made = cls(f"{kind}: {text}" if str(text) else kind)
        made.kind = kind
        return made


def _system(of_2x: bool) -> Any:
    """Our own modules, as `beside.worker` has them of any system."""
    static = paddle.static if of_2x else fluidlite
    data = paddle.static.data if of_2x else fluidlite.data

    def declare(name: str, shape: list[int], dtype: str, level: int) -> Any:
        return data(name, [max(size, -1) for size in shape], dtype, lod_level=level)

    return types.SimpleNamespace(paddle=paddle, fluid=fluidlite, static=static, declare=declare, of_2x=of_2x)


def session_of(data: bytes) -> Any:
    """A session of onnxruntime, without its warnings."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def compare(ours: Any, theirs: Any, limits: tuple[float, float] = _ORDINARY) -> str:
    """The difference of two results, "" where there is none."""
    mine = np.asarray(ours)
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return f"{mine.dtype}{list(mine.shape)} against {theirs.dtype}{list(theirs.shape)}"
    relative, absolute = limits
    if np.allclose(mine, theirs, relative, absolute, equal_nan=True):
        return ""
    return f"{mine.reshape(-1)[:6]} against {theirs.reshape(-1)[:6]}"


def read_back(data: bytes, runs: list[Any], found: list[Any]) -> str:
    """Reads a file and runs its program on the same feeds; "" where that gives what was found before."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.onnx")
        path.write_bytes(data)
        scope = fluidlite.Scope()
        try:
            model = load_onnx(path, scope)
        except UnsupportedError as error:
            return f"refused: {error}"
    exe = fluidlite.Executor(fluidlite.CPUPlace())
    inside = _computed(model.program)
    with fluidlite.scope_guard(scope):
        for given, ours in zip(runs, found, strict=True):
            feed = {name: np.asarray(given[name]) for name in model.feeds}
            fetches = [*model.fetches, *inside]
            made = exe.run(model.program, feed=feed, fetch_list=fetches, return_numpy=False)
            for mine, other in zip(ours, made, strict=False):
                difference = compare(mine, np.asarray(other))
                if difference:
                    return f"differs: {difference}"
            for var, value in zip(fetches, made, strict=True):
                size = np.asarray(value).shape
                pairs = zip(var.shape, size, strict=False)
                if len(size) != len(var.shape) or any(said not in (-1, real) for said, real in pairs):
                    return f"differs: {var.name} is declared {list(var.shape)}, and is {list(size)}"
    return ""


def _computed(program: Any) -> list[Any]:
    """The tensors that ops of the outer block write, unless they are branches that may not run: what is
    declared of them must hold.
    """
    block = program.global_block()
    names = {name for op in block.ops if op.type != "conditional_block" for name in op.output_arg_names}
    return [block.var(name) for name in sorted(names) if block.var(name).type == VarType.LOD_TENSOR]


def _shortened(feeds: dict[str, Any]) -> dict[str, Any]:
    return {name: array[:1] for name, array in feeds.items()}


def verdict(case: Case, is_network: bool = False, opset: int = OPSET) -> Verdict:
    """Builds, exports and runs a case."""
    if case.get("random") or not of_one_sequence(case):
        return Verdict.of("not built", "sequences of sequences, no rows or random numbers")
    observer = Observer(_system(case["door"] == "26"), case)
    guard = fluidlite.unique_name.guard()
    with (
        warnings.catch_warnings(),
        guard,
        observer.system.static.program_guard(observer.main, observer.startup),
    ):
        warnings.simplefilter("ignore")
        try:
            observer.build()
            program = observer.main.clone(for_test=True)
            scope = observer.start()
        except Exception as error:
            return Verdict.of("not built", type(error).__name__)
        names = [var.name for var in observer.outputs]
        if not names:
            return Verdict.of("not built", "no output")
        with fluidlite.scope_guard(scope):
            return _of_program(observer, program, names, scope, is_network, opset)


def _of_program(
    observer: Observer, program: Any, names: list[str], scope: Any, is_network: bool, opset: int
) -> Verdict:
    runs = [observer.feeds()]
    if is_network:
        runs += [_shortened(runs[0]), observer.feeds(batches=2)]
    used = {name for block in program.blocks for op in block.ops for name in op.input_arg_names}
    feeds = [name for name in runs[0] if name in used or name in names]
    refused, data = "", b""
    try:
        data = onnx_model(program, feeds, names, opset=opset)
    except (UnsupportedError, UntrustedError) as error:
        refused = str(error).partition(" (built at")[0]
    except Exception as error:
        return Verdict.of("crashed", f"{type(error).__name__} {error}")
    found = []
    try:
        for given in runs:
            found.append(observer.run(program, given, names, scope))
            # a program that trains begins anew
            scope = observer.start() if any(op.role for op in program.global_block().ops) else scope
    except Exception as error:
        return Verdict.of("not run", type(error).__name__)
    if not all(isinstance(each, LoDTensor) for each in found[0]):
        return Verdict.of("not built", "an output is no tensor")
    return Verdict.of("refused", refused) if refused else _beside(data, feeds, runs, found)


def _beside(data: bytes, feeds: list[str], runs: list[Any], found: list[Any]) -> Verdict:
    try:
        session = session_of(data)
    except Exception as error:
        kind = "not taken" if "NOT_IMPLEMENTED" in str(error) else "invalid"
        return Verdict.of(kind, str(error)[:300])
    for given, ours in zip(runs, found, strict=True):
        try:
            theirs = session.run(None, {name: np.asarray(given[name]) for name in feeds})
        except Exception as error:
            return Verdict.of("failed", str(error)[:300])
        for mine, other in zip(ours, theirs, strict=True):
            difference = compare(mine, other)
            if difference:
                return Verdict.of("differs", difference)
    made = Verdict.of("agrees")
    made.back = read_back(data, runs, found)
    return made


def of_one_sequence(case: Case) -> bool:
    """Make all rows of an input one sequence, as a file of ONNX has them; False where there are levels of
    them, or no rows, of which onnxruntime has other means.
    """
    for feed in case["feeds"].values():
        if 0 in feed["shape"]:
            return False
        lengths = feed.get("lengths") or []
        if len(lengths) > 1:
            return False
        if lengths:
            feed["lengths"] = [[feed["shape"][0]]]
    return True


def cases(kind: str, seed: int, count: int, only: list[str]) -> Iterator[Case]:
    """`count` cases from a seed on."""
    for number in range(seed, seed + count):
        if kind == "forward":
            yield make_forward(number)
        else:
            yield make_case(kind[-2:], seed=number, only=only)


def main(kind: str, seed: str, count: str, *only: str) -> None:
    """Print a report."""
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    kind, _, opset = kind.partition("@")
    for case in cases(kind, int(seed), int(count), list(only)):
        found = verdict(case, kind == "forward", int(opset or OPSET))
        counts[found.kind] += 1
        if found.kind in ("crashed", "differs", "invalid", "failed", "not taken") or found.back:
            print(case["seed"], case["function"], found, found.back, flush=True)
        elif found.kind == "refused":
            reasons[str(found)[:110]] += 1
        counts["back"] += found.kind == "agrees" and not found.back
    print(dict(counts))
    for reason, number in reasons.most_common(40):
        print(number, reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
