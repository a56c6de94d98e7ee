"""Ops on sequences of their own lengths."""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, below, layers, lengths, normal, sized, uniform

SEQUENCES = (2, 10, 6), (32, 1000, 64), (256, 10000, 128)


def one(build: Any, grad: bool = True) -> Any:
    def row(sequences: int, rows: int, size: int) -> Row:
        return layers(build, grad=grad, x=(normal(rows, size), lengths(sequences, rows)))

    return row


def column(build: Any) -> Any:
    def row(sequences: int, rows: int, size: int) -> Row:
        return layers(build, x=(normal(rows, 1), lengths(sequences, rows)))

    return row


def expanded(name: str) -> Any:
    def row(sequences: int, rows: int, size: int) -> Row:
        return layers(
            lambda fluid, x, y: getattr(fluid.layers, name)(x, y),
            x=normal(sequences, size),
            y=(normal(rows, 1), lengths(sequences, rows)),
        )

    return row


def joined(sequences: int, rows: int, size: int) -> Row:
    inputs = {name: (normal(rows, size), lengths(sequences, rows)) for name in "xy"}
    return layers(lambda fluid, x, y: fluid.layers.sequence_concat([x, y]), **inputs)


def cut(sequences: int, rows: int, size: int) -> Row:
    return layers(
        lambda fluid, x, start, count: fluid.layers.sequence_slice(x, start, count),
        x=(normal(rows, size), lengths(sequences, rows)),
        start=below(2, sequences, 1),
        count=below(1, sequences, 1) + 1,
    )


def unpad(sequences: int, rows: int, size: int) -> Row:
    longest = 2 * rows // sequences
    return layers(
        lambda fluid, x, n: fluid.layers.sequence_unpad(x, n),
        x=normal(sequences, longest, size),
        n=below(longest - 1, sequences) + 1,
    )


def scatter(sequences: int, rows: int, size: int) -> Row:
    lod = lengths(sequences, rows)
    return layers(
        lambda fluid, x, index, updates: fluid.layers.sequence_scatter(x, index, updates),
        x=normal(sequences, size),
        index=(below(size, rows, 1), lod),
        updates=(normal(rows, 1), lod),
    )


def pad(fluid: Any, x: Any) -> Any:
    return fluid.layers.sequence_pad(x, fluid.layers.fill_constant([1], "float32", 0.0))


ROWS = {
    "sequence_pool " + kind: sized(
        one(lambda fluid, x, kind=kind: fluid.layers.sequence_pool(x, kind)), *SEQUENCES
    )
    for kind in ("sum", "average", "sqrt", "max", "last", "first")
}
ROWS.update(
    {
        "sequence_conv": sized(one(lambda fluid, x: fluid.layers.sequence_conv(x, 32, 3)), *SEQUENCES),
        "sequence_softmax": sized(column(lambda fluid, x: fluid.layers.sequence_softmax(x)), *SEQUENCES),
        "sequence_reverse": sized(one(lambda fluid, x: fluid.layers.sequence_reverse(x)), *SEQUENCES),
        "sequence_reshape": sized(
            lambda sequences, rows, size: layers(
                lambda fluid, x: fluid.layers.sequence_reshape(x, size // 2),
                x=(normal(rows, size), lengths(sequences, rows)),
            ),
            *SEQUENCES,
        ),
        "sequence_expand": sized(expanded("sequence_expand"), *SEQUENCES),
        "sequence_expand_as": sized(expanded("sequence_expand_as"), *SEQUENCES),
        "sequence_concat": sized(joined, *SEQUENCES),
        "sequence_slice": sized(cut, *SEQUENCES),
        "sequence_pad": sized(one(pad), *SEQUENCES),
        "sequence_unpad": sized(unpad, *SEQUENCES),
        "sequence_scatter": sized(scatter, *SEQUENCES),
        "sequence_enumerate": sized(
            lambda sequences, rows, size: layers(
                lambda fluid, x: fluid.layers.sequence_enumerate(x, 3),
                grad=False,
                x=(below(50, rows, 1), lengths(sequences, rows)),
            ),
            *SEQUENCES,
        ),
        "sequence_mask": sized(
            lambda sequences, rows, size: layers(
                lambda fluid, x: fluid.layers.sequence_mask(x, maxlen=100, dtype="float32"),
                grad=False,
                x=below(100, sequences),
            ),
            *SEQUENCES,
        ),
        "row_conv of sequences": sized(one(lambda fluid, x: fluid.layers.row_conv(x, 3)), *SEQUENCES),
        "add_position_encoding": sized(
            one(lambda fluid, x: fluid.layers.add_position_encoding(x, 1.0, 0.5)), *SEQUENCES
        ),
        "lod_reset": sized(
            lambda sequences, rows, size: layers(
                lambda fluid, x: fluid.layers.lod_reset(x, target_lod=[0, 3, rows]), x=normal(rows, size)
            ),
            *SEQUENCES,
        ),
        "im2sequence of images": sized(
            lambda sequences, rows, size: layers(
                lambda fluid, x: fluid.layers.im2sequence(x, [6, 1]), x=uniform(sequences, 3, 6, 20)
            ),
            *SEQUENCES,
        ),
    }
)
