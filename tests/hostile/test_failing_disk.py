"""A disk that fails at any one call: what was saved before stays whole, nothing is left, the error names the
file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from ways_to_save import WAYS, fill, held, network

from fluidlite.distributed import checkpoint_files
from fluidlite.distributed.checkpoint_files import CheckpointWriter, latest_checkpoint
from fluidlite.values import serialize


class FailingDisk:
    """Fails the n-th of the calls that write, rename, or have something on the disk."""

    def __init__(self, patch: pytest.MonkeyPatch, failing: int) -> None:
        self.left = failing
        self.counting = threading.Lock()  # several files are synced at a time
        for owner, name in (
            (os, "replace"),
            (os, "rename"),
            (os, "fsync"),
            (serialize, "_write"),
            (pathlib.Path, "mkdir"),
        ):
            patch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self.counting:
                self.left -= 1
                is_failing = self.left == -1
            if is_failing:
                # the system names the path of a call that has one, and none for what is open
                path = [str(arguments[0])] if isinstance(arguments[0], pathlib.Path) else []
                raise OSError(errno.EIO, os.strerror(errno.EIO), *path)
            return function(*arguments, **options)

        return call

    @property
    def failed(self) -> bool:
        """True if the call came."""
        return self.left < 0


@contextlib.contextmanager
def failing_at(number: int) -> Iterator[FailingDisk]:
    with pytest.MonkeyPatch.context() as patch:
        yield FailingDisk(patch, number)


def hidden_in(folder: pathlib.Path) -> list[str]:
    """Everything under a hidden name."""
    return [name for _, folders, names in os.walk(folder) for name in folders + names if name[0] == "."]


@pytest.mark.parametrize("way", WAYS)
def test_each_call_of_a_save(way: str, tmp_path: pathlib.Path) -> None:
    save, load = WAYS[way]
    main = network()
    path = str(tmp_path / "folder")
    fill(main, 1.0)
    save(main, path)
    value = 1.0
    for number in range(60):
        fill(main, value + 1)
        with failing_at(number) as disk:
            try:
                save(main, path)
            except OSError as error:
                assert str(tmp_path / "folder") in str(error) and ".tmp" not in str(error)
        fill(main, 0.0)
        load(main, path)
        found = held(main)
        assert found in ({value}, {value + 1})
        assert not hidden_in(tmp_path)
        value = found.pop()
        if not disk.failed:
            return
    raise AssertionError("a save makes more calls than were tried")


def test_each_call_of_a_checkpoint(tmp_path: pathlib.Path) -> None:
    def write(step: int) -> None:
        writer = CheckpointWriter(tmp_path, step)
        try:
            for number in range(4):
                writer.put(f"variables/w{number}", [np.full(8, step, "float32").tobytes()])
            writer.finish({"step": step})
        except BaseException:
            writer.abandon()
            raise

    write(1)
    last = 1
    for number in range(60):
        with failing_at(number) as disk, contextlib.suppress(OSError):
            write(number + 2)
        path = latest_checkpoint(str(tmp_path))
        assert path is not None
        found = checkpoint_files.Checkpoint.open(path)
        assert found.step in (last, number + 2) and len(found.files) == 4
        last = found.step
        if not disk.failed:
            return
    raise AssertionError("a checkpoint makes more calls than were tried")
