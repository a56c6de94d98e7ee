"""Rows of the op table whose ops are exported to ONNX: onnxruntime computes what their kernels compute, and
so does the program of the file that is read back.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from beside.onnx_runs import compare, read_back, session_of
from optest import Case, _items, build
from test_ops import CASES

import fluidlite as fluid
from fluidlite.base import registry
from fluidlite.base.dtypes import VarType
from fluidlite.errors import UnsupportedError
from fluidlite.saving.onnx.export import OPSET, onnx_model
from fluidlite.saving.onnx.graph import rule_of
from fluidlite.saving.onnx.loading.graph import NOT_READ, READERS
from fluidlite.values.tensor import LoDTensor

# they make a sequence of each row: with more than one the file fails as it runs
OF_ONE_ROW = ("sequence_unpad", "im2sequence")

# what a program cannot declare: a variable with two numbers of dimensions
NOT_BACK = {"select_input": "its branches give [2, 3, 4] and [3, 4]"}


def of_one_sequence(case: Case) -> bool:
    """True if no input has several sequences, or no rows, of which a file of ONNX has other ones."""
    for value in case.inputs.values():
        for array, lengths in _items(value):
            if not array.size or (lengths and (len(lengths) > 1 or len(lengths[0]) != 1)):
                return False
    return True


def has_ties(case: Case) -> bool:
    """True if elements that are equal are put into an order, which ONNX takes from their indices, and fluid
    from its heap.
    """
    scores = case.inputs.get({"top_k": "X", "generate_proposals": "Scores"}.get(case.op, ""))
    return scores is not None and any(len(np.unique(array)) < array.size for array, _ in _items(scores))


ROWS = [
    case for case in CASES if rule_of(case.op) is not None and of_one_sequence(case) and not has_ties(case)
]
# ops that mean something else in 2.x, in both meanings
ROWS += [
    dataclasses.replace(case, of_2x=True, name=f"{case.name} in 2.x")
    for case in ROWS
    if not case.of_2x and "of_2x" in registry.get(case.op).attr_defs
]


def exported(case: Case, opset: int) -> tuple[Any, ...]:
    """Our results, and the file's bytes with what it is fed; inputs behind the first one are parameters, if
    the rule wants parameters there.
    """
    program, feeds, outputs = build(case)
    block, exe = program.global_block(), fluid.Executor(fluid.CPUPlace())
    made = [block.var(name) for slot in outputs.values() for name in slot]
    names = [var.name for var in made if var.type == VarType.LOD_TENSOR]
    try:
        data = onnx_model(program, list(feeds), names, opset=opset)
    except UnsupportedError as error:
        if "is not a parameter" not in str(error):
            raise
        for name in [name for name in feeds if not name.startswith(f"{next(iter(case.inputs))}_")]:
            block.var(name).persistable = True
            tensor = fluid.global_scope().var(name).get_tensor()
            tensor.set(np.asarray(feeds.pop(name)), fluid.CPUPlace())
        data = onnx_model(program, list(feeds), names, opset=opset)
    found = exe.run(program, feed=feeds, fetch_list=names, return_numpy=False)
    return names, found, data, feeds


def opset_of(number: int) -> int:
    """The opset of a row: each is tried with some of them."""
    newest = min(onnx.defs.onnx_opset_version(), 22)
    return (OPSET, newest, 20, 14, 18)[number % 5]


def kinds_in(graph: Any) -> set[str]:
    """The ops of ONNX in a graph and in the graphs inside."""
    inner = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return {node.op_type for node in graph.node}.union(*map(kinds_in, inner))


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[str(case) for case in ROWS])
def test_rows(number: int) -> None:
    case = ROWS[number]
    try:
        names, found, data, feeds = exported(case, opset_of(number))
    except UnsupportedError as error:
        assert case.op in str(error) or "no ONNX for '" in str(error)
        # what an op means in 2.x: all programs of 2.x have it
        assert "of_2x" not in str(error)
        return
    try:
        session = session_of(data)
    except Exception as error:
        assert "NOT_IMPLEMENTED" in str(error), error
        return
    given = {name: np.asarray(value) for name, value in feeds.items()}
    if case.op in OF_ONE_ROW and len(given[next(iter(feeds))]) > 1:
        with pytest.raises(Exception, match="Reshape"):
            session.run(None, given)
        return
    for name, ours, theirs in zip(names, found, session.run(None, given), strict=True):
        if isinstance(ours, LoDTensor):
            assert not compare(ours, theirs), f"{case} {name}: {compare(ours, theirs)}"
    assert kinds_in(onnx.load_from_string(data).graph) <= READERS.keys() | NOT_READ.keys()
    back = read_back(data, [given], [found])
    assert not back or NOT_BACK.get(case.op, "nothing") in back, back
