"""Lengths that cannot be: too long, negative, too few. Each is one error that names the row, the length and
the limit; lengths that can be are computed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.errors import ShapeError

L = fluid.layers
F = paddle.nn.functional
ROWS, STEPS, TAGS = 3, 4, 5
EMISSIONS = np.random.default_rng(1).random((ROWS, STEPS, TAGS)).astype("float32")
LABELS = np.ones((ROWS, STEPS), "int64")
TRANSITIONS = np.zeros((TAGS, TAGS), "float32")


class Taker(NamedTuple):
    """A function with lengths: `build(n)` gives a result, with the lengths as the Variable n."""

    build: Callable[[Any], Any]
    slot: str
    """The slot that the message names."""
    matrix: bool = False
    """Its lengths are [rows, 1]."""


def data(name: str, value: Any, lod_level: int = 0) -> Any:
    return fluid.data(name, [None, *value.shape[1:]], str(value.dtype), lod_level=lod_level)


def x() -> Any:
    return data("x", EMISSIONS)


def label(*last: int) -> Any:
    return data("label", LABELS.reshape(ROWS, STEPS, *last))


def steps_first(value: Any) -> Any:
    return L.transpose(value, [1, 0, 2])


def decoded(n: Any) -> Any:
    transitions = fluid.ParamAttr(name="crf")
    L.create_parameter([TAGS + 2, TAGS], "float32", attr=transitions)
    return L.crf_decoding(x(), transitions, length=n)


def full(size: int) -> Any:
    return L.fill_constant([ROWS], "int64", size)


def short_labels() -> Any:
    return L.cast(L.slice(label(), [1], [0], [2]), "int32")


def rows() -> Any:
    return fluid.data("x", [None, TAGS], "float32", lod_level=1)


TAKERS = {
    "warpctc, logits": Taker(
        lambda n: L.warpctc(steps_first(x()), short_labels(), input_length=n, label_length=full(1)),
        "LogitsLength",
    ),
    "warpctc, labels": Taker(
        lambda n: L.warpctc(
            steps_first(x()), L.cast(label(), "int32"), input_length=full(STEPS), label_length=n
        ),
        "LabelLength",
    ),
    "ctc_loss": Taker(
        lambda n: F.ctc_loss(steps_first(x()), short_labels(), n, full(1), reduction="none"), "LogitsLength"
    ),
    "linear_chain_crf": Taker(lambda n: L.linear_chain_crf(x(), label(1), length=n), "Length"),
    "linear_chain_crf [N, 1]": Taker(
        lambda n: L.linear_chain_crf(x(), label(1), length=n), "Length", matrix=True
    ),
    "crf_decoding": Taker(decoded, "Length"),
    "viterbi_decode": Taker(
        lambda n: paddle.text.viterbi_decode(x(), data("t", TRANSITIONS), n, False)[0], "Length"
    ),
    "ctc_greedy_decoder": Taker(
        lambda n: L.ctc_greedy_decoder(x(), blank=0, input_length=n)[0], "InputLength", matrix=True
    ),
    "edit_distance, input": Taker(
        lambda n: L.edit_distance(label(), label(), normalized=False, input_length=n, label_length=full(2))[
            0
        ],
        "HypsLength",
    ),
    "edit_distance, label": Taker(
        lambda n: L.edit_distance(label(), label(), normalized=False, input_length=full(2), label_length=n)[
            0
        ],
        "RefsLength",
    ),
    "chunk_eval": Taker(lambda n: L.chunk_eval(label(), label(), "IOB", 2, seq_length=n)[2], "SeqLength"),
    "sequence_unpad": Taker(lambda n: L.sequence_unpad(x(), n), "Length"),
    "LSTM": Taker(lambda n: paddle.nn.LSTM(TAGS, 2)(x(), sequence_length=n)[0], "SequenceLength"),
    "GRU": Taker(
        lambda n: paddle.nn.GRU(TAGS, 2, direction="bidirectional")(x(), sequence_length=n)[0],
        "SequenceLength",
    ),
}


def run(taker: Taker, lengths: list[int], naive: bool) -> Any:
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        n = fluid.data("n", [None, 1] if taker.matrix else [None], "int64")
        found = taker.build(n)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    exe.run(startup, scope=scope)
    given = {
        "x": EMISSIONS,
        "t": TRANSITIONS,
        "n": np.array(lengths, "int64").reshape(-1, *[1] * taker.matrix),
    }
    block = main.global_block()
    if block.has_var("label"):
        given["label"] = LABELS.reshape(ROWS, STEPS, *block.var("label").shape[2:])
    feed = {name: value for name, value in given.items() if block.has_var(name)}
    return np.asarray(exe.run(main, feed=feed, fetch_list=[found], scope=scope, return_numpy=False)[0])


naive = pytest.mark.parametrize("naive", [False, True], ids=["plan", "naive"])


@naive
@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.parametrize("wrong", [STEPS + 1, 9, -1, 2**40])
def test_a_length_beyond_its_sequence(name: str, wrong: int, naive: bool) -> None:
    taker = TAKERS[name]
    with pytest.raises(
        ShapeError, match=f"{taker.slot} of row 1 is {wrong}, wanted 0 to {STEPS}, the number"
    ):
        run(taker, [2, wrong, 2], naive)


@naive
@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_other_numbers_of_lengths_than_of_rows(name: str, count: int, naive: bool) -> None:
    taker = TAKERS[name]
    with pytest.raises(
        ShapeError, match=f"{taker.slot} has {count} lengths, wanted one for each of {ROWS} rows"
    ):
        run(taker, [2] * count, naive)


def check_random_lengths(name: str, seed: int) -> None:
    """The first length that cannot be is named; others are computed."""
    draw = random.Random(f"{name} {seed}")
    lengths = [draw.choice([0, 1, 2, 3, STEPS, STEPS, 5, -1]) for _ in range(ROWS)]
    bad = [row for row, length in enumerate(lengths) if not 0 <= length <= STEPS]
    if bad:
        with pytest.raises(ShapeError, match=f"of row {bad[0]} is {lengths[bad[0]]}, wanted 0 to {STEPS}"):
            run(TAKERS[name], lengths, bool(seed % 2))
    elif any(lengths):
        assert np.isfinite(run(TAKERS[name], lengths, bool(seed % 2))).all()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", TAKERS)
def test_random_lengths_are_computed_or_named(name: str, seed: int) -> None:
    check_random_lengths(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKERS)
def test_many_random_lengths(name: str) -> None:
    """FLUIDLITE_SEED is the first seed, FLUIDLITE_PROGRAMS says how many follow."""
    first = int(os.environ.get("FLUIDLITE_SEED", "1000"))
    for seed in range(first, first + int(os.environ.get("FLUIDLITE_PROGRAMS", "500"))):
        check_random_lengths(name, seed)


@naive
def test_a_mask_of_a_negative_length(naive: bool) -> None:
    taker = Taker(lambda n: L.sequence_mask(n, maxlen=STEPS), "X")
    # longer ones are cut
    np.testing.assert_array_equal(run(taker, [1, 9], naive), [[1, 0, 0, 0], [1, 1, 1, 1]])
    with pytest.raises(ShapeError, match="X holds the length -1, wanted 0 or more"):
        run(taker, [1, -1], naive)


def test_padded_emissions_without_lengths() -> None:
    for build in (
        lambda: L.linear_chain_crf(x(), label(1)),
        lambda: L.crf_decoding(x(), fluid.ParamAttr(name="crf")),
    ):
        with (
            fluid.program_guard(fluid.Program(), fluid.Program()),
            pytest.raises(ShapeError, match="is padded, .* but Length is missing"),
        ):
            L.create_parameter([TAGS + 2, TAGS], "float32", attr=fluid.ParamAttr(name="crf"))
            build()


@naive
@pytest.mark.parametrize(
    "lengths, message",
    [
        ([3, 2], r"the level of detail of Label is \[0, 3, 5\], but that of Emission \[0, 2, 5\]"),
        ([2, 2], "Label has 4 tags, but Emission 5 rows"),
    ],
)
def test_labels_of_other_sequences_than_the_emissions(lengths: list[int], message: str, naive: bool) -> None:
    main, startup, place = fluid.Program(), fluid.Program(), fluid.CPUPlace()
    with fluid.program_guard(main, startup):
        tags = fluid.data("label", [None, 1], "int64", lod_level=1)
        cost = L.linear_chain_crf(rows(), tags, param_attr=fluid.ParamAttr(name="crf"))
    exe = fluid.Executor(place)
    exe.naive = naive
    exe.run(startup)
    feed = {
        "x": fluid.create_lod_tensor(EMISSIONS.reshape(-1, TAGS)[:5], [[2, 3]], place),
        "label": fluid.create_lod_tensor(LABELS.reshape(-1, 1)[: sum(lengths)], [lengths], place),
    }
    with pytest.raises(ShapeError, match=message):
        exe.run(main, feed=feed, fetch_list=[cost])
