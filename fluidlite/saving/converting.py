"""A model for inference in another form: the files of 1.x or of 2.x, or fixed shapes of its inputs."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Mapping, Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import UnsupportedError
from fluidlite.base.flags import PROGRAM_VERSION, VERSION_OF_2X
from fluidlite.base.registry import OF_2X_ATTR, ZERO_DIM_ATTR
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.proto import serialize_program
from fluidlite.saving.variables import get_program_persistable_vars, put_files, values_of
from fluidlite.values.serialize import write_folder

__all__ = ["FORMS", "converted", "ops_told_apart", "with_shapes", "write_model"]

FORMS = ("1.x", "2.x")


def with_shapes(program: Program, shapes: Mapping[str, Sequence[int]]) -> Program:
    """A copy of the program with these shapes of inputs, and the shapes that follow from them."""
    if not shapes:
        return program
    copy = program.clone()
    block = copy.global_block()
    for name, shape in shapes.items():
        block.var(name).shape = tuple(shape)
    _infer(copy)
    return copy


def converted(program: Program, form: str) -> Program:
    """A copy of the program as releases of `form` read it, "1.x" or "2.x".

    UnsupportedError, for 1.x, with the types of ops that PaddlePaddle 1.8.5 does not have.
    """
    copy = program.clone()
    copy.file_version = VERSION_OF_2X if form == "2.x" else PROGRAM_VERSION
    copy.op_versions.clear()
    if form == "1.x":
        for block in copy.blocks:
            block.set_ops([_older(op) for op in block.ops])
        _check_types(copy)
        _infer(copy)
    return copy


def ops_told_apart(program: Program) -> list[str]:
    """The types of ops in a program that compute something else in 1.x and in 2.x for some inputs, although
    their files are the same.
    """
    ops = [op for block in program.blocks for op in block.ops if op.definition is not None]
    return sorted({op.type for op in ops if op.definition and OF_2X_ATTR in op.definition.attr_defs})


def write_model(program: Program, path: str, form: str) -> list[str]:
    """Write the program and its parameters, which are in the global scope; returns the paths of the files.

    In the form of 1.x `path` is a folder for `__model__` and `__params__`, in that of 2.x it is what comes
    before `.pdmodel` and `.pdiparams`. All files are written, or none.
    """
    values = values_of(get_program_persistable_vars(program))
    if form == "1.x":
        folder, model, params = path, "__model__", "__params__"
    else:
        folder, name = os.path.split(os.path.normpath(path))
        folder, model, params = folder or ".", f"{name}.pdmodel", f"{name}.pdiparams"
    with write_folder(folder, model) as files:
        files.put(model, [serialize_program(program)])
        if values:
            put_files(files, values, params)
    return [os.path.join(folder, name) for name in ((model, params) if values else (model,))]


def _infer(program: Program) -> None:
    for op in program.global_block().ops:
        if op.definition is not None and not op.is_boundary:
            op.infer()


# ------------------------------------------------------------------------------------------------ 2.x as 1.x
def _older(op: Operator) -> Operator:
    """The op of 1.x that computes what `op` does; itself where there is none."""
    # a single number has the shape [1] there
    attrs = {name: value for name, value in op.attrs.items() if name != ZERO_DIM_ATTR}
    type, given = op.type, dict(attrs)
    if given.get("reduce_all") and not given.get("dim"):
        given["dim"] = [0]  # 1.8.5 asks for one
    elif type == "silu":
        type, given = "swish", {"beta": 1.0}
    elif type == "matmul_v2" and _ranks(op) <= {2} | {max(_ranks(op))} and min(_ranks(op)) > 1:
        type, given = "matmul", {"transpose_X": attrs["trans_x"], "transpose_Y": attrs["trans_y"]}
    elif type == "flatten_contiguous_range" and (shape := _flat(op)) is not None:
        type, given = "reshape2", {"shape": shape}
    elif type.endswith("_interp_v2") and len(set(attrs["scale"])) < 2:
        type = type.removesuffix("_v2")
        sizes = {name: max(attrs[name], 0) for name in ("out_d", "out_h", "out_w")}
        given = {**attrs, **sizes, "scale": attrs["scale"][0] if attrs["scale"] else 0.0}
    outputs = {slot: names for slot, names in op.outputs.items() if names}
    if op.definition is not None and "XShape" in op.definition.outputs:
        # 2.x leaves out what only a gradient reads, and 1.8.5 asks for it
        name = f"{op.output('Out')[0]}.xshape"
        outputs.setdefault("XShape", [op.block.create_var(name=name, dtype=VarType.FP32).name])
    made = Operator.build(op.block, type, op.inputs, outputs, given)
    made.where = op.where
    return made


def _ranks(op: Operator) -> set[int]:
    return {len(op.block.var(name).shape) for name in op.input_arg_names}


def _flat(op: Operator) -> list[int] | None:
    """The shape that `reshape2` needs to flatten some dimensions; None where two sizes would be unknown."""
    shape = list(op.block.var(op.input("X")[0]).shape)
    start, stop = (op.attrs[name] % len(shape) for name in ("start_axis", "stop_axis")) if shape else (0, 0)
    behind = shape[stop + 1 :]
    # 0 keeps a size, where it stays at its index
    return None if min(behind, default=1) < 1 else [*[0] * start, -1, *behind]


def _check_types(program: Program) -> None:
    known = set(importlib.resources.files(__package__).joinpath("ops_of_1x.txt").read_text().split())
    lacking = sorted({op.type for block in program.blocks for op in block.ops} - known)
    if lacking:
        raise UnsupportedError(
            f"the model cannot be written for 1.x: PaddlePaddle 1.8.5 has no {', '.join(map(repr, lacking))}"
        )
