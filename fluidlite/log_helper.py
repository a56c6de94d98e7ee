"""`fluid.log_helper`: loggers with a form of their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names

__all__ = ["get_logger"]


def get_logger(name: str, level: int, fmt: str | None = None) -> logging.Logger:
    """The logger `name`, writing what is at least `level` to stderr in the form `fmt`."""
    logger = logging.getLogger(name)
    logger.setLevel(level)
    if not logger.handlers:  # asked for again, it would write everything twice
        logger.addHandler(logging.StreamHandler())
    if fmt:
        logger.handlers[0].setFormatter(logging.Formatter(fmt=fmt))
    return logger


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
