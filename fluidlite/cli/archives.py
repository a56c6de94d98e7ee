"""Saved models in archives: .zip, .tar and compressed .tar files, unpacked into a temporary folder."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from typing import IO

from fluidlite.cli.errors import UsageError

__all__ = ["is_archive", "unpacked"]

_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
# weights hardly compress: an archive that grows by more than this is made to fill the disk
_FACTOR = 50
_MOST_FILES = 100_000


def is_archive(path: pathlib.Path) -> bool:
    """True for a file whose name ends like an archive's."""
    return path.is_file() and path.name.lower().endswith(_ENDINGS)


@contextlib.contextmanager
def unpacked(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder with the regular files of an archive; UsageError where it is damaged, has names that
    lead out of the folder, or unpacks to more than 50 times its size.
    """
    with tempfile.TemporaryDirectory(prefix="fluidlite_model_") as name:
        folder = pathlib.Path(name)
        try:
            _unpack(path, folder)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, RuntimeError) as error:
            raise UsageError(f"{path} is damaged, or not an archive: {error}") from None
        yield folder


def _unpack(path: pathlib.Path, folder: pathlib.Path) -> None:
    room = _FACTOR * max(path.stat().st_size, 1 << 20)
    for count, (name, size, source) in enumerate(_members(path)):
        room -= size
        if room < 0 or count >= _MOST_FILES:
            raise UsageError(f"{path} unpacks to more than {_FACTOR} times its size: it is not read")
        target = (folder / name).resolve()
        if folder.resolve() not in target.parents:
            raise UsageError(f"{path} holds a file {name!r} that leads out of the archive's folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        with source, open(target, "wb") as out:
            shutil.copyfileobj(source, out)


def _members(path: pathlib.Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Name, size and content of each regular file; links and devices are left out."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as package:
            for info in package.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, package.open(info)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            source = archive.extractfile(member) if member.isreg() else None
            if source is not None:
                yield member.name, member.size, source
