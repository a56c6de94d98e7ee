"""ONNX files that somebody else has made: their graphs, and the arrays in them.

Whatever a file says about sizes is held against the bytes that are there before anything is allocated, and
weights in other files are looked for in its own folder alone.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import FormatError, MissingFileError, UnsupportedError
from fluidlite.saving.onnx.graph import OLDEST, onnx_package
from fluidlite.values.serialize import file_bytes, inside

__all__ = ["OnnxFile"]

_ELEMENTS = frozenset(["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
"""Element types that variables have."""


class OnnxFile:
    """A parsed ONNX file. FormatError for what is no such file; UnsupportedError for an older opset."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.folder = os.path.dirname(os.fspath(path))
        try:
            data = file_bytes(path)
        except FileNotFoundError:
            raise MissingFileError(f"cannot open {os.fspath(path)}: there is no such file") from None
        self.model = _parsed(os.fspath(path), data)
        self.opset = self._opset(os.fspath(path))
        self._others: dict[str, bytes] = {}

    def _opset(self, path: str) -> int:
        domains = {each.domain: each.version for each in self.model.opset_import}
        newest = onnx_package("onnx.defs").onnx_opset_version()
        opset = domains.get("", domains.get("ai.onnx", 0))
        if not OLDEST <= opset <= newest:
            raise UnsupportedError(
                f"{path} has opset {opset}, but opsets from {OLDEST} to {newest} can be read: "
                "onnx.version_converter.convert_version gives it another one"
            )
        return int(opset)

    def array(self, tensor: Any) -> Array:
        """The array of a TensorProto."""
        dtype = self.dtype(tensor.data_type, repr(tensor.name))
        shape = tuple(tensor.dims)
        if any(size < 0 for size in shape) or tensor.HasField("segment"):
            raise FormatError(f"tensor {tensor.name!r} has the shape {list(shape)}, or only a part of it")
        count = math.prod(shape)
        if tensor.data_location == tensor.EXTERNAL:
            data = self._external(tensor, count * dtype.itemsize)
        elif tensor.HasField("raw_data"):
            data = tensor.raw_data
        else:
            return self._listed(tensor, count)
        if len(data) != count * dtype.itemsize:
            raise FormatError(
                f"tensor {tensor.name!r} has {len(data)} bytes, but {dtype}{list(shape)} has "
                f"{count * dtype.itemsize}"
            )
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)

    def dtype(self, number: int, what: str) -> np.dtype[Any]:
        """The data type of ONNX's number for it."""
        try:
            dtype = np.dtype(onnx_package("onnx.helper").tensor_dtype_to_np_dtype(number))
        except (KeyError, TypeError, ValueError):
            raise FormatError(f"{what} has the element type {number}, which ONNX does not have") from None
        if dtype.name not in _ELEMENTS:
            raise UnsupportedError(f"{what} holds elements of {dtype.name}, which no variable holds")
        return dtype

    def _listed(self, tensor: Any, count: int) -> Array:
        """An array whose elements are the numbers of a list."""
        field = onnx_package("onnx.helper").tensor_dtype_to_field(tensor.data_type)
        given = len(getattr(tensor, field))
        if given != count:
            raise FormatError(
                f"tensor {tensor.name!r} has {given} elements, but its shape {list(tensor.dims)} has {count}"
            )
        found: Array = onnx_package("onnx.numpy_helper").to_array(tensor)
        return found

    def _external(self, tensor: Any, size: int) -> bytes:
        """The bytes of a tensor that lie in another file of the folder."""
        entries = {each.key: each.value for each in tensor.external_data}
        name = entries.get("location", "")
        try:
            data = self._other(name)
            start = int(entries.get("offset") or 0)
            length = int(entries.get("length") or size)
        except (FileNotFoundError, ValueError):
            raise FormatError(
                f"tensor {tensor.name!r} lies in {name!r}, which is not a file in the folder of the model"
            ) from None
        if start < 0 or length != size or start + length > len(data):
            raise FormatError(
                f"tensor {tensor.name!r} has {size} bytes, but takes {length} at {start} of the "
                f"{len(data)} in {name!r}"
            )
        return data[start : start + length]

    def _other(self, name: str) -> bytes:
        """The bytes of another file; ValueError for a path that leads out of the folder."""
        if name not in self._others:
            path = inside(self.folder, name)
            real = os.path.realpath(self.folder or ".")
            # a link may lead out of it, too
            if os.path.commonpath([real, os.path.realpath(path)]) != real:
                raise ValueError(name)
            self._others[name] = file_bytes(path)
        return self._others[name]


def _parsed(path: str, data: bytes) -> Any:
    """The ModelProto of a file's bytes."""
    onnx = onnx_package()
    # the package's exceptions have no class in common but Exception
    try:
        model = onnx.load_model_from_string(data)
    except Exception:
        model = None
    if model is None or not model.graph.output:
        raise FormatError(f"{path} is not an ONNX file")
    return model
