"""Modes, default dtype and random seed of the 2.x door; `paddle.framework` has some of them too."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, VarType, to_numpy, to_vartype
from fluidlite.data_feeder import convert_dtype
from fluidlite.ir import program as ir
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.variable import Variable
from fluidlite.paddle import defaults
from fluidlite.paddle.programs import Program, begin
from fluidlite.saving.pickles import dump_objects, load_objects
from fluidlite.saving.variables import value_of
from fluidlite.values.serialize import file_bytes, replace_file
from fluidlite.values.tensor import LoDTensor

__all__ = [
    "DataParallel",
    "disable_static",
    "enable_static",
    "finfo",
    "get_default_dtype",
    "grad",
    "iinfo",
    "in_dynamic_mode",
    "load",
    "save",
    "seed",
    "set_default_dtype",
]


def enable_static() -> None:
    """Write programs and run them: what the door does from the start."""
    begin()


def disable_static(place: Any = None) -> None:
    """RuntimeError: values do not exist before a program runs."""
    raise RuntimeError(
        "paddle.disable_static() requests imperative mode, but FluidLite runs static graphs only: "
        "build a program first, then run it with paddle.static.Executor"
    )


def in_dynamic_mode() -> bool:
    """False: FluidLite is the static graph."""
    return False


def in_pir_mode() -> bool:
    """False: programs are those of ProgramDesc."""
    return False


def in_dynamic_or_pir_mode() -> bool:
    """False: neither of them."""
    return False


def set_default_dtype(d: DTypeLike) -> None:
    """Set the dtype of what is made without saying one: float16, bfloat16, float32 or float64. TypeError for
    others.
    """
    kind = to_vartype(d)
    if kind not in (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64):
        raise TypeError(
            f"set_default_dtype only supports [float16, float32, float64, bfloat16], but received {d!r}"
        )
    defaults.set_dtype(kind)


def get_default_dtype() -> str:
    """The dtype of what is made without saying one, "float32" from the start."""
    return str(convert_dtype(defaults.dtype()))


def seed(seed: int) -> defaults.Generator:
    """Let runs from now on draw random numbers that depend on `seed` alone: initialisers, dropout and other
    ops without a seed of their own. Gives the generator.
    """
    return defaults.generator().manual_seed(seed)


def _of_imperative_mode(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"paddle.{name}() works in imperative mode, but FluidLite runs static graphs only: use "
            "paddle.static.gradients for gradients, and paddle.distributed for several processes"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "RuntimeError: there are no values before a program runs."
    return refuse


grad, DataParallel = _of_imperative_mode("grad"), _of_imperative_mode("DataParallel")


def save(obj: Any, path: str, protocol: int = 4, **configs: Any) -> None:
    """Write a Program, or arrays, tensors, numbers and texts in dicts and lists, to a file; folders are made.
    Of Variables the values in the global scope are written. TypeError for other objects.

    `protocol` is that of Python's pickles; files have the one that all of Paddle's versions read.
    """
    if not os.path.basename(path):
        raise ValueError(
            "The input path MUST be format of dirname/filename [dirname\\filename in Windows system], "
            "but received filename is empty string."
        )
    if not isinstance(protocol, int) or not 2 <= protocol <= 4:
        raise ValueError(f"Expected 1<'protocol'<5, but received protocol={protocol}")
    pieces = [serialize_program(obj)] if isinstance(obj, ir.Program) else list(dump_objects(_plain(obj)))
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    replace_file(path, pieces)


def _plain(value: Any) -> Any:
    """`value` with arrays in the place of tensors and Variables."""
    if isinstance(value, Variable):
        value = value_of(value)
    if isinstance(value, LoDTensor):
        return np.array(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_plain(inner) for inner in value])
    return value


def load(path: str, **configs: Any) -> Any:
    """The Program in a file, or what else `save` wrote, with tensors for arrays; arrays with
    `return_numpy=True`. FormatError where the file holds something else.
    """
    if not os.path.exists(path):
        raise ValueError(f"The ``path`` ({path}) to load model not exists.")
    data = file_bytes(path)
    # a pickle of protocol 2 or above begins with 0x80, a ProgramDesc with the tag of its first block
    if data[:1] != b"\x80":
        return Program.parse_from_string(data)
    return load_objects(data, path, np.asarray if configs.get("return_numpy") else LoDTensor)


def finfo(dtype: DTypeLike) -> Any:
    """The limits of a dtype of fractions: `min`, `max`, `eps`, `tiny`, `bits`, as NumPy's."""
    return np.finfo(to_numpy(to_vartype(dtype)))


def iinfo(dtype: DTypeLike) -> Any:
    """The limits of a dtype of integers: `min`, `max`, `bits`, as NumPy's."""
    return np.iinfo(to_numpy(to_vartype(dtype)))
