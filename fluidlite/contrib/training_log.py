"""The figures of a training as files: events that TensorBoard shows, and a table that any program reads."""

from __future__ import annotations

import csv
import importlib
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np

from fluidlite.base.errors import MissingExtraError
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.variable import Parameter
from fluidlite.values.scope import Scope, global_scope

__all__ = ["CsvLog", "TrainingLog"]


class TrainingLog:
    """Writes scalars, histograms, text and the graph of a program as an event file into `folder`.

        with fluid.contrib.TrainingLog("runs/first") as log:
            log.graph(main)
            for step in range(100):
                (cost,) = exe.run(main, feed, [loss])
                log.scalars(step, loss=cost)
            log.histograms(step, main)

    Look at it with `tensorboard --logdir runs`. Needs the extra `watch`; MissingExtraError without it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self._writer = _package().SummaryWriter(self.folder)

    def scalars(self, step: int, figures: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Numbers of a step by name; an array counts by its mean, as a loss of each sample does.

        A name with a slash, `train/loss`, puts the figure into a group.
        """
        for name, value in {**(figures or {}), **more}.items():
            self._writer.add_scalar(name, _number(name, value), step)

    def histograms(self, step: int, program: Program | None = None, scope: Scope | None = None) -> None:
        """The values of all trainable parameters of `program`, as `scope` holds them."""
        found = global_scope() if scope is None else scope
        for var in (default_main_program() if program is None else program).all_parameters():
            holder = found.find_var(var.name) if var.trainable else None
            if holder is not None:
                self._writer.add_histogram(var.name, np.asarray(holder.get_tensor(), np.float64), step)

    def text(self, name: str, said: str, step: int = 0) -> None:
        """A text in Markdown, such as the settings of the run."""
        self._writer.add_text(name, said, step)

    def graph(self, program: Program | None = None) -> None:
        """The ops of the program's first block, grouped by layer."""
        graph = _graph((default_main_program() if program is None else program).global_block())
        event = importlib.import_module("tensorboardX.proto.event_pb2").Event
        self._writer.file_writer.add_event(event(graph_def=graph.SerializeToString()))

    def flush(self) -> None:
        """Write what is waiting to the file."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._writer.close()

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CsvLog:
    """A table with a row for each step: a CSV file, complete after each row, whose first column is the step.

    The first row replaces what the file held, and decides which figures there are: ValueError for a figure
    that it lacks.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._names: list[str] = []

    def scalars(self, step: int, figures: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Numbers of a step by name; an array counts by its mean. A figure that is left out is empty."""
        given = {**(figures or {}), **more}
        new = [name for name in given if self._names and name not in self._names]
        if new:
            raise ValueError(
                f"{self.path} has the columns {', '.join(self._names)}, but {', '.join(new)} came with step "
                f"{step}: give all figures with the first step"
            )
        numbers = {name: _number(name, value) for name, value in given.items()}
        with open(self.path, "a" if self._names else "w", newline="", encoding="utf8") as file:
            rows = csv.writer(file)
            if not self._names:
                self._names = list(given)
                rows.writerow(["step", *self._names])
            rows.writerow([step, *(numbers.get(name, "") for name in self._names)])


def _number(name: str, value: Any) -> float:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" or not array.size:
        raise ValueError(f"figure {name!r} must be a number or an array of numbers, but is {value!r}")
    return float(array.mean(dtype=np.float64))


def _package() -> Any:
    try:
        return importlib.import_module("tensorboardX")
    except ImportError as error:
        raise MissingExtraError(
            "to write events needs tensorboardX: pip install 'fluidlite[watch]'"
        ) from error


# ------------------------------------------------------------------------------------------------ the graph
def _graph(block: Block) -> Any:
    """A GraphDef with a node for each op, in the group of its layer, and each value that no op writes."""
    definition = importlib.import_module("tensorboardX.proto.graph_pb2").GraphDef()
    writer: dict[str, str] = {}
    for index, op in enumerate(block.ops):
        for name in op.input_arg_names:
            if name not in writer:
                writer[name] = name.replace("@", "_at_")
                kind = "Parameter" if isinstance(block._find_var_recursive(name), Parameter) else "Feed"
                _add_shape(definition.node.add(name=writer[name], op=kind), block, name)
        inputs = dict.fromkeys(writer[name] for name in op.input_arg_names)
        result = next(iter(op.output_arg_names), op.type)
        node = definition.node.add(name=_name(result, f"{op.type}_{index}"), op=op.type, input=inputs)
        _add_shape(node, block, result)
        # a variable that is written again is a new value
        writer.update(dict.fromkeys(op.output_arg_names, node.name))
    return definition


def _name(result: str, op: str) -> str:
    """`fc_0/mul_3` for op 3, whose result is called `fc_0.tmp_0`."""
    layer, mark, _ = result.partition(".tmp_")
    if "@GRAD" in result:
        return f"backward/{op}"
    return f"{layer}/{op}" if mark else op


def _add_shape(node: Any, block: Block, name: str) -> None:
    var = block._find_var_recursive(name)
    if var is not None:
        shape = node.attr["_output_shapes"].list.shape.add()
        for size in var.shape:
            shape.dim.add(size=size)
