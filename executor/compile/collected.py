"""Weight gradients of the products in a loop's body, as one product behind the loop.

The gradient of a weight is the sum over all steps of a product whose result is as large as the weight. The
gradient's loop lists the operands instead, and the product of all their rows is that sum: a weight of 256 x
5,000 would be written and added 25 times for sentences of 25 words.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.executor.compile.blocks import Body
from fluidlite.executor.plan.actions import Assign, Bound, Call
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.team import on_team, pieces
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import reads

__all__ = ["WeightProducts"]

_LEAST = 1 << 14  # numbers in a weight from which lists cost less than sums
_SHARED = 1 << 22  # multiplications from which waking a second thread pays


class ProductOfSteps:
    """The product of all rows that were listed; zeros like the weight where no step has run."""

    def __init__(self, xp: Any, rows_of: int, threads: int) -> None:
        self.xp, self.rows_of, self.threads = xp, rows_of, threads

    def __call__(self, inputs: Sequence[Any], gradients: Sequence[Any], weight: Array) -> Array:
        xp = self.xp
        if not inputs:
            found: Array = xp.zeros_like(weight)
            return found
        left = xp.concatenate([self._matrix(_array(item)) for item in inputs])
        right = xp.concatenate(
            [_array(item).reshape(len(rows), -1) for item, rows in self._pairs(gradients, inputs)]
        )
        made: Array = self._product(left.T, right).reshape(weight.shape)
        return made

    def _pairs(self, gradients: Sequence[Any], inputs: Sequence[Any]) -> Iterable[tuple[Any, Array]]:
        return zip(gradients, (self._matrix(_array(item)) for item in inputs), strict=True)

    def _matrix(self, x: Array) -> Array:
        return x.reshape(math.prod(x.shape[: self.rows_of]), math.prod(x.shape[self.rows_of :]))

    def _product(self, left: Array, right: Array) -> Array:
        rows, depth = left.shape
        columns = right.shape[1]
        if self.xp is not np or self.threads == 1 or rows * depth * columns < _SHARED:
            found: Array = self.xp.matmul(left, right)
            return found
        out = np.empty((rows, columns), np.result_type(left, right))
        parts = pieces(rows, self.threads)

        def part(member: int) -> None:
            np.matmul(left[parts[member]], right, out=out[parts[member]])

        on_team(self.threads, part)
        return out


def _array(item: Any) -> Array:
    """An entry of a list, which has its level of detail beside it where it has one."""
    found: Array = item[0] if isinstance(item, tuple) else item
    return found


class WeightProducts:
    """The products of a gradient block whose weight gradients, among `names`, nobody reads but the sum over
    all steps.
    """

    def __init__(self, body: Body, names: Iterable[str]) -> None:
        self.body = body
        self.names = {op: name for name in names if (op := self._only_writer(name)) is not None}
        self.listed: dict[str, tuple[Operator, Value, Value, Value]] = {}
        """By gradient: the op, the lists of its operands, and the weight."""
        body.level.instead = self.instead

    def _only_writer(self, name: str) -> Operator | None:
        """The product that alone makes the gradient `name`, which nobody in the block reads."""
        ops = self.body.block.ops
        writers = [op for op in ops if name in op.output_arg_names]
        if len(writers) != 1 or any(name in reads(op) for op in ops):
            return None
        (op,) = writers
        return op if op.type == "mul_grad" and op.output("Y@GRAD") == [name] else None

    def instead(self, op: Operator) -> Operator | None:
        """The op to lower in place of another: without the weight's gradient, whose operands are listed; None
        where nothing of it is left.
        """
        name = self.names.get(op)
        builder = self.body.builder
        weight = None if name is None else builder.argument(op, op.input("Y")[0])
        if name is None or weight is None or not weight.known or weight.size < _LEAST:
            return op
        operands = [builder.argument(op, op.input(slot)[0]) for slot in ("X", "Out@GRAD")]
        left, right = operands
        if left is None or right is None or left.maybe or right.maybe:
            return op
        self.listed[name] = (op, self.body.listed(left), self.body.listed(right), weight)
        if all(name == EMPTY_VAR for name in op.output("X@GRAD")):
            return None
        rest = copy.copy(op)
        rest.outputs = {slot: names for slot, names in op.outputs.items() if slot != "Y@GRAD"}
        return rest

    def write(self) -> dict[str, Value]:
        """Append the products, behind the loop; gives the gradients by name."""
        builder = self.body.builder
        found = {}
        for name, (op, left, right, weight) in self.listed.items():
            made = Fresh(ProductOfSteps, (op.attr("x_num_col_dims"), builder.target.threads))
            value = builder.values.local(weight, name=name)
            call = Call(Bound("product_of_steps", made), (left, right, weight))
            builder.add(self.body.op, Assign((value,), (call,)))
            found[name] = value
        return found
