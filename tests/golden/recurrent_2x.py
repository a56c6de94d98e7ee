"""Recurrences of `paddle.nn` in files: PaddlePaddle 2.6.2 trains and saves a network, which loads here.

cd tests && python -m golden.recurrent_2x        (with the Python that has 2.6.2)

`models_2x/recurrent.pdparams` is what `paddle.static.save` writes of it, flat weights among them,
`recurrent.pdmodel|pdiparams` the inference model, `recurrent.layer` the state of the layer as `paddle.save`
writes it (that of the program is the same bytes as `recurrent.pdparams`), `recurrent.npz` one input, and what
2.6.2 makes of it.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np

PREFIX = pathlib.Path(__file__).parent / "models_2x" / "recurrent"
FLAT = {"lstm_0.w_0": 128, "gru_0.w_0": 84, "simple_rnn_0.w_0": 12}


def network(paddle: Any) -> Any:
    """An LSTM in both directions, two layers of GRU, a simple recurrence."""
    nn = paddle.nn

    class Network(nn.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.LSTM(4, 2, direction="bidirect")
            self.second = nn.GRU(4, 2, num_layers=2)
            self.third = nn.SimpleRNN(2, 2)

        def forward(self, x: Any) -> Any:
            for layer in (self.first, self.second, self.third):
                x, _ = layer(x)
            return x

    return Network()


def build(paddle: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """(program without updates, program that trains, startup program, layer, input, output)."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [None, 3, 4], "float32")
        layer = network(paddle)
        out = layer(x)
        loss = paddle.mean(out * out)
        plain = main.clone(for_test=True)
        paddle.optimizer.SGD(0.5).minimize(loss)
    return plain, main, startup, layer, x, out


def record() -> None:
    import paddle

    paddle.enable_static()
    paddle.seed(5)
    plain, main, startup, layer, x, out = build(paddle)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    feed = {"x": np.random.RandomState(1).uniform(-1, 1, (2, 3, 4)).astype("float32")}
    for _ in range(3):
        exe.run(main, feed=feed)
    path = str(PREFIX)
    paddle.static.save(plain, path)
    scope = paddle.static.global_scope()
    values = {key: np.array(scope.find_var(var.name).get_tensor()) for key, var in layer.state_dict().items()}
    paddle.save(values, path + ".layer")
    (found,) = exe.run(plain, feed=feed, fetch_list=[out])
    np.savez_compressed(PREFIX.with_suffix(".npz"), out=found, **feed)
    paddle.static.save_inference_model(path, [x], [out], exe, program=plain)
    os.remove(path + ".pdopt")  # there is no state of an optimizer


if __name__ == "__main__":
    record()
