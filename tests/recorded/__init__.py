"""Recordings of what PaddlePaddle 1.8.5 builds and computes for single layers and operators."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

from . import gradients, operators, sequences, tensor_layers

PATH = str(pathlib.Path(__file__).parent / "facts.json.gz")
GROUPS = {
    "values": tensor_layers.values,
    "shapes": tensor_layers.shapes,
    "arithmetic": tensor_layers.arithmetic,
    "parts": tensor_layers.parts,
    "operators": operators.operators,
    "indices": operators.indices,
    "sequences": sequences.sequences,
    "gradients": gradients.gradients,
    "second": gradients.second,
}


def load() -> Any:
    """Group -> case -> facts."""
    with gzip.open(PATH, "rt") as source:
        return json.load(source)
