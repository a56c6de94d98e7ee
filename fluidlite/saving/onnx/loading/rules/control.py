"""ONNX ops with graphs inside: branches, loops, recurrences over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.ir.prune import reads as read_by
from fluidlite.ir.prune import writes as written_by
from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads
from fluidlite.saving.onnx.loading.values import OnnxValue

__all__ = ["is_array", "recurrent"]

Step: TypeAlias = "Callable[[list[Variable], list[Variable]], tuple[list[Variable], list[Variable]]]"


def is_array(var: Variable) -> bool:
    """True for an array of tensors, which ONNX calls a sequence."""
    return bool(var.type == VarType.LOD_TENSOR_ARRAY)


def _outer(block: Any, names_of: Callable[[Any], set[str]]) -> list[str]:
    """The names of outer blocks that ops of a block read, or write."""
    found: dict[str, None] = {}
    for op in block.ops:
        found.update(dict.fromkeys(name for name in sorted(names_of(op)) if name not in block.vars))
    return list(found)


def _assign(op: NodeView, value: Variable, target: Variable) -> None:
    """Write a value into a variable that is there."""
    op.graph.block.append_op(type="assign", inputs={"X": [value]}, outputs={"Out": [target]})


# ----------------------------------------------------------------------- branches
@reads("If")
def _if(op: NodeView) -> None:
    then_branch = op.attr("then_branch")
    else_branch = op.attr("else_branch")
    branches = [then_branch, else_branch]
    if any(graph.input or len(graph.output) != len(op.node.output) for graph in branches):
        raise op.malformed("its branches have inputs, or other outputs than the node")
    known = op.value().array
    if known is not None:
        _put_inlined(op, branches[0 if known.reshape(-1)[0] else 1])
        return
    replaced = _replaced(op, *branches)
    if replaced is not None:
        op.put(replaced)
        return
    condition = op.x()
    yes = _branch(op, condition, branches[0])
    other = op.one("logical_not", condition)
    no = _branch(op, other, branches[1])
    mask = op.cast(condition, np.int32)
    for place, (left, right) in enumerate(zip(yes, no, strict=True)):
        if left is right:
            op.put(left, place)
        elif is_array(left) or is_array(right):
            raise op.error("its branches give different sequences")
        else:
            made = _selected(op, left, right, mask)
            op.put(made, place)


def _selected(op: NodeView, left: Variable, right: Variable, mask: Variable) -> Variable:
    """The first one where the mask is 1, else the second."""
    made = op.emit("select_input", {"X": [right, left], "Mask": mask})
    if len(left.shape) != len(right.shape):
        raise op.error(f"its branches give {list(left.shape)} and {list(right.shape)}")
    sizes = zip(left.shape, right.shape, strict=True)
    made.desc.set_shape([size if size == other else -1 for size, other in sizes])
    return made


def _put_inlined(op: NodeView, graph: Any) -> None:
    """The nodes of the branch that is always taken."""
    values = op.graph.values
    op.graph.values = values.new_child()
    op.graph.read_graph(graph)
    results = op.graph.results(graph)
    op.graph.values = values
    for place, value in enumerate(results):
        op.put(value, place)


def _replaced(op: NodeView, then_branch: Any, else_branch: Any) -> OnnxValue | None:
    """A sequence without the entry that is about to be put in again, if there is one: so a node is written
    that replaces it.
    """
    kinds = [[node.op_type for node in graph.node] for graph in (then_branch, else_branch)]
    if kinds != [["SequenceErase"], ["Identity"]] or len(then_branch.node[0].input) != 2:
        return None
    name, index = then_branch.node[0].input
    values = op.graph.values
    if name != else_branch.node[0].input[0] or name not in values or index not in values:
        return None
    return OnnxValue(values[name].variable, replaced=values[index])


def _branch(op: NodeView, condition: Variable, graph: Any) -> list[Variable]:
    """The results of a branch: variables that have values where the condition holds."""
    parent = op.graph.block
    found = []
    with op.graph.branch() as block:
        op.graph.read_graph(graph)
        for value in op.graph.results(graph):
            made = op.graph.variable(value)
            if is_array(made):
                # written where it lies, or not at all
                found.append(made)
                continue
            name = op.graph.name(op.node.output[len(found)])
            target = parent.create_var(name=name, shape=made.shape, dtype=made.dtype)
            _assign(op, made, target)
            found.append(target)
    scopes = parent.create_var(name=op.graph.name("scopes"), type=VarType.STEP_SCOPES)
    result = _outer(block, read_by)
    parent.append_op(
        type="conditional_block",
        inputs={"Cond": [condition], "Input": result},
        outputs={"Out": _outer(block, written_by), "Scope": [scopes]},
        attrs={"sub_block": block, "is_scalar_condition": True},
    )
    return found


# ----------------------------------------------------------------------- loops
class _LoopReader:
    """A loop in the making: variables of the outer block that its body writes anew each time."""

    def __init__(self, op: NodeView) -> None:
        self.op = op
        self.body = op.attr("body")
        self.count = len(op.node.input) - 2
        self.scans = len(self.body.output) - 1 - self.count
        if len(self.body.input) != self.count + 2 or not 0 <= self.scans == len(op.node.output) - self.count:
            raise op.malformed("its body has other inputs or outputs than the node")
        self.limit = _single(op, op.cast(op.x(0), np.int64)) if op.has(0) else None
        constant = op.fixed(0, np.int64)
        self.number = op.one("assign", constant)
        running = _single(op, op.x(1)) if op.has(1) else op.fixed(True, np.bool_)
        self.running = op.one("assign", self.within(self.number, running))
        self.carried = [self._first(place) for place in range(2, self.count + 2)]
        self.arrays: list[Variable] = []

    def within(self, number: Variable, running: Variable) -> Variable:
        """True if a pass of that number is to be made."""
        if self.limit is None:
            return running
        return self.op.two("logical_and", running, self.op.two("less_than", number, self.limit))

    def _first(self, place: int) -> Variable:
        value = self.op.x(place)
        if not is_array(value):
            return self.op.one("assign", value)
        if not self.op.graph.is_last_reader(value):
            raise self.op.error("a sequence that it changes is read behind it")
        return value

    def read_body(self) -> Any:
        """The block of the body, which leaves all values with the shapes that `carried` declares."""
        for _ in range(8):
            first = len(self.op.graph.program.blocks)
            shapes = [tuple(var.shape) for var in self.carried]
            block, ends = self._pass()
            merged = [
                new if is_array(var) else self._merged(info, old, new)
                for var, info, old, new in zip(self.carried, self.body.input[2:], shapes, ends, strict=True)
            ]
            for var, shape in zip(self.carried, merged, strict=True):
                listed = list(shape)
                var.desc.set_shape(listed)
            if merged == shapes:
                return block
            # sizes that change from pass to pass are unknown from the start
            del self.op.graph.program.blocks[first:]
        raise self.op.error("the shapes of its values change with each pass")

    def _merged(self, info: Any, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        if len(old) != len(new) and info.name not in self.op.graph.used:
            # what goes in is only there because something has to
            return (-1,) * len(new)
        if len(old) != len(new):
            raise self.op.error(f"a value goes in with the shape {list(old)}, and comes out with {list(new)}")
        return tuple(size if size == other else -1 for size, other in zip(old, new, strict=True))

    def _pass(self) -> tuple[Any, list[tuple[int, ...]]]:
        """The block of the body, and the shapes of the values that it leaves."""
        op = self.op
        with op.graph.branch() as block:
            given = [self.number, self.running, *self.carried]
            for info, var in zip(self.body.input, given, strict=True):
                op.graph.define(info.name, OnnxValue(var))
            op.graph.read_graph(self.body, repeats=True)
            running, *made = (op.graph.variable(value) for value in op.graph.results(self.body))
            shapes = [tuple(var.shape) for var in made[: self.count]]
            for var, array in zip(made[self.count :], self._scan_arrays(made), strict=True):
                _write(op, var, self.number, array)
            result = _single(op, running)
            self._go_on(result, made[: self.count])
        return block, shapes

    def _scan_arrays(self, made: Sequence[Variable]) -> list[Variable]:
        """The arrays that collect a value of each pass."""
        parent = self.op.graph.block.parent
        while len(self.arrays) < self.scans:
            var = made[self.count + len(self.arrays)]
            name = self.op.graph.name("passes")
            array = parent.create_var(name=name, dtype=var.dtype, type=VarType.LOD_TENSOR_ARRAY)
            self.arrays.append(array)
        return self.arrays

    def _go_on(self, running: Variable, made: Sequence[Variable]) -> None:
        """Write the values of the next pass over those of this one."""
        op = self.op
        ours = {var.name for var in (*self.carried, self.number, self.running)}
        # what goes from one variable into another is read before it is written
        ends = [op.one("assign", var) if var.name in ours and not is_array(var) else var for var in made]
        constant = op.fixed(1, np.int64)
        step = op.two("elementwise_add", self.number, constant)
        further = self.within(step, running)
        for value, target in (
            (step, self.number),
            (further, self.running),
            *zip(ends, self.carried, strict=True),
        ):
            if is_array(target):
                if value is not target:
                    raise op.error("it replaces a sequence by another one")
                continue
            shape = list(target.shape)
            _assign(op, value, target)
            target.desc.set_shape(shape)


def _single(op: NodeView, value: Variable) -> Variable:
    """A number without dimensions."""
    return op.reshaped(value, []) if value.shape else value


@reads("Loop")
def _loop(op: NodeView) -> None:
    loop = _LoopReader(op)
    parent = op.graph.block
    block = loop.read_body()
    name = op.graph.name("scopes")
    scopes = parent.create_var(name=name, type=VarType.STEP_SCOPES)
    made = _outer(block, read_by)
    result = _outer(block, written_by)
    parent.append_op(
        type="while",
        inputs={"X": made, "Condition": [loop.running]},
        outputs={"Out": result, "StepScopes": [scopes]},
        attrs={"sub_block": block, "is_test": True},
    )
    op.put_all(loop.carried)
    for place, array in enumerate(loop.arrays, start=loop.count):
        attrs = {"axis": 0, "use_stack": True}
        found = op.emit("tensor_array_to_tensor", {"X": array}, attrs, others=("OutIndex",))
        op.put(found, place)


# ----------------------------------------------------------------------- recurrences
def recurrent(
    op: NodeView, inputs: Sequence[Variable], states: Sequence[Variable], step: Step, reverse: bool = False
) -> list[Variable]:
    """A row of each result for each row of the inputs. `step` appends the ops of one: it takes rows and
    states, and gives the next states and the rows of the results.
    """
    parent = op.graph.block
    # a block's own variables hide those that it is given rows of
    wholes = [op.one("assign", op.unsqueezed(x, [1]) if len(x.shape) == 1 else x) for x in inputs]
    with op.graph.branch() as block:
        rows = [block.create_var(name=x.name, shape=x.shape[1:], dtype=x.dtype) for x in wholes]
        before = [block.create_var(name=op.graph.name("state"), shape=x.shape, dtype=x.dtype) for x in states]
        flat = [
            op.squeezed(row, [0]) if len(x.shape) == 1 else row for row, x in zip(rows, inputs, strict=True)
        ]
        after, made = step(flat, before)
        for old, new in zip(before, after, strict=True):
            if tuple(old.shape) != tuple(new.shape):
                raise op.error(f"a state goes from {list(old.shape)} to {list(new.shape)}")
        kept = [op.one("assign", state) for state in after]
        ends = []
        for var in made:
            name = op.graph.name(op.node.output[-1] or "rows")
            end = block.create_var(name=name)
            _assign(op, var, end)
            ends.append(end)
    count = wholes[0].shape[0]
    results = [parent.create_var(name=end.name, shape=(count, *end.shape), dtype=end.dtype) for end in ends]
    attrs = {
        "ex_states": [var.name for var in before],
        "states": [var.name for var in kept],
        "has_states": bool(states),
        "reverse": reverse,
        "is_train": False,
        "sub_block": block,
    }
    _append_recurrent(op, wholes, states, results, attrs)
    return results


def _append_recurrent(
    op: NodeView,
    inputs: Sequence[Variable],
    states: Sequence[Variable],
    results: Sequence[Variable],
    attrs: dict[str, Any],
) -> None:
    """Append the op of a recurrence whose block is written."""
    parent = op.graph.block
    given = {var.name for var in (*inputs, *states)}
    scopes = parent.create_var(name=op.graph.name("scopes"), type=VarType.STEP_SCOPES)
    read = _outer(attrs["sub_block"], read_by)
    listed = list(inputs)
    slots = {
        "inputs": listed,
        "initial_states": list(states),
        "parameters": [name for name in read if name not in given],
    }
    outputs = {"outputs": list(results), "step_scopes": [scopes]}
    parent.append_op(type="recurrent", inputs=slots, outputs=outputs, attrs=attrs)


@reads("Scan")
def _scan(op: NodeView) -> None:
    body = op.attr("body")
    count = len(op.node.input) - op.attr("num_scan_inputs")
    given = op.all()
    if (
        len(body.input) != len(given)
        or len(body.output) != len(op.node.output)
        or not 0 <= count < len(given)
    ):
        raise op.malformed("its body has other inputs or outputs than the node")
    for name in ("scan_input_axes", "scan_output_axes"):
        if any(op.attr(name) or ()):
            raise op.error(f"its attribute {name!r} is {op.attr(name)}, and the rule knows axis 0 alone")
    ways = {*(op.attr("scan_input_directions") or [0]), *(op.attr("scan_output_directions") or [0])}
    if len(ways) != 1:
        raise op.error("it goes through some rows forwards and through others backwards")
    wanted = [place for place in range(count) if op.wants(place)]

    def step(rows: list[Variable], states: list[Variable]) -> tuple[list[Variable], list[Variable]]:
        for info, var in zip(body.input, [*states, *rows], strict=True):
            op.graph.define(info.name, OnnxValue(var))
        op.graph.read_graph(body, repeats=True)
        made = [op.graph.variable(value) for value in op.graph.results(body)]
        return made[:count], [*(made[place] for place in wanted), *made[count:]]

    reverse = ways == {1}
    made = recurrent(op, given[count:], given[:count], step, reverse)
    for place, var in zip(wanted, made, strict=False):
        result = last_of(op, var, reverse)
        op.put(result, place)
    for place, var in enumerate(made[len(wanted) :], start=count):
        op.put(var, place)


def last_of(op: NodeView, rows: Variable, reverse: bool = False) -> Variable:
    """The row of the last step."""
    row = op.part(rows, 0, 0, 1) if reverse else op.part(rows, 0, -1, 2**31 - 1)
    return op.squeezed(row, [0])


# ----------------------------------------------------------------------- arrays of tensors
@reads("SequenceEmpty")
def _sequence_empty(op: NodeView) -> None:
    number = op.attr("dtype")
    dtype = np.dtype(np.float32) if number is None else op.graph.file.dtype(number, "its result")
    new = op.new(dtype=dtype.name, type=VarType.LOD_TENSOR_ARRAY)
    op.put(new)


@reads("SequenceConstruct")
def _sequence_construct(op: NodeView) -> None:
    array = op.new(dtype=op.dtype().name, type=VarType.LOD_TENSOR_ARRAY)
    for place, var in enumerate(op.all()):
        constant = op.fixed([place], np.int64)
        _write(op, var, constant, array)
    op.put(array)


def _write(op: NodeView, value: Variable, index: Variable, array: Variable) -> None:
    """Write an entry of an array, which is declared with the sizes that all its entries have."""
    before = op.graph.entries.get(array.name)
    sizes = tuple(value.shape)
    if before is not None and len(before) != len(sizes):
        raise op.error(f"a sequence holds tensors of the shapes {list(before)} and {list(sizes)}")
    sizes = tuple(size if size == old else -1 for size, old in zip(sizes, before or sizes, strict=True))
    op.graph.block.append_op(
        type="write_to_array", inputs={"X": [value], "I": [index]}, outputs={"Out": [array]}
    )
    listed = list(sizes)
    array.desc.set_shape(listed)
    op.graph.entries[array.name] = sizes


def _is_same(left: OnnxValue, right: OnnxValue) -> bool:
    """True if two values are one."""
    return left is right or (left.variable is not None and left.variable is right.variable)


@reads("SequenceInsert")
def _sequence_insert(op: NodeView) -> None:
    """An entry at the end, or in the place of one that was taken out for it."""
    sequence = op.value()
    array = sequence.variable
    if array is None or not is_array(array):
        raise op.malformed("its input is not a sequence")
    if not op.graph.is_last_reader(array):
        raise op.error("the sequence without the new entry is read behind it")
    replaces = sequence.replaced is not None and op.has(2) and _is_same(sequence.replaced, op.value(2))
    if op.has(2) and not replaces:
        raise op.error("it puts an entry before others")
    index = op.x(2) if replaces else op.emit("lod_array_length", {"X": array})
    second = op.x(1)
    _write(op, second, index, array)
    op.put(array)


@reads("SequenceAt")
def _sequence_at(op: NodeView) -> None:
    array = op.x()
    second = op.x(1)
    made = op.emit("read_from_array", {"X": array, "I": second})
    listed = list(array.shape)
    made.desc.set_shape(listed)
    op.put(made)


@reads("SequenceLength")
def _sequence_length(op: NodeView) -> None:
    x = op.x()
    made = op.emit("lod_array_length", {"X": x}, scalar=True)
    op.put(made)


@reads("ConcatFromSequence")
def _concat_from_sequence(op: NodeView) -> None:
    new_axis = op.attr("new_axis")
    is_new = bool(new_axis)
    axis = op.axis(op.attr("axis"), op.rank() + is_new)
    attrs = {"axis": axis, "use_stack": is_new}
    x = op.x()
    made = op.emit("tensor_array_to_tensor", {"X": x}, attrs, others=("OutIndex",))
    op.put(made)
