"""Saved models at the command line: found, fed from files, run, and their results written."""

from __future__ import annotations

import io
import os
import pathlib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, to_numpy
from fluidlite.base.errors import FluidError, FormatError, MissingFileError, did_you_mean
from fluidlite.base.place import CPUPlace
from fluidlite.base.records import dataclass
from fluidlite.cli.archives import is_archive, unpacked
from fluidlite.cli.errors import UsageError, one_line
from fluidlite.compat.inference.sources import PROGRAMS, in_folder
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.ir.prune import reads
from fluidlite.ir.variable import Variable
from fluidlite.lod_tensor import create_lod_tensor
from fluidlite.saving.inference import inference_program, load_inference_model
from fluidlite.values.scope import Scope, global_scope, scope_guard
from fluidlite.values.serialize import replace_file
from fluidlite.values.tensor import LoDTensor, host

__all__ = [
    "SavedModel",
    "any_inputs",
    "as_saved",
    "load_model",
    "read_inputs",
    "read_shapes",
    "run_model",
    "shown",
    "weights_beside",
    "write_outputs",
]


@dataclass(frozen=True)
class SavedModel:
    """A model whose parameters are in the global scope: what it is fed, and what it computes."""

    program: Program
    feeds: tuple[Variable, ...]
    fetches: tuple[Variable, ...]


# ------------------------------------------------------------------------------------------------ loading
def load_model(source: str, params: str | None = None) -> SavedModel:
    """The model that `compat.inference.sources.in_folder` finds, or one in an archive.

    `params` names the file that holds all parameters; where it is not given, that file is found.
    """
    path = pathlib.Path(source)
    if is_archive(path):
        with unpacked(path) as folder:
            return _loaded(_folder_of_model(folder, source), source, params)
    return _loaded(path, source, params)


def _folder_of_model(folder: pathlib.Path, source: str) -> pathlib.Path:
    """The one folder of an archive that holds a model."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = {path.parent for path in files if path.name in PROGRAMS or path.suffix == ".pdmodel"}
    if len(found) != 1:
        raise UsageError(f"{source} holds {len(found)} folders with a model, but one is expected")
    return found.pop()


def _loaded(path: pathlib.Path, source: str, params: str | None) -> SavedModel:
    hint = ""
    try:
        folder, model, found = in_folder(str(path))
        params = params or found
        hint = "" if params else "; --params names a file with all parameters"
        program, feeds, fetches = load_inference_model(folder, Executor(CPUPlace()), model, params)
    except MissingFileError as error:
        raise UsageError(f"{one_line(error)}{hint}") from None
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror or error}") from None
    except FormatError as error:
        raise UsageError(f"{source}: {one_line(error)}") from None
    block = program.global_block()
    return SavedModel(program, tuple(block.var(name) for name in feeds), tuple(fetches))


def as_saved(model: SavedModel) -> Program:
    """The program of a model as files have it, with feed and fetch ops; its results keep their names."""
    used = {name for op in model.program.global_block().ops for name in reads(op)}
    feeds = [var.name for var in model.feeds if var.name in used]
    return inference_program(model.program, feeds, [var.name for var in model.fetches])


def weights_beside(source: str, names: Sequence[str]) -> dict[str, Array]:
    """The values of a model's variables, by name; none where its files hold no values."""
    with scope_guard(Scope()):
        try:
            load_model(source)
        except UsageError:
            return {}
        found = {name: global_scope().find_var(name) for name in names}
        return {
            name: host(var.get_tensor().array)
            for name, var in found.items()
            if var is not None and isinstance(var.get_tensor(), LoDTensor)
        }


# ------------------------------------------------------------------------------------------------ inputs
def read_inputs(
    model: SavedModel, inputs: Sequence[str], lengths: Sequence[str]
) -> dict[str, Array | LoDTensor]:
    """The values that the model is fed: `name=x.npy`, or an .npz file with an array for each name.

    `name=2,3` are the lengths of the sequences in it, with a / between levels. UsageError in one line for
    what does not fit.
    """
    given: dict[str, Array] = {}
    for item in inputs:
        name, equals, path = item.partition("=")
        given.update(_arrays(path, name) if equals else _arrays(item))
    wanted = {var.name: var for var in model.feeds}
    for name in given:
        if name not in wanted:
            near = did_you_mean(name, wanted)
            raise UsageError(f"the model has no input {name!r}{near}: {_list(model.feeds)}")
    missing = [var for var in model.feeds if var.name not in given]
    if missing:
        raise UsageError(f"--input is missing for {_list(missing)}")
    found: dict[str, Array | LoDTensor] = {
        name: _fitting(array, wanted[name]) for name, array in given.items()
    }
    for item in lengths:
        name, equals, text = item.partition("=")
        if not equals or name not in found:
            raise UsageError(f"--lengths expects INPUT=2,3,..., but got {item!r}")
        found[name] = _sequences(name, found[name], text)
    return found


def read_shapes(model: SavedModel, items: Sequence[str]) -> dict[str, list[int]]:
    """Shapes of inputs, from `name=1,3,640,640`."""
    wanted = {var.name: var for var in model.feeds}
    found = {}
    for item in items:
        name, _, text = item.partition("=")
        if name not in wanted:
            near = did_you_mean(name, wanted)
            raise UsageError(f"the model has no input {name!r}{near}: {_list(model.feeds)}")
        try:
            shape = [int(part) for part in text.split(",")]
        except ValueError:
            raise UsageError(f"--shape expects INPUT=1,3,640,640, but got {item!r}") from None
        if len(shape) != len(wanted[name].shape) or min(shape) < 1:
            raise UsageError(
                f"--shape {item} does not fit input {name}, whose shape is {_dims(wanted[name].shape)}"
            )
        found[name] = shape
    return found


_SIDE = 64  # of a picture whose size is free
_ROWS = 2  # of a batch, or of a sequence


def any_inputs(model: SavedModel, shapes: Mapping[str, Sequence[int]]) -> dict[str, Array | LoDTensor]:
    """Random values for all inputs, the same each time: numbers around 0, and 0 and 1 for whole ones. A size
    that is free is small; what has levels of detail is one sequence.
    """
    random = np.random.RandomState(0)
    found: dict[str, Array | LoDTensor] = {}
    # one sequence belongs to a batch of one; a batch that is given is that of the other inputs, too
    rows = {shapes[var.name][0] for var in model.feeds if shapes.get(var.name) and var.shape[0] < 0}
    usual = 1 if any(var.lod_level for var in model.feeds) else _ROWS
    batch = rows.pop() if len(rows) == 1 else usual
    for var in model.feeds:
        declared = shapes.get(var.name, var.shape)
        free = [
            _ROWS if var.lod_level else batch,
            *[_SIDE if len(declared) == 4 else _ROWS] * (len(declared) - 1),
        ]
        shape = [some if size < 0 else size for size, some in zip(declared, free, strict=False)]
        dtype = np.dtype(to_numpy(var.dtype))
        made = random.normal(size=shape) if dtype.kind == "f" else random.randint(0, 2, shape)
        array = np.asarray(made, dtype)
        levels = [[1]] * (var.lod_level - 1) + [[len(array)]] if var.lod_level else []
        found[var.name] = create_lod_tensor(array, levels, CPUPlace()) if levels else array
    return found


def _arrays(path: str, name: str | None = None) -> dict[str, Array]:
    """The arrays of a file by their names."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {name or pathlib.Path(path).stem: found}
        with found:
            arrays = {key: found[key] for key in found.files}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise UsageError(f"{path} holds no array: {error}") from None
    if name is None:
        return arrays
    if name not in arrays and len(arrays) != 1:
        raise UsageError(f"{path} has no array {name!r}: it has {', '.join(arrays)}")
    return {name: arrays[name] if name in arrays else next(iter(arrays.values()))}


def _fitting(array: Array, var: Variable) -> Array:
    """The array in the type of a variable, where its shape and its kind of numbers fit."""
    wanted = to_numpy(var.dtype)
    shape = tuple(var.shape)
    # a level of detail says how many rows there are, so the rank alone may differ by its ones
    pairs = zip(shape, array.shape, strict=False)
    fits = len(shape) == array.ndim and all(dim in (-1, size) for dim, size in pairs)
    if not fits and not var.lod_level:
        raise UsageError(
            f"--input {var.name} has shape {_dims(array.shape)}, but the model expects {_dims(shape)}"
        )
    if array.dtype == wanted:
        return array
    if not np.can_cast(array.dtype, wanted, "same_kind"):
        raise UsageError(f"--input {var.name} has dtype {array.dtype}, but the model expects {wanted}")
    return array.astype(wanted)


def _sequences(name: str, array: Any, text: str) -> LoDTensor:
    try:
        levels = [[int(part) for part in level.split(",")] for level in text.split("/")]
    except ValueError:
        raise UsageError(f"--lengths {name}: {text!r} are not integers") from None
    try:
        return create_lod_tensor(array, levels, CPUPlace())
    except (FluidError, ValueError, AssertionError) as error:
        said = str(error) or f"{text} do not add up to the {len(array)} rows"
        raise UsageError(f"--lengths {name}: {said}") from None


def _dims(shape: Iterable[int]) -> str:
    return f"[{', '.join('None' if size < 0 else str(size) for size in shape)}]"


def _list(variables: Iterable[Variable]) -> str:
    return ", ".join(f"{var.name} {_dims(var.shape)} {to_numpy(var.dtype)}" for var in variables)


# ------------------------------------------------------------------------------------------------ running
def run_model(model: SavedModel, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> tensor of what the model computes; afterwards the global scope is frozen."""
    global_scope().freeze()
    results = Executor(CPUPlace()).run(
        model.program, feed=dict(feed), fetch_list=list(model.fetches), return_numpy=False
    )
    return {var.name: value for var, value in zip(model.fetches, results, strict=True)}


def write_outputs(path: str, results: Mapping[str, Any]) -> None:
    """An .npz file with the results, whole or not at all; `name.lengths0` is the first level of sequences. A
    single result may go into an .npy file.
    """
    arrays: dict[str, Array] = {}
    for name, value in results.items():
        arrays[name] = np.asarray(value)
        for level, lengths in enumerate(value.recursive_sequence_lengths()):
            arrays[f"{name}.lengths{level}"] = np.asarray(lengths, np.int64)
    out = io.BytesIO()
    if path.endswith(".npy"):
        if len(arrays) != 1:
            raise UsageError(f"{path} can hold only one array, but there are {', '.join(arrays)}: use .npz")
        np.save(out, next(iter(arrays.values())))
    else:
        np.savez(out, **arrays)  # type: ignore[arg-type]  # names of variables are no other arguments'
    try:
        replace_file(path, [out.getvalue()])
    except OSError as error:
        raise UsageError(f"cannot write {os.fspath(path)}: {error.strerror or error}") from None


def shown(results: Mapping[str, Any]) -> str:
    """The results for people: name, shape, type, values."""
    lines = []
    for name, value in results.items():
        array = np.asarray(value)
        values = np.array2string(array, threshold=20, edgeitems=2, precision=6)
        lines.append(f"{name} {_dims(array.shape)} {array.dtype}\n{values}\n")
    return "".join(lines)
