"""Fluid's small modules, held to what PaddlePaddle 1.8.5 was seen to do."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import default_scope_funcs, distribute_lookup_table
from fluidlite.annotations import deprecated
from fluidlite.contrib import distributed_batch_reader, memory_usage, op_freq_statistic
from fluidlite.layers import collective
from fluidlite.log_helper import get_logger
from fluidlite.proto import framework_pb2
from fluidlite.wrapped_decorator import signature_safe_contextmanager, wrap_decorator


def test_memory_of_a_program() -> None:
    x, y = fluid.data("x", [None, 1, 28, 28]), fluid.data("y", [None, 1], "int64")
    assert memory_usage(fluid.default_main_program(), 10) == (0.0, 0.0, "B")
    pooled = fluid.layers.pool2d(fluid.layers.conv2d(x, 20, 5, act="relu"), 2, "max", 2)
    found = fluid.layers.fc(fluid.layers.batch_norm(pooled), 10, act="softmax")
    fluid.optimizer.Adam(0.1).minimize(fluid.layers.mean(fluid.layers.cross_entropy(found, y)))
    assert memory_usage(fluid.default_main_program(), 32) == (10.814947128295898, 11.329944610595705, "MB")
    with pytest.raises(TypeError, match="requires Program as its Parameter"):
        memory_usage("x", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch size need to be positive"):
        memory_usage(fluid.default_main_program(), 0)


def test_ops_and_pairs_are_counted() -> None:
    x = fluid.data("x", [None, 4])
    fluid.layers.relu(fluid.layers.fc(fluid.layers.fc(x, 3), 2))
    single, pairs = op_freq_statistic(fluid.default_main_program())
    assert single == [("mul", 2), ("elementwise_add", 2), ("relu", 1)]
    assert pairs == [("mul->elementwise_add", 2), ("elementwise_add->mul", 1), ("elementwise_add->relu", 1)]


@pytest.mark.parametrize(("trainer", "wanted"), [("0", [0, 2]), ("1", [1, 3])])
def test_each_trainer_its_batches(trainer: str, wanted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("PADDLE_TRAINER_ID", trainer)
    assert list(distributed_batch_reader(lambda: range(5))()) == wanted
    monkeypatch.setenv("PADDLE_TRAINER_ID", "5")
    with pytest.raises(AssertionError, match="must be less than PADDLE_TRAINERS_NUM=2"):
        distributed_batch_reader(lambda: range(5))


def test_communication_as_layers() -> None:
    x = fluid.data("x", [4, 3])
    made = [
        collective._allreduce(x, reduce_type="max"),
        collective._c_allreduce(x),
        collective._c_allgather(x, 2),
        collective._c_reducescatter(x, 2),
    ]
    assert [(var.name, var.shape, var.stop_gradient) for var in made] == [
        ("x.tmp_0", (4, 3), True),
        ("x.c_allreduce_sum_0", (4, 3), False),
        ("x.c_allgather_0", (8, 3), False),
        ("x.c_reducescatter_0", (2, 3), False),
    ]
    for same in (
        collective._broadcast(x, 1),
        collective._c_broadcast(x, 1),
        collective._c_sync_calc_stream(x),
        collective._c_sync_comm_stream(x, 1),
    ):
        assert same is x
    assert [op.type for op in fluid.default_main_program().global_block().ops] == [
        "allreduce",
        "c_allreduce_sum",
        "c_allgather",
        "c_reducescatter",
        "broadcast",
        "c_broadcast",
        "c_sync_calc_stream",
        "c_sync_comm_stream",
    ]
    with pytest.raises(TypeError, match="reduce type can only be"):
        collective._c_allreduce(x, reduce_type="mean")
    with pytest.raises(ValueError, match="cannot be evenly divided by nranks"):
        collective._c_reducescatter(x, 3)


def test_scopes_in_a_stack() -> None:
    outer = default_scope_funcs.get_cur_scope()
    default_scope_funcs.var("a")
    default_scope_funcs.enter_local_scope()
    assert default_scope_funcs.find_var("a") is not None
    default_scope_funcs.var("b")
    default_scope_funcs.leave_local_scope()
    assert default_scope_funcs.find_var("b") is None
    assert default_scope_funcs.get_cur_scope() is outer
    with pytest.raises(KeyError):
        default_scope_funcs.scoped_function(lambda: {}["missing"])
    assert default_scope_funcs.get_cur_scope() is outer


def test_the_distributed_table() -> None:
    ids = fluid.data("ids", [None, 1], "int64")
    assert distribute_lookup_table.find_distributed_lookup_table(fluid.default_main_program()) is None
    row = fluid.layers.embedding(ids, [100, 8], is_sparse=True, is_distributed=True, param_attr="table")
    program = fluid.default_main_program()
    assert distribute_lookup_table.find_distributed_lookup_table(program) == "table"
    assert [
        var.name for var in distribute_lookup_table.find_distributed_lookup_table_inputs(program, "table")
    ] == ["ids"]
    assert [
        var.name for var in distribute_lookup_table.find_distributed_lookup_table_outputs(program, "table")
    ] == [row.name]
    fluid.layers.embedding(ids, [100, 8], is_sparse=True, is_distributed=True, param_attr="other")
    with pytest.raises(RuntimeError, match="should have only one table"):
        distribute_lookup_table.find_distributed_lookup_table(program)


def test_messages_hold_text() -> None:
    fluid.layers.fc(fluid.data("x", [None, 3]), 2)
    program = framework_pb2.ProgramDesc.FromString(fluid.default_main_program().desc.serialize_to_string())
    assert [op.type for op in program.blocks[0].ops] == ["mul", "elementwise_add"]
    x = next(var for var in program.blocks[0].vars if var.name == "x")
    assert x.type.lod_tensor.tensor.data_type == framework_pb2.VarType.FP32
    assert list(x.type.lod_tensor.tensor.dims) == [-1, 3]
    assert framework_pb2.AttrType.Name(framework_pb2.LONGS) == "LONGS"
    assert fluid.Program.parse_from_string(program.SerializeToString()).global_block().ops[0].type == "mul"


def test_functions_that_have_a_successor() -> None:
    @deprecated(since="1.0", instead="g")
    def old(value: int) -> int:
        """Doc."""
        return value

    with pytest.warns(DeprecationWarning, match=r"API old is deprecated since 1\.0\. Please use g instead\."):
        assert old(3) == 3
    assert old.__name__ == "old"
    assert old.__doc__ is not None and "Please use g instead." in old.__doc__


def test_decorators_keep_names() -> None:
    @wrap_decorator
    def twice(function: Any) -> Any:
        return lambda *args: 2 * function(*args)

    @twice
    def five() -> int:
        """Doc."""
        return 5

    @signature_safe_contextmanager
    def opened() -> Any:
        """Doc."""
        yield 1

    assert (five(), five.__name__, five.__doc__, opened.__name__) == (10, "five", "Doc.", "opened")
    with opened() as value:
        assert value == 1


def test_a_logger_writes_once() -> None:
    first = get_logger("fluidlite.test", logging.INFO, fmt="%(message)s")
    assert get_logger("fluidlite.test", logging.WARNING) is first
    assert (len(first.handlers), first.level) == (1, logging.WARNING)


def test_helpers_without_a_layer() -> None:
    helper = fluid.layer_helper_base.LayerHelperBase("thing", "thing")
    param = helper.create_parameter(fluid.ParamAttr(), [2, 3], "float32")
    assert (param.name, param.shape) == ("thing.w_0", (2, 3))
    assert isinstance(fluid.layer_helper.LayerHelper("fc"), fluid.layer_helper_base.LayerHelperBase)
    assert np.prod(helper.create_variable_for_type_inference("float32").shape or ()) == 1
