"""Models for inference: the part of a program that computes some targets from some feeds, with its
parameters.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FormatError, MissingFileError
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.data_feeder import check_variable_and_dtype
from fluidlite.ir.program import Program
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.prune import inference_copy, prune, reads
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.saving.distributed import Servers, servers_of
from fluidlite.saving.variables import (
    get_program_persistable_vars,
    load_persistables,
    persistables_of_job,
    put_files,
    valid_program,
    values_of,
)
from fluidlite.values.serialize import complete_save, file_bytes, write_folder

__all__ = [
    "append_fetch_ops",
    "inference_program",
    "load_inference_model",
    "prepend_feed_ops",
    "save_inference_model",
    "with_scales",
]

_SCALED = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"]


def prepend_feed_ops(
    inference_program: Program, feed_target_names: Sequence[str], feed_holder_name: str = "feed"
) -> None:
    """Put a feed op in front for each name; attribute `col` is its number. ValueError for a name that is
    no variable.
    """
    if not feed_target_names:
        return
    block = inference_program.global_block()
    holder = block.create_var(name=feed_holder_name, type=VarType.FEED_MINIBATCH, persistable=True)
    for number, name in enumerate(feed_target_names):
        if not block.has_var(name):
            raise ValueError(f"The feeded_var_names[{number}]: '{name}' doesn't exist in the program")
        # prepended one by one, so they come in reverse order: `col` is what tells a feed's position
        block._prepend_op(
            type="feed", inputs={"X": [holder]}, outputs={"Out": [block.var(name)]}, attrs={"col": number}
        )


def append_fetch_ops(
    inference_program: Program, fetch_target_names: Sequence[str], fetch_holder_name: str = "fetch"
) -> None:
    """Put a fetch op at the end for each name; attribute `col` is its number."""
    block = inference_program.global_block()
    holder = block.create_var(name=fetch_holder_name, type=VarType.FETCH_LIST, persistable=True)
    for number, name in enumerate(fetch_target_names):
        block.append_op(type="fetch", inputs={"X": [name]}, outputs={"Out": [holder]}, attrs={"col": number})


# ------------------------------------------------------------------------------------------------ saving
@short_tracebacks
def save_inference_model(
    dirname: str,
    feeded_var_names: str | Sequence[str],
    target_vars: Variable | Sequence[Variable],
    executor: Any,
    main_program: Any = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Save what computes `target_vars` from `feeded_var_names` into a folder, and return the names of the
    results.

    Parameters
    ----------
    dirname: the folder; it is made. The program is the file `model_filename` (`__model__`), the parameters
        are a file each, or all in `params_filename`.
    export_for_deployment: False keeps the whole program, in `<model_filename>.main_program`, with all
        persistables.
    program_only: leaves the parameters out.

    The results pass through `scale` ops called `save_infer_model/scale_i`. Unlike in Paddle these are added
    to the saved copy only; `main_program` is not changed.
    """
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else list(feeded_var_names or ())
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars or ())
    if export_for_deployment:
        _check(feeds, targets)
    origin = valid_program(main_program)
    _warn(origin, program_only)
    program, names = with_scales(origin, targets)
    model = os.path.basename(model_filename) if model_filename is not None else "__model__"
    if export_for_deployment:
        program = inference_program(program, feeds, names)
        _warn_of_unfed(program, feeds)
    else:
        model += ".main_program"
    servers = servers_of(origin)
    values = {} if program_only else _values_to_save(program, servers)
    if params_filename is not None:
        # as in fluid, a model whose values come from servers has a file for each
        params_filename = os.path.basename(params_filename) if servers is None else None
    with write_folder(dirname) as files:
        files.put(model, [serialize_program(program)])
        if values:
            put_files(files, values, params_filename)
    return names


def _warn_of_unfed(program: Program, feeds: Sequence[str]) -> None:
    """Warn of what the saved model reads, and nothing in it writes, feeds or keeps."""
    block = program.global_block()
    written = {name for op in block.ops for name in op.output_arg_names}
    for name in dict.fromkeys(name for op in block.ops for name in op.input_arg_names):
        var = block.vars.get(name)
        if var is not None and var.is_data and not var.persistable and name not in written:
            warn_user(
                f"save_inference_model: the targets depend on {name!r} as well, which is not among the feeds "
                f"{list(feeds)}: the model cannot run without it"
            )


def _warn(program: Program, program_only: bool) -> None:
    """fluid's warnings, at the line that calls `save_inference_model`."""
    if any(op.type == "auc" for op in program.global_block().ops):
        warn_user(
            "please ensure that you have set the auc states to zeros before saving inference model",
            category=UserWarning,
        )
    if program_only:
        warn_user(
            "save_inference_model specified the param `program_only` to True, It will not save params of "
            "Program.",
            category=UserWarning,
        )


def _values_to_save(program: Program, servers: Servers | None) -> dict[str, Any]:
    """The persistable variables of `program`: those of servers from them, the rest from the scope."""
    if servers is None:
        return values_of(get_program_persistable_vars(program))
    values = persistables_of_job(program, servers)
    if servers.table:
        values[servers.table] = servers.value(servers.table)
    return values


def _check(feeds: Sequence[Any], targets: Sequence[Any]) -> None:
    if not all(isinstance(name, str) for name in feeds):
        raise ValueError("'feed_var_names' should be a list of str.")
    if not targets or not all(isinstance(var, Variable) for var in targets):
        raise ValueError("'target_vars' should be a list of Variable.")


def with_scales(origin: Program, targets: Sequence[Variable]) -> tuple[Program, list[str]]:
    """A copy of the program in which each target passes through a `scale` by 1, and the names that come
    out.
    """
    program = origin.clone()
    block = program.global_block()
    names = []
    for number, target in enumerate(targets):
        source = block.var(target.name)
        check_variable_and_dtype(source, "x", _SCALED, "scale")
        # 1.8.5's names, by which tools know the results of a model
        name = unique_name.generate(f"save_infer_model/scale_{number}.tmp")
        block.create_var(name=name, dtype=source.dtype)
        block.append_op(type="scale", inputs={"X": [source]}, outputs={"Out": [name]}, attrs={"scale": 1.0})
        names.append(name)
    return program, names


def inference_program(program: Program, feeds: Sequence[str], targets: Sequence[str]) -> Program:
    """The part that computes `targets` from `feeds`, in test mode, between feed and fetch ops."""
    block = program.global_block()
    for name in feeds:
        # an unknown name is an error of its own
        block.var(name)
    # those of a model that was loaded: the new ones are for this choice of feeds and targets
    ends = [op for op in block.ops if op.is_boundary]
    block.remove_ops(ends, given={name for op in ends for name in op.output_arg_names})
    found = inference_copy(prune(program, list(targets), list(feeds)))
    needed = {name for op in found.global_block().ops for name in reads(op)}
    unused = [name for name in feeds if name not in needed]
    if unused:
        raise ValueError(f"The feeded_var_names hold {unused[0]!r}, which no target depends on: remove it")
    prepend_feed_ops(found, feeds)
    append_fetch_ops(found, targets)
    return found


# ------------------------------------------------------------------------------------------------ loading
@short_tracebacks
def load_inference_model(
    dirname: str | None,
    executor: Any,
    model_filename: str | bytes | None = None,
    params_filename: str | bytes | None = None,
    pserver_endpoints: Sequence[str] | None = None,
) -> list[Any]:
    """[program, names to feed, Variables to fetch] from what `save_inference_model` wrote; parameters go into
    the global scope.

    With `dirname` None, `model_filename` and `params_filename` are the bytes of the program and of the
    combined parameters. ValueError where there is no such folder, MissingFileError for a file, FormatError
    for what is no model.
    """
    program = _parsed(dirname, model_filename, params_filename)
    # a name without its folder, as fluid takes it; without `dirname` these are the bytes themselves
    if dirname is not None and params_filename is not None:
        params_filename = os.path.basename(os.fsdecode(params_filename))
    load_persistables(executor, dirname, program, params_filename)
    # a saved model may look its rows up on servers, which run elsewhere now
    for op in program.global_block().ops if pserver_endpoints else ():
        if op.has_attr("epmap"):
            op._set_attr("epmap", list(pserver_endpoints or ()))
    fetches = program.desc.get_fetch_target_names()
    return [
        program,
        program.desc.get_feed_target_names(),
        [program.global_block().var(name) for name in fetches],
    ]


def _parsed(dirname: str | None, model: str | bytes | None, params: str | bytes | None) -> Program:
    data = _model_bytes(dirname, model, params)
    try:
        return Program.parse_from_string(data)
    except FormatError as error:
        if dirname is None:
            raise
        raise FormatError(f"{_model_path(dirname, model)} is not a model: {error}") from None


def _model_path(dirname: str, model: str | bytes | None) -> str:
    return os.path.join(dirname, "__model__" if model is None else os.path.basename(os.fsdecode(model)))


def _model_bytes(dirname: str | None, model: str | bytes | None, params: str | bytes | None) -> bytes:
    if dirname is None:
        if params is None:
            raise ValueError("params_filename cannot be None when dirname is None.")
        if not isinstance(model, bytes):
            raise TypeError("without 'dirname', 'model_filename' must be the bytes of the program")
        return model
    if not os.path.isdir(dirname):
        raise ValueError(f"There is no directory named '{dirname}'")
    complete_save(dirname)
    path = _model_path(dirname, model)
    try:
        return file_bytes(path)
    except FileNotFoundError:
        raise MissingFileError(f"cannot open {path}: there is no model of that name in the folder") from None
