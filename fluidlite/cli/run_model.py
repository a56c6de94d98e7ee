"""`fluidlite-run --model`, `--from-onnx` and `--summary`: a model is run, shown, exported or saved."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import MissingFileError
from fluidlite.cli.bench import bench_text
from fluidlite.cli.errors import UsageError, one_line
from fluidlite.cli.models import (
    SavedModel,
    any_inputs,
    as_saved,
    load_model,
    read_inputs,
    read_shapes,
    run_model,
    shown,
    write_outputs,
)
from fluidlite.cli.sources import load
from fluidlite.cli.summary import summary_text
from fluidlite.ir.trust import check_reach
from fluidlite.saving.converting import converted, ops_told_apart, with_shapes, write_model
from fluidlite.saving.onnx.check import Difference, difference, differences
from fluidlite.saving.onnx.export import OPSET, onnx_model
from fluidlite.saving.onnx.loading.load import load_onnx
from fluidlite.values.scope import Scope, scope_guard
from fluidlite.values.serialize import replace_file

__all__ = ["show"]


def show(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Do what the options ask for; returns the exit code."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if not (options.model or options.from_onnx):
        if options.module:
            raise UsageError("--summary needs a script.py or --model")
        program = load(options.script, argv).main
        sys.stdout.write(summary_text(program, options.batch, colour=colour))
        return 0
    model = _loaded(options)
    if options.summary:
        shapes = read_shapes(model, options.shape)
        sys.stdout.write(summary_text(with_shapes(model.program, shapes), options.batch, colour=colour))
    writes = options.to_onnx or options.convert or options.fix_shape
    runs = bool(options.input) or not (options.summary or writes or options.bench or options.check)
    if runs or writes or options.bench:
        check_reach(model.program, options.trust)
    code = _export(model, options) if options.to_onnx else 0
    if options.from_onnx and options.check and not options.to_onnx:
        code = _check(model, options, options.from_onnx)
    if options.convert or options.fix_shape:
        return _convert(model, options) or code
    if options.bench:
        sys.stdout.write(bench_text(model, _values(model, options)))
    elif runs and not options.check:
        results = run_model(model, read_inputs(model, options.input, options.lengths))
        if options.output:
            write_outputs(options.output, results)
        else:
            sys.stdout.write(shown(results))
    return code


def _loaded(options: argparse.Namespace) -> SavedModel:
    """The model that the options name."""
    if not options.from_onnx:
        return load_model(options.model, options.params)
    try:
        program, feeds, fetches = load_onnx(options.from_onnx)
    except MissingFileError as error:
        raise UsageError(one_line(error)) from None
    block = program.global_block()
    return SavedModel(program, tuple(block.var(name) for name in feeds), tuple(fetches))


def _export(model: SavedModel, options: argparse.Namespace) -> int:
    """Write the file; with --check, run it beside the model, and return 1 where they differ."""
    feeds, fetches = ([var.name for var in found] for found in (model.feeds, model.fetches))
    shapes = read_shapes(model, options.shape)
    data = onnx_model(model.program, feeds, fetches, trust=True, opset=options.opset or OPSET, shapes=shapes)
    try:
        replace_file(options.to_onnx, [data])
    except OSError as error:
        raise UsageError(f"cannot write {options.to_onnx}: {error.strerror or error}") from None
    return _check(model, options, data) if options.check else 0


def _convert(model: SavedModel, options: argparse.Namespace) -> int:
    """Write the model in another form; with --check, run both, and return 1 where they differ."""
    given = "2.x" if model.program.is_of_2x else "1.x"
    form = options.convert or given
    shapes = read_shapes(model, options.shape if options.fix_shape else ())
    program = with_shapes(as_saved(model) if options.from_onnx else model.program, shapes)
    if form != given:
        program = converted(program, form)
    try:
        files = write_model(program, options.output, form)
    except OSError as error:
        raise UsageError(f"cannot write {options.output}: {error.strerror or error}") from None
    sys.stdout.write("".join(f"{name}\n" for name in files))
    # a file of ONNX was run beside onnxruntime
    if options.check and not options.from_onnx:
        feed = _values(model, options)
        ours = run_model(model, feed)
        with scope_guard(Scope()):
            theirs = run_model(load_model(files[0]), feed)
        # a single number has the shape [] in 2.x, and [1] in 1.x
        found = [
            difference(name, np.atleast_1d(value), np.atleast_1d(other), "the new one")
            for (name, value), other in zip(ours.items(), theirs.values(), strict=True)
        ]
        return _say("the model before", found)
    apart = ops_told_apart(program) if form != given else []
    if apart:
        sys.stderr.write(
            f"fluidlite-run: for some inputs {', '.join(apart)} compute something else in {form}: --check "
            "runs both models and compares\n"
        )
    return 0


def _values(model: SavedModel, options: argparse.Namespace) -> dict[str, Any]:
    """The values of --input, or random ones."""
    if options.input:
        return read_inputs(model, options.input, options.lengths)
    return any_inputs(model, read_shapes(model, options.shape))


def _check(model: SavedModel, options: argparse.Namespace, data: bytes | str) -> int:
    feed = _values(model, options)
    return _say("onnxruntime", differences(data, feed, run_model(model, feed)))


def _say(source: str, found: Sequence[Difference]) -> int:
    """Print the differences; 1 where one is not small."""
    sys.stdout.write(f"largest difference from {source}:\n")
    for each in found:
        sys.stdout.write(f"  {each}\n")
    return 0 if all(each.is_small for each in found) else 1
