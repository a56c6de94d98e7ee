"""A saved model as an ONNX file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError, EnforceNotMet, UnsupportedError, did_you_mean
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.trust import check_reach
from fluidlite.ir.variable import Variable

# the rules enter the table as they are imported
from fluidlite.saving.onnx import rules as _rules  # noqa: F401
from fluidlite.saving.onnx.graph import OLDEST, OPSET, OnnxGraph, onnx_package

__all__ = ["OPSET", "onnx_model"]


def onnx_model(
    program: Program,
    feeds: Sequence[str],
    fetches: Sequence[str],
    *,
    trust: bool = False,
    opset: int = OPSET,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> bytes:
    """The bytes of an ONNX file that computes `fetches` from `feeds`; parameters are the global scope's.

    Sizes that are not known stay free, unless `shapes` says the shape of a feed; but a feed with a row for
    each sequence has one row, as the file is of one sequence. UntrustedError where an op
    does more than to compute, unless the program's maker is trusted: no file of ONNX would do it.
    MissingExtraError without the package `onnx`; UnsupportedError, which names op and line, for an op that
    has no rule, and for one that does more than its rule can say.
    """
    check_reach(program, trust)
    onnx = onnx_package()
    graph = OnnxGraph(_known_opset(opset))
    for known in (_single_rows(program, feeds, fetches), shapes):
        program = _with_shapes(program, feeds, known) if known else program
    block = program.global_block()
    graph.held.update(_other_types(program))
    for name in feeds:
        graph.names[name] = graph.name(name)
    for op in _needed(program, fetches):
        graph.translate(op)
    outputs = [_named(graph, block.var(name)) for name in fetches]
    inputs = [_described(graph, block.var(name), name) for name in feeds]
    described = [_described(graph, block.var(name), out) for name, out in zip(fetches, outputs, strict=True)]
    nodes = _reached(graph.nodes, set(outputs))
    used = {name for node in nodes for name in _read_by(node)}
    constants = [value for name, value in graph.constants.items() if name in used]
    whole = onnx.helper.make_graph(nodes, "fluidlite", inputs, described, constants)
    imports = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(whole, producer_name="fluidlite", opset_imports=imports)
    model.ir_version = onnx.helper.find_min_ir_version_for(imports)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _known_opset(opset: int) -> int:
    newest = onnx_package("onnx.defs").onnx_opset_version()
    if not OLDEST <= opset <= newest:
        raise ArgumentError(f"opset {opset} is not between {OLDEST} and {newest}, the newest of this onnx")
    return opset


def _other_types(program: Program) -> dict[str, VarType]:
    """The data types of variables whose file declares another one than their op computes."""
    copy = program.clone()
    for op in (op for block in copy.blocks for op in block.ops if not op.is_boundary):
        # a file may say less than a rule asks for; what it says of types stays as it is then
        with contextlib.suppress(EnforceNotMet):
            op.infer()
    tensors = [
        var for var in program.list_vars() if var.type in (VarType.LOD_TENSOR, VarType.LOD_TENSOR_ARRAY)
    ]
    pairs = ((var, copy.blocks[var.block.idx].var(var.name)) for var in tensors)
    return {var.name: inferred.dtype for var, inferred in pairs if inferred.dtype != var.dtype}


def _single_rows(program: Program, feeds: Sequence[str], fetches: Sequence[str]) -> dict[str, list[int]]:
    """The shapes of feeds that have a row for each sequence: one, as the file is of one sequence. With more
    rows, each of them would get the same sequence without a word.
    """
    block = program.global_block()
    # of variables without a level of detail: those that ops hold against each other, row by row
    groups: dict[str, set[str]] = {}
    pooled: set[str] = set()
    for op in _needed(program, fetches):
        results = op.output_arg_names
        named = [block._var_recursive(name) for name in [*op.input_arg_names, *results]]
        plain = {var.name for var in named if _has_free_rows(var)}
        if any(var.lod_level for var in named):
            pooled.update(plain.intersection(results))
            continue
        group = _joined(groups, plain)
        for name in group:
            groups[name] = group
    single = _joined(groups, pooled)
    return {name: [1, *block.var(name).shape[1:]] for name in feeds if name in single}


def _has_free_rows(var: Variable) -> bool:
    """True for a variable without a level of detail that may have any number of rows."""
    if var.lod_level:
        return False
    return tuple(var.shape)[:1] == (-1,)


def _joined(groups: Mapping[str, set[str]], names: set[str]) -> set[str]:
    """The names, and all that are in a group with one of them."""
    found = set(names)
    for name in names:
        found |= groups.get(name, set())
    return found


def _with_shapes(program: Program, feeds: Sequence[str], shapes: Mapping[str, Sequence[int]]) -> Program:
    """The program with the shapes of feeds as they are given, and those of all variables behind them."""
    program = program.clone()
    block = program.global_block()
    for name, shape in shapes.items():
        if name not in feeds:
            raise ArgumentError(f"{name!r} is not among the inputs {list(feeds)}{did_you_mean(name, feeds)}")
        declared = tuple(block.var(name).shape)
        pairs = zip(declared, shape, strict=False)
        if len(declared) != len(shape) or any(size not in (-1, given) for size, given in pairs):
            raise ArgumentError(f"the shape {list(shape)} does not fit {name}{list(declared)}")
        made = list(shape)
        block.var(name).desc.set_shape(made)
    for each in program.blocks:
        for op in each.ops:
            if not op.is_boundary:
                op.infer()
    return program


def _needed(program: Program, fetches: Sequence[str]) -> list[Operator]:
    """The ops that fetches depend on, in their order; some may write over a feed."""
    wanted = set(fetches)
    found = []
    for op in reversed(program.global_block().ops):
        if not op.is_boundary and wanted.intersection(op.output_arg_names):
            found.append(op)
            wanted.update(op.input_arg_names)
    return found[::-1]


def _read_by(node: Any) -> set[str]:
    """The values that a node reads, those of its branches among them."""
    found = {name for name in node.input if name}
    for attribute in node.attribute:
        for inner in [attribute.g] if attribute.HasField("g") else []:
            found.update(value.name for value in inner.output)
            for each in inner.node:
                found |= _read_by(each)
    return found


def _reached(nodes: Sequence[Any], wanted: set[str]) -> list[Any]:
    """The nodes whose results somebody reads: rules write also what nobody asks for."""
    found = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            found.append(node)
            wanted |= _read_by(node)
    return found[::-1]


def _named(graph: OnnxGraph, var: Variable) -> str:
    """An output under the variable's own name, where that is free."""
    if var.name not in graph.names and not var.persistable:
        raise UnsupportedError(f"no ONNX for {var.name!r}: nothing that is exported computes it")
    if var.name not in graph.names:
        graph.names[var.name] = graph.parameter(var)
    identity = graph.add("Identity", graph.names[var.name], hint=var.name)
    return str(identity)


def _described(graph: OnnxGraph, var: Variable, name: str) -> Any:
    dtype = graph.type_of(var)
    if dtype.kind not in "fiub":
        raise UnsupportedError(f"no ONNX for {var.name!r}: no tensor of it holds {dtype}")
    dims = [f"{var.name}.{place}" if size < 0 else size for place, size in enumerate(var.shape)]
    return graph.helper.make_tensor_value_info(name, graph.dtype(dtype), dims)
