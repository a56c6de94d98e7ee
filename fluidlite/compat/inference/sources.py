"""The files of a saved model, as configurations name them."""

from __future__ import annotations

import os
from typing import TypeAlias

from fluidlite.base.errors import MissingFileError
from fluidlite.values.serialize import file_bytes

__all__ = ["Source", "in_folder", "of_files"]

Source: TypeAlias = "tuple[str | None, str | bytes | None, str | bytes | None]"
"""Folder, program and parameters as `load_inference_model` takes them: names in the folder, or bytes where
there is none.
"""


def in_folder(path: str) -> Source:
    """The model in a folder, as `__model__` with a file for each parameter or as its only .pdmodel, or the
    one of a prefix of .pdmodel and .pdiparams; MissingFileError where there is none.
    """
    path = os.fspath(path)
    if os.path.isfile(os.path.join(path, "__model__")):
        return path, None, None
    prefixes = [path.removesuffix(".pdmodel"), *_prefixes_in(path)]
    found = [prefix for prefix in prefixes if os.path.isfile(f"{prefix}.pdmodel")]
    if len(found) == 1:
        folder, name = os.path.split(found[0])
        return folder or ".", f"{name}.pdmodel", f"{name}.pdiparams"
    if found:
        raise MissingFileError(
            f"{path} holds {len(found)} models ({', '.join(map(os.path.basename, found))}): name the one "
            "that is meant by its file of the program and its file of the parameters"
        )
    raise MissingFileError(
        f"Cannot open file {os.path.join(path, '__model__')}: there is no folder {path!r} with a model, and "
        "no .pdmodel file of that name"
    )


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
