"""Losses over many classes, look-ups, and the tags and paths of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_rows.made import Row, below, layers, lengths, normal, shares, sized, uniform

BATCHES = (4, 8, 10), (64, 64, 1000), (256, 128, 20000)


def sampled(build: Any) -> Any:
    """Rows, their size, and the classes."""

    def row(rows: int, size: int, count: int) -> Row:
        return layers(
            lambda fluid, x, y: build(fluid, x, y, count), x=normal(rows, size), y=below(count, rows, 1)
        )

    return row


def embedding(**options: Any) -> Any:
    def row(rows: int, size: int, count: int) -> Row:
        return layers(
            lambda fluid, ids: fluid.layers.embedding(ids, [count, size], **options),
            ids=below(count, rows, 1),
        )

    return row


def tags(build: Any) -> Any:
    def row(sequences: int, rows: int, count: int) -> Row:
        lod = lengths(sequences, rows)
        return layers(
            lambda fluid, x, y: build(fluid, x, y, count),
            x=(normal(rows, count), lod),
            y=(below(count, rows, 1), lod),
        )

    return row


def decode(fluid: Any, x: Any, y: Any, count: int) -> Any:
    fluid.layers.create_parameter([count + 2, count], "float32", name="transitions")
    return fluid.layers.crf_decoding(x, fluid.ParamAttr(name="transitions"))


def warpctc(sequences: int, steps: int, count: int) -> Row:
    """Labels of a third of the steps."""
    inputs = {
        "x": normal(steps, sequences, count),
        "y": below(count - 1, sequences, steps // 3).astype("int32") + 1,
        "m": below(1, sequences) + steps,
        "n": below(1, sequences) + steps // 3,
    }
    return layers(
        lambda fluid, x, y, m, n: fluid.layers.warpctc(x, y, input_length=m, label_length=n), **inputs
    )


def edit_distance(sequences: int, words: int) -> Row:
    lod = [[words] * sequences]
    inputs = {name: (below(50, sequences * words, 1), lod) for name in "xy"}
    return layers(lambda fluid, x, y: fluid.layers.edit_distance(x, y), grad=False, **inputs)


def beam_search(sources: int, beam: int, count: int) -> Row:
    rows = sources * beam
    lod = [[beam] * sources, [1] * rows]
    return layers(
        lambda fluid, a, b, c, d: fluid.layers.beam_search(a, b, c, d, beam, 0),
        grad=False,
        a=(below(50, rows, 1) + 1, lod),
        b=(normal(rows, 1), lod),
        c=(below(50, rows, count) + 1, lod),
        d=(normal(rows, count), lod),
    )


def greedy(sequences: int, rows: int, count: int) -> Row:
    return layers(
        lambda fluid, x: fluid.layers.ctc_greedy_decoder(x, 0),
        grad=False,
        x=(shares(rows, count), lengths(sequences, rows)),
    )


def hashed(rows: int) -> Row:
    """As an op: 1.8.5's layer fails."""
    ids = (below(50, rows, 2), [[rows // 2, rows - rows // 2]])
    attrs = {"num_hash": 4, "mod_by": 1000}
    return {"op": "hash", "inputs": {"X": ids}, "outputs": ["Out:int64"], "attrs": attrs, "grad": []}


SEQUENCES = (2, 10, 5), (16, 320, 20), (64, 2560, 60)


def decoded(sources: int, beam: int, steps: int) -> Row:
    """Sentences of so many words, of which each step continues every prefix once."""
    lod = [[beam] * sources, [1] * (sources * beam)]
    count = sources * beam

    def build(fluid: Any, words: Any, scores: Any) -> Any:
        arrays = []
        for value in (words, scores):
            array = None
            for step in range(steps):
                place = fluid.layers.fill_constant([1], "int64", step)
                array = fluid.layers.array_write(value, place, array)
            arrays.append(array)
        return fluid.layers.beam_search_decode(*arrays, beam, 0)

    return layers(build, grad=False, words=(below(50, count, 1) + 1, lod), scores=(normal(count, 1), lod))


def tagged(rows: int, size: int) -> Row:
    """Rows with one or two tags each."""
    return layers(
        lambda fluid, x, tags, wanted: fluid.layers.filter_by_instag(x, tags, wanted, True)[0],
        x=(normal(rows, size), [[1] * rows]),
        tags=(below(4, 2 * rows, 1), [[2] * rows]),
        wanted=np.array([1, 2], "int64"),
    )


ROWS = {
    "embedding": sized(embedding(), (4, 8, 10), (256, 64, 1000), (8192, 128, 20000)),
    "embedding padded": sized(embedding(padding_idx=0), (4, 8, 10), (256, 64, 1000), (8192, 128, 20000)),
    "one_hot": sized(
        lambda rows, count: layers(
            lambda fluid, x: fluid.layers.one_hot(x, count), grad=False, x=below(count, rows, 1)
        ),
        (4, 6),
        (128, 256),
        (1024, 1024),
    ),
    "nce": sized(
        sampled(lambda fluid, x, y, count: fluid.layers.nce(x, y, count, num_neg_samples=5, seed=3)), *BATCHES
    ),
    "nce log_uniform": sized(
        sampled(
            lambda fluid, x, y, count: fluid.layers.nce(
                x, y, count, num_neg_samples=5, seed=3, sampler="log_uniform"
            )
        ),
        *BATCHES,
    ),
    "nce custom_dist": sized(
        sampled(
            lambda fluid, x, y, count: fluid.layers.nce(
                x,
                y,
                count,
                num_neg_samples=5,
                seed=3,
                sampler="custom_dist",
                custom_dist=[1.0 / count] * count,
            )
        ),
        *BATCHES,
    ),
    "hsigmoid": sized(sampled(lambda fluid, x, y, count: fluid.layers.hsigmoid(x, y, count)), *BATCHES),
    "sampled_softmax": sized(
        lambda rows, count: layers(
            lambda fluid, x, y: fluid.layers.sampled_softmax_with_cross_entropy(x, y, 16, seed=3),
            x=normal(rows, count),
            y=below(count, rows, 1),
        ),
        (4, 20),
        (64, 1000),
        (256, 20000),
    ),
    "linear_chain_crf": sized(
        tags(lambda fluid, x, y, count: fluid.layers.linear_chain_crf(x, y)), *SEQUENCES
    ),
    "crf_decoding": sized(lambda *size: {**tags(decode)(*size), "grad": False}, *SEQUENCES),
    "chunk_eval": sized(
        lambda sequences, rows, kinds: layers(
            lambda fluid, x, y: fluid.layers.chunk_eval(x, y, "IOB", kinds)[0],
            grad=False,
            x=(below(2 * kinds, rows, 1), [[rows // sequences] * sequences]),
            y=(below(2 * kinds, rows, 1), [[rows // sequences] * sequences]),
        ),
        *SEQUENCES,
    ),
    "warpctc": sized(warpctc, (2, 6, 5), (8, 40, 30), (32, 100, 100)),
    "ctc_greedy_decoder": sized(greedy, *SEQUENCES),
    "edit_distance": sized(edit_distance, (2, 5), (16, 30), (64, 100)),
    "beam_search": sized(beam_search, (1, 2, 2), (8, 4, 8), (64, 8, 16)),
    "beam_search_decode": sized(decoded, (1, 2, 3), (8, 4, 10), (32, 8, 20)),
    "filter_by_instag": sized(tagged, (4, 6), (100, 64), (2000, 128)),
    "gather_tree": sized(
        lambda steps, batch, beam: layers(
            lambda fluid, x, y: fluid.layers.gather_tree(x, y),
            grad=False,
            x=below(50, steps, batch, beam),
            y=below(beam, steps, batch, beam),
        ),
        (3, 2, 2),
        (20, 16, 4),
        (100, 64, 8),
    ),
    "hash": sized(hashed, (4,), (1000,), (50000,)),
    "multiplex": sized(
        lambda rows, size: layers(
            lambda fluid, x, y, index: fluid.layers.multiplex([x, y], index),
            x=normal(rows, size),
            y=normal(rows, size),
            index=below(2, rows, 1).astype("int32"),
        ),
        (4, 6),
        (128, 256),
        (1024, 1024),
    ),
    "continuous_value_model": sized(
        lambda rows, size: layers(
            lambda fluid, x, y: fluid.layers.continuous_value_model(x, y),
            x=uniform(rows, size),
            y=uniform(rows, 2),
        ),
        (4, 6),
        (128, 256),
        (1024, 1024),
    ),
}
