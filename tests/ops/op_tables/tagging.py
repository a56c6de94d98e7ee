"""Rows for fluidlite.ops.crf and fluidlite.ops.ctc; the references go through all paths one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from optest import Case
from scipy import special

RNG = np.random.RandomState(2)


def floats(*shape: int) -> Any:
    """Random float32 numbers."""
    return RNG.uniform(-1.5, 1.5, shape).astype("float32")


# ---------------------------------------------------------------------- conditional random fields
TRANSITION, ROWS, FRAMES = floats(5, 3), floats(5, 3), floats(2, 4, 3)
TAGS, FRAME_TAGS = np.array([[0], [2], [1], [1], [0]]), np.array([[0, 1, 0, 0], [1, 2, 0, 2]])
LENGTHS = [2, 3]
LENGTH = np.array([[2], [4]])


def score(emission: Any, path: Any) -> float:
    """The score of a path."""
    moves = sum(TRANSITION[2 + a, b] for a, b in itertools.pairwise(path))
    return float(
        TRANSITION[0, path[0]] + TRANSITION[1, path[-1]] + moves + emission[np.arange(len(path)), path].sum()
    )


def paths(emission: Any) -> list[tuple[int, ...]]:
    """All paths of that length."""
    return list(itertools.product(range(3), repeat=len(emission)))


def crf_cost(emissions: Any, labels: Any) -> Any:
    """Minus the log likelihood of each label path."""
    return np.array(
        [
            [
                special.logsumexp([score(emission, list(path)) for path in paths(emission)])
                - score(emission, list(label))
            ]
            for emission, label in zip(emissions, labels, strict=True)
        ]
    )


def viterbi(emission: Any) -> list[int]:
    """The best path."""
    return list(max(paths(emission), key=lambda path: score(emission, list(path))))


SPLIT, SPLIT_TAGS = [ROWS[:2], ROWS[2:]], [TAGS[:2, 0], TAGS[2:, 0]]
PADDED, PADDED_TAGS = [FRAMES[0, :2], FRAMES[1]], [FRAME_TAGS[0, :2], FRAME_TAGS[1]]
BEST = np.array([tag for emission in SPLIT for tag in viterbi(emission)])[:, None]
PADDED_BEST = np.array([[*viterbi(PADDED[0]), 0, 0], viterbi(PADDED[1])])
CRF = [
    Case(
        "linear_chain_crf",
        {"Emission": (ROWS, [LENGTHS]), "Transition": TRANSITION, "Label": (TAGS, [LENGTHS])},
        {"LogLikelihood": crf_cost(SPLIT, SPLIT_TAGS), "TransitionExps": np.exp(TRANSITION)},
        grad=["Emission", "Transition"],
        wants=["LogLikelihood"],
    ),
    Case(
        "linear_chain_crf",
        {"Emission": FRAMES, "Transition": TRANSITION, "Label": FRAME_TAGS, "Length": LENGTH},
        {"LogLikelihood": crf_cost(PADDED, PADDED_TAGS)},
        grad=["Emission", "Transition"],
        wants=["LogLikelihood"],
        name="padded",
    ),
    Case(
        "crf_decoding",
        {"Emission": (ROWS, [LENGTHS]), "Transition": TRANSITION},
        BEST,
        lods={"ViterbiPath": [LENGTHS]},
    ),
    Case(
        "crf_decoding",
        {"Emission": (ROWS, [LENGTHS]), "Transition": TRANSITION, "Label": (TAGS, [LENGTHS])},
        BEST == TAGS,
        name="label",
    ),
    Case(
        "crf_decoding",
        {"Emission": FRAMES, "Transition": TRANSITION, "Length": LENGTH},
        PADDED_BEST,
        name="padded",
    ),
    Case(
        "crf_decoding",
        {"Emission": FRAMES, "Transition": TRANSITION, "Label": FRAME_TAGS, "Length": LENGTH},
        (PADDED_BEST == FRAME_TAGS) * [[1, 1, 0, 0], [1] * 4],
        name="padded label",
    ),
]


# ---------- chunks, counts recorded from PaddlePaddle 1.8.5
INFERENCE = np.array([5, 8, 0, 2, 1, 7, 3, 2, 8, 8, 8, 4, 0, 1, 1, 0, 6, 2, 2, 2])
WANTED = np.array([5, 8, 0, 3, 1, 7, 3, 2, 0, 8, 8, 4, 1, 1, 1, 0, 6, 2, 3, 2])


def chunks(precision: float, recall: float, f1: float, *counts: int) -> dict[str, Any]:
    """The six outputs."""
    slots = ("Precision", "Recall", "F1-Score", "NumInferChunks", "NumLabelChunks", "NumCorrectChunks")
    return {
        slot: np.array([value]) for slot, value in zip(slots, (precision, recall, f1, *counts), strict=True)
    }


def counted(found: int, right: int, both: int) -> dict[str, Any]:
    """The six outputs, from counts."""
    return chunks(both / found, both / right, 2 * both / (found + right), found, right, both)


def chunk_case(scheme: str, types: int, expect: dict[str, Any]) -> Case:
    """A row with two sequences of 9 and 11 tags."""
    return Case(
        "chunk_eval",
        {"Inference": (INFERENCE[:, None], [[9, 11]]), "Label": (WANTED[:, None], [[9, 11]])},
        expect,
        attrs={"chunk_scheme": scheme, "num_chunk_types": types},
        name=scheme,
    )


CHUNKS = [
    chunk_case("IOB", 4, counted(14, 14, 12)),
    chunk_case("IOE", 4, counted(13, 16, 11)),
    chunk_case("IOBES", 2, counted(13, 15, 12)),
    chunk_case("plain", 8, counted(13, 15, 9)),
    Case(
        "chunk_eval",
        {
            "Inference": INFERENCE.reshape(4, 5),
            "Label": WANTED.reshape(4, 5),
            "SeqLength": np.array([5, 4, 2, 5]),
        },
        counted(7, 8, 7),
        attrs={"num_chunk_types": 4, "excluded_chunk_types": [1]},
        name="padded",
    ),
]


# ---------------------------------------------------------------------- connectionist temporal classification
LOGITS, FRAME_LOGITS = floats(7, 4), floats(4, 2, 4)
CTC_LABEL, FRAME_LABEL = np.array([[1], [1], [3]], "int32"), np.array([[1, 2, 0], [3, 0, 0]], "int32")


def alignments(steps: int, label: Any, blank: int) -> Iterator[tuple[int, ...]]:
    """All classes by step that merge to the label."""
    for path in itertools.product(range(4), repeat=steps):
        if [key for key, _ in itertools.groupby(path) if key != blank] == list(label):
            yield path


def ctc_cost(logits: list[Any], labels: list[Any], blank: int = 0) -> Any:
    """Minus the log likelihood of each label over its alignments."""
    rows = []
    for scores, label in zip(logits, labels, strict=True):
        chance = special.log_softmax(scores.astype("float64"), -1)
        terms = [chance[np.arange(len(chance)), path].sum() for path in alignments(len(chance), label, blank)]
        rows.append([-special.logsumexp(terms)])
    return np.array(rows)


MASKED_LOGITS = FRAME_LOGITS.copy()
MASKED_LOGITS[1, 0, 1] = -np.inf
HIDDEN_LOGITS = FRAME_LOGITS.copy()
HIDDEN_LOGITS[3, 1] = np.nan
TOKENS = np.array([[0], [1], [1], [0], [1], [2], [2], [0]])
CTC = [
    Case(
        "warpctc",
        {"Logits": (LOGITS, [[4, 3]]), "Label": (CTC_LABEL, [[2, 1]])},
        {"Loss": ctc_cost([LOGITS[:4], LOGITS[4:]], [[1, 1], [3]])},
        grad=["Logits"],
        wants=["Loss"],
        ignore=["WarpCTCGrad"],
    ),
    Case(
        "warpctc",
        {
            "Logits": FRAME_LOGITS,
            "Label": FRAME_LABEL,
            "LogitsLength": np.array([4, 3]),
            "LabelLength": np.array([2, 1]),
        },
        {"Loss": ctc_cost([FRAME_LOGITS[:, 0], FRAME_LOGITS[:3, 1]], [[1, 2], [3]])},
        grad=["Logits"],
        wants=["Loss"],
        ignore=["WarpCTCGrad"],
        name="padded",
    ),
    Case(
        "warpctc",
        {
            "Logits": HIDDEN_LOGITS,
            "Label": FRAME_LABEL,
            "LogitsLength": np.array([4, 3]),
            "LabelLength": np.array([2, 1]),
        },
        {"Loss": ctc_cost([FRAME_LOGITS[:, 0], FRAME_LOGITS[:3, 1]], [[1, 2], [3]])},
        ignore=["WarpCTCGrad"],
        name="nan behind the end",
    ),
    Case(
        "warpctc",
        {
            "Logits": FRAME_LOGITS,
            "Label": FRAME_LABEL,
            "LogitsLength": np.array([4, 3]),
            "LabelLength": np.array([2, 1]),
        },
        {"Loss": ctc_cost([FRAME_LOGITS[:, 0], FRAME_LOGITS[:3, 1]], [[1, 2], [3]])},
        attrs={"norm_by_times": True},
        ignore=["WarpCTCGrad"],
        name="normed",
    ),
    Case(
        "warpctc",
        {"Logits": (LOGITS, [[4, 3]]), "Label": (CTC_LABEL - 1, [[2, 1]])},
        {"Loss": ctc_cost([LOGITS[:4], LOGITS[4:]], [[0, 0], [2]], 3)},
        attrs={"blank": 3},
        grad=["Logits"],
        wants=["Loss"],
        ignore=["WarpCTCGrad"],
        name="blank 3",
    ),
    Case(
        "warpctc",
        {
            "Logits": FRAME_LOGITS[:2, :1],
            "Label": np.array([[1, 1]], "int32"),
            "LogitsLength": np.array([2]),
            "LabelLength": np.array([2]),
        },
        {"Loss": np.zeros((1, 1))},
        ignore=["WarpCTCGrad"],
        name="impossible",
    ),
    Case(
        "warpctc",
        {
            "Logits": MASKED_LOGITS,
            "Label": FRAME_LABEL,
            "LogitsLength": np.array([4, 3]),
            "LabelLength": np.array([2, 1]),
        },
        {"Loss": ctc_cost([MASKED_LOGITS[:, 0], MASKED_LOGITS[:3, 1]], [[1, 2], [3]])},
        ignore=["WarpCTCGrad"],
        name="a class that cannot be",
    ),
    Case(
        "warpctc",
        {
            "Logits": (
                np.array([[0, 1e20, 0], [0, 2e20, 0], [0, 1, 0], [0, -np.inf, -np.inf]], "float32"),
                [[2, 1, 1]],
            ),
            "Label": (np.array([[2], [1], [1]], "int32"), [[1, 1, 1]]),
        },
        # of the first one another label is certain, of the last one the label cannot be
        {"Loss": np.array([[3e20], [np.log(2 + np.e) - 1], [np.inf]])},
        ignore=["WarpCTCGrad"],
        name="certain of something else",
    ),
    Case(
        "warpctc",
        {
            "Logits": (np.random.RandomState(1).rand(8, 3).astype("float32"), [[4, 4]]),
            "Label": (np.array([[1], [0], [0], [1]], "int32"), [[2, 2]]),
        },
        {"Loss": np.array([[2.6184556], [2.2257075]])},  # 1.8.5's numbers
        grad=["Logits"],
        wants=["Loss"],
        ignore=["WarpCTCGrad"],
        name="labels that are the blank",
    ),
    Case("ctc_align", {"Input": (TOKENS, [[5, 3]])}, np.array([[1], [1], [2]]), lods={"Output": [[2, 1]]}),
    Case(
        "ctc_align",
        {"Input": (TOKENS, [[5, 3]])},
        np.array([[1], [1], [1], [2], [2]]),
        attrs={"merge_repeated": False},
        lods={"Output": [[3, 2]]},
        name="keep repeats",
    ),
    Case(
        "ctc_align",
        {"Input": (TOKENS * 0, [[5, 3]])},
        np.array([[-1]]),
        lods={"Output": [[0, 0]]},
        name="nothing left",
    ),
    Case(
        "ctc_align",
        {"Input": np.array([[0, 1, 1, 0, 1], [2, 2, 0, 0, 1]]), "InputLength": np.array([[5], [3]])},
        {"Output": np.array([[1, 1, 7, 7, 7], [2, 7, 7, 7, 7]]), "OutputLength": np.array([[2], [1]])},
        attrs={"padding_value": 7},
        name="padded",
    ),
    Case(
        "edit_distance",
        {
            "Hyps": (np.array([[1], [2], [3], [4], [5]]), [[2, 3]]),
            "Refs": (np.array([[1], [3], [3], [3], [5], [6]]), [[4, 2]]),
        },
        (np.array([2]), np.array([[3], [3]])),
    ),
    Case(
        "edit_distance",
        {
            "Hyps": (np.array([[1], [2], [3], [4], [5]]), [[2, 3]]),
            "Refs": (np.array([[1], [3], [3], [3], [5], [6]]), [[4, 2]]),
        },
        (np.array([2]), np.array([[0.75], [1.5]])),
        attrs={"normalized": True},
        name="normalized",
    ),
    Case(
        "edit_distance",
        {
            "Hyps": np.array([[1, 2, 3], [4, 5, 6]]),
            "Refs": np.array([[1, 3, 3, 3], [5, 6, 0, 0]]),
            "HypsLength": np.array([2, 3]),
            "RefsLength": np.array([4, 2]),
        },
        (np.array([2]), np.array([[3], [1]])),
        name="padded",
    ),
    Case(
        "edit_distance",
        {"Hyps": (np.array([[1], [2]]), [[1, 1]]), "Refs": (np.array([[1], [2]]), [[0, 2]])},
        (np.array([2]), np.array([[1], [1]])),
        name="empty",
    ),
]
CASES: list[Case] = [*CRF, *CHUNKS, *CTC]
