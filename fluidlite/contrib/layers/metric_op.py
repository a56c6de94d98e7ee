"""Sums for the metrics of click-through models, kept from batch to batch."""

from __future__ import annotations

from typing import Any

from fluidlite.initializer import Constant
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__ = ["ctr_metric_bundle"]


def ctr_metric_bundle(input: Variable, label: Variable) -> tuple[Variable, ...]:
    """Running sums over all batches, each of shape [1]: (squared errors, absolute errors, predictions,
    q = sigmoids of the predictions, labels, samples).

    The mean squared error is the first by the last, and so on; in a job the sums are first added up over the
    workers. `input` and `label` are [batch, 1] of float32.
    """
    return bundle(input, label)


def bundle(input: Variable, label: Variable, weight: Variable | None = None) -> tuple[Variable, ...]:
    """The sums of `ctr_metric_bundle`; `weight` multiplies those of q and of samples by its first row, as
    programs of 2.x have it.
    """
    if tuple(input.shape) != tuple(label.shape):
        raise ValueError(f"input has shape {list(input.shape)}, but label {list(label.shape)}")
    sums = _Sums(input)
    difference, q, ones = sums.temporary(), sums.temporary(), sums.temporary()
    batch = {what: sums.temporary([1]) for what in ("prob", "abserr", "sqrerr", "q", "pos_num", "ins_num")}
    for what in ("abserr", "sqrerr", "prob", "q"):
        sums.zero(sums.totals[what])
        sums.zero(batch[what])
    for what in ("pos_num", "ins_num"):
        sums.zero(batch[what])
    for what in ("pos_num", "ins_num"):
        sums.zero(sums.totals[what])
    sums.op("elementwise_sub", {"X": [input], "Y": [label]}, difference)
    sums.add_up("sqrerr", "squared_l2_norm", difference, batch)
    sums.add_up("abserr", "l1_norm", difference, batch)
    sums.add_up("prob", "reduce_sum", input, batch)
    sums.op("sigmoid", {"X": [input]}, q)
    sums.add_up("q", "reduce_sum", q, batch, weight is None)
    sums.add_up("pos_num", "reduce_sum", label, batch)
    like = {"shape": [-1, 1], "dtype": int(ones.dtype), "value": 1.0}
    sums.op("fill_constant_batch_size_like", {"Input": label}, ones, like)
    sums.add_up("ins_num", "reduce_sum", ones, batch, weight is None)
    if weight is not None:
        sums.op("slice", {"Input": [weight]}, weight, {"axes": [0], "starts": [0], "ends": [1]})
        for what in ("ins_num", "q"):
            sums.weigh(what, weight, batch)
    return tuple(sums.totals[what] for what in ("sqrerr", "abserr", "prob", "q", "pos_num", "ins_num"))


class _Sums:
    """The totals, and the ops that add a batch to them."""

    def __init__(self, input: Variable) -> None:
        self.helper = LayerHelper("ctr_metric_bundle")
        self.input = input
        self.totals = {
            what: self.helper.create_global_variable(persistable=True, dtype="float32", shape=[1])
            for what in ("abserr", "sqrerr", "prob", "q", "pos_num", "ins_num")
        }

    def temporary(self, shape: list[int] | None = None) -> Variable:
        """A variable of one batch."""
        size = [-1, 1] if shape is None else shape
        return self.helper.create_global_variable(persistable=False, dtype="float32", shape=size)

    def zero(self, var: Variable) -> None:
        """Let a variable begin as zero."""
        self.helper.set_variable_initializer(var, Constant(value=0.0, force_cpu=True))

    def op(
        self, type: str, inputs: dict[str, Any], out: Variable, attrs: dict[str, Any] | None = None
    ) -> None:
        """Append an op."""
        self.helper.append_op(type=type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)

    def weigh(self, what: str, weight: Variable, batch: dict[str, Variable]) -> None:
        """Add the sum of a batch, times a weight, to its total."""
        self.op("elementwise_mul", {"X": [batch[what]], "Y": [weight]}, batch[what], {"axis": 0})
        self.total(what, batch)

    def add_up(
        self, what: str, type: str, x: Variable, batch: dict[str, Variable], adds: bool = True
    ) -> None:
        """Compute the sum of a batch, and add it to its total."""
        self.op(type, {"X": [x]}, batch[what])
        if adds:
            self.total(what, batch)

    def total(self, what: str, batch: dict[str, Variable]) -> None:
        """Add the sum of a batch to its total."""
        self.op("elementwise_add", {"X": [batch[what]], "Y": [self.totals[what]]}, self.totals[what])
