"""Ops on regions and boxes: random samples, images where there is nothing, shapes that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_tables import regions
from op_tables.proposals import CASES
from optest import Case, build, run

import fluidlite as fluid
from fluidlite.base.errors import ShapeError
from fluidlite.ops.kernels import boxes as boxes_module
from fluidlite.ops.kernels.boxes import overlaps
from fluidlite.ops.kernels.suppression import kept_boxes, neighbour_overlaps, overlap_of

ASSIGN = next(case for case in CASES if str(case) == "rpn_target_assign-few")
LABELS = next(case for case in CASES if str(case) == "generate_proposal_labels-few")
LARGER = {
    "rpn_target_assign": {"rpn_batch_size_per_im": 1000},
    "generate_proposal_labels": {"batch_size_per_im": 1000},
}
APART = {  # no anchor both shows an object and shows none: which of these are taken would change the numbers
    "rpn_target_assign": {"rpn_negative_overlap": 0.05, "rpn_straddle_thresh": 100.0}
}


def outputs(case: Case, slots: list[str], **attrs: Any) -> list[Any]:
    """The arrays in the first variables of the slots."""
    program, feeds, names = build(
        Case(case.op, case.inputs, case.expect, {**case.attrs, **APART.get(case.op, {}), **attrs})
    )
    return [np.asarray(value) for value in run(program, feeds, [names[slot][0] for slot in slots])]


@pytest.mark.parametrize("case", [ASSIGN, LABELS], ids=str)
def test_a_random_sample_is_part_of_all(case: Case) -> None:
    slots = ["ScoreIndex", "TargetLabel"] if case is ASSIGN else ["Rois", "LabelsInt32"]
    first = outputs(case, slots)
    everything, labels = outputs(case, slots, **LARGER[case.op])
    known = {
        tuple(np.atleast_1d(row)): label for row, label in zip(everything, labels[:, 0].tolist(), strict=True)
    }
    seen = set()
    for _ in range(8):
        rows, found = outputs(case, slots, use_random=True)
        assert len(rows) == len(first[0])
        assert (found > 0).sum() == (first[1] > 0).sum()
        taken = [tuple(np.atleast_1d(row)) for row in rows]
        assert len(set(taken)) == len(taken)
        assert [known[row] for row in taken] == found[:, 0].tolist()
        seen.add(tuple(taken))
    assert len(seen) > 1


# ------------------------------------------------------------------ nothing there
def changed(case: Case, **inputs: Any) -> Case:
    return Case(case.op, {**case.inputs, **inputs}, case.expect, case.attrs)


def test_an_image_without_anchors_inside_teaches_nothing() -> None:
    tiny = changed(ASSIGN, ImInfo=np.array([[1, 1, 1.5], [50, 64, 0.5]], "float32"))
    (rows,) = outputs(tiny, ["ScoreIndex"], rpn_straddle_thresh=0.0)
    assert len(rows) and (rows >= len(ASSIGN.inputs["Anchor"])).all()  # all of the second image


@pytest.mark.parametrize("op", ["rpn_target_assign", "retinanet_target_assign"])
def test_an_image_without_objects_is_background(op: str) -> None:
    case = next(case for case in CASES if case.op == op)
    lengths = [[4, 0]]
    replaced = {
        slot: (case.inputs[slot][0], lengths)
        for slot in ("GtBoxes", "IsCrowd", "GtLabels")
        if slot in case.inputs
    }
    rows, labels, located = outputs(changed(case, **replaced), ["ScoreIndex", "TargetLabel", "LocationIndex"])
    second = rows >= len(case.inputs["Anchor"])
    assert second.any() and not labels[second].any()
    assert (located < len(case.inputs["Anchor"])).all()


def test_of_equal_scores_the_last_region_is_taken_first() -> None:
    """As recorded in 1.8.5 and 2.6.2: two levels with two images of two regions each."""
    lengths = [[2, 2]]
    regions_of_levels = [
        (np.repeat(np.arange(first, first + 4, dtype="float32")[:, None], 4, 1), lengths) for first in (0, 4)
    ]
    scores = [(np.ones((4, 1), "float32"), lengths) for _ in range(2)]
    case = next(case for case in CASES if case.op == "collect_fpn_proposals")
    given = changed(case, MultiLevelRois=regions_of_levels, MultiLevelScores=scores)
    (found,) = outputs(given, ["FpnRois"], post_nms_topN=5)
    assert found[:, 0].tolist() == [5, 4, 7, 6, 3]


def test_an_image_without_proposals_has_no_labels() -> None:
    """As in 1.8.5, though its objects are proposals, too."""
    rois, _ = LABELS.inputs["RpnRois"]
    program, feeds, names = build(changed(LABELS, RpnRois=(rois, [[len(rois), 0]])))
    found = run(program, feeds, [names["Rois"][0], names["BboxTargets"][0]])
    for tensor in found:
        first, second = tensor.recursive_sequence_lengths()[0]
        assert first and not second


@pytest.mark.parametrize("case", [case for case in regions.CASES if "ROIs" in case.inputs], ids=str)
def test_no_regions_give_no_maps_and_gradients_of_zero(case: Case) -> None:
    rois = case.inputs["ROIs"]
    columns = rois[0].shape[1] if isinstance(rois, tuple) else rois.shape[1]
    replaced: dict[str, Any] = {"ROIs": (np.zeros((0, columns), "float32"), [[0, 0]])}
    if "Trans" in case.inputs:
        replaced["Trans"] = case.inputs["Trans"][:0]
    inputs = {slot: value for slot, value in case.inputs.items() if slot not in ("RoisLod", "BatchRoINums")}
    slot = "Output" if case.op == "deformable_psroi_pooling" else "Out"
    program, feeds, names = build(Case(case.op, {**inputs, **replaced}, case.expect, case.attrs))
    block = program.global_block()
    image = block.var(next(iter(feeds)))
    with fluid.program_guard(program):
        total = fluid.layers.reduce_sum(block.var(names[slot][0]))
        (gradient,) = fluid.gradients([total], [image])
    maps, gradients = run(program, feeds, [names[slot][0], gradient.name])
    assert np.asarray(maps).shape[0] == 0 and np.asarray(maps).ndim == 4
    assert np.asarray(gradients).shape == feeds[image.name].shape and not np.asarray(gradients).any()


# ------------------------------------------------------------------ mistakes
def changed_attrs(case: Case, **attrs: Any) -> Case:
    return Case(case.op, case.inputs, case.expect, {**case.attrs, **attrs})


IMAGE, REGIONS = np.zeros((2, 8, 6, 6), "float32"), np.zeros((3, 4), "float32")
POOLED = {"pooled_height": 2, "pooled_width": 2}
MISTAKES = {
    "image": Case("roi_pool", {"X": IMAGE[0], "ROIs": REGIONS}, {}, POOLED),
    "columns": Case("roi_align", {"X": IMAGE, "ROIs": REGIONS[:, :3]}, {}, POOLED),
    "bins": Case("prroi_pool", {"X": IMAGE, "ROIs": REGIONS}, {}, {**POOLED, "pooled_width": 0}),
    "channels": Case("psroi_pool", {"X": IMAGE, "ROIs": REGIONS}, {}, {**POOLED, "output_channels": 3}),
    "scale": Case(
        "psroi_pool", {"X": IMAGE, "ROIs": REGIONS}, {}, {"output_channels": 2, "spatial_scale": 0.0}
    ),
    "offsets' size": changed_attrs(regions.moved_row(False), trans_std=1.5),
    "samples": changed_attrs(regions.moved_row(False), sample_per_part=0),
    "quadrilaterals": Case("roi_perspective_transform", {"X": IMAGE, "ROIs": REGIONS}, {}),
    "offsets": Case(
        "deformable_conv_v1",
        {"Input": IMAGE, "Offset": IMAGE, "Filter": np.zeros((4, 8, 3, 3), "float32")},
        {},
    ),
    "groups": Case(
        "deformable_conv_v1",
        {"Input": IMAGE, "Offset": IMAGE, "Filter": np.zeros((4, 3, 2, 2), "float32")},
        {},
    ),
    "scores": Case(
        "generate_proposals",
        {
            "Scores": IMAGE[:, :2],
            "BboxDeltas": IMAGE[:, :4],
            "ImInfo": REGIONS[:2, :3],
            "Anchors": np.zeros((6, 6, 2, 4), "float32"),
            "Variances": np.zeros((6, 6, 2, 4), "float32"),
        },
        {},
        CASES[0].attrs,
    ),
    "anchors": changed(ASSIGN, Anchor=REGIONS[:, :3]),
    "taps": Case("conv_shift", {"X": REGIONS, "Y": REGIONS[:, :2]}, {}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_op_and_the_shapes(name: str) -> None:
    case = MISTAKES[name]
    with pytest.raises(ShapeError, match=rf"op '{case.op}'(.|\n)*built at .*optest"):
        build(case)


def test_regions_need_to_know_their_images() -> None:
    program, feeds, names = build(Case("roi_align", {"X": IMAGE, "ROIs": REGIONS}, {"Out": 0}, POOLED))
    with pytest.raises(ShapeError, match="no level of detail"):
        run(program, feeds, names["Out"])
    feeds["ROIs_0"] = fluid.create_lod_tensor(REGIONS, [[1, 1, 1]], fluid.CPUPlace())
    with pytest.raises(ShapeError, match="2 images and 3 regions"):
        run(program, feeds, names["Out"])


def test_several_images_are_not_mixed_by_their_step() -> None:
    """1.8.5 lays a step of several images out by channels, and reads it by images."""
    case = next(case for case in regions.CASES if case.op == "deformable_conv")
    found = [outputs(case, ["Output"], im2col_step=step)[0] for step in (1, 2, 64)]
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("normalized", [True, False])
def test_neighbours_overlap_as_boxes_do(size: int, normalized: bool) -> None:
    """Some meet and some do not, and the numbers are the same to the bit."""
    low = np.random.RandomState(0).uniform(0, 2, (40, 1, 2))
    angles = np.arange(size // 2) * 4 * np.pi / size
    corners = np.stack((np.cos(angles), np.sin(angles)), axis=-1) if size > 4 else np.array([[0, 0], [1, 1]])
    boxes = (low + corners).reshape(40, size).astype("float32")
    found = neighbour_overlaps(boxes, normalized)
    wanted = np.diagonal(overlap_of(size, normalized)(boxes, boxes), -1)
    assert 0 < np.count_nonzero(found) < 39
    np.testing.assert_array_equal(found, wanted)
    assert neighbour_overlaps(boxes[:1], normalized).shape == (0,)


@pytest.mark.parametrize("normalized", [True, False])
def test_overlaps_some_rows_at_a_time(normalized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same to the bit, and the first of the boxes are empty."""
    low = np.random.RandomState(0).uniform(0, 2, (11, 2))
    boxes = np.concatenate((low, low + np.arange(11)[:, None] / 10), axis=1).astype("float32")
    wanted = overlaps(np, boxes, boxes[:7], normalized)
    monkeypatch.setattr(boxes_module, "_CACHED", 21)
    np.testing.assert_array_equal(overlaps(np, boxes, boxes[:7], normalized), wanted)
    assert wanted.shape == (11, 7) and np.isfinite(wanted).all() and wanted[0, 0] == (not normalized)


@pytest.mark.parametrize("count, spread", [(0, 1), (1, 1), (128, 4), (300, 2)])
@pytest.mark.parametrize("threshold, eta", [(0.3, 1.0), (0.3, 0.9), (0.8, 0.9), (0.6, 0.5)])
def test_boxes_are_kept_one_by_one(count: int, spread: int, threshold: float, eta: float) -> None:
    random = np.random.RandomState(count)
    corner = random.rand(count, 2) * spread
    boxes = np.hstack([corner, corner + random.rand(count, 2)]).astype("float32")
    boxes[5:6] = np.nan  # no number overlaps too much
    overlap = overlap_of(4, True)
    limit, kept = np.float32(threshold), []
    for row in range(count):
        if (overlap(boxes[kept], boxes[row : row + 1]) <= limit).all():
            kept.append(row)
            limit = limit * np.float32(eta) if limit > 0.5 else limit
    assert kept_boxes(boxes, threshold, True, eta) == kept
    assert kept_boxes(boxes, threshold, True, eta, 7) == kept[:7]
    assert kept_boxes(boxes, threshold, True, eta, 0) == []
