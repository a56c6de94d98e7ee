"""ONNX for control flow: loops, branches, recurrences over sub-blocks, and arrays of tensors.

A sub-block becomes a graph inside of a node. Variables of outer blocks that it writes go in and come out of
the node; a variable that has no value yet goes in as a tensor without elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.saving.onnx.graph import OpView, exports

_KINDS = (VarType.LOD_TENSOR, VarType.LOD_TENSOR_ARRAY)


# ----------------------------------------------------------------------- sub-blocks
def _written(block: Any) -> Iterator[str]:
    """The names that a block and those inside of it write."""
    for op in block.ops:
        yield from op.output_arg_names
        if "sub_block" in op.attrs:
            inner = op.attrs["sub_block"]
            yield from (name for name in _written(inner) if name not in inner.vars)


def _carried(op: OpView) -> list[str]:
    """Variables of outer blocks that an op's sub-block writes, each once."""
    body = op.op.attrs["sub_block"]
    found: dict[str, None] = {}
    for name in _written(body):
        var = op.op.block._find_var_recursive(name)
        if name in body.vars or var is None:
            continue
        if var.type in _KINDS:
            found[name] = None
        elif var.type != VarType.STEP_SCOPES:
            raise op.error(f"its sub-block writes {name!r}, which holds {var.type.name}")
    return list(found)


def _before(op: OpView, name: str) -> str:
    """The value of a variable before a sub-block runs."""
    var = op.op.block._var_recursive(name)
    if name in op.graph.names or (var.persistable and var.type == VarType.LOD_TENSOR):
        return op.value(name)
    dtype = to_numpy(var.dtype)
    if var.type == VarType.LOD_TENSOR_ARRAY:
        made = op.add("SequenceEmpty", dtype=op.graph.dtype(dtype))
        return str(made)
    found = np.zeros([max(size, 0) for size in var.shape], dtype)
    return op.graph.constant(found)


def _infos(op: OpView, names: Sequence[str], values: Sequence[str]) -> list[Any]:
    """The types of variables, under the names of their values."""
    found = []
    for name, value in zip(names, values, strict=True):
        var = op.op.block._var_recursive(name)
        info = op.graph.info(value, to_numpy(var.dtype), var.type)
        found.append(info)
    return found


def _given_back(op: OpView, names: Sequence[str]) -> list[str]:
    """The values that variables have at the end of a branch, each written inside of it."""
    if op.graph.opset < 14 and any(_is_array(op, name) for name in names):
        op.needs_opset(14)
    return [str(op.add("Identity", _before(op, name))) for name in names]


def _is_array(op: OpView, name: str) -> bool:
    return bool(op.op.block._var_recursive(name).type == VarType.LOD_TENSOR_ARRAY)


def _run(op: OpView) -> None:
    for inner in op.op.attrs["sub_block"].ops:
        op.graph.translate(inner)


def _scalar(op: OpView, value: str) -> str:
    cast = op.cast(value, np.bool_)
    shape = op.scalar_shape()
    reshaped = op.add("Reshape", cast, shape)
    return str(reshaped)


# ----------------------------------------------------------------------- loops and branches
@exports("while")
def _while(op: OpView) -> None:
    op.idle("X", "sub_block", "is_test", "skip_eager_deletion_vars", "Condition")
    condition = op.op.inputs["Condition"][0]
    names = _carried(op)
    if condition not in names:
        raise op.error(f"its sub-block never writes its condition {condition!r}")
    first = [_before(op, name) for name in names]
    start = _scalar(op, op.value(condition))
    with op.graph.branch() as nodes:
        number = op.graph.name("iteration")
        running = op.graph.name("running")
        inside = [op.graph.name(f"{name}.in") for name in names]
        found = zip(names, inside, strict=True)
        op.graph.names.update(found)
        _run(op)
        last = [_scalar(op, op.value(condition)), *_given_back(op, names)]
    numbers = [op.graph.info(number, np.int64, rank=0), op.graph.info(running, np.bool_, rank=0)]
    infos = [*numbers, *_infos(op, names, inside)]
    outputs = [op.graph.info(last[0], np.bool_, rank=0), *_infos(op, names, last[1:])]
    body = op.graph.subgraph(nodes, infos, outputs)
    made = op.add("Loop", "", start, *first, outputs=len(names), body=body)
    _put_names(op, names, made)


def _put_names(op: OpView, names: Sequence[str], made: str | Sequence[str]) -> None:
    for name, value in zip(names, [made] if isinstance(made, str) else made, strict=True):
        op.put_name(name, value)


@exports("conditional_block", "conditional_block_infer")
def _conditional_block(op: OpView) -> None:
    op.idle("sub_block", "skip_eager_deletion_vars", "Input", "Cond")
    if op.attr("is_scalar_condition"):
        taken = _scalar(op, op.x("Cond"))
    else:
        taken = _all_have_elements(op)
    names = _carried(op)
    if not names:
        return
    branches = []
    for runs in (True, False):
        with op.graph.branch() as nodes:
            if runs:
                _run(op)
            values = _given_back(op, names)
        inner = op.graph.subgraph(nodes, [], _infos(op, names, values))
        branches.append(inner)
    made = op.add("If", taken, outputs=len(names), then_branch=branches[0], else_branch=branches[1])
    _put_names(op, names, made)


def _all_have_elements(op: OpView) -> str:
    """True if no input is without elements; parameters have some."""
    found = op.graph.constant(True, np.bool_)
    for name in op.op.inputs["Input"]:
        var = op.op.block._var_recursive(name)
        if var.persistable or var.type != VarType.LOD_TENSOR:
            continue
        if name not in op.graph.names:
            raise op.error(f"{name!r}, which it asks for, has no value")
        size = op.add("Size", op.value(name))
        is_greater = op.add("Greater", size, op.whole(0))
        found = op.add("And", found, is_greater)
    return str(found)


@exports("select_input")
def _select_input(op: OpView) -> None:
    shape = op.scalar_shape()
    mask = op.add("Reshape", op.x("Mask"), shape)
    values = op.all()
    made = values[0]
    for place in range(1, len(values)):
        is_here = op.add("Equal", mask, op.graph.constant(place, op.dtype("Mask")))
        made = _either(op, is_here, values[place], made, op.var("Out"))
    op.put(made)


def _either(op: OpView, condition: str, chosen: str, other: str, var: Any) -> str:
    """One of two values, of any shapes."""
    return _chosen(op, condition, lambda: op.add("Identity", chosen), lambda: op.add("Identity", other), var)


@exports("recurrent")
def _recurrent(op: OpView) -> None:
    """A sub-block for each row of the inputs, whose states go on from row to row."""
    op.idle("sub_block", "parameters", "has_states", "is_train", "skip_eager_deletion_vars")
    outputs = op.op.outputs["outputs"]
    before = op.attr("ex_states")
    after = op.attr("states")
    more = [name for name in _carried(op) if name not in outputs]
    if more:
        raise op.error(f"its sub-block writes {', '.join(more)}, which belongs to an outer block")
    inputs = op.all("inputs")
    first = op.all("initial_states")
    reverse = int(bool(op.attr("reverse")))
    block = op.op.attrs["sub_block"]
    with op.graph.branch() as nodes:
        inside = [op.graph.name(f"{name}.in") for name in (*before, *op.op.inputs["inputs"])]
        op.graph.names.update(zip([*before, *op.op.inputs["inputs"]], inside, strict=True))
        _run(op)
        last = [str(op.add("Identity", op.graph.names[name])) for name in (*after, *outputs)]
    states = [block._var_recursive(name) for name in before]
    rows = [op.op.block._var_recursive(name) for name in op.op.inputs["inputs"]]
    wholes = [op.op.block._var_recursive(name) for name in outputs]
    infos = [*_steps(op, states, inside, 0), *_steps(op, rows, inside[len(states) :], 1)]
    results = [*_steps(op, states, last, 0), *_steps(op, wholes, last[len(states) :], 1)]
    inner = op.graph.subgraph(nodes, infos, results)
    made = op.add(
        "Scan",
        *first,
        *inputs,
        outputs=len(last),
        body=inner,
        num_scan_inputs=len(inputs),
        scan_input_directions=[reverse] * len(inputs),
        scan_output_directions=[reverse] * len(outputs),
    )
    op.put_all([made] if isinstance(made, str) else made[len(before) :], "outputs")


def _steps(op: OpView, variables: Sequence[Any], values: Sequence[str], less: int) -> list[Any]:
    """The types of values in one step, of variables that have as many dimensions, or one more."""
    pairs = zip(variables, values, strict=False)
    return [op.graph.info(value, to_numpy(var.dtype), rank=len(var.shape) - less) for var, value in pairs]


@exports("rnn_memory_helper")
def _helper(op: OpView) -> None:
    made = op.x()
    op.put(made)


# ----------------------------------------------------------------------- rows chosen by a mask
def _mask(op: OpView) -> str:
    reshape = op.add("Reshape", op.x("Mask"), op.ints(-1))
    cast = op.cast(reshape, np.bool_)
    return cast


@exports("split_lod_tensor")
def _split(op: OpView) -> None:
    if op.var("X").lod_level:
        raise op.error("it chooses among sequences")
    mask = _mask(op)
    made = op.add("Compress", op.x(), mask, axis=0)
    op.put(made, "OutTrue")
    others = op.add("Not", mask)
    found = op.add("Compress", op.x(), others, axis=0)
    op.put(found, "OutFalse")


@exports("merge_lod_tensor", "merge_lod_tensor_infer")
def _merge(op: OpView) -> None:
    op.idle("X")
    if not op.has("InTrue") or not op.has("InFalse"):
        raise op.error("one of its inputs is not there")
    mask = _mask(op)
    parts = [op.x("InFalse"), op.x("InTrue")]
    count = op.dims(parts[0], 0, 1)
    one = op.whole(1)
    ranks = []
    for side in (op.add("Not", mask), mask):
        cast = op.cast(side, np.int64)
        rank = op.add("CumSum", cast, op.whole(0))
        difference = op.add("Sub", rank, one)
        ranks.append(difference)
    total = op.add("Add", ranks[1], count)
    rows = op.add("Where", mask, total, ranks[0])
    together = op.add("Concat", *parts, axis=0)
    made = op.add("Gather", together, rows, axis=0)
    op.put(made)


# ----------------------------------------------------------------------- arrays
def _index(op: OpView) -> str:
    shape = op.scalar_shape()
    reshaped = op.add("Reshape", op.x("I"), shape)
    cast = op.cast(reshaped, np.int64)
    return cast


@exports("write_to_array")
def _write(op: OpView) -> None:
    """The entry replaced, or a new one at the end; an entry further behind fails as it runs."""
    name = op.op.outputs["Out"][0]
    index = _index(op)
    array = _before(op, name)
    value = op.x()
    var = op.op.block._var_recursive(name)
    length = op.add("SequenceLength", array)
    is_there = op.add("Less", index, length)
    rest = _chosen(
        op, is_there, lambda: op.add("SequenceErase", array, index), lambda: op.add("Identity", array), var
    )
    made = op.add("SequenceInsert", rest, value, index)
    op.put(made)


def _chosen(op: OpView, condition: str, yes: Callable[[], Any], no: Callable[[], Any], var: Any) -> str:
    """The result of one of two branches."""
    if var.type == VarType.LOD_TENSOR_ARRAY:
        op.needs_opset(14)
    branches = []
    for make in (yes, no):
        with op.graph.branch() as nodes:
            made = make()
        info = op.graph.info(made, to_numpy(var.dtype), var.type)
        inner = op.graph.subgraph(nodes, [], [info])
        branches.append(inner)
    return str(op.add("If", condition, then_branch=branches[0], else_branch=branches[1]))


@exports("read_from_array")
def _read(op: OpView) -> None:
    made = op.add("SequenceAt", _before(op, op.op.inputs["X"][0]), _index(op))
    op.put(made)
    op.idle("X")


@exports("lod_array_length")
def _length(op: OpView) -> None:
    op.idle("X")
    array = _before(op, op.op.inputs["X"][0])
    sequencelength = op.add("SequenceLength", array)
    reshaped = op.add("Reshape", sequencelength, op.ints(1))
    op.put(reshaped)


@exports("tensor_array_to_tensor")
def _array_to_tensor(op: OpView) -> None:
    new_axis = int(bool(op.attr("use_stack")))
    made = op.add("ConcatFromSequence", op.x(), axis=int(op.attr("axis")), new_axis=new_axis)
    op.put(made)
