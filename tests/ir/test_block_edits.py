"""A block's ops change through its own methods, which keep what is read and say that the program changed."""

from __future__ import annotations

import pytest

import fluidlite as fluid
from fluidlite.errors import ProgramEditError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator


def chain() -> Block:
    """`a -> relu -> b -> tanh -> c`, and `w` that a `sgd`-like op overwrites in place."""
    block = fluid.Program().global_block()
    for name in "abc":
        block.create_var(name=name, shape=[2], dtype="float32")
    block.create_var(name="w", shape=[2], dtype="float32", persistable=True)
    block.append_op(type="relu", inputs={"X": ["a"]}, outputs={"Out": ["b"]})
    block.append_op(type="scale", inputs={"X": ["w"]}, outputs={"Out": ["w"]}, attrs={"scale": 0.5})
    block.append_op(type="tanh", inputs={"X": ["b"]}, outputs={"Out": ["c"]})
    block.append_op(type="abs", inputs={"X": ["w"]}, outputs={"Out": ["a"]})
    return block


def types(block: Block) -> list[str]:
    return [op.type for op in block.ops]


def new(block: Block, type: str, read: str, written: str) -> Operator:
    return Operator.build(block, type, {"X": [read]}, {"Out": [written]}, {})


def test_what_is_read_stays() -> None:
    block = chain()
    relu, scale, tanh, _ = block.ops
    with pytest.raises(ProgramEditError, match=r"cannot remove op 'relu': op 'tanh' still reads 'b'"):
        block.remove_op(relu)
    assert types(block) == ["relu", "scale", "tanh", "abs"]
    block.remove_op(scale)  # w is persistable: its value is in the scope
    block.remove_ops([relu, tanh])  # nobody is left who reads b
    assert types(block) == ["abs"]


def test_what_is_given_need_not_be_computed() -> None:
    block = chain()
    block.remove_op(block.ops[0], given=["b"])
    assert types(block) == ["scale", "tanh", "abs"]


def test_another_writer_is_enough() -> None:
    block = chain()
    block.insert_after(block.ops[0], type="sigmoid", inputs={"X": ["a"]}, outputs={"Out": ["b"]})
    block.remove_op(block.ops[0])
    assert types(block) == ["sigmoid", "scale", "tanh", "abs"]


def test_foreign_ops_are_not_removed() -> None:
    block, other = chain(), chain()
    with pytest.raises(ProgramEditError, match="cannot remove ops from block"):
        block.remove_op(other.ops[0])


def test_many_ops_are_inserted_at_once() -> None:
    block = chain()
    relu, _, tanh, _ = block.ops
    before = {tanh: [new(block, "exp", "b", "b"), new(block, "sqrt", "b", "b")]}
    after = {relu: [new(block, "floor", "b", "b")]}
    block.insert_ops(before, after, [new(block, "ceil", "c", "c")])
    assert types(block) == ["relu", "floor", "scale", "exp", "sqrt", "tanh", "abs", "ceil"]
    assert block.vars["c"].op is block.ops[-1]


def test_each_edit_is_a_new_version() -> None:
    block = chain()
    edits = (
        lambda: block.set_ops(block.ops[::-1]),
        lambda: block.insert_ops({}, {}, [new(block, "ceil", "c", "c")]),
        lambda: block.remove_op(block.ops[-1]),
    )
    for edit in edits:
        version = block.program.version
        edit()
        assert block.program.version > version
