"""Recurrent networks: over sequences of their own lengths, over padded ones, and single steps."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, layers, lengths, normal, sized

# sequences, rows, size: sizes are no multiples of 8, where 1.8.5 loses a part of the gradient
SEQUENCES = (2, 10, 5), (16, 320, 61), (32, 1600, 253)
PADDED = (4, 2, 6), (20, 16, 60), (50, 32, 250)
STEPS = (2, 6), (32, 64), (128, 256)


def dynamic(name: str, gates: int, **options: Any) -> Any:
    def row(sequences: int, rows: int, size: int) -> Row:
        wide = size * gates
        of = size if gates == 3 else wide
        more = {"proj_size": size // 2} if name == "dynamic_lstmp" else {}
        return layers(
            lambda fluid, x: getattr(fluid.layers, name)(x, of, **more, **options),
            x=(normal(rows, wide) * 0.3, lengths(sequences, rows)),
        )

    return row


def padded(steps: int, batch: int, size: int) -> Row:
    return layers(
        lambda fluid, x, h, c: fluid.layers.lstm(x, h, c, steps, size, 1),
        x=normal(steps, batch, size),
        h=normal(1, batch, size),
        c=normal(1, batch, size),
    )


def cells(cell: str) -> Any:
    def row(steps: int, batch: int, size: int) -> Row:
        return layers(
            lambda fluid, x: fluid.layers.rnn(getattr(fluid.layers, cell)(size), x)[0],
            x=normal(batch, steps, size),
        )

    return row


def static_rnn(fluid: Any, x: Any) -> Any:
    loop = fluid.layers.StaticRNN()
    with loop.step():
        word = loop.step_input(x)
        before = loop.memory(shape=[-1, x.shape[2]], batch_ref=word)
        hidden = fluid.layers.fc([word, before], x.shape[2], act="tanh")
        loop.update_memory(before, hidden)
        loop.step_output(hidden)
    return loop()


def gru_unit(batch: int, size: int) -> Row:
    return layers(
        lambda fluid, x, h: fluid.layers.gru_unit(x, h, size * 3),
        x=normal(batch, size * 3),
        h=normal(batch, size),
    )


def lstm_unit(batch: int, size: int) -> Row:
    return layers(
        lambda fluid, x, h, c: fluid.layers.sum(list(fluid.layers.lstm_unit(x, h, c))),
        x=normal(batch, size),
        h=normal(batch, size),
        c=normal(batch, size),
    )


ROWS = {
    "dynamic_lstm": sized(dynamic("dynamic_lstm", 4), *SEQUENCES),
    "dynamic_lstm reversed": sized(
        dynamic("dynamic_lstm", 4, is_reverse=True, use_peepholes=False), *SEQUENCES
    ),
    "dynamic_lstmp": sized(dynamic("dynamic_lstmp", 4), *SEQUENCES),
    "dynamic_gru": sized(dynamic("dynamic_gru", 3), *SEQUENCES),
    "lstm (cudnn_lstm)": sized(padded, *PADDED),
    "rnn of GRUCell": sized(cells("GRUCell"), *PADDED),
    "rnn of LSTMCell": sized(cells("LSTMCell"), *PADDED),
    "StaticRNN": sized(lambda *shape: layers(static_rnn, x=normal(*shape)), *PADDED),
    "gru_unit": sized(gru_unit, *STEPS),
    "lstm_unit": sized(lstm_unit, *STEPS),
}
