"""Weight normalisation: a parameter w as g * v / |v|, for `WeightNormParamAttr`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper_base import LayerHelperBase
from fluidlite.layers.arithmetic.elementwise import elementwise_div, elementwise_mul
from fluidlite.layers.tensors.shaping import reshape
from fluidlite.param_attr import WeightNormParamAttr

__all__ = ["create_weight_normalized"]


def create_weight_normalized(
    helper: LayerHelperBase, attr: WeightNormParamAttr, shape: Sequence[int], dtype: Any
) -> Variable:
    """w of `shape` with parameters `<name>_v`, initialised as w would be, and `<name>_g`, which begins as
    |v|.

    The norm is taken over all dimensions but `attr.dim`, or over all of them where it is None.
    """
    g_shape = [1] * len(shape)
    if attr.dim is not None:
        g_shape[attr.dim] = shape[attr.dim]
    g_attr, v_attr = copy.deepcopy(attr), copy.deepcopy(attr)
    assert attr.name is not None
    g_attr.name, v_attr.name = attr.name + "_g", attr.name + "_v"
    startup, main = helper.startup_program.global_block(), helper.main_program.global_block()
    g = startup.create_parameter(dtype=dtype, shape=g_shape, **g_attr._to_kwargs())
    v = startup.create_parameter(dtype=dtype, shape=shape, **v_attr._to_kwargs(with_initializer=True))
    steps = _Steps(helper, startup, dtype)
    steps.norm(v, attr.dim, g)
    steps.step("reshape", g, g, shape=g_shape)
    g = main.create_parameter(dtype=dtype, shape=g_shape, **g_attr._to_kwargs())
    v = main.create_parameter(dtype=dtype, shape=shape, **v_attr._to_kwargs())
    w = _normalized(helper, g, v, attr.dim, dtype)
    WeightNormParamAttr.params_with_weight_norm.append(w)
    return w


def _normalized(helper: LayerHelperBase, g: Variable, v: Variable, dim: int | None, dtype: Any) -> Variable:
    steps = _Steps(helper, helper.block, dtype)
    scale = elementwise_div(x=g, y=steps.norm(v, dim, steps.variable("norm")))
    if dim is None:
        return elementwise_mul(x=v, y=scale, axis=-1)
    return elementwise_mul(x=v, y=reshape(x=scale, shape=[v.shape[dim]]), axis=dim)


class _Steps:
    """Appends ops to one block; their results are named `<layer>.weight_norm_<op>_N`."""

    def __init__(self, helper: LayerHelperBase, block: Block, dtype: Any) -> None:
        self.helper, self.block, self.dtype = helper, block, dtype

    def variable(self, what: str) -> Variable:
        """A new temporary."""
        name = unique_name.generate(".".join([self.helper.name, f"weight_norm_{what}"]))
        return self.block.create_var(name=name, dtype=self.dtype, persistable=False)

    def step(
        self, type: str, x: Variable, out: Variable | None = None, what: str = "", **attrs: Any
    ) -> Variable:
        """`type` applied to x."""
        out = self.variable(what or type) if out is None else out
        self.block.append_op(type=type, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
        return out

    def norm(self, x: Variable, dim: int | None, out: Variable) -> Variable:
        """Write |x|, over all dimensions but `dim`, to `out`, in as many dimensions as x has."""
        if dim is None:
            return self._root_of_squares(x, out, [0], reduce_all=True)
        last = len(x.shape) - 1
        shape = [x.shape[dim], *[1] * last]
        if dim == 0:
            return self._reshaped(self.step("reshape", x, shape=[x.shape[0], -1]), [1], shape, out)
        if dim == last:
            return self._reshaped(self.step("reshape", x, shape=[-1, x.shape[-1]]), [0], shape[::-1], out)
        swapped = list(range(len(x.shape)))
        swapped[0], swapped[dim] = dim, 0
        rows = self.step("reshape", self.step("transpose", x, axis=swapped), shape=[x.shape[dim], -1])
        return self.step("transpose", self._reshaped(rows, [1], shape, None), out, axis=swapped)

    def _reshaped(self, rows: Variable, axes: list[int], shape: list[int], out: Variable | None) -> Variable:
        return self.step(
            "reshape",
            self._root_of_squares(rows, self.variable("norm"), axes, reduce_all=False),
            out,
            shape=shape,
        )

    def _root_of_squares(self, x: Variable, out: Variable, axes: list[int], reduce_all: bool) -> Variable:
        squares = self.step("pow", self.step("abs", x), factor=2.0)
        total = self.step("reduce_sum", squares, what="sum", dim=axes, keep_dim=False, reduce_all=reduce_all)
        return self.step("pow", total, out, factor=0.5)
