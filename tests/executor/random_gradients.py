"""Random programs whose variables are written over, in branches and loops too: gradients held to differences.

A program is plain data, made from a seed alone: a list of statements, each a tuple of its kind and of
numbers, expressions and further lists. `Builder` writes it with the layers. Its gradients, of the interpreter
and of the plan, are compared with central differences of the program's own results, in float64, along a
random direction.

python tests/executor/random_gradients.py [FIRST [LAST]] [parts]      seeds; a wrong program is printed, made
smaller; parts: with ops that have several results, of which not all are read
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite import layers

DEPTH = 3
SHAPE = [2, 2]
SLOTS = 3
"""Entries of an array, and most rounds of a loop."""
INPUTS = ("x", "w", "p")
Statement = tuple[Any, ...]
Program = dict[str, Any]


# ---------------------------------------------------------------------- programs as data
class Author:
    """Draws statements. A variable is a number: of those known at a place, counted around."""

    def __init__(self, seed: int, parts: bool = False) -> None:
        self.random = random.Random(seed)
        self.parts = parts

    def program(self) -> Program:
        """Statements, the variables that are targets, and whether gradients of them come in."""
        count = self.random.choice([1, 1, 2, 3])
        return {
            "body": self.block(DEPTH, self.random.randrange(2, 7)),
            "targets": [self.var() for _ in range(count)],
            "weighted": self.random.random() < 0.5,
            "passes": self.random.choice([1, 1, 1, 2]),
            "second": self.random.random() < 0.5,
        }

    def var(self) -> int:
        return self.random.randrange(1000)

    def expression(self) -> Statement:
        """An op on known variables; its results stay small."""
        kind = self.random.choice(["tanh", "add", "mul", "scale", "sin", "same", "square", "const", "matmul"])
        return (kind, self.var(), self.var())

    def block(self, depth: int, count: int) -> list[Statement]:
        return [self.statement(depth) for _ in range(count)]

    def inner(self, depth: int) -> list[Statement]:
        return self.block(depth - 1, self.random.randrange(1, 4))

    def statement(self, depth: int) -> Statement:
        flat = [self.fresh, self.over, self.over, self.in_place, self.in_place, self.array]
        if self.parts:
            flat += [self.part, self.part, self.part]
        deep = [self.switch, self.branch, self.block_if, self.loop, self.loop, self.functional]
        return self.random.choice(flat + deep if depth else flat)(depth)

    def fresh(self, _: int) -> Statement:
        return ("fresh", self.expression())

    def over(self, _: int) -> Statement:
        return ("over", self.var(), self.expression())

    def in_place(self, _: int) -> Statement:
        kinds = ["clamp", "sums", "addcmul", "log1p", "norm", "abn", "reshape", "fill", "op", "count", "step"]
        return ("in_place", self.random.choice(kinds), self.var(), self.var(), self.var())

    def part(self, _: int) -> Statement:
        """Some of the results of an op that has several, as a new variable or in place of one."""
        kind = self.random.choice(["split", "split", "unstack", "halves"])
        over = self.var() if self.random.random() < 0.5 else None
        return ("part", kind, self.var(), self.var(), self.random.randrange(1, 8), over)

    def array(self, _: int) -> Statement:
        kind = self.random.choice(["write", "write", "read", "whole"])
        return ("array", kind, self.random.randrange(2), self.random.randrange(100), self.expression())

    def switch(self, depth: int) -> Statement:
        cases = [(self.random.randrange(100), self.inner(depth)) for _ in range(self.random.randrange(1, 3))]
        return ("switch", cases, self.inner(depth) if self.random.random() < 0.5 else None)

    def branch(self, depth: int) -> Statement:
        sides = [(self.inner(depth), self.expression()) for _ in range(2)]
        return ("branch", self.random.randrange(100), sides)

    def block_if(self, depth: int) -> Statement:
        return ("block_if", self.random.randrange(100), self.inner(depth))

    def loop(self, depth: int) -> Statement:
        return ("loop", self.random.randrange(SLOTS + 1), self.inner(depth), self.random.random() < 0.3)

    def functional(self, depth: int) -> Statement:
        count = self.random.randrange(1, 4)
        starts, ends = ([self.expression() for _ in range(count)] for _ in range(2))
        return ("functional", self.random.randrange(SLOTS + 1), starts, self.inner(depth), ends)


# ---------------------------------------------------------------------- data to a program
def constant(value: float, dtype: str = "int64", shape: tuple[int, ...] = (1,)) -> Any:
    return layers.fill_constant(list(shape), dtype, value)


def scaled(value: Any, factor: float) -> Any:
    return layers.scale(value, factor)


EXPRESSIONS: dict[str, Any] = {
    "tanh": lambda a, b: layers.tanh(a),
    "add": lambda a, b: layers.elementwise_add(scaled(a, 0.6), scaled(b, 0.7)),
    "mul": lambda a, b: layers.elementwise_mul(layers.tanh(a), b),
    "scale": lambda a, b: layers.scale(a, -0.8, bias=0.1),
    "sin": lambda a, b: layers.sin(a),
    "same": lambda a, b: a,
    "square": lambda a, b: layers.square(layers.tanh(a)),
    "const": lambda a, b: constant(0.3, "float64", tuple(SHAPE)),
    "matmul": lambda a, b: layers.matmul(layers.tanh(a), layers.tanh(b)),
}


class Scope:
    """The variables that are known at a place, and the counters of the loops around."""

    def __init__(self, known: list[Any], counters: list[Any]) -> None:
        self.known = list(known)
        self.counters = list(counters)

    def var(self, number: int) -> Any:
        return self.known[number % len(self.known)]

    def inner(self, *more: Any, counters: tuple[Any, ...] = ()) -> Scope:
        return Scope([*self.known, *more], [*self.counters, *counters])


class Builder:
    """Writes a program into the current one; x and w are fed, p is persistable."""

    def __init__(self) -> None:
        x, w = (fluid.data(name, SHAPE, "float64") for name in INPUTS[:2])
        p = layers.create_global_var(SHAPE, 0.3, "float64", persistable=True, name="p")
        self.inputs = [x, w, p]
        for var in self.inputs:
            var.stop_gradient = False
        self.flag = fluid.data("flag", [1], "int64")
        self.arrays = [layers.create_array("float64") for _ in range(2)]
        first = [layers.tanh(x), scaled(w, 0.5), layers.sin(p)]
        self.scope = Scope([*self.inputs, *first], [])
        for array in self.arrays:
            for slot, value in enumerate(first):
                layers.array_write(value, constant(slot), array)

    def write(self, body: list[Statement], scope: Scope) -> None:
        """Append the statements; `scope` learns what they make."""
        for kind, *rest in body:
            getattr(self, kind)(scope, *rest)

    def value(self, scope: Scope, expression: Statement) -> Any:
        kind, a, b = expression
        return EXPRESSIONS[kind](scope.var(a), scope.var(b))

    def condition(self, scope: Scope, number: int) -> Any:
        """One that depends on what is fed, or on the round of a loop around."""
        limits = [constant(limit) for limit in (number // 7 % 3,)]
        read = [self.flag, *scope.counters][number % (1 + len(scope.counters))]
        return layers.less_than(read, limits[0])

    # ------------------------------------------------------------------ statements of one op or two
    def fresh(self, scope: Scope, expression: Statement) -> None:
        made = self.value(scope, expression)
        scope.known.append(layers.assign(made))

    def over(self, scope: Scope, target: int, expression: Statement) -> None:
        layers.assign(self.value(scope, expression), output=scope.var(target))

    def in_place(self, scope: Scope, kind: str, target: int, one: int, other: int) -> None:
        out, a, b = scope.var(target), scope.var(one), scope.var(other)
        block = fluid.default_main_program().current_block()
        if kind == "clamp":
            layers.clamp(scaled(a, 0.9), -100.0, 100.0, output=out)
        elif kind == "sums":
            layers.sums(
                [scaled(a, 0.5), layers.sin(b)] if one % 2 else [layers.tanh(a), layers.tanh(out)], out=out
            )
        elif kind == "addcmul":
            layers.addcmul(scaled(a, 0.5), layers.tanh(b), layers.tanh(a), value=0.7, out=out)
        elif kind == "log1p":
            layers.log1p(layers.square(layers.tanh(a)), out=out)
        elif kind == "norm" and out.name != "p":
            layers.batch_norm(out, in_place=True, epsilon=1e-3, data_layout="NCHW")
            layers.assign(scaled(out, 0.3), output=out)
        elif kind == "abn" and out.name != "p":
            layers.inplace_abn(out, act="elu", epsilon=1e-3)
            layers.assign(scaled(out, 0.3), output=out)
        elif kind == "reshape":
            layers.reshape(layers.reshape(out, [4], inplace=True), SHAPE, inplace=True)
        elif kind == "fill":
            layers.fill_constant(SHAPE, "float64", 0.4, out=out)
            out.stop_gradient = False  # the layer sets it
        elif kind == "op":
            block.append_op(type="tanh", inputs={"X": [a if one % 2 else out]}, outputs={"Out": [out]})
        elif kind == "count":
            total = layers.reshape(layers.reduce_mean(a), [1])
            old = scaled(total, 0.5)
            layers.increment(total, 0.25, in_place=one % 3 != 0)
            scope.known.append(layers.elementwise_add(b, layers.elementwise_mul(total, old)))
        elif kind == "step" and scope.counters:
            number = scope.counters[one % len(scope.counters)]
            factor = layers.cast(number, "float64")
            scope.known.append(layers.elementwise_mul(layers.tanh(a), layers.scale(factor, 0.3, bias=0.2)))

    def part(self, scope: Scope, kind: str, one: int, other: int, wanted: int, over: int | None) -> None:
        """`wanted` has a bit for each of the parts that are read."""
        a, b = scope.var(one), scope.var(other)
        if kind == "unstack":
            parts = layers.unstack(layers.stack([a, layers.sin(b), layers.tanh(a)], axis=0), axis=0)
        elif kind == "halves":
            parts = layers.split(layers.concat([layers.cos(a), layers.sin(b)], axis=-1), 2, dim=-1)
        else:
            parts = layers.split(layers.concat([a, layers.tanh(b), layers.sin(a)], axis=0), [2, 2, 2], dim=0)
        read = [part for bit, part in enumerate(parts) if wanted >> bit & 1] or parts[:1]
        made = scaled(layers.sums(read), 0.6) if len(read) > 1 else read[0]
        if over is None:
            scope.known.append(layers.assign(made))
        else:
            layers.assign(made, output=scope.var(over))

    def array(self, scope: Scope, kind: str, which: int, slot: int, expression: Statement) -> None:
        array = self.arrays[which]
        index = [constant(slot % SLOTS), *scope.counters][slot % (1 + len(scope.counters))]
        if kind == "write":
            layers.array_write(self.value(scope, expression), index, array)
        elif kind == "read":
            scope.known.append(layers.array_read(array, index))
        else:
            rows, _ = layers.tensor_array_to_tensor(array, axis=0)
            scope.known.append(layers.reshape(scaled(layers.slice(rows, [0], [1], [3]), 0.9), SHAPE))

    # ------------------------------------------------------------------ branches
    def switch(self, scope: Scope, cases: list[Any], default: list[Statement] | None) -> None:
        conditions = [self.condition(scope, number) for number, _ in cases]
        with layers.Switch() as switch:
            for condition, (_, body) in zip(conditions, cases, strict=True):
                with switch.case(condition):
                    self.write(body, scope.inner())
            if default is not None:
                with switch.default():
                    self.write(default, scope.inner())

    def branch(self, scope: Scope, number: int, sides: list[Any]) -> None:
        def side(body: list[Statement], result: Statement) -> Any:
            inner = scope.inner()
            self.write(body, inner)
            return self.value(inner, result)

        found = layers.cond(self.condition(scope, number), lambda: side(*sides[0]), lambda: side(*sides[1]))
        scope.known.append(found)

    def block_if(self, scope: Scope, number: int, body: list[Statement]) -> None:
        condition = self.condition(scope, number)
        with layers.flow.conditional.ConditionalBlock([condition], is_scalar_condition=True).block():
            self.write(body, scope.inner())

    # ------------------------------------------------------------------ loops
    def loop(self, scope: Scope, rounds: int, body: list[Statement], first: bool) -> None:
        count, limit = constant(0), constant(rounds)
        going = layers.less_than(count, limit)
        with layers.While(going).block():
            # entries of arrays are numbered from 0 to one less than there are
            inner = scope.inner(counters=() if first else (count,))
            if first:
                layers.increment(count)
                self.write(body, inner)
            else:
                self.write(body, inner)
                layers.increment(count)
            layers.less_than(count, limit, cond=going)

    def functional(
        self, scope: Scope, rounds: int, starts: list[Any], body: list[Statement], ends: list[Any]
    ) -> None:
        limit = constant(rounds)

        def step(count: Any, *state: Any) -> list[Any]:
            inner = Scope([*scope.known, *state, *state], [*scope.counters, count])
            self.write(body, inner)
            return [layers.elementwise_add(count, constant(1)), *(self.value(inner, end) for end in ends)]

        begun = [layers.assign(self.value(scope, start)) for start in starts]
        for var in begun:
            var.stop_gradient = False
        out = layers.while_loop(lambda count, *_: layers.less_than(count, limit), step, [constant(0), *begun])
        scope.known.extend(out[1:])


# ---------------------------------------------------------------------- numbers
class Written:
    """A program with its targets and, on a copy, its gradients."""

    def __init__(self, data: Program) -> None:
        self.plain, self.startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), fluid.program_guard(self.plain, self.startup):
            builder = Builder()
            builder.write(data["body"], builder.scope)
            known = builder.scope.known
            targets = list(dict.fromkeys(known[number % len(known)].name for number in data["targets"]))
            self.program = self.plain.clone()
            self.targets = targets
            with fluid.program_guard(self.program, self.startup):
                block = self.program.global_block()
                variables = [block.var(name) for name in targets]
                self.weights = [0.5 + number for number in range(len(targets))] if data["weighted"] else None
                for _ in range(data["passes"]):
                    self.gradients = fluid.gradients(
                        variables, [block.var(name) for name in INPUTS], self._weights()
                    )
        self.made = [gradient for gradient in self.gradients if gradient is not None]
        self.second = self._second() if data["second"] else None

    def _second(self) -> Any:
        """A copy with gradients of the gradients too, and these; None where the program has none, and says
        so.
        """
        program = self.program.clone()
        block = program.global_block()
        made = [block.var(gradient.name) for gradient in self.made]
        with fluid.unique_name.guard("second_"), fluid.program_guard(program, self.startup):
            try:
                return program, fluid.gradients(made, [block.var(name) for name in INPUTS])
            except fluid.core.EnforceNotMet:
                return None

    def _weights(self) -> Any:
        if self.weights is None:
            return None
        return [constant(weight, "float64", tuple(SHAPE)) for weight in self.weights]

    def total(self, values: list[Any]) -> float:
        weights = self.weights or [1.0] * len(values)
        return float(sum(weight * np.sum(value) for weight, value in zip(weights, values, strict=True)))


class Runs:
    """Runs of a program and of its copy with gradients, in the interpreter or as plans."""

    def __init__(self, written: Written) -> None:
        self.scope = fluid.Scope()
        self.executors = {naive: fluid.Executor(fluid.CPUPlace()) for naive in (True, False)}
        for naive, exe in self.executors.items():
            exe.naive = naive
        self.executors[True].run(written.startup, scope=self.scope)

    def run(
        self, program: Any, at: np.ndarray, flag: int, fetches: list[Any], naive: bool = True
    ) -> list[Any]:
        """The values of `fetches` with the inputs `at`."""
        self.scope.var("p").get_tensor().set(at[2].copy(), fluid.CPUPlace())
        feeds = {"x": at[0].copy(), "w": at[1].copy(), "flag": np.array([flag])}
        found: list[Any] = self.executors[naive].run(program, feeds, fetches, scope=self.scope)
        return found


def mistakes(data: Program, seed: int) -> list[str]:
    """Mistakes in the gradients of a program, each a line."""
    noise, written = np.random.RandomState(seed), Written(data)
    runs = Runs(written)
    at, way, flag = noise.randn(3, *SHAPE), noise.randn(3, *SHAPE), noise.randint(3)

    def along(step: float) -> float:
        return written.total(runs.run(written.plain, at + step * way, flag, written.targets))

    wanted = _differences(along)
    values = runs.run(written.plain, at, flag, written.targets)
    found = []
    for naive in (True, False):
        got = runs.run(written.program, at, flag, [*written.targets, *written.made], naive)
        slope = _along(written.gradients, got[len(values) :], way)
        how = "interpreter" if naive else "plan"
        if not _is_near(slope, wanted):
            found.append(f"{how}: the gradient says {slope}, differences say {wanted}")
        for name, one, other in zip(written.targets, values, got, strict=False):
            if not np.allclose(one, other, rtol=1e-9):
                found.append(f"{how}: {name} is {one.ravel()} without gradients, {other.ravel()} with them")
    return found or _bends(written, runs, at, way, flag)


def _along(gradients: list[Any], values: list[Any], way: np.ndarray) -> float:
    """How fast a sum moves along a direction, by gradients of which some are None."""
    numbers = iter(values)
    parts = [
        0.0 if var is None else np.sum(next(numbers) * to) for var, to in zip(gradients, way, strict=True)
    ]
    return float(sum(parts))


def _differences(along: Callable[[float], float]) -> list[float]:
    """The slope at 0 by steps of two sizes: within the larger ones may be the bend of an activation. They are
    of fourth order, so that rounding and curvature are both far below what is compared.
    """
    return [(8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h) for h in (1e-3, 1e-4)]


def _is_near(slope: float, wanted: list[float]) -> bool:
    return any(np.isclose(slope, one, rtol=1e-5, atol=1e-7) for one in wanted)


def _bends(written: Written, runs: Runs, at: np.ndarray, way: np.ndarray, flag: int) -> list[str]:
    """Mistakes in the gradients of the gradients, where the program has them."""
    if written.second is None:
        return []
    program, gradients = written.second
    made = [gradient for gradient in gradients if gradient is not None]

    def along(step: float) -> float:
        values = runs.run(written.program, at + step * way, flag, written.made) if written.made else []
        return float(sum(np.sum(value) for value in values))

    wanted = _differences(along)
    found = []
    for naive in (True, False):
        got = runs.run(program, at, flag, made, naive) if made else []
        slope = _along(gradients, got, way)
        if not _is_near(slope, wanted):
            how = "interpreter" if naive else "plan"
            found.append(f"{how}: the second gradient says {slope}, differences say {wanted}")
    return found


def check(seed: int, parts: bool = False) -> None:
    """AssertionError with the program where its gradients are wrong."""
    data = Author(seed, parts).program()
    found = mistakes(data, seed)
    assert not found, f"seed {seed}: {found}\n{data}"


# ---------------------------------------------------------------------- smaller programs
def smaller(data: Any) -> list[Any]:
    """The data with a statement left out, or replaced by those inside of it, at any depth."""
    found: list[Any] = []
    if isinstance(data, dict):
        found += [{**data, "body": body} for body in smaller(data["body"])]
        found += [{**data, "targets": data["targets"][:-1]}] if len(data["targets"]) > 1 else []
        found += [{**data, "weighted": False}] if data["weighted"] else []
        found += [{**data, "passes": 1}] if data["passes"] > 1 else []
        found += [{**data, "second": False}] if data["second"] else []
    elif isinstance(data, list):
        if not data or (isinstance(data[0], tuple) and isinstance(data[0][0], str) and data[0][0] in FORMS):
            for index, item in enumerate(data):
                found.append(data[:index] + data[index + 1 :])
                found += [data[:index] + list(body) + data[index + 1 :] for body in bodies(item)]
        for index, item in enumerate(data):
            found += [data[:index] + [new] + data[index + 1 :] for new in smaller(item)]
    elif isinstance(data, tuple):
        for index, item in enumerate(data):
            if isinstance(item, (list, tuple)):
                found += [(*data[:index], new, *data[index + 1 :]) for new in smaller(item)]
    return found


FORMS = ("fresh", "over", "in_place", "part", "array", "switch", "branch", "block_if", "loop", "functional")


def bodies(item: Any) -> list[Any]:
    """The lists of statements inside of one."""
    if isinstance(item, list) and item and isinstance(item[0], tuple) and item[0] and item[0][0] in FORMS:
        return [item]
    return [body for part in item for body in bodies(part)] if isinstance(item, (list, tuple)) else []


def is_wrong(data: Program, seed: int) -> bool:
    try:
        return bool(mistakes(data, seed))
    except Exception as error:
        return not isinstance(error, (IndexError, ZeroDivisionError))


def shrink(data: Program, seed: int) -> Program:
    """A program as small as may be that is wrong, too."""
    while True:
        for one in smaller(data):
            if is_wrong(one, seed):
                data = one
                break
        else:
            return data


if __name__ == "__main__":
    parts = "parts" in sys.argv
    given = [word for word in sys.argv[1:] if word != "parts"]
    start, stop = map(int, [*given, *("0", "200")[len(given) :]])
    for number in range(start, stop):
        program = Author(number, parts).program()
        if is_wrong(program, number):
            program = shrink(program, number)
            try:
                print(number, program, *mistakes(program, number), sep="\n  ", flush=True)
            except Exception as error:
                print(number, program, type(error).__name__, error, sep="\n  ", flush=True)
