"""An SSD learns to find bright and dark rectangles, and its saved model finds them in images it never saw."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

SIZE, CLASSES = 32, 3


def scenes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Images with one or two rectangles, their boxes and classes (1 bright, 2 dark), how many each has."""
    rng = np.random.RandomState(seed)
    images = rng.normal(0, 0.1, (count, 1, SIZE, SIZE))
    boxes, labels, lengths = [], [], []
    for image in images:
        halves = rng.permutation(2)[: rng.randint(1, 3)]  # one in the upper half, one in the lower
        for half in halves:
            height, width = rng.randint(8, 14, 2)
            top = half * SIZE // 2 + rng.randint(0, SIZE // 2 - height + 1)
            left = rng.randint(0, SIZE - width)
            label = rng.randint(1, CLASSES)
            image[0, top : top + height, left : left + width] += 1 if label == 1 else -1
            boxes.append([left, top, left + width, top + height])
            labels.append([label])
        lengths.append(len(halves))
    places = np.array(boxes, "float32") / SIZE
    return images.astype("float32"), places, np.array(labels, "int32"), lengths


def detector() -> tuple[Any, Any]:
    """(loss, boxes found) of a small SSD over two maps."""
    image = fluid.data("image", [None, 1, SIZE, SIZE])
    box = fluid.data("box", [None, 4], lod_level=1)
    label = fluid.data("label", [None, 1], "int32", lod_level=1)
    hidden, maps = image, []
    for filters in (8, 16, 16):
        hidden = fluid.layers.conv2d(hidden, filters, 3, stride=2, padding=1, act="relu")
        maps.append(hidden)
    codes, scores, priors, variances = fluid.layers.multi_box_head(
        maps[1:],
        image,
        SIZE,
        CLASSES,
        [[1.5], [1.5]],
        min_sizes=[8.0, 12.0],
        max_sizes=[12.0, 16.0],
        kernel_size=3,
        pad=1,
    )
    found = fluid.layers.detection_output(
        codes, scores, priors, variances, score_threshold=0.5, nms_threshold=0.3
    )
    loss = fluid.layers.ssd_loss(codes, scores, box, label, priors, variances)
    return fluid.layers.reduce_sum(loss), found


def feed_of(images: Any, boxes: Any, labels: Any, lengths: list[int]) -> dict[str, Any]:
    place = fluid.CPUPlace()
    return {
        "image": images,
        "box": fluid.create_lod_tensor(boxes, [lengths], place),
        "label": fluid.create_lod_tensor(labels, [lengths], place),
    }


def hits(found: Any, boxes: np.ndarray, labels: np.ndarray, lengths: list[int]) -> int:
    """Objects that a box of their class overlaps by more than half."""
    count, rows = 0, np.array(found)
    ends, own_ends = np.cumsum([0, *lengths]), np.cumsum([0, *found.recursive_sequence_lengths()[0]])
    for image in range(len(lengths)):
        here = rows[own_ends[image] : own_ends[image + 1]]
        for row in range(ends[image], ends[image + 1]):
            same = here[here[:, 0] == labels[row, 0], 2:]
            size = (np.minimum(same[:, 2:], boxes[row, 2:]) - np.maximum(same[:, :2], boxes[row, :2])).clip(0)
            both = size.prod(axis=1)
            union = (
                np.prod(boxes[row, 2:] - boxes[row, :2]) + np.prod(same[:, 2:] - same[:, :2], axis=1) - both
            )
            count += bool((both > 0.5 * union).any())
    return count


@pytest.fixture
def trained() -> tuple[list[float], Any, Any, Any]:
    """Mean losses of the epochs, the executor, the program for inference and its output."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss, found = detector()
        test = main.clone(for_test=True)
        fluid.optimizer.Adam(learning_rate=0.004).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    batches = [feed_of(*scenes(16, seed)) for seed in range(12)]
    losses = [
        float(np.mean([exe.run(main, feed=feed, fetch_list=[loss])[0] for feed in batches]))
        for _ in range(10)
    ]
    return losses, exe, test, found


def test_ssd_learns_and_is_exported(
    trained: tuple[list[float], Any, Any, Any], tmp_path: pathlib.Path
) -> None:
    losses, exe, test, found = trained
    assert all(later < earlier for earlier, later in zip(losses, losses[1:], strict=False)), losses
    assert losses[-1] < losses[0] / 3

    images, boxes, labels, lengths = scenes(20, 99)
    (before,) = exe.run(
        test, feed=feed_of(images, boxes, labels, lengths), fetch_list=[found], return_numpy=False
    )
    assert hits(before, boxes, labels, lengths) >= 0.8 * len(boxes)

    fluid.io.save_inference_model(str(tmp_path), ["image"], [found], exe, test)
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        (again,) = exe.run(program, feed={feeds[0]: images}, fetch_list=targets, return_numpy=False)
    np.testing.assert_array_equal(np.array(again), np.array(before))
    assert again.recursive_sequence_lengths() == before.recursive_sequence_lengths()
