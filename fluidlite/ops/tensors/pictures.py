"""Files as tensors, and pictures that are packed in them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import FormatError, MissingExtraError, MissingFileError, ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.values.serialize import file_bytes
from fluidlite.values.tensor import host

read_file = Op(
    "read_file", "-> Out", attrs={"filename": ""}, lod=None, effect=True, dynamic=True, reaches="reads a file"
)


@read_file.shape
def _() -> Spec:
    return Spec((-1,), VarType.UINT8)


@read_file.kernel
def _(xp: Any, filename: str) -> Array:
    try:
        found: Array = xp.asarray(np.frombuffer(file_bytes(filename), np.uint8))
    except FileNotFoundError:
        raise MissingFileError(f"op 'read_file': file {filename} not found") from None
    return found


_MODES = {"unchanged": None, "gray": "L", "rgb": "RGB"}
decode_jpeg = Op("decode_jpeg", "X -> Out", attrs={"mode": "unchanged"}, lod=None, dynamic=True)


@decode_jpeg.shape
def _(X: Spec, mode: str) -> Spec:
    if mode not in _MODES or X.dtype != VarType.UINT8:
        raise ShapeError(
            f"op 'decode_jpeg': mode is one of {', '.join(_MODES)}, not {mode!r}, and X of the type uint8, "
            f"not {X.dtype.name}"
        )
    return Spec(({"gray": 1, "rgb": 3}.get(mode, -1), -1, -1), VarType.UINT8)


@decode_jpeg.kernel
def _(xp: Any, X: Array, mode: str) -> Array:
    """The picture as [channels, height, width]."""
    try:
        from PIL import Image  # of the extra [vision]
    except ImportError as error:
        raise MissingExtraError("op 'decode_jpeg' needs Pillow: pip install fluidlite[vision]") from error
    try:
        with Image.open(io.BytesIO(host(X).tobytes()), formats=["JPEG"]) as picture:
            wanted = _MODES[mode]
            pixels = np.array(picture if wanted is None else picture.convert(wanted))
    # Pillow's, of bytes that are no picture or end before it does, and of sizes that no picture has
    except (OSError, Image.DecompressionBombError) as error:
        raise FormatError(
            f"op 'decode_jpeg': the {X.size} bytes of X are not a JPEG picture: {error}"
        ) from error
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    found: Array = xp.asarray(np.ascontiguousarray(pixels))
    return found
