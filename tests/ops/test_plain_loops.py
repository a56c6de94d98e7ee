"""Kernels that compute all groups at once, held against plain loops over them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fluidlite.base import registry
from fluidlite.base.dtypes import VarType
from fluidlite.base.registry import WithLod
from fluidlite.executor.fast.loops.compiler import is_available
from fluidlite.executor.fast.loops.searches import Searches
from fluidlite.ops.detection import roi_average
from fluidlite.ops.detection.proposals import distribute_fpn_proposals
from fluidlite.ops.losses.detection_map import detection_map
from fluidlite.ops.sequences.beam_search import beam_search, decode
from fluidlite.ops.sequences.sequence_ids import topk_avg
from fluidlite.values.tensor import LoDTensor, LoDTensorArray

PORTABLE: Any = SimpleNamespace(searches=None)
CONTEXTS = [PORTABLE]
if is_available():
    CONTEXTS.append(SimpleNamespace(searches=Searches(wait=True)))


def lod_of(lengths: Any) -> Any:
    return ((0, *np.cumsum(lengths).tolist()),)


def pairs_of(offsets: Any) -> Iterator[tuple[int, int]]:
    return zip(offsets[:-1], offsets[1:], strict=True)


def assert_same(found: Any, value: Any, lod: Any = None) -> None:
    if lod is not None:
        assert isinstance(found, WithLod)
        assert found.lod == lod
    np.testing.assert_array_equal(found.value if isinstance(found, WithLod) else found, value)


# ---------------------------------------------------------------------- beam search
def chosen_by_loops(given: dict[str, Any], offsets: Any) -> list[tuple[int, int, float]]:
    """(row, id, score), the best of each source in order of rows; the last of equal prefixes first."""
    words, end, found = given["pre_ids"].ravel(), given["end_id"], []
    for first, last in pairs_of(offsets):
        items = []
        for row in range(first, last):
            if words[row] == end:
                items.append((given["pre_scores"][row, 0], row, end))
                continue
            items += [(score, row, word) for word, score in enumerate(given["scores"][row])]
        best = sorted(items, key=lambda item: item[:2], reverse=True)[: given["beam_size"]]
        if any(word != end or words[row] != end for _, row, word in best):
            found += [(row, word, score) for score, row, word in sorted(best, key=lambda item: item[1])]
    return found


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("least", [-3.0, -np.inf])
def test_continuations_of_all_sources(context: Any, least: float) -> None:
    random = np.random.default_rng(5)
    for sizes in ([3, 1, 0, 4], [0], [1], [2] * 20):
        rows, offsets = sum(sizes), (0, *np.cumsum(sizes).tolist())
        scores = random.normal(size=(rows, 7)).astype("float32")
        scores[:1, :3] = least
        given = {
            "pre_ids": random.integers(0, 3, (rows, 1)),
            "pre_scores": random.normal(size=(rows, 1)).astype("float32"),
            "scores": scores,
            "beam_size": 3,
            "end_id": 0,
        }
        lod = (offsets, tuple(range(rows + 1)))
        ids, totals, parents = beam_search.compute(
            xp=np, ctx=context, ids=None, scores_lod=lod, level=0, is_accumulated=True, **given
        )
        wanted = chosen_by_loops(given, offsets)
        counts = tuple(sum(item[0] < row for item in wanted) for row in range(rows + 1))
        assert_same(parents, [item[0] for item in wanted])
        assert_same(ids, np.reshape([item[1] for item in wanted], (-1, 1)), (offsets, counts))
        assert_same(totals, np.reshape(np.array([item[2] for item in wanted], "float32"), (-1, 1)))


@pytest.mark.parametrize("context", CONTEXTS)
def test_continuations_that_are_no_numbers(context: Any) -> None:
    scores = np.array([[np.nan, 1, 0.5], [0.25, 2, 3]] * 20, "float32")
    given = {"pre_ids": np.ones((40, 1), int), "pre_scores": np.zeros((40, 1), "float32")}
    lod = (tuple(range(0, 41, 2)), tuple(range(41)))
    options = {"level": 0, "beam_size": 6, "end_id": 0, "is_accumulated": True, "ids": None}
    _, totals, _ = beam_search.compute(xp=np, ctx=context, scores=scores, scores_lod=lod, **given, **options)
    _, wanted, _ = beam_search.compute(xp=np, ctx=PORTABLE, scores=scores, scores_lod=lod, **given, **options)
    np.testing.assert_array_equal(totals.value, wanted.value)


@pytest.mark.parametrize("context", CONTEXTS)
def test_no_number_leaves_the_beam_empty(context: Any) -> None:
    """A nan among more continuations than the beam holds, in the order of PaddlePaddle."""
    given = {"pre_ids": np.array([[2]]), "pre_scores": np.zeros((1, 1), "float32"), "ids": None}
    options = {
        "level": 0,
        "beam_size": 1,
        "end_id": 9,
        "is_accumulated": True,
        "scores_lod": ((0, 1), (0, 1)),
    }
    for scores, wanted in (([np.nan, -0.5, -1.5], 1), ([-0.5, -1.5, np.nan], 2)):
        ids, _, _ = beam_search.compute(
            xp=np, ctx=context, scores=np.array([scores], "float32"), **given, **options
        )
        assert ids.value.tolist() == [[wanted]]


# ---------------------------------------------------------------------- sentences
def sentence(steps: list[Any], step: int, row: int, end: int) -> list[tuple[int, float]]:
    """The (word, score) pairs of a sentence, back from the word in a row of a step."""
    words: list[tuple[int, float]] = []
    for ids, scores, lod in reversed(steps[: step + 1]):
        # of several ends the first stays: the last on the way back
        if int(ids[row]) != end or not words:
            words.append((int(ids[row]), float(scores[row])))
        row = int(np.searchsorted(lod[1], row, side="right")) - 1
    return words[::-1]


def sentences_by_loops(steps: list[Any], source: int, end: int) -> list[list[tuple[int, float]]]:
    for step in reversed(range(len(steps))):
        _, scores, (prefixes, continuations) = steps[step]
        first, last = (continuations[prefixes[source + place]] for place in (0, 1))
        if last > first:
            best = sorted(range(first, last), key=lambda row, scores=scores: -scores[row])
            return [sentence(steps, step, row, end) for row in best]
    return []


def test_sentences_of_all_sources() -> None:
    random = np.random.default_rng(7)
    for sources, beam, count in ((1, 1, 1), (3, 2, 4), (6, 3, 5)):
        steps, sizes = [], [1] * sources
        for _ in range(count):
            continuations = [random.integers(0, beam + 1, size) for size in sizes]
            lod = lod_of(sizes) + lod_of(np.concatenate(continuations))
            sizes = [int(each.sum()) for each in continuations]
            words = random.integers(0, 3, sum(sizes))
            steps.append((words, random.permutation(sum(sizes)).astype("float32"), lod))
        arrays = [
            LoDTensorArray(LoDTensor(step[place].reshape(-1, 1), step[2]) for step in steps)
            for place in (0, 1)
        ]
        ids, scores = decode.compute(xp=np, Ids=arrays[0], Scores=arrays[1], beam_size=beam, end_id=0)
        found = [sentences_by_loops(steps, source, 0) for source in range(sources)]
        found = [each + [[]] * (beam - len(each)) for each in found]
        flat = [pair for each in found for one in each for pair in one]
        lod = lod_of([len(each) for each in found]) + lod_of([len(one) for each in found for one in each])
        assert_same(ids, [word for word, _ in flat], lod)
        assert_same(scores, [score for _, score in flat], lod)


# ---------------------------------------------------------------------- average precision of boxes
def overlap(box: Any, other: Any) -> float:
    box = np.clip(box, 0, 1)
    width, height = (min(box[2 + side], other[2 + side]) - max(box[side], other[side]) for side in (0, 1))
    both = max(width, 0) * max(height, 0)
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (box, other)]
    return float(both / (sum(areas) - both))


def marks_by_loops(found: Any, objects: Any, counts_difficult: bool) -> Iterator[tuple[float, float]]:
    """(score, right) of the boxes of one class in one image."""
    taken = set()
    order = np.argsort(-found[:, 1], kind="stable") if len(objects) else range(len(found))
    for box in found[order]:
        overlaps = [overlap(box[2:], one[-4:]) for one in objects]
        best = int(np.argmax(overlaps)) if overlaps else -1
        if best < 0 or overlaps[best] <= 0.3:
            yield box[1], 0
        elif counts_difficult or not objects[best, 1]:
            yield box[1], best not in taken
            taken.add(best)


def precision_by_loops(marks: list[tuple[float, float]], count: int, ap_type: str) -> float:
    marks = sorted(marks, key=lambda mark: -mark[0])
    hits = np.cumsum([right for _, right in marks])
    precision = hits / np.arange(1, len(marks) + 1)
    if ap_type == "11point":
        return sum(precision[hits / count >= level / 10].max(initial=0) for level in range(11)) / 11
    return float(sum(share for share, (_, right) in zip(precision, marks, strict=True) if right)) / count


def boxes(random: Any, count: int) -> Any:
    low = random.uniform(-0.1, 0.7, (count, 2))
    return np.concatenate((low, low + random.uniform(0.1, 0.4, (count, 2))), axis=1)


@pytest.mark.parametrize("ap_type", ["integral", "11point"])
@pytest.mark.parametrize("counts_difficult", [True, False])
def test_average_precision_of_all_classes(ap_type: str, counts_difficult: bool) -> None:
    random = np.random.default_rng(9)
    classes, lengths, sought = 4, [9, 0, 30, 5], [4, 3, 12, 0]
    scores = random.permutation(sum(lengths)) / 100
    found = np.column_stack((random.integers(0, classes, sum(lengths)), scores, boxes(random, sum(lengths))))
    labels = random.integers(1, classes, sum(sought)), random.integers(0, 2, sum(sought))
    objects = np.column_stack((*labels, boxes(random, sum(sought))))
    found, objects = found.astype("float32"), objects.astype("float32")
    marks: list[list[Any]] = [[] for _ in range(classes)]
    for (first, last), (start, end) in zip(
        pairs_of(lod_of(lengths)[0]), pairs_of(lod_of(sought)[0]), strict=True
    ):
        for label in range(classes):
            here, there = found[first:last], objects[start:end]
            parts = here[here[:, 0] == label], there[there[:, 0] == label]
            marks[label] += marks_by_loops(*parts, counts_difficult)
    counted = objects if counts_difficult else objects[objects[:, 1] == 0]
    counts = np.bincount(counted[:, 0].astype(int), minlength=classes)
    areas = [precision_by_loops(marks[one], counts[one], ap_type) for one in range(classes) if counts[one]]
    states = dict.fromkeys(["HasState", "PosCount", "TruePos"])
    out = detection_map.compute(
        xp=np,
        DetectRes=found,
        DetectRes_lod=lod_of(lengths),
        Label=objects,
        Label_lod=lod_of(sought),
        TruePos_lod=(),
        class_num=classes,
        background_label=0,
        overlap_threshold=0.3,
        evaluate_difficult=counts_difficult,
        ap_type=ap_type,
        **states,
    )
    assert_same(out["AccumPosCount"], counts.reshape(-1, 1))
    lod = lod_of([len(each) for each in marks])
    flat = np.array([pair for each in marks for pair in each], "float32")
    assert_same(out["AccumTruePos"], flat, lod)
    np.testing.assert_allclose(out["MAP"], np.mean(areas), rtol=1e-6)


# ---------------------------------------------------------------------- averages of the best
def test_averages_of_the_best_of_all_images() -> None:
    random = np.random.default_rng(11)
    heights, widths, channels, topks = [2, 0, 1, 3], [4, 2, 1, 7], 2, [1, 3, 6]
    sizes = [channels * high * wide for high, wide in zip(heights, widths, strict=True)]
    given = random.permutation(sum(sizes)).astype("float32")
    given[3] = -np.inf
    lods = {"X_lod": lod_of(sizes), "ROW_lod": lod_of(heights), "COLUMN_lod": lod_of(widths)}
    options = {"xp": np, "X": given.reshape(-1, 1), "topks": topks, "channel_num": channels, **lods}
    means, places = topk_avg.compute(**options)
    d_means = random.standard_normal((sum(heights), channels * len(topks))).astype("float32")
    gradient = registry.get("sequence_topk_avg_pooling_grad").compute(pos=places, dOut=d_means, **options)
    wanted, chosen, wanted_gradient, row = [], [], np.zeros(sum(sizes)), 0
    for (first, end), high, wide in zip(pairs_of(lod_of(sizes)[0]), heights, widths, strict=True):
        image = given[first:end].reshape(channels, high, wide)
        d_image = wanted_gradient[first:end].reshape(image.shape)
        for line in range(high):
            for channel in range(channels):
                order = np.argsort(-image[channel, line], kind="stable")[: max(topks)]
                chosen += [*order, *[-1] * (max(topks) - len(order))]
                for number, count in enumerate(topks):
                    wanted.append(image[channel, line, order[:count]].sum() / count)
                    share = d_means[row, channel * len(topks) + number] / count
                    d_image[channel, line, order[:count]] += share
            row += 1
    assert_same(places, chosen)
    np.testing.assert_allclose(means.value.ravel(), wanted, rtol=1e-6)
    np.testing.assert_allclose(gradient.ravel(), wanted_gradient, rtol=1e-5)


# ---------------------------------------------------------------------- levels of a pyramid
def test_regions_of_each_level() -> None:
    random, lengths = np.random.default_rng(13), [3, 0, 6]
    sides = random.uniform(5, 500, (sum(lengths), 1))
    given = np.concatenate([np.zeros_like(sides)] * 2 + [sides] * 2, axis=1).astype("float32")
    given[4] = np.nan  # on the lowest level, as in 1.8.5
    given[5] = [9, 9, 3, 3]  # empty
    found = distribute_fpn_proposals.compute(
        xp=np,
        FpnRois=given,
        FpnRois_lod=lod_of(lengths),
        min_level=2,
        max_level=4,
        refer_level=3,
        refer_scale=100,
        pixel_offset=True,
        RoisNum=None,
    )
    levels = [
        2 if np.isnan(side) else int(np.clip(3 + np.log2((side + 1) / 100), 2, 4)) for side in given[:, 2]
    ]
    levels[5] = 2
    rows = [[row for row, one in enumerate(levels) if one == level] for level in (2, 3, 4)]
    images = np.repeat(range(len(lengths)), lengths)
    for part, wanted in zip(found["MultiFpnRois"], rows, strict=True):
        assert_same(part, given[wanted], lod_of(np.bincount(images[wanted], minlength=len(lengths))))
    order = [row for part in rows for row in part]
    np.testing.assert_array_equal(found["RestoreIndex"][order, 0], range(len(order)))


# ---------------------------------------------------------------------- means over the bins of regions
@pytest.mark.parametrize("odd", [0.0, np.inf, np.nan])
def test_bins_of_all_pixels_and_of_those_that_are_read(monkeypatch: pytest.MonkeyPatch, odd: float) -> None:
    random, lengths = np.random.default_rng(15), [2, 0, 3]
    images = random.standard_normal((3, 12, 9, 7)).astype("float32")
    images[2, 5, 4, 3] += odd
    low = random.uniform(-5, 60, (5, 2))
    regions = np.concatenate((low, low + random.uniform(0, 80, (5, 2))), axis=1).astype("float32")
    options = {
        "xp": np,
        "X": images,
        "ROIs": regions,
        "ROIs_lod": lod_of(lengths),
        "RoisNum": None,
        "output_channels": 2,
        "spatial_scale": 0.1,
        "pooled_height": 3,
        "pooled_width": 2,
    }
    d = random.standard_normal((5, 2, 3, 2)).astype("float32")
    d[0, 0, 0, 0] += odd
    found = []
    for most in (1 << 26, 0):
        monkeypatch.setattr(roi_average, "_MOST_PRODUCTS", most)
        backward = registry.get("psroi_pool_grad").compute(dOut=d, **options)
        found.append((roi_average.psroi_pool.compute(**options), backward))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


# ---------------------------------------------------------------------- distinct numbers
@pytest.mark.parametrize("most", [3, 500, 10**9, 2**62])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_distinct_numbers(most: int, kind: str) -> None:
    most = min(most, np.iinfo(kind).max)
    x = np.random.default_rng(1).integers(-most, most, 300, dtype=kind)
    x[200:250] = x[100:150]
    values = list(dict.fromkeys(x.tolist()))
    index = [values.index(number) for number in x.tolist()]
    found = registry.get("unique_with_counts").compute(np, x, VarType.INT32)
    for one, other in zip(found, (values, index, np.bincount(index)), strict=True):
        np.testing.assert_array_equal(one, other)
