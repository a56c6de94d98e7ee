"""Recurrent layers of several levels and directions, written with `StaticRNN` and one unit a level."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.base.records import dataclass
from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.elementwise import elementwise_mul
from fluidlite.layers.neural.norm import dropout
from fluidlite.layers.recurrence.rnn_units import BasicGRUUnit, BasicLSTMUnit
from fluidlite.layers.recurrence.static_rnn import StaticRNN
from fluidlite.layers.sequence_lod import sequence_mask
from fluidlite.layers.tensor import reverse
from fluidlite.layers.tensors.search import shape as shape_of
from fluidlite.layers.tensors.shaping import reshape, transpose
from fluidlite.layers.tensors.variables import concat
from fluidlite.param_attr import ParamAttr

__all__ = ["BasicGRUUnit", "BasicLSTMUnit", "basic_gru", "basic_lstm"]

Activation = Callable[[Variable], Variable]


# ---------------------------------------------------------------------- several levels
@dataclass(frozen=True)
class _Stack:
    """The part that the levels of one layer have in common."""

    layer: str
    hidden_size: int
    num_layers: int
    dropout_prob: float | None
    dropout_implementation: str
    param_attr: Any
    bias_attr: Any
    make: Callable[[str, Any, Any], Any]
    """(name scope, attribute of the weights, of the biases) -> unit."""

    def units(self, backwards: bool) -> list[Any]:
        """The units of one direction, a level each."""
        scope = f"{self.layer}_reverse_layers_" if backwards else f"{self.layer}_layers_"
        direction = "bw" if backwards else "fw"
        return [
            self.make(
                f"{scope}{level}",
                _named(self.param_attr, f"_{direction}_w_{level}"),
                _named(self.bias_attr, f"_{direction}_b_{level}"),
            )
            for level in range(self.num_layers)
        ]

    def run(
        self, units: list[Any], input: Variable, mask: Variable | None, inits: list[Any], direction: int
    ) -> list[Variable]:
        """The recurrence over one direction: the top level's output of all steps, then the last step's
        states, for each kind of state [levels, batch, hidden].

        `inits` are the first states, [levels, directions, batch, hidden] or None for zeros, a kind each.
        """
        # outside of the step: a state's start is computed once
        starts = [
            [None if init is None else init[level, direction] for init in inits]
            for level in range(self.num_layers)
        ]
        rnn = StaticRNN()
        with rnn.step():
            x = rnn.step_input(input)
            step_mask = None if mask is None else rnn.step_input(mask)
            for unit, start in zip(units, starts, strict=True):
                before = [self._memory(rnn, init, input) for init in start]
                after = unit(x, *before)
                after = list(after) if isinstance(after, tuple) else [after]
                if step_mask is not None:
                    after = [_held(new, old, step_mask) for new, old in zip(after, before, strict=True)]
                for old, new in zip(before, after, strict=True):
                    rnn.update_memory(old, new)
                for new in after:
                    rnn.step_output(new)
                x = self._dropped(after[0])
            rnn.step_output(x)
        outputs = rnn()
        kinds = len(inits)
        lasts = [var[-1] for var in outputs[: kinds * self.num_layers]]
        stacked = [self._stacked(lasts[kind::kinds]) for kind in range(kinds)]
        return [outputs[-1], *stacked]

    def _memory(self, rnn: StaticRNN, init: Variable | None, input: Variable) -> Variable:
        if init is None:
            return rnn.memory(batch_ref=input, shape=[-1, self.hidden_size])
        return rnn.memory(init=init)

    def _dropped(self, x: Variable) -> Variable:
        if not self.dropout_prob:
            return x
        return dropout(x, self.dropout_prob, dropout_implementation=self.dropout_implementation)

    def _stacked(self, levels: list[Variable]) -> Variable:
        return reshape(concat(levels, axis=0), shape=[self.num_layers, -1, self.hidden_size])

    def __call__(
        self,
        input: Variable,
        inits: list[Any],
        sequence_length: Variable | None,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Variable]:
        """Outputs of all steps, and the last states of each kind."""
        forward = self.units(backwards=False)
        backward = self.units(backwards=True) if bidirectional else []
        directions = 2 if bidirectional else 1
        if batch_first:
            input = transpose(input, [1, 0, 2])
        mask = None
        if sequence_length is not None:
            longest = shape_of(input)[0]
            mask = transpose(sequence_mask(sequence_length, maxlen=longest, dtype="float32"), [1, 0])
        whole = [self.num_layers, directions, -1, self.hidden_size]
        inits = [None if init is None else reshape(init, shape=whole) for init in inits]
        found = self.run(forward, input, mask, inits, 0)
        if bidirectional:
            found = self._joined(found, backward, input, mask, inits)
        if batch_first:
            found[0] = transpose(found[0], [1, 0, 2])
        return found

    def _joined(
        self, forward: list[Variable], units: list[Any], input: Variable, mask: Any, inits: list[Any]
    ) -> list[Variable]:
        """The forward direction's results beside those of the sequences read from their end."""
        turned = reverse(input, axis=[0])
        turned_mask = None if mask is None else reverse(mask, axis=[0])
        backward = self.run(units, turned, turned_mask, inits, 1)
        output = concat([forward[0], reverse(backward[0], axis=[0])], axis=2)
        pairs = zip(forward[1:], backward[1:], strict=True)
        whole = [2 * self.num_layers, -1, self.hidden_size]
        return [output, *(reshape(concat([one, two], axis=1), shape=whole) for one, two in pairs)]


def _held(new: Variable, old: Variable, mask: Variable) -> Variable:
    """`new` where `mask` is 1, `old` where it is 0: a state stays as it is behind the end of its sequence."""
    return elementwise_mul(new, mask, axis=0) - elementwise_mul(old, mask - 1, axis=0)


def _named(attr: Any, suffix: str) -> Any:
    """A user's attribute with `suffix` at the end of its name, if it has one."""
    attr = ParamAttr._to_attr(attr)
    if isinstance(attr, ParamAttr) and attr.name is not None:
        attr = copy.deepcopy(attr)
        attr.name += suffix
    return attr


def basic_gru(
    input: Variable,
    init_hidden: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: Activation | None = None,
    activation: Activation | None = None,
    dtype: DTypeLike = "float32",
    name: str = "basic_gru",
) -> tuple[Variable, Variable]:
    """Levels of `BasicGRUUnit`s over [batch, steps, width], or [steps, batch, width] without `batch_first`.

    Gives the top level's outputs, both directions' side by side, and the last states [levels * directions,
    batch, hidden_size].

    Parameters
    ----------
    init_hidden: the first states, shaped as the last ones; zeros for None.
    sequence_length: [batch], how many steps of each sequence count; all for None.
    dropout_prob: of each level's output.
    """

    def make(scope: str, weights: Any, biases: Any) -> BasicGRUUnit:
        return BasicGRUUnit(scope, hidden_size, weights, biases, gate_activation, activation, dtype)

    stack = _Stack(
        name, hidden_size, num_layers, dropout_prob, "downgrade_in_infer", param_attr, bias_attr, make
    )
    output, last = stack(input, [init_hidden], sequence_length, bidirectional, batch_first)
    return output, last


def basic_lstm(
    input: Variable,
    init_hidden: Variable | None,
    init_cell: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: Activation | None = None,
    activation: Activation | None = None,
    forget_bias: float = 1.0,
    dtype: DTypeLike = "float32",
    name: str = "basic_lstm",
) -> tuple[Variable, Variable, Variable]:
    """Levels of `BasicLSTMUnit`s; as `basic_gru`, with the cells' first and last states besides.

    Gives (outputs, last hidden states, last cells).
    """

    def make(scope: str, weights: Any, biases: Any) -> BasicLSTMUnit:
        return BasicLSTMUnit(
            scope, hidden_size, weights, biases, gate_activation, activation, forget_bias, dtype
        )

    stack = _Stack(
        name, hidden_size, num_layers, dropout_prob, "upscale_in_train", param_attr, bias_attr, make
    )
    inits = [init_hidden, init_cell]
    output, hidden, cell = stack(input, inits, sequence_length, bidirectional, batch_first)
    return output, hidden, cell
