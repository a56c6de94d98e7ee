"""Which op types compute in half precision, which in single, and which as their inputs come."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable

__all__ = ["AutoMixedPrecisionLists", "black_list", "gray_list", "white_list"]

white_list = {"conv2d", "matmul", "mul"}
"""Computed in half precision: products, which are fast there and safe, as sums are kept in single."""

black_list = {
    "cos_sim",
    "cross_entropy",
    "cross_entropy2",
    "exp",
    "log",
    "mean",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_with_cross_entropy",
    "square",
    "sum",
}
"""Computed in single precision: functions that overflow half precision, and long sums."""

gray_list = {
    "batch_norm",
    "cast",
    "dropout",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "fill_constant",
    "flatten2",
    "gather",
    "gaussian_random",
    "gaussian_random_batch_size_like",
    "get_tensor_from_selected_rows",
    "leaky_relu",
    "lookup_table",
    "pool2d",
    "pool3d",
    "rank",
    "relu",
    "relu6",
    "reshape2",
    "scale",
    "sigmoid",
    "sign",
    "slice",
    "soft_relu",
    "stack",
    "tanh",
    "top_k",
    "transpose2",
    "uniform_random_batch_size_like",
    "unstack",
}
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
