"""Models and states as files, under the names and signatures of 2.x: `.pdmodel`, `.pdiparams`, `.pdparams`,
`.pdopt`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

from fluidlite.base.errors import MissingFileError
from fluidlite.ir import program as ir
from fluidlite.ir.proto import serialize_program as program_bytes
from fluidlite.ir.variable import Variable
from fluidlite.paddle.programs import Program, default_main_program
from fluidlite.saving import state
from fluidlite.saving.inference import inference_program, with_scales
from fluidlite.saving.variables import (
    combined_bytes,
    get_program_persistable_vars,
    load_persistables,
    values_of,
)
from fluidlite.values.serialize import complete_save, file_bytes, replace_file, write_folder

__all__ = [
    "deserialize_persistables",
    "deserialize_program",
    "load",
    "load_from_file",
    "load_inference_model",
    "normalize_program",
    "save",
    "save_inference_model",
    "save_to_file",
    "serialize_persistables",
    "serialize_program",
]

Vars = Variable | Sequence[Variable]


def _listed(what: str, given: Any) -> list[Variable]:
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    if not found or not all(isinstance(var, Variable) for var in found):
        raise ValueError(f"{what!r} should be a Variable or a list of Variable, but received {given!r}")
    return found


def _program(given: Any) -> ir.Program:
    program = default_main_program() if given is None else given
    if not isinstance(program, ir.Program):
        raise TypeError(f"program type must be `fluid.Program`, but received {type(program)}")
    return program


def normalize_program(program: ir.Program, feed_vars: Vars, fetch_vars: Vars, **kwargs: Any) -> ir.Program:
    """A copy of what computes `fetch_vars` from `feed_vars`, in test mode, between feed and fetch ops."""
    feeds = [var.name for var in _listed("feed_vars", feed_vars)]
    copy, names = with_scales(_program(program), _listed("fetch_vars", fetch_vars))
    return inference_program(copy, feeds, names)


# ---------------------------------------------------------------------- bytes
def serialize_program(feed_vars: Vars, fetch_vars: Vars, **kwargs: Any) -> bytes:
    """The bytes of the normalized program; `program` names another than the default one."""
    return program_bytes(normalize_program(_program(kwargs.get("program")), feed_vars, fetch_vars))


def serialize_persistables(feed_vars: Vars, fetch_vars: Vars, executor: Any, **kwargs: Any) -> bytes | None:
    """The bytes of the parameters that the normalized program needs, in sorted order of their names; None
    where it needs none.
    """
    program = normalize_program(_program(kwargs.get("program")), feed_vars, fetch_vars)
    values = values_of(get_program_persistable_vars(program))
    return b"".join(combined_bytes(values)) if values else None


def deserialize_program(data: bytes) -> ir.Program:
    """The program in the bytes; FormatError where they are none."""
    return Program.parse_from_string(data)


def deserialize_persistables(program: ir.Program, data: bytes, executor: Any) -> None:
    """Put the parameters in the bytes into the global scope."""
    if get_program_persistable_vars(program):
        with tempfile.TemporaryDirectory() as folder:
            replace_file(os.path.join(folder, "parameters"), [data], is_kept=False)
            load_persistables(executor, folder, program, "parameters")


def save_to_file(path: str, content: bytes) -> None:
    """Write bytes to a file."""
    if not isinstance(content, bytes):
        raise ValueError(f"'content' type should be bytes, but received {type(content)}")
    replace_file(path, [content])


def load_from_file(path: str) -> bytes:
    """The bytes of a file."""
    try:
        return file_bytes(path)
    except FileNotFoundError:
        raise MissingFileError(f"cannot open {path}: there is no such file") from None


# ---------------------------------------------------------------------- models for inference
def save_inference_model(
    path_prefix: str, feed_vars: Vars, fetch_vars: Vars, executor: Any, **kwargs: Any
) -> None:
    """Write `path_prefix`.pdmodel and .pdiparams: what computes `fetch_vars` from `feed_vars`, and its
    parameters; folders are made. `program` names another than the default one.
    """
    if not isinstance(path_prefix, str) or not os.path.basename(path_prefix):
        raise ValueError("'path_prefix' should be a string that ends with the name of the model")
    prefix = os.path.normpath(path_prefix)
    # both before any file: what has no values, or not all of them, leaves none
    model = serialize_program(feed_vars, fetch_vars, **kwargs)
    data = serialize_persistables(feed_vars, fetch_vars, executor, **kwargs)
    folder, name = os.path.split(prefix)
    with write_folder(folder or ".", name) as files:
        files.put(name + ".pdmodel", [model])
        if data is not None:
            files.put(name + ".pdiparams", [data])


def load_inference_model(path_prefix: str | None, executor: Any, **kwargs: Any) -> list[Any]:
    """[program, names to feed, Variables to fetch]; parameters go into the global scope.

    With `path_prefix` None the keywords `model_filename` and `params_filename` are the bytes of the files;
    else they name other files than `path_prefix`.pdmodel and .pdiparams in that folder.
    """
    model = kwargs.get("model_filename")
    params = kwargs.get("params_filename")
    if path_prefix is None:
        if not isinstance(model, bytes) or not isinstance(params, bytes):
            raise ValueError("without path_prefix, model_filename and params_filename are bytes of the files")
        program = deserialize_program(model)
        deserialize_persistables(program, params, executor)
        return _loaded(program)
    folder, name = os.path.split(os.path.normpath(path_prefix))
    complete_save(folder or ".", name)
    paths = _paths(path_prefix, model, params)
    program = deserialize_program(load_from_file(paths[0]))
    if get_program_persistable_vars(program):
        folder, name = os.path.split(paths[1])
        load_persistables(executor, folder or ".", program, name)
    return _loaded(program)


def _paths(prefix: str, model: str | None, params: str | None) -> tuple[str, str]:
    """The files of the program and of its parameters."""
    if model is None and params is None:
        return prefix + ".pdmodel", prefix + ".pdiparams"
    # files that older versions have written lie in a folder, whose name the prefix is
    folder = prefix if os.path.isdir(prefix) else os.path.dirname(prefix)
    return os.path.join(folder, model or "__model__"), os.path.join(folder, params or "__params__")


def _loaded(program: ir.Program) -> list[Any]:
    names = program.desc.get_fetch_target_names()
    return [
        program,
        program.desc.get_feed_target_names(),
        [program.global_block().var(name) for name in names],
    ]


# ---------------------------------------------------------------------- states
def save(program: ir.Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Write `model_path`.pdparams, .pdopt and .pdmodel: parameters, optimizer state, program. `protocol` is
    that of Python's pickles; files have the one that all of Paddle's versions read.
    """
    if not isinstance(protocol, int) or not 2 <= protocol <= 4:
        raise ValueError(f"Expected 1<'protocol'<5, but received protocol={protocol}")
    state.save(program, model_path)


def load(
    program: ir.Program, model_path: str, executor: Any = None, var_list: Sequence[Variable] | None = None
) -> None:
    """Load parameters and optimizer state into the global scope, as `save` wrote them."""
    state.load(program, model_path, executor, var_list)
