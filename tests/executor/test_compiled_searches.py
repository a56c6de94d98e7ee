"""Compiled searches find what the portable kernels find, and leave to them what they cannot read."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base import registry
from fluidlite.executor.fast.loops.searches import Searches
from fluidlite.ops.detection.roi_max import maxima_of_bins
from fluidlite.ops.kernels.sampled_rows import pixels_of
from fluidlite.ops.kernels.suppression import kept_boxes
from fluidlite.ops.sequences.ctc import levenshtein

layers = fluid.layers
RANDOM = np.random.default_rng(3)
SEARCHES = Searches(wait=True)
WITH_SEARCHES: Any = SimpleNamespace(searches=SEARCHES)
CRF: Any
CRF_GRAD: Any
CRF, CRF_GRAD = (registry.get(name) for name in ("linear_chain_crf", "linear_chain_crf_grad"))


@pytest.mark.parametrize("is_padded", [True, False])
@pytest.mark.parametrize("tags", [1, 9, 37])
def test_compiled_messages(tags: int, is_padded: bool) -> None:
    shape = (4, 7) if is_padded else (12,)
    emission = RANDOM.standard_normal((*shape, tags)).astype("float32")
    transition = RANDOM.standard_normal((tags + 2, tags)).astype("float32")
    labels, lod = RANDOM.integers(0, tags, shape), () if is_padded else ((0, 0, 4, 4, 11, 12, 12),)
    lengths = np.array([[3], [0], [7], [1]]) if is_padded else None
    d = RANDOM.standard_normal((4 if is_padded else 6, 1)).astype("float32")
    found = []
    for ctx in (SimpleNamespace(searches=None), WITH_SEARCHES):
        given = (np, emission, lod, transition, labels, (), lengths)
        alpha, exps, moves, cost = CRF.compute(*given, ctx)
        gradients = CRF_GRAD.compute(*given, alpha, exps, moves, d, ctx)
        found.append([alpha, cost, *gradients])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_chains_that_leave_the_rows_have_no_messages() -> None:
    rows, first, moves = np.ones((6, 3), "float32"), np.ones(3, "float32"), np.ones((3, 3), "float32")
    for start, length, step in ((4, 3, 1), (1, 3, -1), (-1, 1, 1), (6, 1, 1)):
        given = (np.array([start]), np.array([length]), step)
        assert SEARCHES.messages(rows, first, moves, *given) is None
    assert SEARCHES.messages(rows, first, moves[:2], np.array([0]), np.array([6]), 1) is None


def boxes(count: int, scale: float) -> Any:
    low = RANDOM.uniform(0, 0.9, (count, 2))
    high = low + RANDOM.uniform(0.01, 0.3, (count, 2))
    return (np.concatenate((low, high), axis=1) * scale).astype("float32")


@pytest.mark.parametrize("count", [0, 1, 17, 300])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("most", [-1, 0, 7])
def test_compiled_boxes(count: int, normalized: bool, most: int) -> None:
    given = boxes(count, 1 if normalized else 40)
    # empty boxes, one of which lies on another, and one that is nowhere
    odd = np.array([[2, 2, 2, 2], [2, 2, 2, 2], [np.nan, 0, 1, 1]], "float32")
    given[3:6] = odd[: len(given[3:6])]
    for limit in (0.1, 0.5, 0.9):
        wanted = kept_boxes(given, limit, normalized, most=most)
        assert kept_boxes(given, limit, normalized, most=most, ctx=WITH_SEARCHES) == wanted


def image_of_odd_numbers(height: int, width: int) -> Any:
    """Two images, of whose elements many are equal, infinite or no numbers."""
    image = RANDOM.integers(0, 9, (2, 11, height, width)).astype("float32")
    image[0] -= 20
    image[1, :4], image[:, 4, :2, :2], image[1, 5] = -np.inf, np.nan, np.inf
    return image


def test_compiled_bins() -> None:
    image = image_of_odd_numbers(6, 7)
    starts = [RANDOM.integers(0, 6, (5, bins)) for bins in (2, 3)]
    # empty bins as well
    down, across = ((start, start + RANDOM.integers(0, 2, start.shape)) for start in starts)
    images = np.array([0, 1, 1, 0, 1])
    wanted = maxima_of_bins(np, image, images, down, across)
    found = SEARCHES.maxima_of_bins(pixels_of(np, image), (6, 7), images, down, across)
    assert found is not None
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.reshape(-1, 11), other)


@pytest.mark.parametrize("width", [1, 16, 37])
def test_compiled_draws(width: int) -> None:
    shares = RANDOM.dirichlet(np.ones(width), 50).astype("float32")
    shares[:2] = 0
    drawn = RANDOM.uniform(-0.1, 1.1, 50).astype("float32")
    drawn[3:5] = shares[3:5, 0]
    wanted = np.minimum((shares.cumsum(1) < drawn[:, None]).sum(1), width - 1)
    np.testing.assert_array_equal(SEARCHES.drawn_classes(shares, drawn), wanted)


def test_compiled_distances() -> None:
    found, wanted = RANDOM.integers(0, 5, (9, 20)), RANDOM.integers(0, 5, (9, 23))
    sizes, wanted_sizes = RANDOM.integers(0, 21, 9), RANDOM.integers(0, 24, 9)
    sizes[0] = wanted_sizes[1] = 0
    distances = SEARCHES.edit_distances(found, sizes, wanted, wanted_sizes)
    np.testing.assert_array_equal(distances, levenshtein(found, sizes, wanted, wanted_sizes))
    assert SEARCHES.edit_distances(found, sizes + 20, wanted, wanted_sizes) is None


def test_rows_that_are_not_there_are_not_searched() -> None:
    emission, transition = np.zeros((6, 3), "float32"), np.zeros((5, 3), "float32")
    assert SEARCHES.best_paths(emission, np.array([0]), np.array([7]), transition) is None
    assert SEARCHES.best_paths(emission, np.array([-1]), np.array([3]), transition) is None
    assert SEARCHES.best_paths(emission, np.array([0]), np.array([6]), transition[:4]) is None
    assert SEARCHES.best_paths(emission.astype("float64"), np.array([0]), np.array([6]), transition) is None


def ends_of_images() -> list[Any]:
    names = ("boxes", "scores")
    given = [fluid.data(name, shape) for name, shape in zip(names, ([2, 60, 4], [2, 3, 60]), strict=True)]
    return [layers.multiclass_nms(*given, 0.01, 40, 20, nms_threshold=0.4)]


def tags_of_rows() -> list[Any]:
    frames = fluid.data("frames", [-1, 20], lod_level=1)
    layers.create_parameter([22, 20], "float32", name="moves")
    attr = fluid.ParamAttr(name="moves")
    label = fluid.data("label", [-1, 1], "int64", lod_level=1)
    return [layers.crf_decoding(frames, attr), layers.crf_decoding(frames, attr, label=label)]


def tags_of_padded_rows() -> list[Any]:
    frames, length = fluid.data("padded", [3, 9, 20]), fluid.data("length", [3], "int64")
    layers.create_parameter([22, 20], "float32", name="moves")
    attr = fluid.ParamAttr(name="moves")
    label = fluid.data("padded label", [3, 9], "int64")
    decoded = layers.crf_decoding(frames, attr, length=length)
    return [decoded, layers.crf_decoding(frames, attr, label=label, length=length)]


def distances() -> list[Any]:
    sides = [fluid.data(name, [-1, 1], "int64", lod_level=1) for name in ("label", "words")]
    return list(layers.edit_distance(*sides, normalized=False))


def largest_of_windows() -> list[Any]:
    images = fluid.data("images", [2, 11, 7, 9])
    return [*layers.adaptive_pool2d(images, [3, 4], "max", require_index=True)]


def feed() -> dict[str, Any]:
    lengths, place = [[4, 0, 7, 1]], fluid.CPUPlace()
    columns = {name: RANDOM.integers(0, 20, (12, 1)) for name in ("label", "words")}
    columns["frames"] = RANDOM.standard_normal((12, 20)).astype("float32")
    return {
        **{name: fluid.create_lod_tensor(value, lengths, place) for name, value in columns.items()},
        "padded": RANDOM.standard_normal((3, 9, 20)).astype("float32"),
        "padded label": RANDOM.integers(0, 20, (3, 9)),
        "length": np.array([4, 9, 0]),
        "images": image_of_odd_numbers(7, 9),
        "boxes": np.stack([boxes(60, 1), boxes(60, 1)]),
        "scores": RANDOM.uniform(0, 1, (2, 3, 60)).astype("float32"),
    }


PROGRAMS = [ends_of_images, tags_of_rows, tags_of_padded_rows, distances, largest_of_windows]


@pytest.mark.parametrize("build", PROGRAMS)
def test_programs_that_search(flags: Callable[..., None], build: Callable[[], list[Any]]) -> None:
    flags(fast_loops="wait")
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup):
        fetches = build()
    given = feed()
    used = {name: given[name] for name in given if main.global_block().has_var(name)}
    exe, scope, found = fluid.Executor(fluid.CPUPlace()), fluid.Scope(), []
    exe.run(startup, scope=scope)
    for naive in (True, False):
        exe.naive = naive
        found.append(exe.run(main, feed=used, fetch_list=fetches, scope=scope, return_numpy=False))
    for wanted, one in zip(*found, strict=True):
        assert one.lod() == wanted.lod()
        np.testing.assert_array_equal(np.array(one), np.array(wanted))
