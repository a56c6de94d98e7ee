"""`fluid.save` and `fluid.load`: a program with its parameters and its optimizer's state in three files of
one name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import FormatError, MissingFileError
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.program import Program
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.saving.distributed import only_tensor, servers_of
from fluidlite.saving.pickles import dump_arrays, load_arrays
from fluidlite.saving.variables import (
    check_shape,
    get_program_persistable_vars,
    is_belong_to_optimizer,
    is_parameter,
    load_vars,
    put_values,
    values_of,
)
from fluidlite.values.scope import global_scope
from fluidlite.values.serialize import ValueReader, complete_save, file_bytes, is_unfinished, write_folder
from fluidlite.values.tensor import LoDTensor, SelectedRows, host

__all__ = ["load", "load_program_state", "save", "set_program_state"]

_PARAMS = ".pdparams"
_OPTIMIZER = ".pdopt"
_MODEL = ".pdmodel"


@short_tracebacks
def save(program: Program, model_path: str) -> None:
    """Write `model_path`.pdparams, .pdopt and .pdmodel: parameters, optimizer state, program; folders are
    made.
    """
    if not os.path.basename(model_path):
        raise AssertionError(
            "The input model_path MUST be format of dirname/filename [dirname\\filename in Windows system], "
            "but received model_path is empty string."
        )
    variables = list(program.list_vars())
    servers = servers_of(program)
    remote = {} if servers is None else servers.fresh({var.name for var in variables} & set(servers.groups))
    parameters = {
        **_arrays(var for var in variables if is_parameter(var) and var.name not in remote),
        **{name: np.array(value.array) for name, value in remote.items()},
    }
    optimizer = _arrays(var for var in variables if is_belong_to_optimizer(var))
    folder, name = os.path.split(model_path)
    with write_folder(folder or ".", name) as files:
        files.put(name + _PARAMS, dump_arrays(parameters))
        files.put(name + _OPTIMIZER, dump_arrays(optimizer))
        files.put(name + _MODEL, [serialize_program(program)])


def _arrays(variables: Iterable[Variable]) -> dict[str, Array]:
    """Name -> a copy of the value on the host."""
    return {
        name: value.dense(np) if isinstance(value, SelectedRows) else np.array(host(value.array))
        for name, value in values_of(list(variables)).items()
    }


def _prefix(model_path: str) -> str:
    root, extension = os.path.splitext(model_path)
    # a program may be loaded by the name of any of its three files
    found = root if extension in (_PARAMS, _OPTIMIZER, _MODEL) else model_path
    folder, name = os.path.split(found)
    complete_save(folder or ".", name)
    if os.path.isdir(model_path):
        complete_save(model_path)
    return found


def _read(path: str) -> dict[str, Array]:
    try:
        return load_arrays(file_bytes(path), path)
    except FileNotFoundError:
        raise MissingFileError(f"cannot open {path}: there is no model saved under that name") from None


# ---------- into a program
@short_tracebacks
def load(
    program: Program, model_path: str, executor: Any = None, var_list: Sequence[Variable] | None = None
) -> None:
    """Load parameters and optimizer state of `program` into the global scope, as `save` wrote them.

    `model_path` may also be a folder or file written by `save_vars` and its like; a file needs `var_list`.
    Nothing is changed unless everything fits: AssertionError for what is missing, RuntimeError for a
    parameter of another shape.
    """
    prefix = _prefix(model_path)
    if not os.path.exists(prefix + _PARAMS):
        if executor is None and os.path.exists(model_path):
            raise ValueError(
                "executor is required when loading model file saved with [ save_params, save_persistables, "
                "save_vars ]"
            )
        if os.path.isdir(model_path):
            return _load_folder(program, model_path, executor)
        if os.path.isfile(model_path):
            return _load_file(program, model_path, executor, var_list)
    state = _read(prefix + _PARAMS)
    # a program read from bytes may not say which of its variables are parameters, so both files serve for all
    persistables = get_program_persistable_vars(program)
    parameters = [var for var in persistables if is_parameter(var) or var.name in state]
    others = [var for var in persistables if not is_parameter(var) and var.name not in state]
    values = _pick(parameters, state, prefix + _PARAMS)
    if others:
        path = prefix + _OPTIMIZER
        if not os.path.exists(path):
            raise AssertionError(f"Optimizer file [{path}] not exits")
        values.update(_pick(others, _read(path), path))
    return put_values(values, executor)


def _pick(variables: Iterable[Variable], state: Mapping[str, Array], path: str) -> dict[str, Array]:
    """The values of `variables`."""
    found = {}
    for var in variables:
        if var.name not in state:
            raise AssertionError(f"Can not find [{var.name}] in model file [{path}]")
        check_shape(var, state[var.name])
        found[var.name] = state[var.name]
    return found


def _files_in(folder: str) -> set[str]:
    """Paths of the files in a folder and those below it, as the variables are called."""
    return {
        # names of variables may hold slashes, which `save_vars` makes folders of
        os.path.relpath(os.path.join(root, name), folder).replace(os.sep, "/")
        for root, folders, names in os.walk(folder)
        for name in _finished(folders, names)
    }


def _finished(folders: list[str], names: list[str]) -> list[str]:
    """The files that belong to no killed save; the folders of such are not entered."""
    folders[:] = [name for name in folders if not is_unfinished(name)]
    return [name for name in names if not is_unfinished(name)]


def _load_folder(program: Program, folder: str, executor: Any) -> None:
    names = _files_in(folder)
    load_vars(
        executor, folder, vars=[var for var in get_program_persistable_vars(program) if var.name in names]
    )


def _load_file(program: Program, path: str, executor: Any, var_list: Sequence[Variable] | None) -> None:
    if var_list is None:
        raise ValueError(
            "var_list is required when loading model file saved with [ save_params, save_persistables, "
            "save_vars ]"
        )
    known = {var.name for var in program.list_vars()}
    stranger = next((var.name for var in var_list if var.name not in known), None)
    if stranger is not None:
        raise LookupError(f"loaded var [{stranger}] is not in program variable list")
    folder, name = os.path.split(path)
    load_vars(executor, folder or ".", vars=var_list, filename=name)


# ------------------------------------------------------------------------------------------------ as a dict
@short_tracebacks
def load_program_state(model_path: str, var_list: Sequence[Variable] | None = None) -> dict[str, Array]:
    """Name -> array from what `save`, or `save_vars` and its like, wrote; `var_list` chooses, and orders a
    combined file.
    """
    prefix = _prefix(model_path)
    if not all(isinstance(var, Variable) for var in var_list or ()):
        raise TypeError("value in var_list must be variable")
    wanted = None if var_list is None else {var.name for var in var_list}
    if os.path.exists(prefix + _PARAMS):
        state = _read(prefix + _PARAMS)
        if os.path.exists(prefix + _OPTIMIZER):
            state.update(_read(prefix + _OPTIMIZER))
        return state
    if os.path.isdir(model_path):
        names = sorted(_files_in(model_path) if wanted is None else wanted)
        return {name: _tensor_file(os.path.join(model_path, name)) for name in names}
    if os.path.isfile(model_path):
        if wanted is None:
            raise ValueError("var_list can not be None when model_path is a file type")
        with ValueReader.open(model_path) as source:
            return {
                name: host(tensor.array)
                for name, tensor in zip(sorted(wanted), source.tensors(len(wanted)), strict=True)
            }
    raise MissingFileError(
        f"there is no model saved as {model_path}: neither {prefix + _PARAMS} nor a folder or file of that "
        f"name"
    )


def _tensor_file(path: str) -> Array:
    try:
        with ValueReader.open(path) as source:
            return host(only_tensor(source).array)
    except FileNotFoundError:
        raise MissingFileError(f"cannot open {path}: the model's files are incomplete") from None
    except FormatError as error:
        raise RuntimeError(
            "Failed to load model file , please make sure model file is saved with the following APIs: "
            f"save_params, save_persistables, save_vars: {error}"
        ) from error


@short_tracebacks
def set_program_state(program: Program, state_dict: Mapping[str, Array]) -> None:
    """Set persistable variables of `program` in the global scope; warns about names that the program does not
    have.

    AssertionError, before anything is changed, where the startup program has not run or shape or dtype
    differ.
    """
    # all are looked at before one is set
    values = {}
    for var in get_program_persistable_vars(program):
        held = global_scope().find_var(var.name)
        if held is None or not isinstance(held.value, LoDTensor) or not held.is_initialized():
            raise AssertionError(f"Variable [ {var.name} ] Not found, Please make sure run startup program")
        # a state may hold less than the program: what it lacks stays
        if var.name not in state_dict:
            continue
        old = held.value.array
        new = np.asarray(state_dict[var.name])
        for what, mine, theirs in (
            ("shape", tuple(old.shape), new.shape),
            ("data type", old.dtype, new.dtype),
        ):
            if mine != theirs:
                raise AssertionError(
                    f"Parameter's {what} does not match, the Program requires a parameter with a {what} of "
                    f"({mine}), "
                    f"while the loaded parameter (namely [ {var.name} ]) has a {what} of  ({theirs})."
                )
        values[var.name] = new
    put_values(values)
    unused = [name for name in state_dict if name not in values]
    if unused:
        warn_user(
            "This list is not set, because these names are not among the program's parameters: "
            + " ".join(unused),
            category=UserWarning,
        )
