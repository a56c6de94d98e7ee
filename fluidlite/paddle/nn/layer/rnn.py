"""Recurrences as layers: cells, loops over a cell, and stacked SimpleRNN, LSTM and GRU by the op `rnn`."""

from __future__ import annotations

import math
from typing import Any

from fluidlite import layers as fluid
from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.initializer import Constant, Uniform
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.container import LayerList
from fluidlite.paddle.tensor.creation import full
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.manipulation import concat, split, transpose
from fluidlite.paddle.tensor.shapes import size_of

__all__ = ["GRU", "LSTM", "RNN", "BiRNN", "GRUCell", "LSTMCell", "RNNCellBase", "SimpleRNN", "SimpleRNNCell"]


class _Step(fluid.RNNCell):  # type: ignore[misc, name-defined]
    """A layer as the cell that fluid's loop calls."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        """(outputs, new states)."""
        return self.layer(inputs, states, **kwargs)

    def _filled(self, batch: Any, dims: list[int], dtype: Any, value: float, axis: int) -> Any:
        # rows, not sequences, where the batch has a level of detail
        return full([size_of(batch, axis), *dims[1:]], value, dtype)

    @property
    def state_shape(self) -> Any:
        """The layer's, without the batch."""
        return self.layer.state_shape


class RNNCellBase(Layer):
    """Base of the cells: `forward(inputs, states)` gives (outputs, new states); `state_shape` says what
    states look like, without the batch.
    """

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: DTypeLike | None = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """States full of `init_value`, for as many rows as `batch_ref` has in dimension `batch_dim_idx`."""
        kind = "float32" if dtype is None else dtype
        return _Step(self).get_initial_states(batch_ref, shape, kind, init_value, batch_dim_idx)

    @property
    def state_shape(self) -> Any:
        """Shapes of the states; TypeError unless a subclass defines them."""
        raise TypeError(f"{type(self).__name__} must implement the property state_shape")


class _Cell(RNNCellBase):
    """Weights [gates * hidden, input] and [gates * hidden, hidden], and two biases."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if hidden_size <= 0:
            raise ValueError(
                f"hidden_size of {type(self).__name__} must be greater than 0, but is {hidden_size}"
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = self._made([rows, input_size], weight_ih_attr, False)
        self.weight_hh = self._made([rows, hidden_size], weight_hh_attr, False)
        self.bias_ih = self._made([rows], bias_ih_attr, True)
        self.bias_hh = self._made([rows], bias_hh_attr, True)

    def _made(self, shape: list[int], attr: Any, is_bias: bool) -> Any:
        limit = 1.0 / math.sqrt(self.hidden_size)
        if attr is not False:
            return self.create_parameter(
                shape, attr, is_bias=is_bias, default_initializer=Uniform(-limit, limit)
            )
        # the op wants them all: 1 and 0, which nothing trains
        fixed = self.create_parameter(
            shape, None, is_bias=is_bias, default_initializer=Constant(0.0 if is_bias else 1.0)
        )
        fixed.stop_gradient = True
        return fixed

    def _sums(self, inputs: Any, hidden: Any) -> tuple[Any, Any]:
        from_input = matmul(inputs, self.weight_ih, transpose_y=True) + self.bias_ih
        return from_input, matmul(hidden, self.weight_hh, transpose_y=True) + self.bias_hh

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}"


_ACTIVATIONS = {"tanh": F.tanh, "relu": F.relu}


class SimpleRNNCell(_Cell):
    """h' = act(W_ih x + b_ih + W_hh h + b_hh)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation for SimpleRNNCell should be tanh or relu, but get {activation}")
        self.activation = activation

    def forward(self, inputs: Any, states: Any = None) -> Any:
        """(h', h') of inputs [batch, input_size] and h [batch, hidden_size], zeros by default."""
        hidden = self.get_initial_states(inputs) if states is None else states
        from_input, from_state = self._sums(inputs, hidden)
        new = _ACTIVATIONS[self.activation](from_input + from_state)
        return new, new

    @property
    def state_shape(self) -> Any:
        """(hidden_size,)."""
        return (self.hidden_size,)


class LSTMCell(_Cell):
    """Long short-term memory, gates i, f, g, o (Hochreiter and Schmidhuber, 1997)."""

    gates = 4

    def forward(self, inputs: Any, states: Any = None) -> Any:
        """(h', (h', c')) of inputs [batch, input_size] and (h, c), each [batch, hidden_size]."""
        hidden, cell = self.get_initial_states(inputs) if states is None else states
        from_input = matmul(inputs, self.weight_ih, transpose_y=True) + self.bias_ih
        both = from_input + matmul(hidden, self.weight_hh, transpose_y=True) + self.bias_hh
        i, f, g, o = split(both, 4, -1)
        i, f, o = F.sigmoid(i), F.sigmoid(f), F.sigmoid(o)
        cell = f * cell + i * F.tanh(g)
        hidden = o * F.tanh(cell)
        return hidden, (hidden, cell)

    @property
    def state_shape(self) -> Any:
        """((hidden_size,), (hidden_size,))."""
        return ((self.hidden_size,), (self.hidden_size,))


class GRUCell(_Cell):
    """Gated recurrent unit, gates r, z, c (Cho et al., 2014), the reset after the product with the state."""

    gates = 3

    def forward(self, inputs: Any, states: Any = None) -> Any:
        """(h', h') of inputs [batch, input_size] and h [batch, hidden_size], zeros by default."""
        hidden = self.get_initial_states(inputs) if states is None else states
        from_input, from_state = self._sums(inputs, hidden)
        x_r, x_z, x_c = split(from_input, 3, 1)
        h_r, h_z, h_c = split(from_state, 3, 1)
        reset = F.sigmoid(x_r + h_r)
        update = F.sigmoid(x_z + h_z)
        candidate = F.tanh(x_c + reset * h_c)
        new = (hidden - candidate) * update + candidate
        return new, new

    @property
    def state_shape(self) -> Any:
        """(hidden_size,)."""
        return (self.hidden_size,)


# ---------------------------------------------------------------------- loops
class RNN(Layer):
    """A cell over all steps of [batch, time, ...], or [time, batch, ...] if `time_major`."""

    def __init__(self, cell: Any, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> Any:
        """(outputs of all steps, last states); behind `sequence_length` states stay as they are."""
        return fluid.rnn(
            _Step(self.cell),
            inputs,
            initial_states,
            sequence_length,
            self.time_major,
            self.is_reverse,
            **kwargs,
        )


class BiRNN(Layer):
    """Two cells, one from the first step to the last and one back."""

    def __init__(self, cell_fw: Any, cell_bw: Any, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any
    ) -> Any:
        """(both outputs side by side, (last states forwards, last states backwards))."""
        first, second = (None, None) if initial_states is None else initial_states
        ahead, last = fluid.rnn(
            _Step(self.cell_fw), inputs, first, sequence_length, self.time_major, False, **kwargs
        )
        back, last_back = fluid.rnn(
            _Step(self.cell_bw), inputs, second, sequence_length, self.time_major, True, **kwargs
        )
        return concat([ahead, back], -1), (last, last_back)


# ---------------------------------------------------------------------- stacks
class _Recurrence(LayerList):
    """Layers of cells, in one direction or both, that one op `rnn` runs."""

    mode = ""
    cell: Any = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self._build((input_size, hidden_size, num_layers), direction, time_major, dropout, attrs)

    def _build(
        self,
        sizes: tuple[int, int, int],
        direction: str,
        time_major: bool,
        dropout: float,
        attrs: tuple[Any, ...],
    ) -> None:
        """Make the cells, each with the arguments `attrs`."""
        input_size, hidden_size, num_layers = sizes
        super().__init__()
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise ValueError(
                f"direction should be forward or bidirect (or bidirectional), received {direction!r}"
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.time_major, self.dropout = time_major, dropout
        self.num_directions = 1 if direction == "forward" else 2
        self._cells: list[list[str]] = []
        for place in range(num_layers):
            width = hidden_size * self.num_directions if place else input_size
            cells = [self.cell(width, hidden_size, *attrs) for _ in range(self.num_directions)]
            loop = (
                BiRNN(cells[0], cells[1], time_major) if len(cells) == 2 else RNN(cells[0], False, time_major)
            )
            self.append(loop)
            for cell, back in zip(cells, ("", "_reverse"), strict=False):
                self._own(cell, f"_l{place}{back}")
        self._declare_flat()

    def _declare_flat(self) -> None:
        """A Parameter for all weights in one row, without which 2.6.2 reads no file of the program; files
        alone hold its value (`fluidlite/saving/flat_weights.py`).
        """
        if all(param is not None for param in self._parameters.values()):
            size = sum(math.prod(param.shape) for param in self._parameters.values())
            self.create_parameter([size], default_initializer=Constant(0.0))

    def _own(self, cell: Any, suffix: str) -> None:
        """Show the cell's parameters as this layer's, too."""
        names = [f"{name}{suffix}" for name in cell._parameters]
        for name, param in zip(names, cell._parameters.values(), strict=True):
            setattr(self, name, param)
        self._cells.append(names)

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None) -> Any:
        """(outputs, last states) of inputs [batch, time, input_size], or [time, batch, input_size] if
        `time_major`. States, [layers * directions, batch, hidden_size] (an LSTM has two), are zeros at first.
        """
        lstm = self.mode == "LSTM"
        if initial_states is None:
            made = self._zeros(inputs, 1 + lstm)
        else:
            made = list(initial_states) if lstm else [initial_states]
        x = inputs if self.time_major else transpose(inputs, [1, 0, 2])
        out, last = self._append(x, made, sequence_length)
        states = tuple(last) if lstm else last[0]
        return (out if self.time_major else transpose(out, [1, 0, 2])), states

    def _zeros(self, inputs: Any, count: int) -> list[Any]:
        rows = size_of(inputs, 1 if self.time_major else 0)
        shape = [self.num_layers * self.num_directions, rows, self.hidden_size]
        return [full(shape, 0.0, inputs.dtype) for _ in range(count)]

    def _append(self, x: Any, states: list[Any], lengths: Any) -> tuple[Any, list[Any]]:
        params = self._parameters
        # the op takes all weights before all biases
        halves = [[params[name] for names in self._cells for name in names[at : at + 2]] for at in (0, 2)]
        inputs = {"Input": [x], "PreState": states, "WeightList": [*halves[0], *halves[1]]}
        if lengths is not None:
            inputs["SequenceLength"] = [lengths]
        helper = LayerHelper(self._full_name, name=self._full_name)
        out = helper.create_variable_for_type_inference(x.dtype)
        last = [helper.create_variable_for_type_inference(x.dtype) for _ in states]
        reserve = helper.create_variable_for_type_inference(x.dtype)
        dropped = helper.create_variable_for_type_inference(VarType.UINT8)
        helper.append_op(
            type="rnn",
            inputs=inputs,
            outputs={"Out": [out], "State": last, "Reserve": [reserve], "DropoutState": [dropped]},
            attrs={
                "dropout_prob": self.dropout,
                "is_bidirec": self.num_directions == 2,
                "input_size": self.input_size,
                "hidden_size": self.hidden_size,
                "num_layers": self.num_layers,
                "mode": self.mode,
                "is_test": not self.training,
            },
        )
        return out, last

    def extra_repr(self) -> str:
        """The sizes."""
        layers = f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        return f"{self.input_size}, {self.hidden_size}{layers}"


class SimpleRNN(_Recurrence):
    """Stacked simple recurrences; `dropout` between the layers."""

    mode = "RNN_TANH"
    cell = SimpleRNNCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        if activation not in _ACTIVATIONS:
            raise ValueError(f"Unknown activation {activation!r}: tanh or relu")
        self.__dict__["mode"] = f"RNN_{activation.upper()}"
        attrs = (activation, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self._build((input_size, hidden_size, num_layers), direction, time_major, dropout, attrs)


class LSTM(_Recurrence):
    """Stacked LSTMs; `dropout` between the layers."""

    mode = "LSTM"
    cell = LSTMCell


class GRU(_Recurrence):
    """Stacked GRUs; `dropout` between the layers."""

    mode = "GRU"
    cell = GRUCell
