"""Folders that hold a checkpoint each: they are there as a whole or not at all, and what was changed since is
refused.

    folder/step_00000012/MANIFEST          a line with the SHA-256 of the rest, then JSON: all files with
                                           size and SHA-256, and facts
    folder/step_00000012/variables/fc_0.w_0, ...

A checkpoint is written under a hidden name, its MANIFEST last, and everything is on the disk before it gets
its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from fluidlite.base.errors import FormatError, MissingFileError
from fluidlite.base.exhausted import memory_errors
from fluidlite.base.records import dataclass
from fluidlite.values.disk import folder_to_disk, make_folders, tree_to_disk
from fluidlite.values.serialize import inside, naming

__all__ = [
    "Checkpoint",
    "CheckpointWriter",
    "checkpoints_in",
    "is_checkpoint",
    "latest_checkpoint",
    "prune",
    "sha256",
]

MANIFEST = "MANIFEST"
_TITLE = "fluidlite checkpoint 1 sha256="
_MOST = 1 << 28  # bytes of a manifest
_NAME = re.compile(r"step_(\d{8,18})(?:-(\d{1,9}))?")
_HIDDEN = re.compile(r"\.step_\d{8,18}\.[0-9a-f]{32}\.(tmp|old)")

_log = logging.getLogger("fluidlite.checkpoint")


# ------------------------------------------------------------------------------------------------ writing
def sha256(data: bytes) -> str:
    """The digest of bytes, as hexadecimal digits."""
    with memory_errors("the digest of a file"):
        return hashlib.sha256(data).hexdigest()


class CheckpointWriter:
    """Writes one checkpoint into `folder`, where nobody else writes; nobody sees it before `finish`."""

    def __init__(self, folder: str | os.PathLike[str], step: int) -> None:
        self.folder = pathlib.Path(folder)
        self.step = step
        make_folders(self.folder)
        _sweep(self.folder)
        self.staging = self.folder / f".step_{step:08d}.{uuid.uuid4().hex}.tmp"
        with naming(self._shown(), self.staging):
            self.staging.mkdir()
        self.files: dict[str, dict[str, Any]] = {}

    def _shown(self) -> pathlib.Path:
        """The name that errors give it: the hidden one says nothing to a user."""
        return self.folder / f"step_{self.step:08d}"

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        """Add a file; ValueError for a name that leads out of the folder."""
        path = pathlib.Path(inside(self.staging, name))
        size = 0
        with naming(self._shown(), self.staging):
            path.parent.mkdir(parents=True, exist_ok=True)
        with memory_errors(name), naming(self._shown() / name, path), open(path, "xb") as out:
            digest = hashlib.sha256()
            for chunk in chunks:
                out.write(chunk)
                digest.update(chunk)
                size += len(chunk)
            self.files[name] = {"size": size, "sha256": digest.hexdigest()}

    def finish(self, facts: Mapping[str, Any]) -> str:
        """Write the manifest, and give the checkpoint its name, which is returned with the folder."""
        body = json.dumps({"step": self.step, "files": self.files, **facts}, indent=1).encode()
        # last: a folder without a manifest is no checkpoint, whatever else it holds
        target = self._shown()
        with naming(target, self.staging), open(self.staging / MANIFEST, "xb") as out:
            out.write(f"{_TITLE}{sha256(body)}\n".encode() + body)
        with naming(target, self.staging):
            tree_to_disk(self.staging)
        attempt = 0
        # of a job that came here before: it stays until this one is complete
        while target.exists():
            attempt += 1
            target = self.folder / f"step_{self.step:08d}-{attempt}"
        # the name comes last, so that a reader finds all of it or nothing
        with naming(target, self.staging):
            os.rename(self.staging, target)
        folder_to_disk(self.folder)
        return str(target)

    def abandon(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.staging, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ reading
@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose manifest is sound.

    Attributes
    ----------
    id: the SHA-256 of the manifest.
    step: the number of steps that were done.
    files: name -> (size, SHA-256).
    facts: everything else that the manifest says.
    """

    path: str
    id: str
    step: int
    files: Mapping[str, tuple[int, str]]
    facts: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read the manifest; FormatError or MissingFileError names it where it is damaged or missing."""
        place = os.path.join(path, MANIFEST)
        head, _, body = _bytes_of(place, None).partition(b"\n")
        digest = sha256(body)
        if head != f"{_TITLE}{digest}".encode():
            raise FormatError(
                f"{place}: the manifest of this checkpoint was changed or cut off, or is of another version"
            )
        try:
            facts = json.loads(body)
            files = {
                str(name): (int(entry["size"]), str(entry["sha256"]))
                for name, entry in facts.pop("files").items()
            }
            return cls(os.fspath(path), digest, int(facts.pop("step")), files, facts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(
                f"{place}: this is not the manifest of a checkpoint: {type(error).__name__}: {error}"
            ) from error

    def read(self, name: str) -> bytes:
        """The bytes of a file; FormatError names it where they are not those that were written."""
        if name not in self.files:
            raise FormatError(
                f"{os.path.join(self.path, MANIFEST)}: there is no file {name!r} in this checkpoint"
            )
        size, digest = self.files[name]
        place = inside(self.path, name)
        data = _bytes_of(place, size)
        if sha256(data) != digest:
            raise FormatError(f"{place}: this file was changed since the checkpoint was written")
        return data

    def verify(self) -> None:
        """Read every file; the first that is not as it was written is an error."""
        for name in self.files:
            self.read(name)


def _bytes_of(place: str, size: int | None) -> bytes:
    """A whole file; of `size` bytes where that is known."""
    try:
        with open(place, "rb") as file:
            found = os.fstat(file.fileno()).st_size
            is_wrong = found > _MOST if size is None else found != size
            if is_wrong:
                raise FormatError(
                    f"{place}: the file has {found} bytes, but should have "
                    f"{size if size is not None else 'fewer'}"
                )
            return file.read(found + 1)
    except FileNotFoundError:
        raise MissingFileError(f"{place}: the file is missing, so the checkpoint is not complete") from None
    except OSError as error:
        raise FormatError(f"{place}: the file cannot be read: {error.strerror or error}") from error


# ---------- folders of checkpoints
def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """True if a path is called as a checkpoint is."""
    return _NAME.fullmatch(os.path.basename(os.path.normpath(path))) is not None


def checkpoints_in(folder: str | os.PathLike[str]) -> list[str]:
    """The paths of all checkpoints in a folder, sound or not, the oldest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    matches = [match for match in map(_NAME.fullmatch, names) if match is not None]
    # by number, not by text: steps of more than eight digits have longer names
    matches.sort(key=lambda match: (int(match[1]), int(match[2] or 0)))
    return [os.path.join(folder, match[0]) for match in matches]


def latest_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """The path of the newest checkpoint in a folder that is complete and unchanged; None where there are no
    checkpoints.

    Every file is read. Damaged ones are passed over with a warning in the log `fluidlite.checkpoint`;
    FormatError where all are.
    """
    wrong = []
    for path in reversed(checkpoints_in(folder)):
        try:
            Checkpoint.open(path).verify()
        except (FormatError, MissingFileError) as error:
            _log.warning("skipped a checkpoint: %s", error)
            wrong.append(str(error))
            continue
        return path
    if wrong:
        raise FormatError(f"none of the checkpoints in {os.fspath(folder)} can be used: {'; '.join(wrong)}")
    return None


def prune(folder: str | os.PathLike[str], newest: str, max_num: int) -> None:
    """Keep `newest` and at most `max_num` - 1 sound ones that are older or newer; remove the others, and
    what was never completed.
    """
    others = [path for path in checkpoints_in(folder) if os.path.basename(path) != os.path.basename(newest)]
    step = Checkpoint.open(newest).step
    sound = [path for path in others if _is_sound(path) and Checkpoint.open(path).step < step]
    keep = set(sound[-(max_num - 1) :] if max_num > 1 else ())
    for path in others:
        if path not in keep:
            _remove(path)
    _sweep(folder)


def _sweep(folder: str | os.PathLike[str]) -> None:
    """Remove what was never completed, and what was being removed: one job at a time saves into a folder."""
    for name in os.listdir(folder):
        if _HIDDEN.fullmatch(name):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _is_sound(path: str) -> bool:
    try:
        Checkpoint.open(path)
    except (FormatError, MissingFileError):
        return False
    return True


def _remove(path: str) -> None:
    """Take a checkpoint away: first its name, so that nobody finds half of it."""
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, f".step_{_NAME.fullmatch(name)[1]}.{uuid.uuid4().hex}.old")  # type: ignore[index]
    with contextlib.suppress(OSError):
        os.rename(path, hidden)
        shutil.rmtree(hidden, ignore_errors=True)
