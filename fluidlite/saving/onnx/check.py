"""An ONNX file beside our own run: what onnxruntime computes, and how far it is from it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import KernelError, MissingExtraError
from fluidlite.base.records import dataclass

__all__ = ["Difference", "difference", "differences"]

# both compute in float32, and add up in other orders
_RELATIVE, _ABSOLUTE = 1e-3, 1e-4


@dataclass(frozen=True)
class Difference:
    """The largest difference of one output, and the largest magnitude in it; `why` where the two cannot be
    compared.
    """

    name: str
    largest: float
    magnitude: float
    why: str = ""

    @property
    def is_small(self) -> bool:
        """True if it is what other orders of additions make."""
        return not self.why and self.largest <= _ABSOLUTE + _RELATIVE * self.magnitude

    def __str__(self) -> str:
        if self.why:
            return f"{self.name}: {self.why}"
        return f"{self.name}: {self.largest:.3g} of values up to {self.magnitude:.3g}"


def differences(data: bytes | str, feed: Mapping[str, Any], found: Mapping[str, Any]) -> list[Difference]:
    """The difference of each output in `found` from what onnxruntime makes of a file: its path, or its bytes.

    MissingExtraError without the package `onnxruntime`; KernelError where it cannot run the file.
    """
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtraError(
            "to run ONNX files needs onnxruntime: pip install 'fluidlite[onnx]'"
        ) from error
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    given = {name: np.asarray(value) for name, value in feed.items()}
    try:
        session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        theirs = session.run(None, given)
    # its errors have no class in common but Exception
    except Exception as error:
        raise KernelError(f"onnxruntime cannot run the file: {error}") from error
    pairs = zip(found.items(), theirs, strict=True)
    return [difference(name, np.asarray(ours), other, "onnxruntime") for (name, ours), other in pairs]


def difference(name: str, ours: Array, theirs: Array, source: str) -> Difference:
    """The difference of one output from what `source` computes for it."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        mine, other = (f"{each.dtype}{list(each.shape)}" for each in (ours, theirs))
        return Difference(name, 0.0, 0.0, f"{mine} here, and {other} from {source}")
    if not ours.size:
        return Difference(name, 0.0, 0.0)
    left, right = (each.astype(np.float64) for each in (ours, theirs))
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(left - right))
    finite = left[np.isfinite(left)]
    return Difference(name, float(apart.max()), float(np.abs(finite).max(initial=0.0)), _nan(apart))


def _nan(apart: Array) -> str:
    return "one of the two results is not a number" if np.isnan(apart).any() else ""
