"""Slices, joins and gathers, and tensors that are made from nothing."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, below, layers, normal, sized

MATRICES = (4, 6), (128, 256), (1024, 1024)
CUBES = (2, 4, 6), (16, 32, 64), (32, 128, 256)


def one(build: Any, grad: bool = True) -> Any:
    return lambda *shape: layers(build, grad=grad, x=normal(*shape))


def pair(build: Any) -> Any:
    return lambda *shape: layers(build, x=normal(*shape), y=normal(*shape))


def chosen(build: Any, grad: bool = True) -> Any:
    """Of a matrix and as many of its rows' numbers."""
    return lambda rows, size: layers(build, grad=grad, x=normal(rows, size), i=below(rows, rows))


def scatter(overwrite: bool) -> Any:
    def row(rows: int, size: int) -> Row:
        return layers(
            lambda fluid, x, i, y: fluid.layers.scatter(x, i, y, overwrite=overwrite),
            x=normal(rows, size),
            i=below(rows, rows // 2),
            y=normal(rows // 2, size),
        )

    return row


def scatter_nd_add(rows: int, size: int) -> Row:
    return layers(
        lambda fluid, x, i, y: fluid.layers.scatter_nd_add(x, i, y),
        x=normal(rows, size),
        i=below(rows, rows // 2, 1),
        y=normal(rows // 2, size),
    )


def made(build: Any) -> Any:
    return lambda rows, columns: layers(lambda fluid: build(fluid, [rows, columns]), grad=False)


def array(fluid: Any, x: Any) -> Any:
    """Write four times, read twice."""
    places = [fluid.layers.fill_constant([1], "int64", at) for at in range(4)]
    values = fluid.layers.array_write(x, places[0])
    for place in places[1:]:
        fluid.layers.array_write(x, place, array=values)
    return fluid.layers.array_read(values, places[1]) + fluid.layers.array_read(values, places[3])


def counted(fluid: Any, x: Any) -> Any:
    """Ten times round a loop."""
    at, end = (fluid.layers.fill_constant([1], "int64", number) for number in (0, 10))
    keeps_on = fluid.layers.less_than(at, end)
    loop = fluid.layers.While(keeps_on)
    with loop.block():
        fluid.layers.assign(x * 0.5, x)
        fluid.layers.increment(at)
        fluid.layers.less_than(at, end, cond=keeps_on)
    return x


ROWS = {
    "transpose": sized(one(lambda fluid, x: fluid.layers.transpose(x, [1, 0])), *MATRICES),
    "transpose of heads": sized(
        one(lambda fluid, x: fluid.layers.transpose(x, [0, 2, 1, 3])),
        (2, 3, 4, 5),
        (8, 32, 4, 16),
        (16, 64, 8, 64),
    ),
    "reshape": sized(one(lambda fluid, x: fluid.layers.reshape(x, [-1, 2])), *MATRICES),
    "squeeze, unsqueeze": sized(
        one(lambda fluid, x: fluid.layers.squeeze(fluid.layers.unsqueeze(x, [0]), [0])), *MATRICES
    ),
    "concat rows": sized(pair(lambda fluid, x, y: fluid.layers.concat([x, y], 0)), *MATRICES),
    "concat columns": sized(pair(lambda fluid, x, y: fluid.layers.concat([x, y], 1)), *MATRICES),
    "split": sized(one(lambda fluid, x: fluid.layers.sum(fluid.layers.split(x, 2, 1))), *MATRICES),
    "stack": sized(pair(lambda fluid, x, y: fluid.layers.stack([x, y], 1)), *MATRICES),
    "unstack": sized(
        one(lambda fluid, x: fluid.layers.sum(fluid.layers.unstack(x, 1))),
        (2, 3, 6),
        (16, 8, 64),
        (32, 16, 256),
    ),
    "slice": sized(one(lambda fluid, x: fluid.layers.slice(x, [0, 1], [1, 1], [-1, 100])), *MATRICES),
    "strided_slice": sized(
        one(lambda fluid, x: fluid.layers.strided_slice(x, [1], [1], [1000], [2])), *MATRICES
    ),
    "crop": sized(one(lambda fluid, x: fluid.layers.crop_tensor(x, [2, 3], [1, 1])), *MATRICES),
    "pad": sized(one(lambda fluid, x: fluid.layers.pad(x, [1, 2, 3, 4])), *MATRICES),
    "expand": sized(one(lambda fluid, x: fluid.layers.expand(x, [2, 2])), (4, 6), (64, 128), (512, 512)),
    "expand_as": sized(
        lambda rows, size: layers(
            lambda fluid, x, y: fluid.layers.expand_as(x, y), x=normal(1, size), y=normal(rows, size)
        ),
        *MATRICES,
    ),
    "flip": sized(one(lambda fluid, x: fluid.layers.flip(x, [0, 1])), *MATRICES),
    "reverse": sized(one(lambda fluid, x: fluid.layers.reverse(x, [1])), *MATRICES),
    "roll": sized(one(lambda fluid, x: fluid.layers.roll(x, [1, 2], [0, 1])), *MATRICES),
    "gather": sized(chosen(lambda fluid, x, i: fluid.layers.gather(x, i)), *MATRICES),
    "gather_nd": sized(
        lambda rows, size: layers(
            lambda fluid, x, i: fluid.layers.gather_nd(x, i), x=normal(rows, size), i=below(rows, rows, 1)
        ),
        *MATRICES,
    ),
    "index_select": sized(
        chosen(lambda fluid, x, i: fluid.layers.index_select(x, i, dim=1)), (4, 6), (128, 256), (1000, 1024)
    ),
    "index_sample": sized(
        lambda rows, size: layers(
            lambda fluid, x, i: fluid.layers.index_sample(x, i), x=normal(rows, size), i=below(size, rows, 10)
        ),
        *MATRICES,
    ),
    "scatter": sized(scatter(True), *MATRICES),
    "scatter add": sized(scatter(False), *MATRICES),
    "scatter_nd_add": sized(scatter_nd_add, *MATRICES),
    "tril": sized(one(lambda fluid, x: fluid.layers.tril(x)), *MATRICES),
    "trace": sized(one(lambda fluid, x: fluid.layers.trace(x)), *MATRICES),
    "diag_embed": sized(one(lambda fluid, x: fluid.layers.diag_embed(x), False), (4, 6), (32, 64), (64, 128)),
    "meshgrid": sized(
        lambda rows, columns: layers(
            lambda fluid, x, y: fluid.layers.sum(fluid.layers.meshgrid([x, y])),
            x=normal(rows),
            y=normal(columns),
        ),
        *MATRICES,
    ),
    "shard_index": sized(
        lambda rows: layers(
            lambda fluid, x: fluid.layers.shard_index(x, 20, 2, 1), grad=False, x=below(20, rows, 1)
        ),
        (4,),
        (1000,),
        (100000,),
    ),
    "assign": sized(one(lambda fluid, x: fluid.layers.assign(x)), *MATRICES),
    "array of tensors": sized(one(array), *MATRICES),
    "while, 10 rounds": sized(one(counted, False), *MATRICES),
    "fill_constant": sized(
        made(lambda fluid, shape: fluid.layers.fill_constant(shape, "float32", 1.5)), *MATRICES
    ),
    "uniform_random": sized(made(lambda fluid, shape: fluid.layers.uniform_random(shape, seed=3)), *MATRICES),
    "gaussian_random": sized(
        made(lambda fluid, shape: fluid.layers.gaussian_random(shape, seed=3)), *MATRICES
    ),
    "randint": sized(made(lambda fluid, shape: fluid.layers.randint(0, 9, shape, seed=3)), *MATRICES),
    "randperm": sized(made(lambda fluid, shape: fluid.layers.randperm(shape[0] * 8, seed=3)), *MATRICES),
    "range": sized(made(lambda fluid, shape: fluid.layers.range(0, shape[0] * 8, 1, "int64")), *MATRICES),
    "eye": sized(made(lambda fluid, shape: fluid.layers.eye(shape[0], shape[1])), *MATRICES),
    "sampling_id": sized(
        lambda rows, size: layers(
            lambda fluid, x: fluid.layers.sampling_id(x, seed=3), grad=False, x=abs(normal(rows, size)) / size
        ),
        *MATRICES,
    ),
}
