"""Random programs of nested loops, branches and recurrences, with their gradients: plans held to the
interpreter.

python tests/executor/random_blocks.py [FIRST [LAST]]         seeds to try; default 0 to 200
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from flowtools import constant, op

import fluidlite as fluid
from fluidlite import layers

DEPTH = 3


class Writer:
    """Writes ops on variables of shape [2, 2]; a persistable one is `p`, those that are fed are never
    written to.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, known: list[Any]) -> Any:
        """The result of a random op."""
        a, b = self.random.choice(known), self.random.choice(known)
        kinds: list[Callable[[], Any]] = [
            lambda: op("tanh", X=a),
            lambda: op("elementwise_add", X=a, Y=b),
            lambda: op("elementwise_mul", X=op("tanh", X=a), Y=b),
            lambda: op("mul", X=op("tanh", X=a), Y=b),
            lambda: op("scale", {"scale": self.random.choice([0.5, -0.7, 1.0])}, X=a),
            lambda: op("elementwise_sub", X=a, Y=b),
            lambda: layers.reshape(layers.reshape(a, [4]), [2, 2]),
            lambda: layers.assign(a),
        ]
        return self.random.choice(kinds)()

    def block(self, known: list[Any], depth: int) -> list[Any]:
        """A few ops and sub-blocks; gives the variables known behind them."""
        known = list(known)
        for _ in range(self.random.randrange(1, 4)):
            kind = self.random.randrange(7 if depth else 3)
            if kind < 2:
                known.append(self.value(known))
            elif kind == 2:
                target, value = self.random.choice(known), self.value(known)
                if target.name not in ("x", "w"):
                    layers.assign(layers.scale(value, 0.5) if target.name == "p" else value, target)
            else:
                known.append([self.loop, self.loop, self.branch, self.recurrence][kind - 3](known, depth - 1))
        return known

    def loop(self, known: list[Any], depth: int) -> Any:
        """A loop of none to three steps over one or two variables."""
        start = [layers.assign(self.value(known)) for _ in range(self.random.randrange(1, 3))]
        limit = self.random.randrange(4)

        def step(count: Any, *state: Any) -> list[Any]:
            found = self.block([*known, *state], depth)
            return [layers.increment(count), *(self.random.choice(found[-3:]) for _ in state)]

        out = layers.while_loop(
            lambda count, *_: layers.less_than(count, constant(limit)), step, [constant(0), *start]
        )
        return self.random.choice(out[1:])

    def branch(self, known: list[Any], depth: int) -> Any:
        """A choice by the sum of a variable."""
        total = op("reduce_sum", {"reduce_all": True}, X=self.random.choice(known))
        limit = constant(self.random.choice([-1.0, 0.0, 1.0, 2.0]), "float64")
        return layers.cond(
            layers.less_than(total, limit),
            lambda: self.block(known, depth)[-1],
            lambda: self.block(known, depth)[-1],
        )

    def recurrence(self, known: list[Any], _: int) -> Any:
        """Three steps of a StaticRNN, summed."""
        rows, start = layers.stack([self.random.choice(known) for _ in range(3)]), self.value(known)
        rnn = layers.StaticRNN()
        with rnn.step():
            row, memory = rnn.step_input(rows), rnn.memory(init=start)
            new = both = op("elementwise_add", X=row, Y=memory)
            for _ in range(self.random.randrange(1, 3)):
                new = self.value([both, new, memory, row, *known])
            rnn.update_memory(memory, new)
            rnn.step_output(new)
        return layers.reduce_sum(rnn(), dim=0)


def write(seed: int) -> list[str]:
    """A program of its own in the current one; gives what to fetch."""
    writer = Writer(seed)
    x, w = (fluid.data(name, [2, 2], "float64") for name in ("x", "w"))
    x.stop_gradient = w.stop_gradient = False
    p = layers.create_global_var([2, 2], 0.3, "float64", persistable=True, name="p")
    known = writer.block([x, w, p] if seed % 3 == 0 else [x, w], DEPTH)
    out = op("tanh", X=op("sum", X=known[-3:]))
    loss = layers.mean(op("square", X=op("elementwise_add", X=out, Y=op("elementwise_mul", X=x, Y=w))))
    fluid.backward.append_backward(loss)
    return [out.name, loss.name, "x@GRAD", "w@GRAD", "p"]


def check(seed: int) -> None:
    """The plan of the program of that seed gives what the interpreter gives, twice."""
    main, startup, noise = fluid.Program(), fluid.Program(), np.random.RandomState(seed)
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        names = write(seed)
    feeds, found = {"x": noise.rand(2, 2), "w": noise.rand(2, 2)}, []
    for naive in (True, False):
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.run(startup, scope=scope)
        exe.naive = naive
        found.append([exe.run(main, feeds, names, scope=scope) for _ in range(2)][-1])
    for name, wanted, plan in zip(names, *found, strict=True):
        np.testing.assert_allclose(plan, wanted, rtol=1e-6, atol=1e-9, err_msg=f"{name}, seed {seed}")


if __name__ == "__main__":
    first, last = map(int, [*sys.argv[1:], *("0", "200")[len(sys.argv) - 1 :]])
    for number in range(first, last):
        check(number)
