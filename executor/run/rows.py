"""Row kernels as NumPy calls on blocks of rows, which a team shares; the arrays that a block is computed in
are made once, and stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.row_lines import block_text
from fluidlite.executor.run.team import Team, pieces, team_of
from fluidlite.ops.kernels.row_calls import checked_labels
from fluidlite.ops.kernels.row_kernels import RowForm
from fluidlite.ops.kernels.scalar import Ref

__all__ = ["LabelledRows", "Labels", "RowBlocks", "block_rows", "members_of"]

_BLOCK = 1 << 14  # elements of a block: 64 KB of floats, so that the arrays of a kernel share a 1 MB cache
_SHARED = 1 << 16  # elements from which waking a second thread pays, at the ten passes that kernels here make


def members_of(rows: int, columns: int, threads: int) -> int:
    """Threads that share the rows of a matrix."""
    is_shared = threads > 1 and rows * columns >= _SHARED and rows >= 2 * threads
    return threads if is_shared else 1


class RowBlocks:
    """`blocks(task)` calls task(member, rows) for each block of rows; a member of the team has neighbouring
    ones. Where nothing `comes_back` to elements, its rows are one block.
    """

    def __init__(self, rows: int, columns: int, threads: int, comes_back: bool = True) -> None:
        self.height = max(1, min(rows, _BLOCK // max(columns, 1))) if comes_back else max(1, rows)
        self.members = members_of(rows, columns, threads)
        self.team: Team | None = team_of(self.members) if self.members > 1 else None
        self.parts = [
            [slice(at, min(at + self.height, part.stop)) for at in range(part.start, part.stop, self.height)]
            for part in pieces(rows, self.members)
        ]

    def __call__(self, task: Callable[[int, slice], None]) -> None:
        def run(member: int) -> None:
            for rows in self.parts[member]:
                task(member, rows)

        if self.team is None:
            run(0)
        else:
            self.team(run)


def block_rows(
    xp: Any,
    form: RowForm,
    sizes: Sequence[int],
    dtype: Any,
    numbers: Sequence[float],
    threads: int,
    sums: Any = None,
) -> Callable[..., None]:
    """`call(*arrays)` computes a row kernel; the arrays are those of the form, inputs before outputs, as
    `BlockText` wants them.

    The members' sums over rows are added in the members' order, so that they are the same in every run with
    as many threads. Sums are of the type `sums` where there is one: those of blocks are added up in that.
    """
    rows, columns = sizes
    blocks = RowBlocks(rows, columns, threads, _comes_back(form))
    is_one = blocks.members == 1 and blocks.height >= rows and sums is None
    text = block_text(form, is_one)
    vectors: dict[str, Callable[[], Array]] = {
        "ones": lambda: np.ones((columns, 1), dtype),
        "shares": lambda: np.full((columns, 1), 1 / max(columns, 1), dtype),
        "ones_of_rows": lambda: np.ones(rows if is_one else blocks.height, dtype),
    }

    def scratch(tall: int, kinds: Mapping[str, str]) -> dict[str, Array]:
        shapes = {"r": (tall, 1), "c": (columns,), "rc": (tall, columns), "": ()}
        return {name: np.empty(shapes[axes], dtype) for name, axes in kinds.items()}

    values = dict(zip(form.numbers, numbers, strict=True))
    totals = {f"sums_{name}": np.zeros((blocks.members, columns), sums or dtype) for name in form.totals}
    own = [
        [*scratch(blocks.height, text.own).values(), *(total[member] for total in totals.values())]
        for member in range(blocks.members)
    ]
    space = {**text.functions, "blocks": blocks, "own": own, **totals, **scratch(rows, text.whole)}
    for name, known in text.shared.items():
        space[known] = vectors[name]() if name in vectors else np.array(values.get(name, name), dtype)
    exec(text.code, space)
    run: Callable[..., None] = space["run"]
    return run


def _comes_back(form: RowForm) -> bool:
    """True where blocks pay: more than one pass goes over elements."""
    passes = [
        index
        for index in form.live
        if form.nodes[index].function not in ("load", "pick", "put")
        and not all(map(form.is_of_row, (Ref(index), *form.nodes[index].operands)))
    ]
    return len(passes) > 1


class Labels:
    """`call(labels, index)` writes the indices of the labelled elements in a flattened matrix of rows, of
    column 0 in rows whose label is to be ignored, and gives those rows, or None where there are none;
    KernelError for a label that is no column.
    """

    def __init__(self, xp: Any, form: RowForm, sizes: Sequence[int], ignored: int) -> None:
        rows, self.columns = sizes
        self.starts = np.arange(rows, dtype=np.int64) * self.columns
        self.name = form.kernel.name
        self.ignored = ignored

    def __call__(self, labels: Array, index: Array) -> Array | None:
        safe, counts = checked_labels(np, self.name, labels, self.columns, self.ignored)
        np.add(safe, self.starts, out=index)
        return None if counts is True else np.flatnonzero(~counts)


class LabelledRows:
    """`call(*arrays)` as that of `block_rows`, with the labels themselves [rows]."""

    def __init__(
        self, xp: Any, form: RowForm, sizes: Sequence[int], dtype: Any, numbers: Sequence[float], threads: int
    ) -> None:
        self.run = block_rows(xp, form, sizes, dtype, numbers, threads)
        names = [*form.inputs, *form.outputs]
        (label,) = form.labels
        self.position = names.index(label.name)
        self.labels = Labels(xp, form, sizes, int(numbers[form.numbers.index(label.ignored)]))
        self.index = np.empty((sizes[0], 1), np.int64)
        self.cleared = [names.index(name) for name in form.cleared]

    def __call__(self, *arrays: Array) -> None:
        ignored = self.labels(arrays[self.position], self.index.reshape(-1))
        self.run(*arrays[: self.position], self.index, *arrays[self.position + 1 :])
        if ignored is not None:
            for position in self.cleared:
                arrays[position][ignored] = 0
