"""Layers whose weights the ranks share: a product by rows or columns, a table by parts of its vocabulary."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle.build import append
from fluidlite.paddle.distributed.environment import ParallelEnv
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Linear

__all__ = ["split"]

_OPERATIONS = ("linear", "embedding")
_CALC = {"ring_id": 0, "use_calc_stream": True}
_SHARED = {**_CALC, "use_model_parallel": True}


def split(
    x: Variable,
    size: tuple[int, int],
    operation: str,
    axis: int = 0,
    num_partitions: int = 1,
    gather_out: bool = True,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """A product with a weight of `size`, or the rows of a table of `size`, of which each of `num_partitions`
    ranks holds a part.

    operation: "linear", with rows (`axis` 0) or columns (1) of the weight shared, or "embedding".
    gather_out: False keeps the ranks' results apart: partial sums for rows, some of the columns for columns.
    """
    if operation not in _OPERATIONS:
        raise ArgumentError(
            f"The operation for paddle.distributed.split must be one of {list(_OPERATIONS)}, but is "
            f"{operation!r}"
        )
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        raise ArgumentError(
            f"The type of size in paddle.distributed.split must be list or tuple of two numbers, but it is "
            f"{size!r}"
        )
    env = ParallelEnv()
    if env.world_size % num_partitions:
        raise ArgumentError(f"{num_partitions} partitions do not divide the {env.world_size} ranks")
    part = _Part(env.rank % num_partitions, num_partitions)
    if operation == "embedding":
        return _embedding(x, size, axis, part, weight_attr)
    if axis == 0:
        return _by_rows(x, size, part, gather_out, weight_attr, bias_attr, name)
    if axis == 1:
        return _by_columns(x, size, part, gather_out, weight_attr, bias_attr, name)
    raise ValueError(f"The value of axis must be 0 or 1, but the value given is {axis}.")


class _Part:
    """The part of a rank: number `rank` of `count`."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.count = count

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of ops that have to know it."""
        return {**_SHARED, "rank": self.rank, "nranks": self.count}

    def of(self, size: int, what: str) -> int:
        """How much of `size` a rank has. ArgumentError where that is not the same for all."""
        if size % self.count:
            raise ArgumentError(f"{what} ({size}) must be divisible by num_partitions ({self.count})")
        return size // self.count


def _distributed(parameter: Any, part: _Part) -> None:
    """Mark a parameter that differs from rank to rank, in both programs: nobody broadcasts it."""
    if part.count == 1:
        return
    startup = LayerHelper("mark").startup_program.global_block()
    for block in (startup, parameter.block.program.global_block()):
        declared: Any = block.vars[parameter.name]
        declared.is_distributed = True


def _by_rows(
    x: Variable,
    size: tuple[int, int],
    part: _Part,
    gather_out: bool,
    weight_attr: Any,
    bias_attr: Any,
    name: str | None,
) -> Variable:
    rows = part.of(size[0], "Number of rows of the weight for linear")
    if x.shape[-1] != rows:
        x = append("c_split", {"X": [x]}, part.attrs, dtype=x.dtype)
    layer = Linear(rows, size[1], weight_attr, False, name)
    product: Variable = layer(x)
    _distributed(layer.weight, part)
    if not gather_out:
        return product
    total = _like(product)
    append("mp_allreduce_sum", {"X": [product]}, _CALC, dtype=x.dtype, out=total)
    if bias_attr is False:
        return total
    # behind the sum: each rank would add its own otherwise
    found: Variable = total + layer.create_parameter([size[1]], bias_attr, is_bias=True)
    return found


def _by_columns(
    x: Variable,
    size: tuple[int, int],
    part: _Part,
    gather_out: bool,
    weight_attr: Any,
    bias_attr: Any,
    name: str | None,
) -> Variable:
    columns = part.of(size[1], "Number of column of the weight for linear")
    given = append("c_identity", {"X": [x]}, _SHARED, dtype=x.dtype)
    layer = Linear(size[0], columns, weight_attr, bias_attr, name)
    product: Variable = layer(given)
    _distributed(layer.weight, part)
    if layer.bias is not None:
        _distributed(layer.bias, part)
    if not gather_out:
        return product
    found = _like(product, (*product.shape[:-1], size[1]))
    append("c_concat", {"X": [product]}, part.attrs, dtype=x.dtype, out=found)
    return found


def _embedding(x: Variable, size: tuple[int, int], axis: int, part: _Part, weight_attr: Any) -> Variable:
    if axis != 0:
        raise ArgumentError("We only support to split the weight of embedding along the first axis now.")
    rows = part.of(size[0], "The length of the vocabulary")
    layer = Layer("_parallel_embedding")
    weight = layer.create_parameter([rows, size[1]], weight_attr)
    attrs = {"start_index": part.rank * rows, "vocab_size": size[0]}
    found = append("c_embedding", {"W": [weight], "Ids": [x]}, attrs, dtype=weight.dtype)
    _distributed(weight, part)
    return append("mp_allreduce_sum", {"X": [found]}, _CALC, dtype=weight.dtype)


def _like(var: Variable, shape: Any = None) -> Variable:
    """A variable of the block without a name of its own."""
    found: Variable = var.block.create_var(dtype=var.dtype, shape=var.shape if shape is None else shape)
    return found
