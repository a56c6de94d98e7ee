"""Starting the processes of a job, watching them, and ending them all when one fails."""

from __future__ import annotations

from fluidlite.launching.options import JOB_NAMES, LaunchOptions, parse_options
from fluidlite.launching.start import main, start

__all__ = ["JOB_NAMES", "LaunchOptions", "main", "parse_options", "start"]
