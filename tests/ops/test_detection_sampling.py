"""Ops on boxes that sample at random: what they take is as many, and of those that may be taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_tables.proposals import CASES
from optest import Case, build, run

ASSIGN = next(case for case in CASES if str(case) == "rpn_target_assign-few")
LABELS = next(case for case in CASES if str(case) == "generate_proposal_labels-few")
LARGER = {
    "rpn_target_assign": {"rpn_batch_size_per_im": 1000},
    "generate_proposal_labels": {"batch_size_per_im": 1000},
}
APART = {  # no anchor both shows an object and shows none: which of these are taken would change the numbers
    "rpn_target_assign": {"rpn_negative_overlap": 0.05, "rpn_straddle_thresh": 100.0},
    "generate_proposal_labels": {},
}


def outputs(case: Case, slots: list[str], **attrs: Any) -> list[Any]:
    program, feeds, names = build(
        Case(case.op, case.inputs, case.expect, {**case.attrs, **APART[case.op], **attrs})
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
