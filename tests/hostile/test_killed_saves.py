"""Saves that are killed at any moment: what is loaded afterwards is one save or the other, and the next save
removes what was left.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ways_to_save import EXE, VARIABLES, WAYS, fill, held, network

import fluidlite as fluid
from fluidlite.base.errors import FormatError
from fluidlite.values import serialize
from fluidlite.values.serialize import complete_save, is_unfinished, replace_file, write_folder

ROUNDS = int(os.environ.get("HOSTILE_ROUNDS", "1"))


class Killed(BaseException):
    """The process ends here, without anything that Python would do at its end."""


class Killer:
    """Ends the n-th call of the functions that change a disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
        self.left = last
        for owner, name in ((os, "replace"), (os, "rename"), (serialize, "_write")):
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))
        # what a killed process does not do any more
        monkeypatch.setattr(shutil, "rmtree", self.unless_killed(shutil.rmtree))
        monkeypatch.setattr(pathlib.Path, "unlink", self.unless_killed(pathlib.Path.unlink))

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return function(*arguments, **options)

        return call

    def unless_killed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            return None if self.left < 0 else function(*arguments, **options)

        return call


@pytest.mark.parametrize("way", WAYS)
def test_whichever_step_is_the_last(way: str, tmp_path: pathlib.Path) -> None:
    save, load = WAYS[way]
    main = network()
    path = str(tmp_path / "folder")
    fill(main, 1.0)
    save(main, path)
    seen: set[float] = set()
    value = 1.0
    for last in range(0, 3 * VARIABLES, 1 if ROUNDS > 1 else 2):
        fill(main, value + 1)
        with pytest.MonkeyPatch.context() as patch:
            killer = Killer(patch, last)
            with contextlib.suppress(Killed):
                save(main, path)
            done = killer.left >= 0
        fill(main, 0.0)
        load(main, path)
        found = held(main)
        assert found <= {value, value + 1} and len(found) == 1
        seen |= {found.pop() - value}
        value = max(held(main))
        if done:
            break
    assert done and seen == {0.0, 1.0}
    save(main, path)
    assert not [name for _, folders, names in os.walk(tmp_path) for name in folders + names if name[0] == "."]


def test_a_process_that_is_killed(tmp_path: pathlib.Path) -> None:
    """By the system, in the middle of saves that never stop; the next save takes away what was left."""
    script = tmp_path / "saves.py"
    script.write_text(
        "import sys\nfrom fluidlite.values.serialize import write_folder\nk = 0\n"
        "while True:\n    k += 1\n    with write_folder(sys.argv[1]) as files:\n"
        "        for n in range(30):\n            files.put(f'w{n}', [str(k).encode()] * 2)\n"
        "    print('saved', flush=True)\n",
        encoding="utf8",
    )
    folder = tmp_path / "folder"
    for round in range(3 * ROUNDS):
        child = subprocess.Popen(
            [sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        child.stdout.readline()
        threading.Event().wait(0.05 + 0.03 * round)
        child.kill()
        child.communicate()
        complete_save(folder)
        found = {(folder / f"w{number}").read_bytes() for number in range(30)}
        assert len(found) == 1
    with write_folder(folder) as files:
        files.put("w0", [b"0"])
    assert sorted(os.listdir(folder)) == sorted(f"w{number}" for number in range(30))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_what_others_are_writing_stays(tmp_path: pathlib.Path) -> None:
    with write_folder(tmp_path) as files:
        files.put("a", [b"1"])
        replace_file(tmp_path / "b", [b"2"])
        with write_folder(tmp_path) as others:
            others.put("c", [b"3"])
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_readers_at_the_same_time(tmp_path: pathlib.Path) -> None:
    """Two that save and one that completes: no file is lost, and none is left behind."""
    with write_folder(tmp_path / "m") as files:
        files.put("w", [b""])
    errors: list[BaseException] = []

    def save(letter: bytes) -> None:
        try:
            for _ in range(30):
                with write_folder(tmp_path / "m") as files:
                    for number in range(5):
                        files.put(f"w{number}", [letter])
                complete_save(tmp_path / "m")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert {(tmp_path / "m" / f"w{number}").read_bytes() for number in range(5)} in [{b"a"}, {b"b"}, {b"c"}]
    assert not any(map(is_unfinished, os.listdir(tmp_path / "m")))


def test_folders_that_paddle_has_written_are_read(tmp_path: pathlib.Path) -> None:
    """Files alone, without any sign of ours."""
    main = network()
    fill(main, 3.0)
    fluid.io.save_persistables(EXE, str(tmp_path / "a"), main)
    assert sorted(os.listdir(tmp_path / "a")) == sorted(var.name for var in main.all_parameters())


@pytest.mark.parametrize("link", ["the save", "a folder of the save", "a folder of the model"])
def test_links_lead_no_files_elsewhere(tmp_path: pathlib.Path, link: str) -> None:
    """A model from somebody else, made to look like one whose save was interrupted."""
    mine, model = tmp_path / "mine", tmp_path / "model"
    (mine / "sub").mkdir(parents=True)
    (mine / "sub" / "key").write_text("secret")
    waiting = model / ".files.saved"
    model.mkdir()
    if link == "the save":
        waiting.symlink_to(mine)
    else:
        waiting.mkdir()
    if link == "a folder of the save":
        (waiting / "sub").symlink_to(mine / "sub")
    if link == "a folder of the model":
        (waiting / "sub").mkdir()
        (waiting / "sub" / "key").write_text("another")
        (model / "sub").symlink_to(mine / "sub")
    with pytest.raises(FormatError, match="is a link"):
        complete_save(model)
    assert (mine / "sub" / "key").read_text() == "secret"
