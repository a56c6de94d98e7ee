"""Tensors out of nothing: constants, ranges, random numbers; copies and casts."""

from __future__ import annotations

from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")
KINDS = (*FLOATS, *FLOATS, "int32", "int64")


def shape_of(draw: Draw, chance: float = 0.2) -> Any:
    """A shape as a list, a list with Variables, or a Variable."""
    shape = [max(size, 1) for size in draw.shape((1, 4))]
    if draw.flag(chance):
        return draw.variable(shape, draw.choice("int32", "int64"))
    return [draw.variable(size, "int32") if draw.flag(chance / 3) else size for size in shape]


@draws("fluid.layers.fill_constant")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*KINDS, "bool")
    value = draw.choice(True, False) if dtype == "bool" else draw.choice(0, 1, -3, 7)
    if dtype in FLOATS:
        value = draw.choice(0.0, 1, -2.5, 1e-3, 3e8)
    return draw.call(
        name, shape_of(draw), dtype, value, force_cpu=draw.maybe(draw.flag(), 0.3), out=draw.out(dtype)
    )


@draws("fluid.layers.zeros", "fluid.layers.ones")
def _(draw: Draw, name: str) -> Any:
    cpu = draw.maybe(draw.flag(), 0.2)
    return draw.call(name, list(draw.shape((1, 4), low=2)), draw.choice(*KINDS, "bool"), force_cpu=cpu)


def made_by_torch(draw: Draw, dtype: Any) -> dict[str, Any]:
    """Arguments that new functions of 1.8 take."""
    out = draw.out("float32" if dtype is OMIT else dtype)
    return {"out": out, "device": draw.maybe("cpu", 0.2), "stop_gradient": draw.maybe(draw.flag(), 0.3)}


@draws("fluid.layers.full")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(OMIT, *KINDS)
    value = draw.choice(0, 1, -2, 3.0)
    return draw.call(name, shape_of(draw), value, dtype=dtype, **made_by_torch(draw, dtype))


@draws("fluid.layers.full_like")
def _(draw: Draw, name: str) -> Any:
    x, dtype = draw.tensor(rank=(1, 4), dtype=KINDS), draw.choice(OMIT, OMIT, *KINDS)
    more = made_by_torch(draw, x.dtype if dtype is OMIT else dtype)
    return draw.call(name, x, draw.choice(0, 1, -2, 2.0), dtype=dtype, **more)


@draws("fluid.layers.zeros_like", "fluid.layers.ones_like")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=(*KINDS, "bool"))
    out = draw.call("fluid.layers.create_tensor", x.dtype) if draw.flag(0.2) else OMIT
    return draw.call(name, x, out=out)


def like(draw: Draw) -> tuple[Value, list[int], dict[str, Any]]:
    """An input, a shape that takes one of its sizes, and the two indices, which may be left out."""
    x = draw.tensor(rank=(1, 4), dtype=FLOATS)
    shape = [max(size, 1) for size in draw.shape((1, 4))]
    source, target = draw.int(0, x.rank - 1), draw.int(0, len(shape) - 1)
    if draw.flag(0.4):
        return x, shape, {}
    return x, shape, {"input_dim_idx": source, "output_dim_idx": target}


@draws("fluid.layers.fill_constant_batch_size_like")
def _(draw: Draw, name: str) -> Any:
    x, shape, where = like(draw)
    cpu = draw.maybe(draw.flag(), 0.2)
    value = draw.choice(0, 1, -2.0, 3)
    return draw.call(name, x, shape, draw.choice(*KINDS), value, force_cpu=cpu, **where)


@draws("fluid.layers.eye")
def _(draw: Draw, name: str) -> Any:
    batch = draw.maybe(list(draw.shape((1, 2), low=2)), 0.3)
    columns = draw.maybe(draw.int(1, 4))
    return draw.call(
        name, draw.int(1, 4), num_columns=columns, batch_shape=batch, dtype=draw.choice(OMIT, *KINDS)
    )


@draws("fluid.layers.linspace")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*FLOATS)
    ends = [draw.real(-3, 3) for _ in range(2)]
    given = [draw.variable(end, dtype) if draw.flag(0.2) else end for end in ends]
    count = draw.int(1, 7)
    return draw.call(name, *given, draw.variable(count, "int32") if draw.flag(0.2) else count, dtype)


@draws("fluid.layers.range", "fluid.layers.arange")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice("float32", "float64", "int32", "int64")
    start, step = draw.int(-3, 3), draw.choice(1, 2, 3, -1, -2)
    end = start + step * draw.int(1, 5)
    given: list[Any] = [start, end, step]
    if dtype in FLOATS:
        given = [one / 2 for one in given]
    if name.endswith("range") and draw.flag(0.2) and not name.endswith("arange"):
        given = [draw.variable(one, dtype) for one in given]
    return draw.call(name, *given, dtype)


# ---------------------------------------------------------------------- random numbers
@draws("fluid.layers.uniform_random")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    low = draw.choice(OMIT, -3.0, 0.0)
    seed = draw.choice(OMIT, 0, 5)
    high = draw.maybe(4.0, 0.3)
    return draw.call(name, shape_of(draw), dtype=draw.choice(OMIT, *FLOATS), min=low, max=high, seed=seed)


@draws("fluid.layers.gaussian_random")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    shape = [max(size, 1) for size in draw.shape((1, 4))]
    mean, std = draw.maybe(draw.real()), draw.maybe(draw.real(0.1, 2))
    return draw.call(
        name, shape, mean=mean, std=std, seed=draw.choice(OMIT, 3), dtype=draw.choice(OMIT, *FLOATS)
    )


@draws("fluid.layers.uniform_random_batch_size_like", "fluid.layers.gaussian_random_batch_size_like")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    x, shape, where = like(draw)
    low, high = ("min", "max") if "uniform" in name else ("mean", "std")
    where.update({low: draw.maybe(0.5, 0.3), high: draw.maybe(2.0, 0.3), "seed": draw.choice(OMIT, 5)})
    return draw.call(name, x, shape, dtype=draw.choice(OMIT, *FLOATS), **where)


@draws("fluid.layers.randint")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    low, dtype = draw.int(-5, 5), draw.choice(OMIT, "int32", "int64")
    return draw.call(
        name,
        low,
        high=low + draw.int(1, 9),
        shape=shape_of(draw),
        dtype=dtype,
        seed=draw.choice(OMIT, 4),
        **made_by_torch(draw, "int64" if dtype is OMIT else dtype),
    )


@draws("fluid.layers.randn")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    shape, dtype = [max(size, 1) for size in draw.shape((1, 4))], draw.choice(OMIT, *FLOATS)
    return draw.call(name, shape, dtype=dtype, **made_by_torch(draw, dtype))


@draws("fluid.layers.randperm")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    dtype = draw.choice(OMIT, "int32", "int64")
    more = made_by_torch(draw, "int64" if dtype is OMIT else dtype)
    return draw.call(name, draw.int(1, 9), dtype=dtype, seed=draw.choice(OMIT, 4), **more)


@draws("fluid.layers.random_crop")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    x = draw.tensor(draw.shape((2, 4), low=2), KINDS, known=True)
    assert x.shape is not None
    kept = draw.int(1, x.rank - 1)
    return draw.call(name, x, [draw.int(1, size) for size in x.shape[-kept:]], seed=draw.choice(OMIT, 1, 9))


@draws("fluid.layers.sampling_id")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    rows, classes = draw.int(1, 4), draw.int(2, 5)
    x = draw.tensor((rows, classes), FLOATS, 1 / classes, 1 / classes + 0.05, fixed=True)
    limits = {"min": 0.2, "max": 0.9} if draw.flag(0.2) else {}
    dtype = draw.maybe("float32", 0.2)
    return draw.call(name, x, seed=draw.choice(OMIT, 2), dtype=dtype, **limits)


@draws("fluid.layers.dropout")
def _(draw: Draw, name: str) -> Any:
    how = draw.choice(OMIT, "downgrade_in_infer", "upscale_in_train")
    p = draw.choice(0.0, 0.0, 0.0, 1.0, 0.3)
    draw.random = p == 0.3
    return draw.call(
        name,
        draw.tensor(rank=(1, 5)),
        p,
        is_test=draw.maybe(draw.flag(), 0.3),
        seed=draw.choice(OMIT, 7),
        dropout_implementation=how,
    )


@draws("fluid.contrib.layers.shuffle_batch")
def _(draw: Draw, name: str) -> Any:
    draw.random = True
    return draw.call(name, draw.tensor(rank=(2, 4)), seed=draw.choice(OMIT, 3))


# ---------------------------------------------------------------------- copies
@draws("fluid.layers.assign")
def _(draw: Draw, name: str) -> Any:
    out = draw.call("fluid.layers.create_tensor", "float32") if draw.flag(0.2) else OMIT
    if draw.flag(0.35):
        dtype = "float32" if out is not OMIT else draw.choice("float32", "float64", "int32", "int64")
        shape = draw.shape((1, 3))
        return draw.call(name, draw.numbers(shape, dtype), output=out)
    dtype = "float32" if out is not OMIT else draw.choice(*KINDS, "bool")
    return draw.call(name, draw.tensor(rank=(1, 5), dtype=dtype), output=out)


@draws("fluid.layers.cast")
def _(draw: Draw, name: str) -> Any:
    kinds = ("float32", "float64", "float64", "int32", "int64", "uint8", "bool")
    source, target = draw.choice(*kinds), draw.choice(*kinds)
    low = 0 if "uint8" in (source, target) else -3
    return draw.call(name, draw.tensor(rank=(1, 5), dtype=source, low=low, high=3), target)


@draws("fluid.layers.increment")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor((1,), (*FLOATS, "int32", "int64"))
    return draw.call(name, x, value=draw.choice(OMIT, 2, -1.0, 0), in_place=draw.maybe(draw.flag()))


@draws("fluid.layers.create_global_var")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = list(draw.shape((1, 3), low=2)), draw.choice(*KINDS)
    cpu = draw.maybe(draw.flag(), 0.2)
    made = draw.call(name, shape, draw.choice(0, 1, 2, -3), dtype, persistable=True, force_cpu=cpu)
    return [made, draw.call("fluid.layers.scale", made, scale=2.0)]


@draws("fluid.layers.create_parameter")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = list(draw.shape((1, 3), low=2)), draw.choice(*FLOATS)
    made = draw.call(
        name,
        shape,
        dtype,
        name=draw.maybe("mine", 0.3),
        is_bias=draw.maybe(draw.flag(), 0.3),
        attr=draw.attr(0.2),
    )
    return draw.call("fluid.layers.elementwise_mul", made, draw.tensor(shape, dtype))


@draws("fluid.layers.create_tensor")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS)
    made = draw.call(name, x.dtype, name=draw.maybe("held", 0.3), persistable=draw.maybe(draw.flag(), 0.3))
    draw.call("fluid.layers.assign", x, output=made)
    return made


@draws("fluid.layers.autoincreased_step_counter")
def _(draw: Draw, name: str) -> Any:
    begin, step = draw.choice(OMIT, 0, 1, 5), draw.choice(OMIT, 1, 3)
    return draw.call(name, counter_name=draw.maybe("steps", 0.3), begin=begin, step=step)


@draws("fluid.layers.data")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS)
    assert x.shape is not None
    whole = draw.flag()
    declared = list(x.shape) if whole else [-1, *x.shape[1:]]
    draw.feeds[x.name].update(known=True, declared=declared)
    given = {"append_batch_size": False} if whole else {}
    seen = draw.call(name, x.name, declared if whole else declared[1:], dtype=x.dtype, **given)
    return draw.call("fluid.layers.assign", seen)


@draws("fluid.data")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS)
    assert x.shape is not None
    declared = [draw.choice(size, size, -1, None) for size in x.shape]
    draw.feeds[x.name].update(known=True, declared=[-1 if size is None else size for size in declared])
    seen = draw.call(name, x.name, declared, dtype=x.dtype, lod_level=draw.choice(OMIT, 0))
    return draw.call("fluid.layers.assign", seen)


@draws("fluid.layers.Print")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS)
    phase = draw.choice(OMIT, "forward", "backward", "both")
    return draw.call(
        name,
        x,
        first_n=1,
        message=draw.maybe("seen"),
        summarize=draw.choice(OMIT, 3),
        print_phase=phase,
        **{f"print_tensor_{what}": draw.maybe(draw.flag(), 0.2) for what in ("name", "type", "shape", "lod")},
    )


@draws("fluid.layers.Assert")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 3))
    true = draw.feed(np.array([draw.flag(0.8)]), fixed=True, known=True)
    draw.call("fluid.layers.control_flow.Assert", true, data=draw.maybe([x]), summarize=draw.choice(OMIT, 2))
    return draw.call("fluid.layers.tanh", x)
