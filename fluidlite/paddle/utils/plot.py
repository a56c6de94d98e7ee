"""`paddle.utils.plot`: curves of a training, for notebooks and files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["PlotData", "Ploter"]


class PlotData:
    """The points of a curve."""

    def __init__(self) -> None:
        self.reset()

    def append(self, step: Any, value: Any) -> None:
        """Add a point."""
        self.step.append(step)
        self.value.append(value)

    def reset(self) -> None:
        """Forget the points."""
        self.step: list[Any] = []
        self.value: list[Any] = []


class Ploter:
    """Curves by their titles. With DISABLE_PLOT=True in the environment, and without matplotlib, nothing is
    drawn.
    """

    def __init__(self, *args: str) -> None:
        self._curves = {title: PlotData() for title in args}
        self._plot: Any = None
        if os.environ.get("DISABLE_PLOT") != "True":
            self._plot = _matplotlib()

    def append(self, title: str, step: Any, value: Any) -> None:
        """Add a point to a curve."""
        assert isinstance(title, str)
        assert title in self._curves
        self._curves[title].append(step, value)

    def plot(self, path: str | None = None) -> None:
        """Draw the curves in the notebook, or into the file at `path`."""
        if self._plot is None:
            return
        drawn = {title: curve for title, curve in self._curves.items() if curve.step}
        for curve in drawn.values():
            self._plot.plot(curve.step, [_number(value) for value in curve.value])
        self._plot.legend(list(drawn), loc="upper left")
        if path is None:
            show = _notebook()
            if show is not None:
                show(self._plot.gcf())
        else:
            self._plot.savefig(path)
        self._plot.gcf().clear()

    def reset(self) -> None:
        """Forget the points of all curves."""
        for curve in self._curves.values():
            curve.reset()


def _number(value: Any) -> float:
    # fetched values are arrays of one element
    return float(value.reshape(-1)[0]) if hasattr(value, "reshape") else float(value)


def _matplotlib() -> Any:
    try:
        import matplotlib.pyplot  # of the extra [viz]
    except ImportError:
        return None
    return matplotlib.pyplot


def _notebook() -> Callable[[Any], None] | None:
    try:
        from IPython import display  # there in notebooks, where figures are shown
    except ImportError:
        return None
    display.clear_output(wait=True)
    shown: Callable[[Any], None] = display.display
    return shown
