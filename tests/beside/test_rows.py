"""Remarks of the pages that say which programs are to differ: that they can be read, and where they hold."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from beside import rows as module
from beside.compare import Difference
from beside.job_tags import job_tags
from beside.jobs import make_job
from beside.language import Case
from beside.rows import excuse, rows


def job_case(**changes: object) -> Case:
    """A job without anything special, but for some entries."""
    job = make_job(1)
    plain = {"layers": [], "mode": "sync", "trainers": 2, "schedule": None, "clip": None, "average": None}
    return {
        "function": "sync",
        "door": "18",
        "job": {**job, "config": {"slice_var_up": False}, **plain, **changes},
    }


def test_remarks_of_both_pages_are_read() -> None:
    ids = {row.id for row in rows()}
    assert {"sparse-adam", "one-trainer"} <= ids


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- id: a; in: programs --><!-- id: a; in: value -->", "share an id"),
        ("<!-- id: a; of: sgd -->", "needs id and in"),
        ("<!-- id: a; in: value; op: sgd -->", "needs id and in"),
    ],
)
def test_remarks_that_cannot_be_read(
    text: str, said: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "PAGE.md"
    page.write_text(text)
    monkeypatch.setattr(module, "PAGES", (page,))
    with pytest.raises(ValueError, match=said):
        rows.__wrapped__()


CLIPPED = {"clip": ["GradientClipByValue", "optimizer"]}
SUM = "pserver0.main, block 1, op 0 (sum): {'X': ['w@GRAD']}, theirs {'X': ['w@GRAD.trainer_0']}"
STEP = "pserver0.startup, block 0, op 0 (fill_constant): value is 0.0, theirs 1.0"
SEND = "trainer0.main, block 0: theirs alone send(clip_0.tmp_0) -> __control_var@"


@pytest.mark.parametrize(
    ("line", "changes", "row"),
    [
        (SUM, {"trainers": 1}, "one-trainer"),
        (SUM, {"trainers": 2}, ""),
        (STEP, {"mode": "async", "schedule": "noam_decay"}, "first-step"),
        (STEP, {"mode": "sync", "schedule": "noam_decay"}, ""),
        (SEND, CLIPPED, "clip-on-servers"),
        (SEND, {"clip": ["GradientClipByValue", "program"]}, ""),
        ("trainer0.main, block 0, op 3 (mul): x_num_col_dims is 1, theirs 2", CLIPPED, ""),
    ],
)
def test_a_row_of_jobs_holds_for_its_lines_alone(line: str, changes: dict[str, object], row: str) -> None:
    assert excuse(job_case(**changes), [], Difference("programs", line)) == row


def test_a_row_of_zeros_holds_where_paddle_has_them() -> None:
    row = next(row for row in rows() if row.id == "given-to-steps")
    case = {"function": "relu", "door": "18", "feeds": {}, "calls": [], "outputs": [], "sums": False}
    for other, holds in (([1.0, 0.0, 0.0], True), ([1.0, 0.0, 4.0], False)):
        numbers = (np.array([1.0, 2.0, 3.0]), np.array(other))
        difference = Difference("gradient", "by x", "by x", numbers)
        assert row.holds(case, ["recurrent"], difference) is holds
    assert not row.holds({**case, "sums": True}, ["recurrent"], difference)


def test_tags_of_tables() -> None:
    def table(kind: str, **keywords: object) -> list[object]:
        given = {"is_sparse": True, "padding_idx": None, "param_attr": {"name": "table0"}, **keywords}
        return ["v0", kind, ["in1"], given]

    found = job_tags(job_case(layers=[table("embedding"), table("embedding_v2", padding_idx=0)])["job"])
    assert {"sparse", "shared table", "paddings", "flat ids"} <= found and "frozen table" not in found
    frozen = {"name": "table0", "trainable": False}
    found = job_tags(job_case(layers=[table("embedding", param_attr=frozen)])["job"])
    assert {"frozen table", "not updated"} <= found and not found & {"shared table", "paddings"}
