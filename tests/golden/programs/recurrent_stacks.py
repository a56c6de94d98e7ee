"""`contrib.layers`: recurrent layers of several levels and directions, written with StaticRNN."""

import importlib
from typing import Any

from ..cases import Built, case, fixed, floats, train


def _layers(fluid: Any) -> Any:
    """1.8.5 does not import it with fluid."""
    return importlib.import_module(fluid.__name__ + ".contrib.layers")


@case
def basic_lstm_stack(fluid: Any) -> Built:
    """Two levels, both directions, first states, lengths."""
    layers = fluid.layers
    x, lengths = fluid.data("x", [2, 4, 3]), fluid.data("lengths", [2], "int32")
    first = fluid.data("first", [4, 2, 3])
    output, hidden, cell = _layers(fluid).basic_lstm(
        x, first, layers.tanh(first), 3, 2, sequence_length=lengths, bidirectional=True, forget_bias=0.5
    )
    loss = layers.mean(layers.square(output)) + layers.mean(hidden) + layers.mean(cell)
    fluid.optimizer.SGD(0.1).minimize(loss)
    feeds = {"x": floats(2, 4, 3), "lengths": fixed([4, 2], "int32"), "first": floats(4, 2, 3)}
    return train(fluid, feeds, loss, output, hidden, cell)


@case
def basic_gru_stack(fluid: Any) -> Built:
    """Two levels of a given name, steps first, dropout of nothing; and one unit."""
    layers, contrib = fluid.layers, _layers(fluid)
    x = layers.fc(fluid.data("x", [4, 2, 3]), 3, num_flatten_dims=2)
    named = {"param_attr": fluid.ParamAttr(name="W"), "bias_attr": fluid.ParamAttr(name="B")}
    output, hidden = contrib.basic_gru(x, None, 3, 2, batch_first=False, activation=layers.sigmoid, **named)
    unit = contrib.BasicGRUUnit("unit", 3)
    state = unit(layers.slice(hidden, [0], [0], [1])[0], layers.slice(hidden, [0], [1], [2])[0])
    cell = contrib.BasicLSTMUnit("cell", 3)(state, state, state)
    loss = layers.mean(layers.square(output)) + layers.mean(cell[0] * cell[1])
    fluid.optimizer.Adam(0.01).minimize(loss)
    return train(fluid, {"x": floats(4, 2, 3)}, loss, output, hidden, state)
