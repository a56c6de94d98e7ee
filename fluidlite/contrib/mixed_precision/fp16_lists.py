"""Which op types compute in half precision, which in single, and which as their inputs come."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable

from fluidlite.base.families import types_with

__all__ = ["AutoMixedPrecisionLists", "black_list", "gray_list", "white_list"]

white_list = set(types_with("amp", "white"))
"""Computed in half precision: products, which are fast there and safe, as sums are kept in single."""

black_list = set(types_with("amp", "black"))
"""Computed in single precision: functions that overflow half precision, and long sums."""

gray_list = {*types_with("amp", "gray"), "rank"}
"""Computed in the precision of their inputs. An op type on none of the lists computes in single precision."""


class AutoMixedPrecisionLists:
    """The lists of one training: the standard ones, with a user's changes.

    Parameters
    ----------
    custom_white_list, custom_black_list: op types that move to that list, whichever they were on; ValueError
        for one on both.
    custom_black_varnames: variables; an op that reads or writes one of them computes in single precision.
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Collection[str] | None = None,
    ) -> None:
        self._custom_white_list = custom_white_list
        self._custom_black_list = custom_black_list
        self.white_list = copy.copy(white_list)
        self.black_list = copy.copy(black_list)
        self.gray_list = copy.copy(gray_list)
        self.black_varnames = custom_black_varnames
        self._update_list()

    def _update_list(self) -> None:
        to_white, to_black = set(self._custom_white_list or ()), set(self._custom_black_list or ())
        if self._custom_white_list and self._custom_black_list and to_white & to_black:
            raise ValueError("Custom white list overlap custom black list")
        self.white_list = (self.white_list - to_black) | to_white
        self.black_list = (self.black_list - to_white) | to_black
        self.gray_list -= to_white | to_black
