"""`fluid.incubate.fleet.utils.utils`: programs as files, and what is in them."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf import text_format

from fluidlite.base.dtypes import Array, to_numpy
from fluidlite.base.errors import ArgumentError, FormatError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import CPUPlace
from fluidlite.debugger import draw_block_graphviz
from fluidlite.executor.executor import Executor, scope_guard
from fluidlite.io import load_inference_model
from fluidlite.ir.program import Program
from fluidlite.lod_tensor import create_lod_tensor
from fluidlite.proto import framework_pb2
from fluidlite.saving.variables import get_program_persistable_vars
from fluidlite.values.scope import Scope
from fluidlite.values.serialize import ValueReader

__all__ = [
    "check_pruned_program_vars",
    "check_saved_vars_try_dump",
    "graphviz",
    "load_program",
    "load_program_binary",
    "load_program_text",
    "load_var",
    "parse_program",
    "program_type_trans",
    "save_program",
]

_log = logging.getLogger(__name__)

persistable_vars_out_fn = "vars_persistable.log"
all_vars_out_fn = "vars_all.log"
ops_out_fn = "ops.log"


def load_var(var_name: str, shape_list: Sequence[int], dtype: Any, save_path: str) -> Array:
    """The value in the file `var_name` of the folder `save_path`, as `fluid.io.save_vars` writes it;
    FormatError where its shape is another one.
    """
    with ValueReader.open(os.path.join(save_path, var_name)) as reader:
        found = np.array(reader.tensor())
    if list(found.shape) != list(shape_list):
        raise FormatError(
            f"{os.path.join(save_path, var_name)}: has shape {list(found.shape)}, wanted {list(shape_list)}"
        )
    return found.astype(to_numpy(dtype), copy=False)


def load_program_binary(model_filename: str) -> Program:
    """The program of a file such as `__model__`; FormatError for other files."""
    with open(model_filename, "rb") as source:
        data = source.read()
    try:
        return Program.parse_from_string(data)
    except FormatError as error:
        raise FormatError(f"{model_filename} holds no program: {error}") from None


def load_program_text(model_filename: str) -> Program:
    """The program of a file in protobuf's text format; FormatError for other files."""
    message: Any = framework_pb2.ProgramDesc()
    try:
        with open(model_filename, encoding="utf8") as source:
            text_format.Merge(source.read(), message)
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise FormatError(f"{model_filename} is not a program in protobuf's text format: {error}") from error
    return Program.parse_from_string(message.SerializeToString())


def load_program(model_filename: str, is_text: bool = False) -> Program:
    """The program of a file, in protobuf's text format where `is_text`."""
    return load_program_text(model_filename) if is_text else load_program_binary(model_filename)


def save_program(program: Program, model_filename: str = "__model__", is_text: bool = False) -> None:
    """Write a program into a file, in protobuf's text format where `is_text`."""
    data = program.desc.serialize_to_string()
    if is_text:
        message: Any = framework_pb2.ProgramDesc()
        message.ParseFromString(data)
        data = text_format.MessageToString(message).encode()
    with open(model_filename, "wb") as target:
        target.write(data)


def program_type_trans(prog_dir: str, prog_fn: str, is_text: bool) -> str:
    """Write the program of a file in the other format beside it (`.bin`, or `.pbtxt`), and give the new
    file's name.
    """
    name = prog_fn + (".bin" if is_text else ".pbtxt")
    save_program(
        load_program(os.path.join(prog_dir, prog_fn), is_text), os.path.join(prog_dir, name), not is_text
    )
    return name


def check_pruned_program_vars(train_prog: Program, pruned_prog: Program) -> bool:
    """True if a part of a program has its persistable variables in the same shapes and types; what differs is
    logged.
    """
    known = {var.name: var for var in get_program_persistable_vars(train_prog)}
    same = True
    for var in get_program_persistable_vars(pruned_prog):
        whole = known.get(var.name)
        if whole is None:
            _log.error("variable %r of the pruned program is not in the training program", var.name)
            same = False
        elif tuple(whole.shape) != tuple(var.shape) or whole.dtype != var.dtype:
            _log.error(
                "variable %r is %s %s in the pruned program, and %s %s in the training program",
                var.name,
                var.dtype.name,
                tuple(var.shape),
                whole.dtype.name,
                tuple(whole.shape),
            )
            same = False
    return same


def check_saved_vars_try_dump(
    dump_dir: str,
    dump_prog_fn: str,
    is_text_dump_program: bool,
    feed_config: Any,
    fetch_config: Any,
    batch_size: int = 1,
    save_filename: str | None = None,
) -> list[Array]:
    """Run a saved model once, and give what it computes: the variables `fetch_config.fetch_vars_names`.

    `feed_config` has the lists `feeded_vars_names`, `feeded_vars_dims` (of one sample), `feeded_vars_types`
    and `feeded_vars_filelist`: files with the numbers of one sample a line, or None for random numbers.
    ValueError where a variable is unknown or has another shape in the model.
    """
    if is_text_dump_program:
        dump_prog_fn = program_type_trans(dump_dir, dump_prog_fn, is_text_dump_program)
    # a model that is looked at must not overwrite the variables of the job that looks
    with scope_guard(Scope()):
        executor = Executor(CPUPlace())
        program, feeds, fetches = load_inference_model(dump_dir, executor, dump_prog_fn, save_filename)
        _compare("feed", feeds, feed_config.feeded_vars_names)
        _compare("fetch", [var.name for var in fetches], fetch_config.fetch_vars_names)
        block = program.global_block()
        wanted = [block.var(name) for name in fetch_config.fetch_vars_names]
        feed = _samples(block, feed_config, batch_size)
        found = executor.run(program, feed=feed, fetch_list=wanted, return_numpy=False)
    return [np.array(value) for value in found]


def _compare(what: str, found: Sequence[str], configured: Sequence[str]) -> None:
    if list(found) != list(configured):
        _log.warning("the model has the %s variables %s, and the config %s", what, found, configured)


def _samples(block: Any, config: Any, batch_size: int) -> dict[str, Any]:
    """The values to feed: numbers of files, or random ones."""
    files = config.feeded_vars_filelist or [None] * len(config.feeded_vars_names)
    rng = np.random.default_rng()
    feed: dict[str, Any] = {}
    for name, dims, dtype, file in zip(
        config.feeded_vars_names, config.feeded_vars_dims, config.feeded_vars_types, files, strict=True
    ):
        var = block.var(name)
        shape = tuple(np.atleast_1d(dims).tolist())
        if any(mine not in (-1, dim) for mine, dim in zip(var.shape[-len(shape) :], shape, strict=False)):
            raise ArgumentError(
                f"feed variable {name!r} has shape {tuple(var.shape)} in the model, and its samples {shape}"
            )
        # numbers that count something are 0: a row of that number is in every table
        value = np.zeros((batch_size, *shape), dtype)
        if file is not None:
            value = np.loadtxt(file, ndmin=2, max_rows=batch_size).reshape(-1, *shape).astype(dtype)
        elif value.dtype.kind == "f":
            value = np.asarray(rng.random(value.shape), dtype)
        feed[name] = create_lod_tensor(value, [[1] * len(value)], CPUPlace()) if var.lod_level else value
    return feed


def parse_program(program: Program, output_dir: str) -> None:
    """Write what is in a program's first block into a folder: its variables, its persistable variables,
    and its ops.
    """
    block = program.global_block()
    kept = [
        f"{_facts(var)[:-1]}, 'type': '{_spelled(var.type)}'}}"
        for var in get_program_persistable_vars(program)
    ]
    ops = [
        str(
            {
                "type": op.type,
                "input_arg_names": str(op.input_arg_names),
                "output_arg_names": str(op.output_arg_names),
            }
        )
        for op in block.ops
    ]
    for name, title, lines in (
        (persistable_vars_out_fn, "persistable vars", kept),
        (ops_out_fn, "ops", ops),
        (all_vars_out_fn, "all vars", [_facts(var) for var in block.vars.values()]),
    ):
        with open(os.path.join(output_dir, name), "w", encoding="utf8") as target:
            target.write("".join(f"{line}\n" for line in (f"{title}:", *lines)))


def _facts(var: Any) -> str:
    return str(
        {
            "name": var.name,
            "shape": str(tuple(var.shape)),
            "lod_level": var.lod_level,
            "dtype": _spelled(var.dtype),
        }
    )


def _spelled(kind: Any) -> str:
    return f"VarType.{kind.name}"


def graphviz(block: Any, output_dir: str = "", filename: str = "debug") -> None:
    """Draw a block as `filename.dot`, for Graphviz."""
    draw_block_graphviz(block, path=os.path.join(output_dir, f"{filename}.dot"))


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
