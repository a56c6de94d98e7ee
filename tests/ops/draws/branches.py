"""Branches, loops, and the arrays that loops write."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")
L = "fluid.layers."


def root(draw: Draw) -> str:
    """The module of the door's functions of tensors."""
    return "fluid.layers" if draw.door == "18" else "paddle"


def truth(draw: Draw, value: bool | None = None) -> Value:
    """A fed truth."""
    given = draw.flag() if value is None else value
    return draw.feed(np.array([given]), known=True)


ROW_WISE: dict[str, dict[str, Any]] = {
    "softmax": {},
    "l2_normalize": {"axis": -1},
    "clip": {"min": -0.5, "max": 0.7},
    "cumsum": {"axis": -1},
    "gelu": {},
    "prelu": {"mode": "all"},
    "dropout": {"dropout_prob": 0.0},
    "log_softmax": {},
    "leaky_relu": {"alpha": 0.1},
}


def layer(draw: Draw, x: Value) -> Value:
    """A layer of 1.8 that keeps the shape of x."""
    kind = draw.int(0, 4)
    if kind == 0:
        both = draw.call(L + "concat", [x, draw.call(L + "sin", x)], axis=-1)
        return draw.call(L + "split", both, 2, dim=-1)[draw.int(0, 1)]
    if kind == 1:
        return draw.call(L + "elementwise_" + draw.choice("max", "add", "mul"), x, draw.call(L + "cos", x))
    if kind == 2 and x.shape is not None and len(x.shape) == 2:
        return draw.call(L + "fc", x, x.shape[1], act=draw.act())
    name = draw.choice(*ROW_WISE)
    return draw.call(L + name, x, **ROW_WISE[name])


def work(draw: Draw, x: Value) -> Value:
    """Something that a branch makes of x, of the same shape."""
    if draw.door == "18" and draw.flag(0.4):
        return layer(draw, x)
    kind = draw.int(0, 3)
    if kind == 0:
        return draw.call(f"{root(draw)}.scale", x, scale=draw.real())
    if kind == 1:
        return draw.call(f"{root(draw)}.tanh", x)
    if kind == 2:
        return draw.call("op.mul", x, x)
    return draw.call("op.add", draw.call(f"{root(draw)}.sin", x), x)


def branch(draw: Draw, xs: list[Value], count: int) -> Any:
    """A function of nothing that returns so many results."""
    if count == 1:
        return draw.block([], lambda: work(draw, draw.choice(*xs)))
    return draw.block([], lambda: [work(draw, draw.choice(*xs)) for _ in range(count)])


def inputs(draw: Draw) -> list[Value]:
    """One or two tensors that look alike."""
    shape, dtype = draw.shape((1, 3)), draw.choice(*FLOATS)
    return [draw.tensor(shape, dtype) for _ in range(draw.int(1, 2))]


def judged(draw: Draw, x: Value) -> Value:
    """A truth that is computed."""
    total = draw.call(L + "reduce_sum", x)
    limit = draw.call(L + "fill_constant", [1], x.dtype, draw.real())
    return draw.call(L + draw.choice("less_than", "greater_than"), total, limit)


@draws("fluid.layers.cond", "paddle.static.nn.cond")
def _(draw: Draw, name: str) -> Any:
    xs = inputs(draw)
    condition = judged(draw, xs[0]) if draw.door == "18" and draw.flag(0.3) else truth(draw)
    count = draw.int(1, 3)
    branches = [branch(draw, xs, count) for _ in range(2)]
    more: dict[str, Any] = {}
    if draw.door == "26":
        names = [f"r{at}" for at in range(count)]
        more["return_names"] = draw.maybe(names if count > 1 else "r0", 0.3)
    return draw.call(name, condition, *branches, **more)


@draws("fluid.layers.case", "paddle.static.nn.case")
def _(draw: Draw, name: str) -> Any:
    xs, count = inputs(draw), draw.int(1, 2)
    pairs = [(truth(draw), branch(draw, xs, count)) for _ in range(draw.int(1, 3))]
    return draw.call(name, pairs, default=branch(draw, xs, count) if draw.flag(0.6) else OMIT)


@draws("fluid.layers.switch_case", "paddle.static.nn.switch_case")
def _(draw: Draw, name: str) -> Any:
    xs, count, most = inputs(draw), draw.int(1, 2), draw.int(1, 3)
    index = draw.variable(draw.int(-1, most), "int32" if draw.flag() else "int64")
    branches: Any = [branch(draw, xs, count) for _ in range(most)]
    if draw.flag():
        branches = list(zip(draw.rng.sample(range(5), most), branches, strict=True))
    return draw.call(name, index, branches, default=branch(draw, xs, count) if draw.flag(0.6) else OMIT)


@draws("fluid.layers.while_loop", "paddle.static.nn.while_loop")
def _(draw: Draw, name: str) -> Any:
    least, dtype = draw.int(0, 3), draw.choice(*FLOATS)
    api = root(draw)
    x = draw.tensor(draw.shape((1, 3)), dtype)
    fill = L + "fill_constant" if draw.door == "18" else "paddle.full"
    args = ([1], "int64", 0) if draw.door == "18" else ([1], 0, "int64")
    start = draw.call(fill, *args)
    limit = draw.variable(least, "int64")
    less = f"{api}.less_than"
    grows = draw.flag(0.7)

    def body(at: Value, value: Value) -> list[Value]:
        made = draw.call("op.add", draw.call(f"{api}.tanh", value), x) if grows else work(draw, value)
        return [draw.call("op.add", at, 1), made]

    test = draw.block(["at", "value"], lambda at, value: draw.call(less, at, limit))
    first = draw.call(f"{api}.scale", x, scale=0.5)
    return draw.call(name, test, draw.block(["at", "value"], body), [start, first])


@draws("fluid.layers.While")
def _(draw: Draw, name: str) -> Any:
    steps, dtype = draw.int(1, 4), draw.choice(*FLOATS)
    x = draw.tensor(draw.shape((1, 3)), dtype)
    at = draw.call(L + "fill_constant", [1], "int64", 0)
    limit = draw.call(L + "fill_constant", [1], "int64", steps)
    total = draw.call(L + "scale", x, scale=draw.real())
    go = draw.call(L + "less_than", at, limit)
    loop = draw.call(name, go, is_test=draw.maybe(False, 0.2))
    array = draw.call(L + "array_write", total, at) if draw.flag() else None

    def build() -> None:
        made = work(draw, total if array is None else draw.call(L + "array_read", array, at))
        draw.call(L + "increment", at, 1, True)
        if array is None:
            draw.call(L + "assign", made, total)
        else:
            draw.call(L + "array_write", made, at, array)
        draw.call(L + "less_than", at, limit, cond=go)

    draw.within(f"{loop.name}.block", build=build)
    return total if array is None else draw.call(L + "array_read", array, limit)


@draws("fluid.layers.Switch")
def _(draw: Draw, name: str) -> Any:
    draw.gradients = False
    shape = [max(size, 1) for size in draw.shape((1, 2))]
    out = draw.call(L + "create_global_var", shape, 0.5, "float32", persistable=True)
    cases = [truth(draw) for _ in range(draw.int(1, 3))]
    values = [draw.call(L + "fill_constant", shape, "float32", float(at)) for at in range(len(cases) + 1)]

    def build(switch: Value) -> None:
        for condition, value in zip(cases, values, strict=False):
            draw.within(
                f"{switch.name}.case",
                condition,
                build=lambda value=value: draw.call(L + "assign", value, out),
            )
        if draw.flag(0.7):
            draw.within(f"{switch.name}.default", build=lambda: draw.call(L + "assign", values[-1], out))

    draw.within(name, build=build, named=True)
    return draw.call(L + "scale", out, scale=1.0)


@draws("fluid.layers.IfElse")
def _(draw: Draw, name: str) -> Any:
    """Each branch takes some of two inputs: one that the other does not take, one twice, parts of no rows."""
    rows, dtype = draw.int(2, 5), draw.choice(*FLOATS)
    given = [draw.tensor((rows, draw.int(1, 3)), dtype)]
    if draw.flag():
        given.append(draw.tensor(given[0].shape, dtype))
    mask = draw.choice(np.arange(rows) % 2 == draw.int(0, 1), np.full(rows, draw.flag()))
    made = draw.call(name, draw.feed(mask.reshape(rows, 1), fixed=True))

    def build() -> None:
        taken = [one for one in given if draw.flag()] or [draw.choice(*given)]
        first, *others = (draw.call(f"{made.name}.input", one) for one in taken)
        out = work(draw, first)
        for other in others:
            out = draw.call(L + "elementwise_add", out, draw.call(L + "scale", other, scale=2.0))
        draw.call(f"{made.name}.output", out)

    draw.within(f"{made.name}.true_block", build=build)
    draw.within(f"{made.name}.false_block", build=build)
    return draw.call(made.name)


@draws("fluid.layers.StaticRNN")
def _(draw: Draw, name: str) -> Any:
    steps, rows, width = draw.int(1, 4), draw.int(1, 3), draw.int(1, 3)
    dtype = draw.choice(*FLOATS)
    x = draw.tensor((steps, rows, width), dtype, known=True)
    given = draw.tensor((rows, width), dtype, known=True) if draw.flag(0.6) else None
    made = draw.call(name)

    def build() -> None:
        word = draw.call(f"{made.name}.step_input", x)
        if given is not None:
            state = draw.call(f"{made.name}.memory", init=given)
        else:
            state = draw.call(f"{made.name}.memory", shape=[-1, width], batch_ref=word, init_value=0.5)
        both = draw.call("op.add", word, state) if draw.flag() else draw.call("op.mul", word, state)
        new = draw.call(L + draw.choice("tanh", "sigmoid"), both) if draw.flag(0.6) else layer(draw, both)
        if draw.flag(0.3):
            new = draw.call(L + "fc", new, width)
        draw.call(f"{made.name}.update_memory", state, new)
        draw.call(f"{made.name}.step_output", new)
        if draw.flag(0.3):
            draw.call(f"{made.name}.step_output", both)

    draw.within(f"{made.name}.step", build=build)
    return draw.call(made.name)


@draws("fluid.layers.DynamicRNN")
def _(draw: Draw, name: str) -> Any:
    width = draw.int(1, 3)
    x = draw.sequences((width,), "float32", empty=False)
    count = len(draw.feeds[x.name]["lengths"][0])
    given = draw.batches((count, width), "float32") if draw.flag() else None
    static = draw.batches((count, width), "float32") if draw.flag(0.3) else None
    made = draw.call(name)

    def build() -> None:
        word = draw.call(f"{made.name}.step_input", x)
        if given is not None:
            reorder = True if draw.flag(0.7) else OMIT
            state = draw.call(f"{made.name}.memory", init=given, need_reorder=reorder)
        else:
            state = draw.call(f"{made.name}.memory", shape=[width], value=0.5, dtype="float32")
        both = draw.call("op.add", word, state)
        if static is not None:
            both = draw.call("op.add", both, draw.call(f"{made.name}.static_input", static))
        new = draw.call(L + draw.choice("tanh", "sigmoid"), both) if draw.flag(0.6) else layer(draw, both)
        if draw.flag(0.3):
            new = draw.call(L + "fc", new, width)
        draw.call(f"{made.name}.update_memory", state, new)
        draw.call(f"{made.name}.output", new)

    draw.within(f"{made.name}.block", build=build)
    return draw.call(made.name)


# ---------------------------------------------------------------------- arrays
@draws(*(L + name for name in ("array_write", "array_read", "array_length", "create_array")))
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 3)), draw.choice(*FLOATS, "int64")
    xs = [draw.tensor(shape, dtype) for _ in range(draw.int(1, 3))]
    array: Any = draw.call(L + "create_array", dtype) if "create" in name or draw.flag(0.3) else OMIT
    for at, x in enumerate(xs):
        place = draw.call(L + "fill_constant", [1], "int64", at)
        made = draw.call(L + "array_write", x, place, array=array)
        array = made if array is OMIT else array
    if name.endswith("length"):
        return draw.call(name, array)
    where = draw.variable(draw.int(0, len(xs) - 1), "int64")
    found = draw.call(L + "array_read", array, where)
    return [found, draw.call(L + "array_length", array)] if draw.flag(0.3) else found


@draws("fluid.layers.tensor_array_to_tensor")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((2, 3)), draw.choice(*FLOATS)
    stacks = draw.flag(0.4)
    axis = draw.int(0, len(shape) - 1)
    array: Any = OMIT
    for at in range(draw.int(1, 3)):
        sizes = list(shape)
        if not stacks:
            sizes[axis] = draw.int(1, 3)
        place = draw.call(L + "fill_constant", [1], "int64", at)
        made = draw.call(L + "array_write", draw.tensor(sizes, dtype), place, array=array)
        array = made if array is OMIT else array
    return draw.call(name, array, axis=axis, use_stack=stacks or OMIT)
