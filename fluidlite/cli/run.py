"""`fluidlite-run`: an old script as it is, or a saved model."""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence

import fluidlite
from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError, near_file
from fluidlite.cli.parsing import Parser
from fluidlite.cli.scripts.names import install_as_paddle
from fluidlite.cli.scripts.process import (
    MainCode,
    code_of_file,
    code_of_module,
    code_of_text,
    run_as_main,
    show_from,
)

__all__ = ["main", "parser"]

_DESCRIPTION = """\
Run a script of Paddle 1.x or 2.x unchanged: `import paddle` imports FluidLite, also in the processes that the
script starts. An installed PaddlePaddle is not modified; it is only hidden during this run.
"""
_OF_MODELS = (
    *("params", "input", "lengths", "output", "to_onnx", "opset", "shape", "bench", "trust", "convert"),
    "fix_shape",
)
_EXAMPLES = """\
examples:
  fluidlite-run train.py --epochs 3           arguments after the script go to the script
  fluidlite-run -m package.module             as `python -m package.module`
  cat train.py | fluidlite-run -              a script from stdin
  fluidlite-run --check train.py              list what would fail, before the run
  python -m fluidlite train.py                the same command
  fluidlite-run --model saved --input x=x.npy --output out.npz      a saved model
  fluidlite-run --summary train.py            layers, shapes, parameters, FLOPs
  fluidlite-run --model saved --to-onnx saved.onnx
  fluidlite-run --model saved --convert 2.x --output new/model --check
  fluidlite-run --from-onnx net.onnx --check --convert 2.x --output net/model   an ONNX file as a saved model

exit code: the script's; 2 when the arguments are not right.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code. What a script raises goes up as it does in Python."""
    script: list[tuple[MainCode, list[str]]] = []
    ended = run_command("fluidlite-run", functools.partial(_prepare, script), argv)
    for code, rest in script:
        run_as_main(code, rest)
    return ended


def _prepare(script: list[tuple[MainCode, list[str]]], argv: Sequence[str]) -> int:
    """Do what needs no script, or find the one that is to run; returns the exit code."""
    options, rest = _parse(argv)
    # for what is imported later, also in the processes of the script
    os.environ |= dict.fromkeys(_switches(options), "1")
    if options.model or options.from_onnx or options.summary:
        # it needs the executor, and scripts set the environment before anything of it is imported
        from fluidlite.cli.run_model import show

        return show(options, rest)
    install_as_paddle(shadow=True)
    code = _load(options)
    if options.check and not _fits(code.called):
        return 1
    script.append((code, rest))
    return 0


def _switches(options: argparse.Namespace) -> Iterator[str]:
    """The environment variables that options stand for."""
    if options.cpu:
        yield "FLUIDLITE_CPU_ONLY"
    if options.download:
        yield "FLUIDLITE_DOWNLOAD"


def _load(options: argparse.Namespace) -> MainCode:
    """The code to run; UsageError where there is none, and Python's own SyntaxError where it is not right."""
    try:
        if options.script == "-":
            return code_of_text(sys.stdin.buffer.read())
        return code_of_module(options.module) if options.module else code_of_file(options.script)
    except FileNotFoundError:
        near = near_file(pathlib.Path(options.script or ""))
        raise UsageError(f"no such file: {options.script or options.module}{near}") from None
    except OSError as error:
        raise UsageError(f"cannot read {options.script or options.module}: {error.strerror}") from None
    except SyntaxError:
        show_from(None)
        raise


def _fits(file: str) -> bool:
    """Say what FluidLite lacks of a script's names; True where it lacks nothing."""
    # Paddle's modules are imported to look into them, and scripts set the environment before that happens
    from fluidlite.cli.scripts.check import lacking

    found = lacking(file)
    for line in found:
        sys.stderr.write(f"{line}\n")
    if found:
        many = f"{len(found)} names" if len(found) > 1 else "a name"
        sys.stderr.write(f"fluidlite-run: {many} would fail; without --check the script runs nevertheless\n")
    return not found


def parser() -> Parser:
    """The parser of `fluidlite-run`."""
    made = Parser(
        prog="fluidlite-run",
        usage="fluidlite-run [options] script.py [its arguments]\n"
        "       fluidlite-run [options] -m package.module [its arguments]",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("-m", dest="module", metavar="MODULE", help="a module of a package instead of a script")
    made.add_argument(
        "--check",
        action="store_true",
        help="first list, with file:line, the names that the script and the modules in its folder use "
        "but FluidLite does not support; the script runs only if there are none, otherwise the "
        "exit code is 1; with --to-onnx or "
        "--from-onnx, run the file in onnxruntime as well and print the largest difference",
    )
    made.add_argument(
        "--cpu", action="store_true", help="run on the CPU where the script asks for a CUDA device"
    )
    made.add_argument(
        "--download", action="store_true", help="fetch data sets that are not there, and check their MD5 sums"
    )
    made.add_argument("--version", action="version", version=f"fluidlite {fluidlite.__version__}")
    _add_model(made.add_argument_group("a saved model instead of a script"))
    return made


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--model",
        metavar="DIR",
        help="a folder with __model__, such a file, the prefix of a .pdmodel file, or an archive of these",
    )
    group.add_argument(
        "--params", metavar="FILE", help="the file with all parameters, if not found by itself"
    )
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an .npy or .npz file for an input; an .npz file without NAME= has all inputs; may be repeated",
    )
    group.add_argument(
        "--lengths",
        action="append",
        default=[],
        metavar="NAME=2,3",
        help="lengths of the sequences in an input, from the outer level to the inner: 2,1/3,1,2",
    )
    group.add_argument(
        "--output",
        metavar="FILE",
        help="an .npz file for the results, written at once (default: print them), or what --convert and "
        "--fix-shape write",
    )
    _add_onnx(group)
    _add_forms(group)
    group.add_argument(
        "--trust",
        action="store_true",
        help="allow the model more than computation, such as writing files: only for models that you trust",
    )
    _add_sizes(group)


def _add_onnx(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--to-onnx", metavar="FILE", help="write the model as ONNX (extra [onnx])")
    group.add_argument("--opset", type=int, metavar="N", help="the opset of the ONNX file (default: 17)")
    group.add_argument(
        "--from-onnx",
        metavar="FILE",
        help="an ONNX file instead of --model, of opset 13 or newer (extra [onnx])",
    )


def _add_forms(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--convert",
        choices=("1.x", "2.x"),
        help="write the model to --output in the form of 1.x, a folder, or of 2.x, a prefix of .pdmodel and "
        ".pdiparams; with --check, run both models and print the largest difference",
    )
    group.add_argument(
        "--fix-shape",
        action="store_true",
        help="write the model to --output with the shapes of --shape for its inputs",
    )


def _add_sizes(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--summary",
        action="store_true",
        help="layers, shapes, parameters and FLOPs, of a model or of the program that a script trains",
    )
    group.add_argument("--batch", type=int, default=1, metavar="N", help="samples for the FLOPs (default: 1)")
    group.add_argument(
        "--bench",
        action="store_true",
        help="the time of the first run and the median of later runs, on values of --input or random ones",
    )
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,640,640",
        help="the shape of an input for --summary, --bench, --to-onnx and --fix-shape; other free sizes stay "
        "free; may be repeated",
    )


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of the command, with `script`, and the arguments of the script."""
    made = parser()
    mine, rest = made.split(argv)
    options = made.parse_args(mine)
    options.script = None if options.module or not rest else rest.pop(0)
    has_model = bool(options.model or options.from_onnx)
    if options.module is None and options.script is None and not has_model:
        raise UsageError("no script is given: use fluidlite-run script.py (see --help)")
    _check_combinations(options, has_model)
    if options.from_onnx and (options.script or options.module):
        raise UsageError("--from-onnx runs a model: remove the script")
    if options.batch < 1:
        raise UsageError(f"--batch {options.batch} is not a positive number of samples")
    return options, rest


def _check_combinations(options: argparse.Namespace, has_model: bool) -> None:
    """UsageError for an option that needs another one, or does not go with it."""
    for name in _OF_MODELS:
        if getattr(options, name) and not has_model:
            raise UsageError(f"--{name.replace('_', '-')} can only be used with --model")
    for name, other in (("params", "model"), ("opset", "to_onnx"), ("fix_shape", "shape")):
        if getattr(options, name) and not getattr(options, other):
            raise UsageError(f"--{name.replace('_', '-')} can only be used with --{other.replace('_', '-')}")
    if options.model and options.from_onnx:
        raise UsageError("--model and --from-onnx both name a model: remove one of them")
    if options.check and options.script == "-":
        raise UsageError(
            "--check reads a script and the modules in its folder: give the name of the script's file"
        )
    writes = options.convert or options.fix_shape
    if options.shape and not (options.to_onnx or options.summary or options.bench or options.check or writes):
        raise UsageError("--shape can only be used with --summary, --bench, --to-onnx or --fix-shape")
    if writes and (not options.output or options.to_onnx or options.bench or options.summary):
        raise UsageError("--convert and --fix-shape write one model, to --output: remove other requests")
    checks = options.check and not (options.to_onnx or writes)
    if options.model and (options.script or options.module or checks):
        raise UsageError("--model runs a saved model: remove the script and --check")


if __name__ == "__main__":
    sys.exit(main())
