"""The node tests that the package `onnx` brings, as files that are read: each is one node, or what it is made
of, with inputs and results.

    python -m beside.onnx_nodes

prints how many give the results, how many are refused and why, and each that gives others.
"""

from __future__ import annotations

import collections
import functools
import pathlib
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import fluidlite as fluid
from fluidlite.errors import UnsupportedError
from fluidlite.saving.onnx.loading.load import load_onnx

__all__ = ["feed_of", "node_cases", "outcome"]

_HALF = (1e-2, 1e-2)
_SINGLE = (1e-3, 1e-5)


@functools.cache
def node_cases() -> list[Any]:
    """All cases whose inputs are tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return [case for case in found if all(map(_is_tensor, case.model.graph.input))]


def _is_tensor(info: Any) -> bool:
    return bool(info.type.WhichOneof("value") == "tensor_type")


def outcome(case: Any) -> str:
    """`refused: ...` or `differs: ...`, or nothing where the results are right."""
    found = ""
    for place, (_, results) in enumerate(case.data_sets):
        feed = feed_of(case, place)
        found = _of(case.model, feed, results)
        if found.startswith("refused") and "where it is constant" in found:
            # what decides of shapes is an input of these tests, and a constant of files
            found = _of(_with_constants(case.model, feed), feed, results)
        if found:
            break
    return found


def feed_of(case: Any, place: int = 0) -> dict[str, Any]:
    """The inputs of one of a case's sets."""
    arrays = [_array(each) for each in case.data_sets[place][0]]
    return dict(zip((info.name for info in case.model.graph.input), arrays, strict=False))


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _with_constants(model: Any, feed: dict[str, Any]) -> Any:
    """The model with all inputs but the first one as constants."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for info in list(made.graph.input)[1:]:
        made.graph.initializer.append(numpy_helper.from_array(feed[info.name], info.name))
    return made


def _of(model: Any, feed: dict[str, Any], results: list[Any]) -> str:
    scope = fluid.Scope()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "node.onnx")
        path.write_bytes(model.SerializeToString())
        try:
            program, feeds, fetches = load_onnx(path, scope)
        except UnsupportedError as error:
            return f"refused: {error}"
    with fluid.scope_guard(scope):
        exe = fluid.Executor(fluid.CPUPlace())
        given = {name: feed[name] for name in feeds}
        made = exe.run(program, feed=given, fetch_list=fetches, return_numpy=False)
    for ours, theirs in zip(made, map(_array, results), strict=False):
        difference = _difference(np.asarray(ours), theirs)
        if difference:
            return f"differs: {difference}"
    return ""


def _difference(ours: Any, theirs: Any) -> str:
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{list(ours.shape)} against {theirs.dtype}{list(theirs.shape)}"
    relative, absolute = _HALF if theirs.dtype == np.float16 else _SINGLE
    left, right = (each.astype(np.float64) for each in (ours, theirs))
    if np.allclose(left, right, relative, absolute, equal_nan=True):
        return ""
    return f"{ours.reshape(-1)[:5]} against {theirs.reshape(-1)[:5]}"


def _all() -> Iterator[tuple[str, str]]:
    for case in node_cases():
        try:
            yield case.name, outcome(case)
        except Exception as error:
            yield case.name, f"fails: {type(error).__name__} {str(error)[:200]}"


def main() -> None:
    """Print a report."""
    counts: collections.Counter[str] = collections.Counter()
    for name, found in _all():
        kind = found.partition(":")[0] or "right"
        counts[kind] += 1
        if kind != "right":
            print(name, found[:250], flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
