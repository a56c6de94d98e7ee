"""The units inside `GRUCell` and `LSTMCell`: their parameters, made at the first call, and one step
written in small ops.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers import ops
from fluidlite.layers.arithmetic import elementwise
from fluidlite.layers.arithmetic import products as fc
from fluidlite.layers.tensors import shaping, variables
from fluidlite.layers.tensors.constants import fill_constant
from fluidlite.param_attr import ParamAttr

__all__ = ["BasicGRUUnit", "BasicLSTMUnit"]

Function = Callable[[Variable], Variable]


class _ScopedUnit:
    """Names its parameters `<name_scope>/<class>_N.w_0` and so on."""

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any,
        bias_attr: Any,
        gate_activation: Function | None,
        activation: Function | None,
        dtype: DTypeLike,
    ) -> None:
        self._full_name = unique_name.generate(f"{name_scope}/{type(self).__name__}")
        self._hiden_size = hidden_size
        self._param_attr = ParamAttr._to_attr(param_attr)
        self._bias_attr = ParamAttr._to_attr(bias_attr)
        self._gate_activation = gate_activation or ops.sigmoid
        self._activation = activation or ops.tanh
        self._dtype = dtype
        self._parameters: list[Variable] = []

    def full_name(self) -> str:
        """The name that the parameters' names begin with."""
        return self._full_name

    def parameters(self) -> list[Variable]:
        """The parameters; none before the first call."""
        return list(self._parameters)

    def _make(self, attr: Any, shape: list[int], is_bias: bool = False) -> Variable:
        """A parameter of its own name."""
        made: Variable = LayerHelper("unit", name=self._full_name).create_parameter(
            attr=attr, shape=shape, dtype=self._dtype, is_bias=is_bias
        )
        return made

    def _build(self, input: Variable) -> list[Variable]:
        """The parameters for inputs like `input`."""
        raise TypeError(f"{type(self).__name__} must define its parameters")

    def _built(self, input: Variable) -> list[Variable]:
        if not self._parameters:
            self._parameters = self._build(input)
        return self._parameters


def _affine(parts: list[Variable], weight: Variable, bias: Variable) -> Variable:
    """parts side by side, times the weight, plus the bias."""
    return elementwise.elementwise_add(fc.matmul(variables.concat(parts, 1), weight), bias)


def _suffixed(attr: Any, suffix: str) -> Any:
    """A copy of the attribute; one with a name gets the suffix, so that it can stand for two parameters."""
    found = copy.deepcopy(attr)
    if found is not False and found.name is not None:
        found.name += suffix
    return found


class BasicGRUUnit(_ScopedUnit):
    """h' = u h + (1 - u) c, with r, u = gate([x, h] W + b) and c = activation([x, r h] V + d)."""

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Function | None = None,
        activation: Function | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype)

    def _build(self, input: Variable) -> list[Variable]:
        size, rows = self._hiden_size, input.shape[-1] + self._hiden_size
        weights = [
            self._make(_suffixed(self._param_attr, suffix), [rows, columns])
            for suffix, columns in (("_gate", 2 * size), ("_candidate", size))
        ]
        return weights + [
            self._make(_suffixed(self._bias_attr, suffix), [columns], is_bias=True)
            for suffix, columns in (("_gate", 2 * size), ("_candidate", size))
        ]

    def __call__(self, input: Variable, pre_hidden: Variable) -> Variable:
        gate_weight, candidate_weight, gate_bias, candidate_bias = self._built(input)
        gates = self._gate_activation(_affine([input, pre_hidden], gate_weight, gate_bias))
        reset, update = shaping.split(gates, num_or_sections=2, dim=1)
        candidate = self._activation(_affine([input, reset * pre_hidden], candidate_weight, candidate_bias))
        new: Variable = update * pre_hidden + (1 - update) * candidate
        return new


class BasicLSTMUnit(_ScopedUnit):
    """c' = c sigmoid(f + forget_bias) + sigmoid(i) tanh(j), h' = tanh(c') sigmoid(o), with i, j, f, o =
    [x, h] W + b.
    """

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Function | None = None,
        activation: Function | None = None,
        forget_bias: float = 1.0,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype)
        self._forget_bias = fill_constant([1], dtype=dtype, value=forget_bias)
        self._forget_bias.stop_gradient = False

    def _build(self, input: Variable) -> list[Variable]:
        size = self._hiden_size
        return [
            self._make(self._param_attr, [input.shape[-1] + size, 4 * size]),
            self._make(self._bias_attr, [4 * size], is_bias=True),
        ]

    def __call__(
        self, input: Variable, pre_hidden: Variable, pre_cell: Variable
    ) -> tuple[Variable, Variable]:
        entry, new, forget, output = shaping.split(
            _affine([input, pre_hidden], *self._built(input)), num_or_sections=4, dim=-1
        )
        kept = elementwise.elementwise_mul(
            pre_cell, ops.sigmoid(elementwise.elementwise_add(forget, self._forget_bias))
        )
        cell = elementwise.elementwise_add(
            kept, elementwise.elementwise_mul(ops.sigmoid(entry), ops.tanh(new))
        )
        return ops.tanh(cell) * ops.sigmoid(output), cell
