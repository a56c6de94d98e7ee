"""Reductions over all, rows and columns; norms; what sorts and searches."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, below, layers, sized, uniform

SIZES = (4, 6), (128, 256), (1024, 1024)


def reduction(name: str, dim: Any) -> Any:
    def row(rows: int, columns: int) -> Row:
        return layers(lambda fluid, x: getattr(fluid.layers, name)(x, dim=dim), x=uniform(rows, columns))

    return row


def one(build: Any, grad: bool = True) -> Any:
    return lambda rows, columns: layers(build, grad=grad, x=uniform(rows, columns))


def logical(name: str) -> Any:
    def row(rows: int, columns: int) -> Row:
        x = uniform(rows, columns) > 0.5
        return layers(lambda fluid, x: getattr(fluid.layers, name)(x, dim=1), grad=False, x=x)

    return row


ROWS = {}
for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"):
    for where, dim in (("all", None), ("rows", 1), ("columns", 0)):
        ROWS[name + " " + where] = sized(reduction(name, dim), *SIZES)
ROWS.update({name: sized(logical(name), *SIZES) for name in ("reduce_all", "reduce_any")})
ROWS.update(
    {
        "mean": sized(one(lambda fluid, x: fluid.layers.mean(x)), *SIZES),
        "logsumexp": sized(one(lambda fluid, x: fluid.layers.logsumexp(x, dim=[1])), *SIZES),
        "l2_normalize": sized(one(lambda fluid, x: fluid.layers.l2_normalize(x, axis=1)), *SIZES),
        "cumsum": sized(one(lambda fluid, x: fluid.layers.cumsum(x, axis=1)), *SIZES),
        "cumsum of columns": sized(one(lambda fluid, x: fluid.layers.cumsum(x, axis=0)), *SIZES),
        "cumsum backwards": sized(
            one(lambda fluid, x: fluid.layers.cumsum(x, axis=1, exclusive=True, reverse=True)), *SIZES
        ),
        "topk 5": sized(one(lambda fluid, x: fluid.layers.topk(x, 5)), *SIZES),
        "argsort": sized(one(lambda fluid, x: fluid.layers.argsort(x)), *SIZES),
        "argmax": sized(one(lambda fluid, x: fluid.layers.argmax(x, axis=1), False), *SIZES),
        "argmin of columns": sized(one(lambda fluid, x: fluid.layers.argmin(x, axis=0), False), *SIZES),
        "unique": sized(
            lambda count: layers(lambda fluid, x: fluid.layers.unique(x), grad=False, x=below(count, count)),
            (10,),
            (1000,),
            (100000,),
        ),
        "unique_with_counts": sized(
            lambda count: layers(
                lambda fluid, x: fluid.layers.unique_with_counts(x), grad=False, x=below(count, count)
            ),
            (10,),
            (1000,),
            (100000,),
        ),
        "where (places)": sized(
            lambda rows, columns: layers(
                lambda fluid, x: fluid.layers.where(x), grad=False, x=uniform(rows, columns) > 0.5
            ),
            *SIZES,
        ),
    }
)
