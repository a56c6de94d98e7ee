"""A module whose functions are called only where it is registered."""

from __future__ import annotations

import time
from time import sleep  # not its own: nobody may call it through this module

__all__ = ["Counter", "double", "sleep", "wait"]


def double(value: int) -> int:
    return 2 * value


def wait(seconds: float) -> None:
    time.sleep(seconds)


class Counter:
    @staticmethod
    def count(value: int) -> int:
        return value + 1
