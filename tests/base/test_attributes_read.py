"""Attributes of ops, fluid's and 2.6.2's: each is read, is known to have no effect, or is refused by name."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from golden import attrs_2x

import fluidlite.paddle as paddle
from fluidlite.base import registry
from fluidlite.base.errors import KernelError
from fluidlite.base.kept_attrs import IDLE, kept_attrs
from fluidlite.ir.operator import COMMON_TYPES

OF_2X: dict[str, list[str]] = json.loads(gzip.decompress(pathlib.Path(attrs_2x.PATH).read_bytes()))
# kernels that get a context read these from the op itself
BY_CONTEXT = {
    "adam": "use_global_beta_pow",
    "adamw": "use_global_beta_pow",
    "conditional_block": "is_scalar_condition sub_block",
    "conditional_block_infer": "is_scalar_condition sub_block",
    "create_py_reader": "device_count device_index use_data_config",
    "elementwise_floordiv": "of_2x",
    "elementwise_mod": "of_2x",
    "lamb": "always_adapt",
    "exponential": "lambda",
    "momentum": "regularization_coeff regularization_method rescale_grad",
    "print": "message summarize print_tensor_layout print_tensor_lod print_tensor_name print_tensor_shape "
    "print_tensor_type",
    "pylayer": "blocks",
    "read": "drop_last infer_out throw_eof_exp",
    "recurrent": "has_states is_train sub_block",
    "while": "is_test sub_block",
}


def unread(op: registry.Op) -> set[str]:
    """Attributes of an op that no rule and no kernel takes, and no declaration explains."""
    of_gradient = registry.find(op.grad_type)
    arguments = [*op.arguments.values(), *(of_gradient.arguments.values() if of_gradient else ())]
    read = {one.key for each in arguments for one in each if one.kind == "attr"}
    explained = {*COMMON_TYPES, *IDLE, *op.idle, *op.only, *kept_attrs(op.type)}
    return {*op.attr_defs, *OF_2X.get(op.type, ())} - read - explained


def test_every_attribute_is_read_or_explained() -> None:
    found = {}
    for op_type in registry.known_types():
        op = registry.get(op_type)
        # attributes of ops that communicate tell who talks to whom: communicators read them
        if not op.communicates and not op_type.endswith("_grad"):
            found[op_type] = unread(op) - set(BY_CONTEXT.get(op_type, "").split())
    assert not {op_type: names for op_type, names in found.items() if names}


def test_declarations_are_of_attributes_that_exist() -> None:
    for op_type in registry.known_types():
        op = registry.get(op_type)
        if not op_type.endswith("_grad"):
            assert {*op.only, *op.idle} <= {*op.attr_defs, *OF_2X.get(op_type, ())}, op_type


# input slots that no kernel reads
UNREAD_SLOTS = {
    "accuracy": "Out: the indices beside it decide",
    "check_finite_and_unscale": "FloatStatus: a flag of another device",
    "conv2d": "Bias: written out as an op (ir.fused), and refused in runs",
    "conv2d_transpose": "Bias: written out as an op (ir.fused), and refused in runs",
    "cudnn_lstm": "Cache: scratch memory",
    "cvm": "CVM: its gradient alone",
    "delete_var": "X: its name counts",
    "depend": "Dep: it orders ops",
    "depthwise_conv2d": "Bias: written out as an op (ir.fused), and refused in runs",
    "depthwise_conv2d_transpose": "Bias: written out as an op (ir.fused), and refused in runs",
    "dequantize_linear": "InAccum InState: quantize_linear takes the mean",
    "detection_map": "FalsePos: TruePos says as much",
    "fused_seqpool_cvm": "CVM: its gradient alone",
    "fusion_seqpool_cvm_concat": "CVM: its gradient alone",
    "graph_reindex": "HashTable_Value HashTable_Index: scratch memory",
    "graph_sample_neighbors": "Perm_Buffer: scratch memory",
    "pylayer": "Input: blocks read outer variables by name",
    "recurrent": "parameters: blocks read outer variables by name",
    "while": "X Condition: blocks read outer variables by name",
}


def test_every_slot_is_read_or_explained() -> None:
    found = {}
    for op_type in registry.known_types():
        op = registry.get(op_type)
        if op.communicates or op_type.endswith("_grad"):
            continue
        rules = [*op.arguments.values()]
        gradient = registry.find(op.grad_type)
        rules += [] if gradient is None or op_type in UNREAD_SLOTS else gradient.arguments.values()
        read = {one.key for rule in rules for one in rule if one.kind in ("in", "lod")}
        unread = {*op.inputs} - read - {*UNREAD_SLOTS.get(op_type, "").partition(":")[0].split()}
        if unread:
            found[op_type] = unread
    assert not found


@pytest.mark.parametrize("naive", [False, True])
def test_refused_by_name(naive: bool) -> None:
    """An attribute that kernels do not read, with another value than the one that they compute with."""
    x = paddle.static.data("x", [2, 2])
    block = paddle.static.default_main_program().global_block()
    outputs: dict[str, Any] = {slot: [block.create_var(name=slot)] for slot in ("Out", "Pivots", "Infos")}
    block.append_op(type="lu", inputs={"X": [x]}, outputs=outputs, attrs={"pivots": False})
    exe = paddle.static.Executor()
    exe.naive = naive
    with pytest.raises(KernelError, match="'lu': its attribute 'pivots' is False, and only True"):
        exe.run(feed={"x": np.eye(2, dtype="float32")}, fetch_list=[block.var("Out")])
