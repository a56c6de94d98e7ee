"""Cells of recurrent networks, and `rnn`, which runs one over the steps of a padded batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.data_feeder import check_dtype, check_type, check_variable_and_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layers import sequence_lod, tensor, utils
from fluidlite.layers.arithmetic import elementwise
from fluidlite.layers.recurrence.rnn_units import BasicGRUUnit, BasicLSTMUnit
from fluidlite.layers.recurrence.static_rnn import StaticRNN
from fluidlite.layers.tensors import search, shaping
from fluidlite.layers.tensors.constants import fill_constant_batch_size_like

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "choose", "rnn", "swap_batch_and_time", "with_gradient"]

_FLOATS = ["float32", "float64"]


class RNNCell:
    """One step of a recurrence: `call(inputs, states)` gives (outputs, new states); `state_shape` says what
    states look like.

    Inputs, outputs and states may be nested structures of Variables.
    """

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        """(outputs, new states); TypeError unless a subclass defines it."""
        raise TypeError(f"{type(self).__name__} must implement the call function")

    def __call__(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        return self.call(inputs, states, **kwargs)

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: Any = "float32",
        init_value: float = 0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """States full of `init_value`, for as many rows as `batch_ref` has in dimension `batch_dim_idx`.

        `shape` is one shape or a nested structure of them, by default `state_shape`; a batch dimension of -1
        may be left out. `dtype` is one dtype or a structure like that of the shapes.
        """
        batch = utils.flatten(batch_ref)[0]
        check_type(batch, "batch_ref", Variable, "RNNCell")
        shapes = _as_shapes(self.state_shape if shape is None else shape)
        dtypes = self.state_dtype if dtype is None else dtype
        for kind in utils.flatten(dtypes):
            check_dtype(kind, "dtype", _FLOATS, "RNNCell")
        if not utils.is_sequence(dtypes):
            dtypes = utils.map_structure(lambda _: dtype, shapes)
        return utils.map_structure(
            lambda form, kind: self._filled(batch, form.dims, kind, init_value, batch_dim_idx), shapes, dtypes
        )

    def _filled(self, batch: Variable, dims: list[int], dtype: Any, value: float, axis: int) -> Variable:
        """A state of the shape `dims`, whose first dimension is as long as `batch` is along `axis`."""
        return fill_constant_batch_size_like(
            input=batch, shape=dims, dtype=dtype, value=value, input_dim_idx=axis
        )

    @property
    def state_shape(self) -> Any:
        """Shapes of the states, without the batch dimension; TypeError unless a subclass says which."""
        raise TypeError(f"{type(self).__name__} must implement `state_shape`")

    @property
    def state_dtype(self) -> Any:
        """Dtypes of the states; TypeError unless a subclass says which."""
        raise TypeError(f"{type(self).__name__} must implement `state_dtype`")


class _Shape:
    """A shape as a leaf of a nested structure, with its batch dimension."""

    def __init__(self, dims: Sequence[int]) -> None:
        self.dims = list(dims) if dims[0] == -1 else [-1, *dims]


def _as_shapes(structure: Any) -> Any:
    """The structure with its innermost sequences of integers as leaves."""
    if isinstance(structure, dict):
        return {key: _as_shapes(value) for key, value in structure.items()}
    if all(isinstance(item, Integral) for item in structure):
        return _Shape(structure)
    return type(structure)(_as_shapes(item) for item in structure)


class GRUCell(RNNCell):
    """A gated recurrent unit; `gate_activation` and `activation` are layers, by default sigmoid and tanh.

    A name in `param_attr` or `bias_attr` gets "_gate" and "_candidate", because the cell has two of each.
    """

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Callable[[Variable], Variable] | None = None,
        activation: Callable[[Variable], Variable] | None = None,
        dtype: DTypeLike = "float32",
        name: str = "GRUCell",
    ) -> None:
        check_type(hidden_size, "hidden_size", int, "GRUCell")
        check_dtype(dtype, "dtype", _FLOATS, "GRUCell")
        self.hidden_size = hidden_size
        self.gru_unit = BasicGRUUnit(
            name, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype
        )

    def call(self, inputs: Variable, states: Variable) -> tuple[Variable, Variable]:  # type: ignore[override]
        """The new state [batch, hidden_size], twice: as output and as state."""
        check_variable_and_dtype(inputs, "inputs", _FLOATS, "GRUCell")
        check_variable_and_dtype(states, "states", _FLOATS, "GRUCell")
        new = self.gru_unit(inputs, states)
        return new, new

    @property
    def state_shape(self) -> list[int]:
        """[hidden_size]."""
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """Long short-term memory; its states are [hidden, cell]. As in fluid 1.8 it always uses sigmoid and
    tanh.
    """

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Callable[[Variable], Variable] | None = None,
        activation: Callable[[Variable], Variable] | None = None,
        forget_bias: float = 1.0,
        dtype: DTypeLike = "float32",
        name: str = "LSTMCell",
    ) -> None:
        check_type(hidden_size, "hidden_size", int, "LSTMCell")
        check_dtype(dtype, "dtype", _FLOATS, "LSTMCell")
        self.hidden_size = hidden_size
        self.lstm_unit = BasicLSTMUnit(
            name, hidden_size, param_attr, bias_attr, gate_activation, activation, forget_bias, dtype
        )

    def call(self, inputs: Variable, states: list[Variable]) -> tuple[Variable, list[Variable]]:  # type: ignore[override]
        """The new hidden state [batch, hidden_size], and the new [hidden, cell]."""
        check_variable_and_dtype(inputs, "inputs", _FLOATS, "LSTMCell")
        check_type(states, "states", list, "LSTMCell")
        for i, state in enumerate(states):
            check_variable_and_dtype(state, f"states[{i}]", _FLOATS, "LSTMCell")
        pre_hidden, pre_cell = states
        hidden, cell = self.lstm_unit(inputs, pre_hidden, pre_cell)
        return hidden, [hidden, cell]

    @property
    def state_shape(self) -> list[list[int]]:
        """Two shapes [hidden_size]."""
        return [[self.hidden_size], [self.hidden_size]]


# ---------------------------------------------------------------------- a cell over time
def swap_batch_and_time(x: Variable) -> Variable:
    """The first two dimensions exchanged."""
    return shaping.transpose(x, [1, 0, *range(2, len(x.shape))])


def choose(mask: Variable, first: Variable, second: Variable) -> Variable:
    """`first` in the rows where the float `mask` is 1, `second` where it is 0."""
    chosen = elementwise.elementwise_mul(first, mask, axis=0)
    found: Variable = chosen - elementwise.elementwise_mul(second, (mask - 1), axis=0)
    return found


def with_gradient(x: Variable) -> Variable:
    """`x`, which from now on gets a gradient."""
    x.stop_gradient = False
    return x


def rnn(
    cell: RNNCell,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Variable | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """(outputs of all steps, last states) of `cell` over `inputs` [batch, time, ...], or [time, batch, ...]
    if `time_major`.

    Behind the end of a sequence, `sequence_length` [batch] given, states stay as they are. `is_reverse`
    starts at the last step; outputs stand at their inputs' places all the same. Other arguments go to the
    cell.
    """
    check_type(inputs, "inputs", (Variable, list, tuple), "rnn")
    check_type(initial_states, "initial_states", (Variable, list, tuple, type(None)), "rnn")
    check_type(sequence_length, "sequence_length", (Variable, type(None)), "rnn")
    if initial_states is None:
        initial_states = cell.get_initial_states(batch_ref=inputs, batch_dim_idx=1 if time_major else 0)
    initial_states = utils.map_structure(with_gradient, initial_states)
    inputs = inputs if time_major else utils.map_structure(swap_batch_and_time, inputs)
    mask = None if sequence_length is None else _step_mask(inputs, initial_states, sequence_length)
    if is_reverse:
        inputs = utils.map_structure(_backwards, inputs)
        mask = None if mask is None else _backwards(mask)
    outputs, last = _unrolled(cell, inputs, initial_states, mask, kwargs)
    if is_reverse:
        outputs = utils.map_structure(_backwards, outputs)
    return outputs if time_major else utils.map_structure(swap_batch_and_time, outputs), last


def _backwards(x: Variable) -> Variable:
    return tensor.reverse(x, axis=[0])


def _step_mask(inputs: Any, states: Any, sequence_length: Variable) -> Variable:
    """[time, batch] 1 where a sequence goes on, in the dtype of the states."""
    longest = search.shape(utils.flatten(inputs)[0])[0]
    mask = sequence_lod.sequence_mask(sequence_length, maxlen=longest, dtype=utils.flatten(states)[0].dtype)
    return shaping.transpose(mask, [1, 0])


def _unrolled(
    cell: RNNCell, inputs: Any, initial_states: Any, mask: Variable | None, arguments: dict[str, Any]
) -> tuple[Any, Any]:
    """Outputs [time, batch, ...] and last states, by a StaticRNN."""
    loop = StaticRNN()
    with loop.step():
        states = utils.map_structure(lambda state: loop.memory(init=state), initial_states)
        now = utils.map_structure(loop.step_input, inputs)
        outputs, new = cell.call(now, utils.copy_mutable_vars(states), **arguments)
        utils.assert_same_structure(states, new)
        if mask is not None:
            running = loop.step_input(mask)
            new = utils.map_structure(lambda old, state: choose(running, state, old), states, new)
        utils.map_structure(loop.update_memory, states, new)
        utils.map_structure(loop.step_output, outputs)
        utils.map_structure(loop.step_output, new)
    found = loop()
    found = found if isinstance(found, list) else [found]
    count = len(utils.flatten(outputs))
    last = [state[-1] for state in found[count:]]
    return utils.pack_sequence_as(outputs, found[:count]), utils.pack_sequence_as(new, last)
