"""Which layers on tensors keep the sequences of their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .facts import Case, Cases, Fed

X = np.arange(24, dtype="float32").reshape(6, 4) + 1


def _on_sequences(fluid: Any, layer: Callable[[Any, Any], Any]) -> Case:
    """The layer on two tensors of six rows, which fall into sequences of 2 and 4, and of 3 and 3."""

    def build() -> Any:
        x, y = (fluid.layers.data(name, [4], lod_level=1) for name in "xy")
        made = layer(x, y)
        return [
            *(made if isinstance(made, (list, tuple)) else [made]),
            {"x": Fed(X, [[2, 4]]), "y": Fed(X * 2, [[3, 3]])},
        ]

    return build


def sequences(fluid: Any) -> Cases:
    layers = fluid.layers

    def ids(*values: Any) -> Any:
        return layers.assign(np.array(values, "int64"))

    made = {
        "add": lambda x, y: x + y,
        "add_to_none": lambda x, y: layers.elementwise_add(layers.fill_constant([6, 4], "float32", 1.0), y),
        "add_low": lambda x, y: layers.elementwise_add(layers.fill_constant([4], "float32", 1.0), y),
        "scale": lambda x, y: x * 2,
        "sums": lambda x, y: layers.sums([x, y]),
        "concat_rows": lambda x, y: layers.concat([x, y], 0),
        "concat_columns": lambda x, y: layers.concat([x, y], 1),
        "concat_first_none": lambda x, y: layers.concat([layers.fill_constant([2, 4], "float32", 1.0), x], 0),
        "split_columns": lambda x, y: layers.split(x, 2, 1),
        "split_rows": lambda x, y: layers.split(x, 2, 0),
        "stack": lambda x, y: layers.stack([x, y], 1),
        "unstack": lambda x, y: layers.unstack(x, 1),
        "reshape": lambda x, y: layers.reshape(x, [-1, 2, 2]),
        "reshape_rows": lambda x, y: layers.reshape(x, [-1, 2]),
        "reshape_fixed": lambda x, y: layers.reshape(x, [6, 2, 2]),
        "transpose": lambda x, y: layers.transpose(x, [1, 0]),
        "squeeze": lambda x, y: layers.squeeze(layers.unsqueeze(x, [1]), [1]),
        "unsqueeze": lambda x, y: layers.unsqueeze(x, [2]),
        "unsqueeze_first": lambda x, y: layers.unsqueeze(x, [0]),
        "flatten": lambda x, y: layers.flatten(x, 1),
        "expand_columns": lambda x, y: layers.expand(x, [1, 2]),
        "expand_rows": lambda x, y: layers.expand(x, [2, 1]),
        "slice_columns": lambda x, y: layers.slice(x, [1], [0], [2]),
        "slice_rows": lambda x, y: layers.slice(x, [0], [0], [2]),
        "strided_slice": lambda x, y: layers.strided_slice(x, [1], [0], [4], [2]),
        "column": lambda x, y: x[:, 0],
        "gather": lambda x, y: layers.gather(x, ids(0, 1)),
        "one_hot": lambda x, y: layers.one_hot(layers.cast(layers.slice(x, [1], [0], [1]), "int64"), 50),
        "topk": lambda x, y: layers.topk(x, 2),
        "argmax": lambda x, y: layers.argmax(x, -1),
        "argsort": lambda x, y: layers.argsort(x, 1),
        "cast": lambda x, y: layers.cast(x, "int32"),
        "assign": lambda x, y: layers.assign(x),
        "zeros_like": lambda x, y: layers.zeros_like(x),
        "fill_like_batch": lambda x, y: layers.fill_constant_batch_size_like(x, [1, 3], "float32", 1.0),
        "fill_like_batch_last": lambda x, y: layers.fill_constant_batch_size_like(
            x, [3, 1], "float32", 1.0, output_dim_idx=1
        ),
        "shape": lambda x, y: layers.shape(x),
        "clip": lambda x, y: layers.clip(x, 2.0, 5.0),
        "cumsum": lambda x, y: layers.cumsum(x, 1),
        "reverse": lambda x, y: layers.reverse(x, 1),
        "multiplex": lambda x, y: layers.multiplex(
            [x, y], layers.cast(ids([1], [0], [1], [1], [0], [1]), "int32")
        ),
        "crop_tensor": lambda x, y: layers.crop_tensor(x, [-1, 2], [0, 1]),
        "shard_index": lambda x, y: layers.shard_index(
            layers.cast(layers.slice(x, [1], [0], [1]), "int64"), 50, 2, 0
        ),
        "positions": lambda x, y: layers.add_position_encoding(x, 1.0, 0.5),
        "compare": lambda x, y: x < y,
        "tril": lambda x, y: layers.tril(x),
        "flip": lambda x, y: layers.flip(x, [1]),
        "index_sample": lambda x, y: layers.index_sample(x, ids(*[[0, 1]] * 6)),
        "kron": lambda x, y: layers.kron(x, y),
        "isfinite": lambda x, y: layers.isfinite(x),
        "where": lambda x, y: layers.where(layers.cast(x, "bool")),
        "trace": lambda x, y: layers.trace(x),
    }
    return {name: _on_sequences(fluid, layer) for name, layer in made.items()}
