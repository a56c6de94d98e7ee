"""Record what PaddlePaddle 2.6.2 makes of the rows of `functions_2x.py`, into `functions_2x.json.gz`.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2: `python -m golden.record_2x_functions`.
For each expression: the ops, the values, shapes and dtypes of the results and of the gradients of their
squares; for those that 2.6.2 refuses, the type of its error.
"""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

import numpy as np
import paddle
from paddle.base import unique_name

from .functions_2x import Built, expressions, is_random

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "functions_2x.json.gz")
DIGITS = 7


def shortened(array: np.ndarray) -> list[Any]:
    """The elements with as many digits as float32 has."""
    if array.dtype.kind != "f":
        return array.ravel().tolist()
    return [float(f"{value:.{DIGITS}g}") for value in array.ravel().tolist()]


def record(code: str) -> dict[str, Any]:
    try:
        built = Built(paddle, unique_name.guard, code)
        values = built.run()
    except Exception as error:
        print(code, "->", type(error).__name__, str(error)[-200:])
        return {"error": type(error).__name__}
    hidden = is_random(code)
    return {
        "ops": built.ops,
        "results": len([one for one in built.results if hasattr(one, "name")]),
        "declared": [list(one.shape) if hasattr(one, "shape") else one for one in built.results],
        "values": [
            [str(value.dtype), list(value.shape), [] if hidden else shortened(value)] for value in values
        ],
    }


def main() -> None:
    paddle.enable_static()
    found = {code: record(code) for code in expressions()}
    text = json.dumps(found, separators=(",", ":"))
    with open(PATH, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(text.encode())
    print(len(found), "rows,", os.path.getsize(PATH), "bytes")


if __name__ == "__main__":
    main()
