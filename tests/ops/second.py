"""Gradients of gradients beside differences: of rows of the op table, and of programs of a few layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optest import Case, _loss, differences

import fluidlite as fluid
from fluidlite.base.registry import find, get
from fluidlite.values.tensor import LoDTensor

STEP = 1e-5


@dataclass
class Slopes:
    """A program whose scalar `loss` is the weighted sum of first gradients, and its gradients by `inputs`."""

    program: Any
    feeds: dict[str, Any]
    loss: str
    inputs: Sequence[str]
    gradients: Sequence[str | None]

    def values(self, naive: bool) -> list[Any]:
        """The gradients' values; None where there is none."""
        run = runner(self.program, self.feeds, naive)
        return [None if name is None else run(self.feeds, name) for name in self.gradients]

    def at(self) -> Callable[[Mapping[str, Any]], float]:
        """The loss as a function of the feeds."""
        run = runner(self.program, self.feeds, False)
        return lambda feeds: float(run(feeds, self.loss).sum())


def runner(program: Any, feeds: Mapping[str, Any], naive: bool) -> Callable[[Mapping[str, Any], str], Any]:
    """Fetches one variable of `program` for given feeds, by a plan or by the interpreter."""
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.naive = naive

    def run(feeds: Mapping[str, Any], name: str) -> Any:
        (found,) = exe.run(
            program, feed=dict(feeds), fetch_list=[name], scope=scope, return_numpy=False, use_prune=True
        )
        return np.asarray(found)

    return run


def differentiated(program: Any, feeds: dict[str, Any], loss: Any, variables: Sequence[Any]) -> Slopes:
    """The weighted sum of the gradients of `loss`, and its gradients, appended to `program`."""
    block = program.global_block()
    rng = np.random.RandomState(7)
    with fluid.program_guard(program):
        first = [gradient for gradient in fluid.gradients([loss], variables) if gradient is not None]
        run = runner(program, feeds, False)
        parts = []
        for number, gradient in enumerate(first):
            weights = rng.uniform(0.5, 1.5, run(feeds, gradient.name).shape)
            feeds[f"weight_{number}"] = weights
            weight = block.create_var(
                name=f"weight_{number}",
                shape=weights.shape,
                dtype="float64",
                is_data=True,
                stop_gradient=True,
            )
            product = fluid.layers.elementwise_mul(gradient, weight)
            parts.append(fluid.layers.reduce_sum(product))
        total = fluid.layers.sums(parts)
        second = fluid.gradients([total], variables)
    names = [None if gradient is None else gradient.name for gradient in second]
    return Slopes(program, feeds, total.name, [var.name for var in variables], names)


def second_of(case: Case, saved: Sequence[str] = ()) -> Slopes:
    """The gradients of the gradients of a row of the op table. The outputs `saved` are to have no gradient by
    themselves, as layers mark what is there for gradient ops alone.
    """
    program, feeds, loss, variables = _loss(case)
    op = next(op for op in program.global_block().ops if op.type == case.op)
    for slot in saved:
        for name in op.output(slot):
            program.global_block().var(name).stop_gradient = True
    return differentiated(program, feeds, loss, variables)


def is_refused(case: Case) -> bool:
    """True for a row whose op has no gradient of its gradient: that raises an error with its name."""
    op = get(case.op)
    gradient = find(op.grad_type)
    if gradient is None:  # it is made of other ops
        return False
    is_sparse = bool(gradient.sparse and case.attrs.get("is_sparse"))
    # the gradient of nce reads the samples that it drew
    return bool(gradient.opaque) or is_sparse or case.op == "nce"


def check(slopes: Slopes, name: str, tolerance: float = 1e-4, whole: bool = False) -> None:
    """Gradients, in plan and interpreter, equal differences of the loss: in one direction for each input, or,
    with `whole`, in every element.
    """
    loss = slopes.at()
    ways = [slopes.values(naive) for naive in (False, True)]
    for index, var in enumerate(slopes.inputs):
        if whole:
            wanted = differences(loss, slopes.feeds, var, STEP)
            direction = None
        else:
            wanted, direction = along(loss, slopes.feeds, var)
        for values in ways:
            found = np.zeros(1) if values[index] is None else values[index]
            got = found if direction is None else (found * direction).sum()
            error = np.abs(got - wanted).max(initial=0) / max(1e-2, np.abs(wanted).max(initial=0))
            assert error <= tolerance, f"{name}: d{var} is off by {error:.1e}: {got} instead of {wanted}"


def along(loss: Callable[[Mapping[str, Any]], float], feeds: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """The slope of `loss` in a direction of the feed `name`, and that direction."""
    held = feeds[name]
    base = np.asarray(held).astype(np.float64)
    direction = np.random.RandomState(11).uniform(-1, 1, base.shape)
    sides = []
    for sign in (1, -1):
        moved = base + sign * STEP * direction
        value = LoDTensor(moved, held._lod) if isinstance(held, LoDTensor) else moved
        sides.append(loss({**feeds, name: value}))
    return np.array((sides[0] - sides[1]) / (2 * STEP)), direction
