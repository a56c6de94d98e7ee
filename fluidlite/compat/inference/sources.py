"""The files of a saved model, as configurations name them."""

from __future__ import annotations

import os
from typing import TypeAlias

from fluidlite.base.errors import MissingFileError
from fluidlite.ir.program import Program
from fluidlite.values.serialize import file_bytes

__all__ = ["PROGRAMS", "Source", "in_folder", "of_files"]

Source: TypeAlias = "tuple[str | None, str | bytes | None, str | bytes | None]"
"""Folder, program and parameters as `load_inference_model` takes them: names in the folder, or bytes where
there is none.
"""


PROGRAMS = ("__model__", "model")
"""Usual names of a program's file."""
_PARAMETERS = ("__params__", "params", "__combined__")  # and of the one of all parameters
_STEMS = ("inference", "model")  # of .pdmodel files, where there are several


def in_folder(path: str) -> tuple[str, str, str | None]:
    """The model in a folder, of a file like `__model__`, or of a prefix of .pdmodel and .pdiparams;
    MissingFileError where there is none.

    A folder holds `__model__` or `model`, or a .pdmodel file that is alone or called `inference` or `model`.
    """
    path = os.fspath(path)
    programs = [os.path.join(path, name) for name in PROGRAMS]
    if not path.endswith(".pdmodel"):
        programs.insert(0, path)
    found = next(filter(os.path.isfile, programs), None)
    if found is not None:
        folder, name = os.path.split(found)
        return folder or ".", name, _parameters_in(folder or ".", name)
    prefixes = [path.removesuffix(".pdmodel"), *_prefixes_in(path)]
    models = [prefix for prefix in prefixes if os.path.isfile(f"{prefix}.pdmodel")]
    usual = [prefix for prefix in models if os.path.basename(prefix) in _STEMS]
    chosen = usual if len(models) > 1 and len(usual) == 1 else models
    if len(chosen) == 1:
        folder, name = os.path.split(chosen[0])
        return folder or ".", f"{name}.pdmodel", f"{name}.pdiparams"
    if models:
        raise MissingFileError(
            f"{path} holds {len(models)} models ({', '.join(map(os.path.basename, models))}): name the one "
            "that is meant by its file of the program and its file of the parameters"
        )
    raise MissingFileError(
        f"Cannot open file {programs[-2]}: there is no folder {path!r} with a model, and no .pdmodel file of "
        "that name"
    )


def _parameters_in(folder: str, program: str) -> str | None:
    """The name of the file with all parameters; None where each has a file of its own."""
    others = [name for name in os.listdir(folder) if name != program and os.path.isfile(f"{folder}/{name}")]
    usual = [name for name in _PARAMETERS if name in others]
    if usual or len(others) != 1:
        return usual[0] if usual else None
    # one other file: the only parameter, or all of them
    block = Program.parse_from_string(file_bytes(os.path.join(folder, program))).global_block()
    return None if others[0] in block.vars else others[0]


def _prefixes_in(folder: str) -> list[str]:
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    ends = ".pdmodel"
    return [os.path.join(folder, name.removesuffix(ends)) for name in names if name.endswith(ends)]


def of_files(program: str, params: str) -> Source:
    """The model in a file of the program and one of all parameters."""
    program, params = os.fspath(program), os.fspath(params)
    for path in (program, params):
        if not os.path.isfile(path):
            raise MissingFileError(f"Cannot open file {path}")
    folder = os.path.dirname(program)
    if folder == os.path.dirname(params):
        # by name: of bytes, the values of the model would lie in memory twice
        return folder or ".", os.path.basename(program), os.path.basename(params)
    return None, file_bytes(program), file_bytes(params)
