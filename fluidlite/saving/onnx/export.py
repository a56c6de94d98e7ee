"""A saved model as an ONNX file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import did_you_mean
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.trust import check_reach
from fluidlite.ir.variable import Variable

# the rules enter the table as they are imported
from fluidlite.saving.onnx import math as _math  # noqa: F401
from fluidlite.saving.onnx import neural as _neural  # noqa: F401
from fluidlite.saving.onnx import recurrent as _recurrent  # noqa: F401
from fluidlite.saving.onnx import tensors as _tensors  # noqa: F401
from fluidlite.saving.onnx.graph import RULES, OnnxGraph, OpView, onnx_package
from fluidlite.saving.variables import value_of

__all__ = ["OPSET", "onnx_model"]

OPSET = 17  # the first with LayerNormalization; read since 2022
_IR_VERSION = 8


def onnx_model(
    program: Program, feeds: Sequence[str], fetches: Sequence[str], *, trust: bool = False
) -> bytes:
    """The bytes of an ONNX file that computes `fetches` from `feeds`; parameters are the global scope's.

    UntrustedError where an op does more than to compute, unless the program's maker is trusted: no file of
    ONNX would do it. MissingExtraError without the package `onnx`; UnsupportedError, which names op and line,
    for an op that has no rule.
    """
    check_reach(program, trust)
    onnx, graph = onnx_package(), OnnxGraph()
    ops = _needed(program, feeds, fetches)
    block = program.global_block()
    for name in feeds:
        graph.names[name] = graph.name(name)
    for name in _parameters(ops, set(feeds), block):
        graph.names[name] = graph.constant(np.asarray(value_of(block.var(name))), hint=name)
    for op in ops:
        view = OpView(graph, op)
        if op.type not in RULES:
            raise view.error(f"there is no rule for it{did_you_mean(op.type, RULES)}")
        RULES[op.type](view)
    outputs = [_named(graph, name) for name in fetches]
    whole = onnx.helper.make_graph(
        graph.nodes,
        "fluidlite",
        [_described(graph, block.var(name), name) for name in feeds],
        [_described(graph, block.var(name), out) for name, out in zip(fetches, outputs, strict=True)],
        graph.constants,
    )
    model = onnx.helper.make_model(
        whole, producer_name="fluidlite", opset_imports=[onnx.helper.make_opsetid("", OPSET)]
    )
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _needed(program: Program, feeds: Sequence[str], fetches: Sequence[str]) -> list[Operator]:
    """The ops between feeds and fetches, in their order."""
    wanted, found = set(fetches), []
    for op in reversed(program.global_block().ops):
        if op.type not in ("feed", "fetch") and wanted.intersection(op.output_arg_names):
            found.append(op)
            wanted.update(name for name in op.input_arg_names if name not in feeds)
    return found[::-1]


def _parameters(ops: Sequence[Operator], known: set[str], block: Any) -> Iterator[str]:
    """Variables that are read before an op writes them, each once."""
    seen = set(known)
    for op in ops:
        for name in op.input_arg_names:
            var = block._find_var_recursive(name)
            # scratch memory of a kernel is persistable too, and no tensor
            if name not in seen and var is not None and var.persistable and var.type == VarType.LOD_TENSOR:
                seen.add(name)
                yield name
        seen.update(op.output_arg_names)


def _named(graph: OnnxGraph, name: str) -> str:
    """An output under the variable's own name, where that is free."""
    value = graph.names[name]
    return str(graph.add("Identity", value, hint=name))


def _described(graph: OnnxGraph, var: Variable, name: str) -> Any:
    dims = [f"{var.name}.{place}" if size < 0 else size for place, size in enumerate(var.shape)]
    return graph.helper.make_tensor_value_info(name, graph.dtype(to_numpy(var.dtype)), dims)
