"""The examples' progress bars, data and figures, which come with `pip install 'fluidlite[examples]'`; before
anything is trained it is asked whether they are there.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from typing import Any

try:
    from rich.progress import track
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing.name} is missing: pip install 'fluidlite[examples]'") from None

__all__ = ["add_plot_option", "datasets", "draw", "track"]


def datasets() -> Any:
    """scikit-learn's data sets, for those that train on them: the library takes 1.5 s to load."""
    try:
        from sklearn import datasets
    except ModuleNotFoundError as missing:
        raise SystemExit(f"{missing.name} is missing: pip install 'fluidlite[examples]'") from None
    return datasets


def add_plot_option(parser: argparse.ArgumentParser) -> None:
    """`--plot FILE`, refused where there is nothing to draw with."""
    parser.add_argument("--plot", metavar="FILE", type=_figure, help="draw the loss")


def _figure(path: str) -> str:
    if importlib.util.find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("matplotlib is missing: pip install 'fluidlite[examples]'")
    return path


def draw(losses: Sequence[float], path: str, each: str = "step", what: str = "loss") -> None:
    """Write the curve of the losses, one for `each`."""
    import matplotlib  # only for a figure: it takes half a second to load

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.plot(losses)
    pyplot.xlabel(each)
    pyplot.ylabel(what)
    pyplot.savefig(path)
