"""`fluidlite-run --model` and `--summary`: a saved model is run, shown or exported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from fluidlite.cli.errors import UsageError
from fluidlite.cli.models import SavedModel, load_model, read_inputs, run_model, shown, write_outputs
from fluidlite.cli.sources import load
from fluidlite.cli.summary import summary_text
from fluidlite.ir.trust import check_reach
from fluidlite.saving.onnx.export import onnx_model
from fluidlite.values.serialize import replace_file

__all__ = ["show"]


def show(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Do what the options ask for; returns the exit code."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if options.model is None:
        if options.module:
            raise UsageError("--summary needs a script.py or --model")
        program = load(options.script, argv).main
        sys.stdout.write(summary_text(program, options.batch, colour=colour))
        return 0
    model = load_model(options.model, options.params)
    if options.summary:
        sys.stdout.write(summary_text(model.program, options.batch, colour=colour))
    runs = bool(options.input) or not (options.summary or options.to_onnx)
    if runs or options.to_onnx:
        check_reach(model.program, options.trust)
    if options.to_onnx:
        _export(model, options.to_onnx)
    if runs:
        results = run_model(model, read_inputs(model, options.input, options.lengths))
        if options.output:
            write_outputs(options.output, results)
        else:
            sys.stdout.write(shown(results))
    return 0


def _export(model: SavedModel, path: str) -> None:
    feeds, fetches = ([var.name for var in found] for found in (model.feeds, model.fetches))
    data = onnx_model(model.program, feeds, fetches, trust=True)
    try:
        replace_file(path, [data])
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
