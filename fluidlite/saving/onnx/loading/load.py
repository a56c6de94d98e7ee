"""An ONNX file as a program with weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from fluidlite.base.dtypes import to_vartype
from fluidlite.base.errors import FormatError, UnsupportedError
from fluidlite.base.flags import FIRST_OF_2X
from fluidlite.ir.program import Program
from fluidlite.ir.prune import prune
from fluidlite.ir.variable import Variable

# the rules enter the table as they are imported
from fluidlite.saving.onnx.loading import rules as _rules  # noqa: F401
from fluidlite.saving.onnx.loading.files import OnnxFile
from fluidlite.saving.onnx.loading.graph import GraphReader
from fluidlite.saving.onnx.loading.values import OnnxValue
from fluidlite.saving.variables import put_values
from fluidlite.values.scope import Scope

__all__ = ["OnnxModel", "load_onnx"]


class OnnxModel(NamedTuple):
    """The program of a file, the names that it is fed, and the variables to fetch."""

    program: Program
    feeds: list[str]
    fetches: list[Variable]


def load_onnx(path: str | os.PathLike[str], scope: Scope | None = None) -> OnnxModel:
    """The program that computes what an ONNX file does. Its weights go into `scope`, or the global one.

    Inputs and outputs keep their names, and sizes that the file leaves free stay free. The ops mean what they
    mean in PaddlePaddle 2.x: opsets of ONNX from 13 on are read, weights in other files where they lie in the
    folder of the file. MissingFileError where there is no such file; FormatError for what is no ONNX file;
    UnsupportedError, which names op, node and attribute, for what no rule can say; MissingExtraError without
    the package `onnx`.
    """
    file = OnnxFile(path)
    program = Program()
    program.file_version = FIRST_OF_2X
    graph = GraphReader(file, program)
    whole = file.model.graph
    # results go under their names, whatever else is called so
    graph.taken.update(output.name for output in whole.output)
    kept = {tensor.name for tensor in whole.initializer}
    feeds = [_fed(graph, info) for info in whole.input if info.name not in kept]
    graph.read_graph(whole)
    names = _fetched(graph, whole)
    program = prune(program, names, feeds)
    block = program.global_block()
    put_values({name: graph.weights[name] for name in block.vars if name in graph.weights}, scope=scope)
    return OnnxModel(program, feeds, [block.var(name) for name in names])


def _fed(graph: GraphReader, info: Any) -> str:
    """The name of an input, declared in the program."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type" or not info.type.tensor_type.HasField("shape"):
        raise UnsupportedError(f"input {info.name!r} is not a tensor with a known number of dimensions")
    tensor = info.type.tensor_type
    dtype = graph.file.dtype(tensor.elem_type, f"input {info.name!r}")
    if info.name in graph.taken:
        raise FormatError(f"the graph has an input called {info.name!r}, as another value")
    shape = [size.dim_value if size.HasField("dim_value") else -1 for size in tensor.shape.dim]
    if any(size < -1 for size in shape):
        raise FormatError(f"input {info.name!r} has the shape {shape}")
    name = graph.name(info.name)
    var = graph.block.create_var(
        name=name,
        shape=shape,
        dtype=to_vartype(dtype),
        is_data=True,
        need_check_feed=True,
        stop_gradient=True,
    )
    graph.define(info.name, OnnxValue(var))
    return str(info.name)


def _fetched(graph: GraphReader, whole: Any) -> Sequence[str]:
    """The names of the results, each a variable of its own."""
    found = []
    for output, value in zip(whole.output, graph.results(whole), strict=True):
        made = graph.variable(value)
        if output.name in found or made.type.name != "LOD_TENSOR":
            raise UnsupportedError(f"the output {output.name!r} is a sequence, or there twice")
        block = graph.block
        target = block.create_var(name=output.name)
        block.append_op(type="assign", inputs={"X": [made]}, outputs={"Out": [target]})
        found.append(output.name)
    return found
