"""Facts of one small case: the ops and variables that it builds, what it computes, or what it raises.

The same source runs under PaddlePaddle 1.8.5 (`record.py`) and under FluidLite (the tests): `fluid` is an
argument.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import Any, Callable, Dict, Iterator, List

import numpy as np

Case = Callable[[], Any]
Cases = Dict[str, Case]
Facts = Dict[str, Any]

# roles and places in the source have tests of their own; the rest steers back ends that are not here
IGNORED = frozenset(
    [
        "op_callstack",
        "op_device",
        "op_role",
        "op_role_var",
        "op_namescope",
        "use_mkldnn",
        "use_cudnn",
        "use_quantizer",
        "x_data_format",
        "y_data_format",
        "mkldnn_data_type",
        "Scale_in",
        "Scale_out",
        "Scale_x",
        "Scale_y",
        "scale_x",
        "scale_y",
        "scale_out",
        "head_number",
        "fused_reshape_Out",
        "fused_transpose_Out",
        "force_fp32_output",
    ]
)
BATCH = 3


class Fed:
    """A tensor that falls into sequences, to be fed."""

    def __init__(self, array: Any, lengths: List[List[int]]) -> None:  # noqa: UP006
        self.array, self.lengths = array, lengths


def declare(fluid: Any) -> Callable[..., Any]:
    """Declares a fed variable of fixed rank, -1 standing for the batch."""

    def data(name: str = "x", shape: Any = (None, 4), dtype: str = "float32") -> Any:
        return fluid.data(name=name, shape=list(shape), dtype=dtype)

    return data


def numbers(name: str, shape: Any, dtype: str) -> np.ndarray:
    """Made-up values, the same for the same name: real ones in [0.5, 1.5), integers from 0 to 2."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) % 2**31)
    shape = [BATCH if size is None or size < 0 else size for size in shape]
    if dtype.startswith("float"):
        return (rng.rand(*shape) + 0.5).astype(dtype)
    return rng.rand(*shape) > 0.5 if dtype == "bool" else rng.randint(0, 3, shape).astype(dtype)


def plain(value: Any) -> Any:
    """An attribute as JSON keeps it, with 1, 1.0 and True taken for equal; float32 has seven digits."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, (bool, int, float)) else str(value)


def _operator(op: Any) -> List[Any]:  # noqa: UP006
    inputs = {slot: op.input(slot) for slot in sorted(op.input_names) if op.input(slot)}
    outputs = {slot: op.output(slot) for slot in sorted(op.output_names) if op.output(slot)}
    return [
        op.type,
        inputs,
        outputs,
        {name: plain(op.attr(name)) for name in sorted(op.attr_names) if name not in IGNORED},
    ]


def _variable(var: Any) -> Facts:
    facts: Facts = {
        "type": int(var.type),
        "persistable": bool(var.persistable),
        "stop_gradient": bool(var.stop_gradient),
    }
    with contextlib.suppress(Exception):  # Paddle's lists of places have none of these
        facts.update(
            shape=[max(size, -1) for size in var.shape], dtype=int(var.dtype), lod_level=int(var.lod_level)
        )
    return facts


def _program(program: Any) -> Facts:
    block = program.global_block()
    return {
        "ops": [_operator(op) for op in block.ops],
        "vars": {name: _variable(var) for name, var in sorted(block.vars.items())},
    }


def _feeds(fluid: Any, program: Any, given: Dict[str, Fed]) -> Dict[str, Any]:  # noqa: UP006
    feeds: Dict[str, Any] = {}  # noqa: UP006
    for name, var in program.global_block().vars.items():
        if not getattr(var, "is_data", False):
            continue
        if name in given:
            feeds[name] = fluid.LoDTensor()
            feeds[name].set(given[name].array, fluid.CPUPlace())
            feeds[name].set_recursive_sequence_lengths(given[name].lengths)
        else:
            names = {0: "bool", 2: "int32", 3: "int64", 5: "float32", 6: "float64"}
            feeds[name] = numbers(name, var.shape, names[int(var.dtype)])
    return feeds


def _value(tensor: Any) -> List[Any]:  # noqa: UP006
    array = np.array(tensor)
    return [
        str(array.dtype),
        list(array.shape),
        array.astype("float64").reshape(-1).tolist(),
        tensor.recursive_sequence_lengths(),
    ]


def observe(fluid: Any, case: Case) -> Facts:
    """Build the case in fresh programs and run it; a case gives what to fetch, and last, where it needs any,
    its feeds.
    """
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        try:
            given = case()
        except Exception as error:
            return {"error": [kind.__name__ for kind in type(error).__mro__]}
    several = given if isinstance(given, (list, tuple)) else [given]
    fetches = [fetch for fetch in several if fetch is not None]
    feeds = fetches.pop() if fetches and isinstance(fetches[-1], dict) else {}
    facts = {"main": _program(main), "startup": _program(startup)}
    if fetches:
        exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            found = exe.run(main, feed=_feeds(fluid, main, feeds), fetch_list=fetches, return_numpy=False)
        facts["values"] = [_value(tensor) for tensor in found]
    return facts


# ---------------------------------------------------------------------- comparing
def _op_differences(mine: Any, theirs: Any) -> Iterator[str]:
    for what, left, right in zip(("inputs", "outputs"), mine[1:3], theirs[1:3]):
        if left != right:
            yield f"{what} of {theirs[0]} are {left}, Paddle has {right}"
    for name in sorted(set(mine[3]) | set(theirs[3])):
        left, right = mine[3].get(name), theirs[3].get(name)
        if left != right and not (left is None and right in (0.0, "", [])):
            yield f"attribute {name} of {theirs[0]} is {left}, Paddle has {right}"


def _program_differences(mine: Facts, theirs: Facts) -> Iterator[str]:
    types = [[op[0] for op in facts["ops"]] for facts in (mine, theirs)]
    if types[0] != types[1]:
        yield f"the ops are {types[0]}, Paddle has {types[1]}"
        return
    for left, right in zip(mine["ops"], theirs["ops"]):
        yield from _op_differences(left, right)
    for name in sorted(set(mine["vars"]) | set(theirs["vars"])):
        left, right = dict(mine["vars"].get(name, {})), dict(theirs["vars"].get(name, {}))
        if name.endswith("_shape") and right.get("dtype") == 0:
            left["dtype"] = 0  # the sizes that Paddle's gradients() asks for are called truth values
        if left != right:
            yield f"variable {name} is {left}, Paddle has {right}"


def _value_differences(mine: Any, theirs: Any) -> Iterator[str]:
    for index, (left, right) in enumerate(zip(mine, theirs)):
        for what, one, other in zip(("dtype", "shape", "values", "lengths"), left, right):
            same = (
                np.allclose(one, other, 1e-5, 1e-6, equal_nan=True)
                if what == "values" and len(one) == len(other)
                else one == other
            )
            if not same:
                yield f"{what} of result {index}: {one}, Paddle has {other}"


def differences(mine: Facts, theirs: Facts) -> List[str]:  # noqa: UP006
    """Differences, a line each; an error may be of a class of our own below Paddle's."""
    if "error" in mine or "error" in theirs:
        found, wanted = mine.get("error", ["no error"]), theirs.get("error", ["no error"])
        return [] if wanted[0] in found else [f"raises {found[0]}, Paddle raises {wanted[0]}"]
    lines = [
        f"{name}: {line}"
        for name in ("main", "startup")
        for line in _program_differences(mine[name], theirs[name])
    ]
    return lines + list(_value_differences(mine.get("values", []), theirs.get("values", [])))
