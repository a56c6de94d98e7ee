"""`fluidlite-show`: a program, or all programs of a distributed job, as a page in the browser."""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Mapping, Sequence

import fluidlite
from fluidlite.base.dtypes import Array, to_numpy
from fluidlite.cli.entry import run_command
from fluidlite.cli.errors import UsageError
from fluidlite.cli.exchange import exchange_of
from fluidlite.cli.jobs import job_of
from fluidlite.cli.options import SOURCE_HELP, add_job, add_program, job_modes
from fluidlite.cli.parsing import Parser
from fluidlite.cli.sources import load
from fluidlite.distributed.picture import job_picture
from fluidlite.ir.program import Program
from fluidlite.show import FORMATS
from fluidlite.show.html import job_page, program_page
from fluidlite.show.page_data import weights
from fluidlite.show.picture import program_picture
from fluidlite.values.serialize import replace_file

__all__ = ["main", "parser"]

_MOST_VALUES = 1 << 30  # bytes of weights that are read for the page
_EXAMPLES = """\
examples:
  fluidlite-show train.py                       the program of a script, in the browser
  fluidlite-show train.py -- --net conv         arguments after -- go to the script
  fluidlite-show models.resnet:build            what a function builds
  fluidlite-show saved_model/                   a model that was saved, for training or for inference
  fluidlite-show train.py --mode pserver --trainers 8 --pservers 4    what every process of a job runs
  fluidlite-show train.py --output net.html     a file instead of the browser
  fluidlite-show train.py --output net.svg      a picture of the program; with --mode, of the job

exit code: 0; 2 when the arguments, the script or the program are not right.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("fluidlite-show", _run, argv)


def _run(argv: Sequence[str]) -> int:
    options, script_argv = _options(argv)
    is_picture = str(options.output).endswith(FORMATS["svg"].suffix)
    page = (_picture if is_picture else _page)(options, script_argv)
    if options.output == "-":
        sys.stdout.write(page)
        return 0
    path = _write(page, options.output)
    if options.output or options.no_browser or not _opened(path):
        sys.stdout.write(f"{options.output or path}\n")
    return 0


def parser() -> Parser:
    """The parser of `fluidlite-show`."""
    made = Parser(
        prog="fluidlite-show",
        description=(
            "Show a program as an HTML page: its graph with blocks that unfold, its ops, and the "
            "source lines that created them."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("source", metavar="TARGET", help=SOURCE_HELP)
    add_program(made)
    made.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the page to this file and do not open a browser; - for stdout; FILE.svg is a picture of "
        "the program, or of the job's processes",
    )
    made.add_argument(
        "--no-browser", action="store_true", help="write the page to a temporary file and print its path"
    )
    made.add_argument("--version", action="version", version=f"fluidlite {fluidlite.__version__}")
    add_job(made.add_argument_group("the job (without --mode: the program of one process)"), mode=None)
    return made


def _options(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    made = parser()
    options, rest = made.parse(argv)
    if options.mode is not None:
        made.choose(options, "mode", job_modes())
    elif any(
        (options.trainers, options.pservers, options.endpoints, options.config, options.sync is not None)
    ):
        raise UsageError("--trainers, --pservers and similar options describe a job: give its --mode as well")
    return options, rest


def _page(options: argparse.Namespace, script_argv: Sequence[str]) -> str:
    captured = load(options.source, script_argv, options.startup, options.program)
    if options.mode is None:
        return program_page(captured.main, captured.title, captured.startup, _values(options, captured.main))
    job = job_of(options, captured)
    return job_page(job, captured.title, exchange_of(job))


def _values(options: argparse.Namespace, program: Program) -> Mapping[str, Array]:
    """The values of a saved model's weights; none of a script, or of more bytes than a page is worth."""
    found = weights(program)
    size = sum(abs(math.prod(var.shape)) * to_numpy(var.dtype).itemsize for var in found)
    is_model = os.path.exists(options.source) and not options.source.endswith(".py")
    if not found or not is_model or size > _MOST_VALUES:
        return {}
    from fluidlite.cli.models import weights_beside  # with the executor: 0.2 s that only models take

    return weights_beside(options.source, [var.name for var in found])


def _picture(options: argparse.Namespace, script_argv: Sequence[str]) -> str:
    captured = load(options.source, script_argv, options.startup, options.program)
    if options.mode is None:
        return program_picture(captured.main, captured.title)
    return job_picture(job_of(options, captured))


def _write(page: str, output: str | None) -> pathlib.Path:
    """The file that holds the page: the asked one, or one that outlives this process."""
    if output is None:
        folder = tempfile.mkdtemp(prefix="fluidlite-")
        path = pathlib.Path(folder) / "index.html"
    else:
        path = pathlib.Path(output).resolve()
    try:
        replace_file(path, [page.encode()])
    except OSError as error:
        raise UsageError(f"cannot write {output or path}: {error.strerror or error}") from None
    return path


def _opened(path: pathlib.Path) -> bool:
    """True where a browser showed the page; without a display none is looked for."""
    needs_display = sys.platform not in ("win32", "darwin")
    if needs_display and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    open_page: Callable[[str], bool] = webbrowser.open
    try:
        return open_page(path.as_uri())
    except webbrowser.Error:
        return False


if __name__ == "__main__":
    sys.exit(main())
