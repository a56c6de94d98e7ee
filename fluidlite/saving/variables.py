"""Saving and loading variables: a file each, or all in one, in the order of their names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import EnforceNotMet, MissingFileError, UninitializedError
from fluidlite.base.place import CUDAPlace, array_module
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.executor.compiled import Compiled
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.variable import Parameter, Variable, refuse_part
from fluidlite.ir.warned import warn_user
from fluidlite.saving.distributed import (
    COUNTER,
    LOOKUP_TABLES,
    Servers,
    held_by_server,
    is_server,
    read_whole,
    servers_of,
)
from fluidlite.saving.flat_weights import flat_weights
from fluidlite.values.scope import Scope, global_scope
from fluidlite.values.serialize import (
    FileSet,
    Piece,
    ValueReader,
    complete_save,
    inside,
    replace_file,
    tensor_pieces,
    value_pieces,
    write_folder,
)
from fluidlite.values.tensor import LoDTensor, SelectedRows, host

__all__ = [
    "combined_bytes",
    "get_parameter_value",
    "get_parameter_value_by_name",
    "get_program_parameter",
    "get_program_persistable_vars",
    "is_belong_to_optimizer",
    "is_parameter",
    "is_persistable",
    "load_params",
    "load_persistables",
    "load_vars",
    "persistables_of_job",
    "put_files",
    "put_values",
    "save_params",
    "save_persistables",
    "save_vars",
    "valid_program",
    "value_of",
    "values_of",
]

# they are made anew by each run, or by a startup program; RAW variables hold what has no bytes
_NEVER_SAVED = frozenset((VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.READER, VarType.RAW))
Predicate = Callable[[Variable], Any]


# ---------- which variables
def is_parameter(var: Any) -> bool:
    """True if `var` is a Parameter."""
    return isinstance(var, Parameter)


def is_persistable(var: Variable) -> bool:
    """True if the value of `var` outlives a run and can be saved."""
    return var.persistable and var.type not in _NEVER_SAVED


def is_belong_to_optimizer(var: Variable) -> bool:
    """True if `var` is persistable and no Parameter: accumulators, learning rates, counters."""
    return not isinstance(var, Parameter) and not var.need_check_feed and is_persistable(var)


def get_program_parameter(program: Program) -> list[Variable]:
    """The Parameters of a program, of all its blocks."""
    return [var for var in program.list_vars() if is_parameter(var)]


def get_program_persistable_vars(program: Program) -> list[Variable]:
    """The persistable variables of a program, of all its blocks."""
    return [var for var in program.list_vars() if is_persistable(var)]


def valid_program(main_program: Any) -> Program:
    """`main_program` or the default one; the program of a CompiledProgram; TypeError for anything else."""
    if main_program is None:
        return default_main_program()
    if isinstance(main_program, Program):
        return main_program
    if not isinstance(main_program, Compiled):
        raise TypeError(
            f"The type of input main_program is invalid, expected type is fluid.Program, but received "
            f"{type(main_program)}"
        )
    warn_user("The input is a CompiledProgram, this is not recommended.", category=UserWarning)
    return main_program._program


# ------------------------------------------------------------------------------------------------ values
def value_of(var: Variable, scope: Scope | None = None) -> LoDTensor | SelectedRows:
    """The value of `var` in the scope; UninitializedError where it has none."""
    held = (scope or global_scope()).find_var(var.name)
    is_there = held is not None and held.is_initialized()
    # SelectedRows come into being without values
    if held is None or not is_there or (isinstance(held.value, SelectedRows) and held.value.array is None):
        raise UninitializedError(
            f"variable {var.name!r} holds no value to save or read; run the startup program first "
            "(exe.run(fluid.default_startup_program()))"
        )
    if not isinstance(held.value, (LoDTensor, SelectedRows)):
        raise TypeError(f"variable {var.name!r} holds a {type(held.value).__name__}, which is not saved")
    return held.value


def values_of(
    variables: Sequence[Variable],
    scope: Scope | None = None,
    known: Mapping[str, LoDTensor | SelectedRows] | None = None,
    parts: bool = False,
) -> dict[str, LoDTensor | SelectedRows]:
    """The values of a program's variables by name, as files hold them: those `known` from elsewhere, the rest
    from the scope, flat weights put together anew. UnsupportedError for what is one rank's part, unless
    `parts` are meant.
    """
    known = known or {}
    for var in variables:
        if not parts:
            refuse_part(var, "a file", "; fluidlite.distributed.save_checkpoint saves the parts of all ranks")
    flat = flat_weights(variables[0].block.program) if variables else {}

    def find(var: Variable) -> LoDTensor | SelectedRows:
        if var.name in known:
            return known[var.name]
        if var.name not in flat:
            return value_of(var, scope)
        parts = [find(var.block.vars[name]) for name in flat[var.name]]
        return LoDTensor(np.concatenate([host(part.array).reshape(-1) for part in parts]))

    return {var.name: find(var) for var in variables}


def put_values(
    values: Mapping[str, LoDTensor | SelectedRows | Array], executor: Any = None, scope: Scope | None = None
) -> None:
    """Put values into a scope (the global one), on the place of `executor`; a tensor of the same form
    keeps its storage.
    """
    scope = scope or global_scope()
    place = None if executor is None else executor.place
    for name, value in values.items():
        held = scope.find_var(name) or scope.var(name)
        if isinstance(value, SelectedRows):
            held.set(value)
            continue
        tensor = value if isinstance(value, LoDTensor) else LoDTensor(value)
        array = tensor.array
        # a tensor that is there is written into: plans are bound to its array
        if not isinstance(held.value, LoDTensor):
            held.set(array_module(place).asarray(array) if isinstance(place, CUDAPlace) else array)
        else:
            held.value.set(array, place)
        held.get_tensor()._lod = tensor._lod


@short_tracebacks
def get_parameter_value(para: Any, executor: Any) -> Array:
    """The value of a Parameter."""
    if not is_parameter(para):
        raise AssertionError("The input variable is not parameter.")
    return np.array(host(value_of(para).array))


def get_parameter_value_by_name(name: str, executor: Any, program: Program | None = None) -> Array:
    """The value of the Parameter called `name`."""
    program = default_main_program() if program is None else program
    return get_parameter_value(program.global_block().var(name), executor)


# ------------------------------------------------------------------------------------------------ saving
def _chosen(main_program: Any, vars: Iterable[Any] | None, predicate: Predicate | None) -> list[Variable]:
    """The variables to save or load, each once."""
    program = valid_program(main_program)
    if vars is None:
        found = [var for var in program.list_vars() if predicate is None or predicate(var)]
    else:
        found = [program.global_block().var(var) if isinstance(var, str) else var for var in vars]
    wrong = next((var for var in found if not isinstance(var, Variable)), None)
    if wrong is not None:
        raise TypeError(
            f"'vars' should be a list of Variables, and it holds {wrong!r} of type {type(wrong).__name__}"
        )
    # a name may be declared in several blocks
    return list({var.name: var for var in found if var.type != VarType.RAW}.values())


@short_tracebacks
def save_vars(
    executor: Any,
    dirname: str | None,
    main_program: Any = None,
    vars: Iterable[Any] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> bytes | None:
    """Save variables into the folder `dirname`: a file each, or all in the file `filename`; all of them or
    none.

    The variables are `vars`, or those of `main_program` that `predicate` is true for. With neither `dirname`
    nor `filename` the bytes of the combined file are returned.
    """
    chosen = _chosen(main_program, vars, predicate)
    if not chosen:
        warn_user(
            "no variable in your model, please ensure there are any variables in your model to save",
            category=UserWarning,
        )
        return None
    values = _values(chosen, servers_of(valid_program(main_program)))
    if dirname is None and filename is None:
        return b"".join(combined_bytes(values))
    if dirname is None:
        raise ValueError("a 'filename' needs the folder 'dirname'")
    if filename is not None:
        if not os.path.basename(filename):
            raise EnforceNotMet(
                f"cannot save variables into {os.path.join(dirname, filename)!r}: 'filename' should name a "
                f"file"
            )
        replace_file(os.path.join(dirname, filename), combined_bytes(values))
        return None
    with write_folder(dirname) as files:
        put_files(files, values)
    return None


def _values(chosen: Sequence[Variable], servers: Servers | None) -> dict[str, LoDTensor | SelectedRows]:
    """The values of variables; those that trainers of a job never have as a whole come from its servers."""
    # asked for together, so that the servers answer side by side
    fresh = {} if servers is None else servers.fresh({var.name for var in chosen} & set(servers.groups))
    return values_of(chosen, known=fresh)


def put_files(
    files: FileSet, values: Mapping[str, LoDTensor | SelectedRows], filename: str | None = None
) -> None:
    """Add values to a set of files: one each, or all in `filename`."""
    if filename is not None:
        files.put(filename, combined_bytes(values))
        return
    for name, value in values.items():
        files.put(name, value_pieces(value))


def combined_bytes(values: Mapping[str, LoDTensor | SelectedRows]) -> Iterable[Piece]:
    """The pieces of a combined file."""
    sparse = [name for name, value in values.items() if isinstance(value, SelectedRows)]
    if sparse:
        raise ValueError(
            f"{sparse[0]!r} holds SelectedRows, which need a file of their own: remove 'filename'"
        )
    # by name: the file has no names, and the order is all that a reader knows of them
    tensors = (value for _, value in sorted(values.items()) if isinstance(value, LoDTensor))
    return itertools.chain.from_iterable(map(tensor_pieces, tensors))


@short_tracebacks
def save_params(
    executor: Any, dirname: str | None, main_program: Any = None, filename: str | None = None
) -> bytes | None:
    """Save the Parameters of a program; see `save_vars`."""
    return save_vars(
        executor, dirname, main_program=main_program, vars=None, predicate=is_parameter, filename=filename
    )


@short_tracebacks
def save_persistables(
    executor: Any, dirname: str | None, main_program: Any = None, filename: str | None = None
) -> bytes | None:
    """Save the persistable variables of a program, those of the optimizer among them; see `save_vars`.

    Of a trainer of parameter servers: also what only they hold, put together, with a file for each variable
    whatever `filename` says (as in fluid); a distributed table is written by its servers into
    `__lookup_table__`. Of a server: what it holds.
    """
    program = valid_program(main_program)
    servers = servers_of(program)
    if servers is not None:
        _save_of_job(dirname, program, servers)
        return None
    if is_server(program):
        return save_vars(executor, dirname, program, vars=_held(program), filename=filename)
    return save_vars(
        executor, dirname, main_program=main_program, vars=None, predicate=is_persistable, filename=filename
    )


def persistables_of_job(program: Program, servers: Servers) -> dict[str, LoDTensor | SelectedRows]:
    """The values that a trainer's save_persistables writes, apart from the distributed table."""
    remote = servers.remote()
    local = [var for var in get_program_persistable_vars(program) if var.name not in (*remote, servers.table)]
    fresh = servers.fresh([var.name for var in local] + remote)
    return {**values_of(local, known=fresh), **{name: fresh[name] for name in remote}}


def _save_of_job(dirname: str | None, program: Program, servers: Servers) -> None:
    if dirname is None:
        raise ValueError("the variables of a job with parameter servers need a folder 'dirname'")
    values = persistables_of_job(program, servers)
    with write_folder(dirname) as files:
        put_files(files, values)
    # each server writes its rows itself: the whole table may be larger than a trainer's memory
    if servers.table is not None:
        servers.save_table(os.path.join(os.path.abspath(dirname), LOOKUP_TABLES))


def _held(program: Program) -> list[Variable]:
    """The persistable variables of a server's program that have a value, apart from gradients."""
    scope = global_scope()
    serving = next(op for op in program.global_block().ops if op.type == "listen_and_serv")
    # gradients lie in the server's scope as well, and are no part of a model
    arriving = {*serving.input("X"), *(text.rpartition(":")[0] for text in serving.attrs["grad_to_block_id"])}
    found = [
        (var, scope.find_var(var.name))
        for var in get_program_persistable_vars(program)
        if var.name not in arriving
    ]
    return [var for var, held in found if held is not None and held.is_initialized()]


# ------------------------------------------------------------------------------------------------ loading
@short_tracebacks
def load_vars(
    executor: Any,
    dirname: str | None,
    main_program: Any = None,
    vars: Iterable[Any] | None = None,
    predicate: Predicate | None = None,
    filename: str | bytes | None = None,
) -> None:
    """Load what `save_vars` saved, with the same arguments; nothing is changed unless all of it fits.

    With `dirname` None, `filename` is what `save_vars` returned. RuntimeError where a Parameter has another
    shape than the program gives it, FormatError for a file that holds no tensors, MissingFileError where one
    is missing.
    """
    if main_program is not None and not isinstance(main_program, Program):
        raise TypeError(
            f"The type of input main_program is invalid, expected type is fluid.Program, but received "
            f"{type(main_program)}"
        )
    if dirname is not None:
        complete_save(dirname)
    chosen = _chosen(main_program, vars, predicate)
    if dirname is None and filename is None:
        raise ValueError("The directory path and params cannot be None at the same time.")
    if not chosen and main_program is None:
        warn_user("nothing is loaded: the default main program has no such variables; pass `main_program`")
    if not chosen:
        # `save_vars` writes no file of nothing
        return
    # all are checked before one is set: a half-loaded model would train on without a word
    for var, form in list(_read(chosen, dirname, filename, forms=True)):
        check_shape(var, form)
    # one at a time: a model that is loaded over another needs no third place for its values
    for var, value in _read(chosen, dirname, filename):
        put_values({var.name: value}, executor)


def check_shape(var: Variable, value: Any) -> None:
    """RuntimeError where a Parameter should get a value of another shape."""
    shape = tuple(value.shape() if isinstance(value, LoDTensor) else value.shape)
    if isinstance(var, Parameter) and shape != tuple(var.shape):
        raise RuntimeError(
            f"Variable's shape does not match, the Program requires a parameter with the shape of "
            f"({var.shape}), while "
            f"the loaded parameter (namely [ {var.name} ]) has a shape of  ({shape})."
        )


def _read(
    chosen: Sequence[Variable], dirname: str | None, filename: str | bytes | None, forms: bool = False
) -> Iterator[tuple[Variable, Any]]:
    """Variables with their values from files or bytes; see `ValueReader` for `forms`."""
    # a combined file has no names: its values come in the sorted order of theirs
    inside_one = sorted(chosen, key=lambda var: var.name)
    try:
        if dirname is None:
            if not isinstance(filename, bytes):
                raise TypeError("without 'dirname', 'filename' must be the bytes that save_vars returned")
            source = ValueReader.of_bytes(filename, forms=forms)
            yield from zip(inside_one, source.each_tensor(len(chosen)), strict=True)
        elif filename is not None:
            with ValueReader.open(os.path.join(dirname, os.fsdecode(filename)), forms) as source:
                yield from zip(inside_one, source.each_tensor(len(chosen)), strict=True)
        else:
            for var in chosen:
                yield var, _read_one(var, dirname, forms)
    except MissingFileError:
        raise
    except FileNotFoundError as error:
        raise _missing(error) from None


def _read_one(var: Variable, dirname: str, forms: bool) -> LoDTensor | SelectedRows:
    if var.type != VarType.SELECTED_ROWS:
        return read_whole(dirname, var.name, forms)
    with ValueReader.open(inside(dirname, var.name), forms) as source:
        value = source.selected_rows()
        source.end()
    return value


def _missing(error: FileNotFoundError) -> MissingFileError:
    return MissingFileError(
        f"cannot open {error.filename}: the model's files are incomplete, or are in another folder"
    )


@short_tracebacks
def load_params(
    executor: Any, dirname: str | None, main_program: Any = None, filename: str | bytes | None = None
) -> None:
    """Load the Parameters of a program; see `load_vars`."""
    load_vars(executor, dirname=dirname, main_program=main_program, predicate=is_parameter, filename=filename)


@short_tracebacks
def load_persistables(
    executor: Any, dirname: str | None, main_program: Any = None, filename: str | bytes | None = None
) -> None:
    """Load the persistable variables of a program; see `load_vars`.

    Into a server's program: its part of each whole variable. Into a trainer's: what trainers have as a whole.
    """
    program = main_program if isinstance(main_program, Program) else None
    if (
        dirname is not None
        and program is not None
        and program._is_distributed
        and program._parameters_on_pservers is not None
    ):
        return _load_of_job(executor, dirname, program)
    return load_vars(
        executor, dirname=dirname, main_program=main_program, predicate=is_persistable, filename=filename
    )


def _load_of_job(executor: Any, dirname: str, program: Program) -> None:
    complete_save(dirname)
    servers = servers_of(program)
    if servers is not None:
        remote = {*servers.remote(), servers.table}
        return load_vars(
            executor,
            dirname,
            program,
            vars=[var for var in get_program_persistable_vars(program) if var.name not in remote],
        )
    values = dict(held_by_server(program, lambda name: read_whole(dirname, name)))
    # fluid forgets the counter, and the schedule of the learning rate starts again
    counts = any(var.name == COUNTER for var in _held(program))
    if counts and os.path.isfile(inside(dirname, COUNTER)):
        values[COUNTER] = read_whole(dirname, COUNTER)
    return put_values(values, executor)
