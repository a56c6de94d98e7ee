"""Folders of checkpoints: old ones go, half-written and changed ones are not loaded."""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from checkpoint_jobs import net, same, state

import fluidlite as fluid
from fluidlite.distributed import latest_checkpoint, load_checkpoint, save_checkpoint
from fluidlite.errors import FormatError, MissingFileError
from fluidlite.values.scope import Scope


# ---------------------------------------------------------------------- folders
def saved(folder: pathlib.Path, steps: Sequence[int], **options: Any) -> tuple[Any, Any, Scope]:
    main, startup, _ = net("SGD")
    exe, scope = fluid.Executor(fluid.CPUPlace()), Scope()
    exe.run(startup, scope=scope)
    for step in steps:
        save_checkpoint(exe, folder, main, step, scope=scope, **options)
    return exe, main, scope


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_old_checkpoints_go_when_the_new_one_is_there(tmp_path: pathlib.Path) -> None:
    for step in (5, 3):
        (tmp_path / f".step_{step:08d}.{step:032x}.tmp").mkdir()  # of a job that was killed
    (tmp_path / "notes.txt").write_text("mine")
    saved(tmp_path, [1, 2, 3], max_num=2)
    assert names(tmp_path) == ["notes.txt", "step_00000002", "step_00000003"]
    saved(tmp_path, [3], max_num=2)
    assert names(tmp_path) == ["notes.txt", "step_00000002", "step_00000003-1"]
    saved(tmp_path, [1], max_num=2)  # a job that has gone back
    assert names(tmp_path) == ["notes.txt", "step_00000001"]
    saved(tmp_path, [2, 3, 4, 5], max_num=None)
    assert len(names(tmp_path)) == 6


def test_the_last_sound_one_is_found(tmp_path: pathlib.Path) -> None:
    assert latest_checkpoint(tmp_path / "none") is None
    exe, main, scope = saved(tmp_path, [1, 2, 3])
    assert latest_checkpoint(tmp_path) == str(tmp_path / "step_00000003")
    (tmp_path / "step_00000003" / "MANIFEST").unlink()
    third = tmp_path / "step_00000002" / "variables" / "w"
    third.write_bytes(third.read_bytes()[:-1])
    assert latest_checkpoint(tmp_path) == str(tmp_path / "step_00000001")
    found = load_checkpoint(exe, tmp_path, main, scope)
    assert found is not None and found.step == 1
    with pytest.raises(
        FormatError, match="step_00000002/variables/w: the file has 825 bytes, but should have 826"
    ):
        load_checkpoint(exe, tmp_path / "step_00000002", main, scope)
    (tmp_path / "step_00000001" / "variables" / "b").unlink()
    with pytest.raises(FormatError, match="none of the checkpoints in .* can be used"):
        load_checkpoint(exe, tmp_path, main, scope)


@pytest.mark.parametrize("at", ["first file", "sync", "rename"])
def test_a_process_that_dies_while_it_saves_leaves_the_last_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    exe, main, scope = saved(tmp_path, [1])
    before = latest_checkpoint(tmp_path)

    class Killed(BaseException):
        pass

    def killed(*arguments: Any) -> None:
        raise Killed

    steps = {"first file": "inside", "sync": "tree_to_disk", "rename": "os.rename"}
    with monkeypatch.context() as patch:
        patch.setattr(f"fluidlite.distributed.checkpoint_files.{steps[at]}", killed)
        patch.setattr("fluidlite.distributed.checkpoint_files.CheckpointWriter.abandon", lambda self: None)
        with pytest.raises(Killed):
            save_checkpoint(exe, tmp_path, main, 2, scope=scope)
    assert latest_checkpoint(tmp_path) == before and len(names(tmp_path)) == 2
    save_checkpoint(exe, tmp_path, main, 2, scope=scope)
    assert names(tmp_path) == ["step_00000001", "step_00000002"]


def test_a_changed_checkpoint_is_refused_or_loads_exactly(tmp_path: pathlib.Path) -> None:
    exe, main, scope = saved(tmp_path, [7])
    folder = tmp_path / "step_00000007"
    wanted, random = state(scope, main), np.random.RandomState(0)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    refused = 0
    for _ in range(2000):
        path = files[random.randint(len(files))]
        before = path.read_bytes()
        change(path, before, random)
        try:
            load_checkpoint(exe, folder, main, scope)
        except FormatError as error:
            assert path.name in str(error)
            refused += 1
        except MissingFileError as error:
            assert path.name in str(error)
            refused += 1
        path.write_bytes(before)
    same(wanted, state(scope, main))
    assert refused > 1900


def change(path: pathlib.Path, before: bytes, random: np.random.RandomState) -> None:
    """Change a file as disks and people do."""
    how, place = random.randint(5), random.randint(len(before))
    if how == 0:
        path.unlink()
    elif how == 1:
        path.write_bytes(before[:place])
    elif how == 2:
        path.write_bytes(before + random.bytes(1 + random.randint(9)))
    elif how == 3:
        path.write_bytes(before[:place] + random.bytes(1) + before[place + 1 :])
    else:
        path.write_bytes(before[:place] + random.bytes(random.randint(40)) + before[place:])


def test_a_manifest_with_the_right_hash_may_still_be_nonsense(tmp_path: pathlib.Path) -> None:
    exe, main, scope = saved(tmp_path, [7])
    manifest = tmp_path / "step_00000007" / "MANIFEST"
    facts = json.loads(manifest.read_bytes().partition(b"\n")[2])
    wanted = state(scope, main)
    for key, value in (
        ("files", 3),
        ("files", {"x": {}}),
        ("step", "a"),
        ("variables", [1]),
        ("variables", {"w": 7}),
        ("trainers", {"a": 1}),
        ("trainers", [{}]),
        ("servers", 4),
        ("variables", {"w": {"file": "../../x", "rows": 0}}),
        ("variables", {}),
        ("variables", {"w": {"file": [1], "rows": 0}}),
        ("trainers", [{"number": 0, "variables": [1]}]),
        ("trainers", [{"number": 0, "random": {"state": 1}}]),
        ("trainers", [{"number": 0, "random": 5}]),
    ):
        body = json.dumps({**facts, key: value}).encode()
        manifest.write_bytes(
            b"fluidlite checkpoint 1 sha256=" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        )
        with pytest.raises(FormatError):
            load_checkpoint(exe, tmp_path / "step_00000007", main, scope)
        same(wanted, state(scope, main))
