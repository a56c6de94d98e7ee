"""`fluid.debugger`: programs as pseudo-code and as drawings, and runs that stop at the first NaN or
infinity.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fluidlite.base import flags
from fluidlite.base.attr_types import AttrType
from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.imported_names import imported_names
from fluidlite.base.plain_text import in_graph
from fluidlite.compat.desc import shown
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.printing import operator_text, variable_text
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter

__all__ = [
    "draw_block_graphviz",
    "pprint_block_codes",
    "pprint_program_codes",
    "prepare_fast_nan_inf_debug",
    "repr_attr",
    "repr_data_type",
    "repr_lodtensor",
    "repr_op",
    "repr_selected_rows",
    "repr_tensor",
    "repr_tensor_array",
    "repr_var",
    "run_fast_nan_inf_debug",
]

_FILL = {"op": "#303A3A", "param": "#148b97", "value": "#dddddd", "highlight": "orange"}


def pprint_program_codes(program_desc: Program) -> str:
    """The forward part of a program as text, block by block."""
    return "\n\n".join(pprint_block_codes(block) for block in shown(program_desc).blocks)


def pprint_block_codes(block_desc: Block, show_backward: bool = False) -> str:
    """The variables and ops of a block as text; gradients, and the ops that make or use them, only with
    `show_backward`.
    """
    block = shown(block_desc)
    ops = [op for op in block.ops if show_backward or not op.role & (OpRole.Backward | OpRole.Optimize)]
    hidden = {name for op in block.ops if op not in ops for name in op.output_arg_names}
    hidden -= {name for op in ops for name in (*op.input_arg_names, *op.output_arg_names)}
    lines = [f"// block-{block.idx}  parent-{block.parent_idx}", "// variables"]
    lines += [variable_text(var) for var in block.vars.values() if var.name not in hidden]
    return "\n".join([*lines, "", "// operators", *map(operator_text, ops)]) + "\n"


# ---------- Paddle's messages as text
def repr_data_type(type: int) -> str:
    """The name of a dtype by its number: 5 is "float32"."""
    return str(to_numpy(VarType(type)))


def repr_tensor(proto: Any) -> str:
    """A TensorDesc: tensor(type=float32, shape=[-1, 2])."""
    return f"tensor(type={repr_data_type(proto.data_type)}, shape={list(proto.dims)})"


def repr_lodtensor(proto: Any) -> str | None:
    """A VarType that is a LoDTensor, `{}` for its variable's name; None for another."""
    if proto.type != VarType.LOD_TENSOR:
        return None
    inside = repr_tensor(proto.lod_tensor.tensor)
    level = proto.lod_tensor.lod_level
    return f"LoDTensor {{}} (level={level}, {inside})" if level else f"Tensor {{}} ({inside})"


def repr_selected_rows(proto: Any) -> str | None:
    """A VarType that is SelectedRows, `{}` for its variable's name; None for another."""
    if proto.type != VarType.SELECTED_ROWS:
        return None
    return f"SelectedRows {{}} ({repr_tensor(proto.selected_rows)})"


def repr_tensor_array(proto: Any) -> str | None:
    """A VarType that is an array of tensors, `{}` for its variable's name; None for another."""
    if proto.type != VarType.LOD_TENSOR_ARRAY:
        return None
    array = proto.tensor_array
    return f"TensorArray {{}} (level={array.lod_level}, {repr_tensor(array.tensor)})"


def repr_var(vardesc: Any) -> str | None:
    """A VarDesc: Tensor fc_0.b_0 (tensor(type=float32, shape=[2])); None for one that holds no tensors."""
    for kind in (repr_lodtensor, repr_selected_rows, repr_tensor_array):
        text = kind(vardesc.type)
        if text is not None:
            return text.format(vardesc.name)
    return None


def repr_attr(desc: Any) -> tuple[str, tuple[str, Any]]:
    """An attribute of an OpDesc as text, and as (name, value); ("", ("", None)) for a block."""
    field = _ATTR_FIELDS.get(AttrType(desc.type))
    if field is None:
        return "", ("", None)
    value = getattr(desc, field)
    if AttrType(desc.type) in _ATTR_LISTS:
        value = list(value)
    return f"{desc.name}={value}", (desc.name, value)


def repr_op(opdesc: Any) -> str:
    """An OpDesc: fc_0.tmp_0 = mul(X=x, Y=fc_0.w_0) [{x_num_col_dims=1,...}]."""
    outputs = ", ".join(", ".join(slot.arguments) for slot in opdesc.outputs if slot.arguments)
    inputs = ", ".join(
        f"{slot.parameter}={', '.join(slot.arguments)}" for slot in opdesc.inputs if slot.arguments
    )
    attrs = ",".join(filter(None, (repr_attr(attr)[0] for attr in opdesc.attrs)))
    return f"{outputs} = {opdesc.type}({inputs}) [{{{attrs}}}]"


# the field of an attribute's message that holds a value of its type
_ATTR_FIELDS = {
    AttrType.INT: "i",
    AttrType.FLOAT: "f",
    AttrType.STRING: "s",
    AttrType.INTS: "ints",
    AttrType.FLOATS: "floats",
    AttrType.STRINGS: "strings",
    AttrType.BOOLEAN: "b",
    AttrType.BOOLEANS: "bools",
    AttrType.LONG: "l",
    AttrType.LONGS: "longs",
}
_ATTR_LISTS = (AttrType.INTS, AttrType.FLOATS, AttrType.STRINGS, AttrType.BOOLEANS, AttrType.LONGS)


# ---------- NaN and infinity
def prepare_fast_nan_inf_debug(_program: Program) -> None:
    """Do nothing: every program can be run by `run_fast_nan_inf_debug`. TypeError for
    what is no program.
    """
    if not isinstance(_program, Program):
        raise TypeError(f"prepare_fast_nan_inf_debug takes a Program, not {type(_program).__name__}")


def run_fast_nan_inf_debug(
    executor: Any,
    program: Program | None = None,
    feed: Any = None,
    fetch_list: Any = None,
    feed_var_name: str = "feed",
    fetch_var_name: str = "fetch",
    scope: Any = None,
    return_numpy: bool = True,
    use_program_cache: bool = False,
    dump_core: bool = True,
) -> Any:
    """`executor.run` op by op; NanInfError names the first op whose result holds a NaN or an infinity
    (there is no core to dump).
    """
    flag = "FLAGS_check_nan_inf"
    before = flags.get_flags(flag)
    flags.set_flags({flag: True})
    try:
        return executor.run(
            program, feed, fetch_list, feed_var_name, fetch_var_name, scope, return_numpy, use_program_cache
        )
    finally:
        flags.set_flags(before)


# ------------------------------------------------------------------------------------------------ drawings
def draw_block_graphviz(
    block: Block, highlights: Iterable[str] | None = None, path: str = "./temp.dot"
) -> None:
    """Write a block as a graph for Graphviz (`dot -Tpdf temp.dot`): ops, values, and in another colour the
    names in `highlights`.
    """
    pathlib.Path(path).write_text(
        "\n".join(_dot(shown(block), frozenset(highlights or ()))) + "\n", encoding="utf8"
    )


def _dot(block: Block, highlights: frozenset[str]) -> Iterator[str]:
    yield "digraph block {"
    yield '  rankdir="TB"; node [shape="box", style="rounded,filled", fontname="Arial"];'
    names = dict.fromkeys(name for op in block.ops for name in (*op.input_arg_names, *op.output_arg_names))
    numbers = {name: f"value_{number}" for number, name in enumerate(names)}
    for name, node in numbers.items():
        yield f"  {node} {_node(block, name, highlights)}"
    for number, op in enumerate(block.ops):
        yield f'  op_{number} [label={in_graph(op.type)}, fillcolor="{_FILL["op"]}", fontcolor="white"];'
        yield from (f"  {edge}" for edge in _edges(op, f"op_{number}", numbers, highlights))
    yield "}"


def _node(block: Block, name: str, highlights: frozenset[str]) -> str:
    var = block._find_var_recursive(name)
    label, fill = name, _FILL["value"]
    if isinstance(var, Parameter):
        label, fill = f"{name}\n{list(var.shape)}", _FILL["param"]
    if name in highlights:
        fill = _FILL["highlight"]
    return f'[label={in_graph(label)}, fillcolor="{fill}"];'


def _edges(op: Operator, node: str, numbers: dict[str, str], highlights: frozenset[str]) -> Iterator[str]:
    for name in op.input_arg_names:
        yield f"{numbers[name]} -> {node}{_colour(name, highlights)};"
    for name in op.output_arg_names:
        yield f"{node} -> {numbers[name]}{_colour(name, highlights)};"


def _colour(name: str, highlights: frozenset[str]) -> str:
    return f' [color="{_FILL["highlight"]}"]' if name in highlights else ""


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
