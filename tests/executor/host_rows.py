"""The kernel of a row form on the host, for arrays with a number for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.executor.run.rows import LabelledRows, block_rows
from fluidlite.ops.kernels.row_kernels import RowForm


def host_rows(
    form: RowForm, sizes: Sequence[int], dtype: Any, numbers: Sequence[Any], threads: int = 1
) -> Callable[..., None]:
    """`call(*arrays)` by NumPy: numbers of rows are given [rows], and seen as one column."""
    factory = LabelledRows if form.labels else block_rows
    kernel = factory(np, form, sizes, dtype, numbers, threads)
    labels = {label.name for label in form.labels}
    columns = [form.axes[name] == "r" and name not in labels for name in (*form.inputs, *form.outputs)]

    def run(*arrays: Any) -> None:
        pairs = zip(arrays, columns, strict=True)
        kernel(*(array.reshape(-1, 1) if is_column else array for array, is_column in pairs))

    return run
