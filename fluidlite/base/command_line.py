"""Output of commands: help that says when nobody gets it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

__all__ = ["BROKEN_PIPE", "PrintingParser", "drop_output"]

# as shells report a process that SIGPIPE (13) ended
BROKEN_PIPE = 128 + 13


class PrintingParser(argparse.ArgumentParser):
    """A parser whose help and version raise OSError where they cannot be written."""

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse would not say that a disk is full
        stream = file or sys.stderr
        stream.write(message)
        stream.flush()


def drop_output() -> None:
    """Have no one get what is still to be written to stdout: Python would complain when it flushes at its
    end.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
