"""Files of texts inside archives, and dictionaries of their words."""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from fluidlite.base.errors import FormatError

__all__ = ["gunzip", "numbered", "open_member", "open_packed"]

# A file takes no more than so many times the bytes of the archive that it lies in: texts of the data sets
# take some 10 times, and a file of zeros, of which gzip makes a thousandth, is none of theirs.
_UNPACKED = 100
_SMALL = 1 << 20


def open_member(archive: tarfile.TarFile, name: str | tarfile.TarInfo) -> Any:
    """A file of an archive; FormatError where there is none of that name."""
    try:
        found = archive.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise FormatError(f"{archive.name!s} has no file {name}")
    member = archive.getmember(name) if isinstance(name, str) else name
    _check_size(archive.name, member.name, member.size)
    return found


def open_packed(package: zipfile.ZipFile, name: str) -> IO[bytes]:
    """The same in a zip archive."""
    # the size that the archive says: what goes on behind it is not read
    _check_size(package.filename, name, package.getinfo(name).file_size)
    return package.open(name)


def _check_size(archive: Any, name: str, size: int) -> None:
    """FormatError for a file that would take far more memory than the archive has bytes."""
    most = _SMALL + _UNPACKED * (os.path.getsize(archive) if archive else 0)
    if size > most:
        raise FormatError(f"{archive!s}: the file {name} takes {size} bytes, of at most {most}")


def gunzip(data: bytes, name: str) -> bytes:
    """Compressed bytes as they were; FormatError for others, and for what is far larger than they are."""
    most = _SMALL + _UNPACKED * len(data)
    found = b""
    try:
        # a file may be several that stand one behind the other
        while data and len(found) <= most:
            unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS)
            found += unpacking.decompress(data, most + 1 - len(found))
            data = unpacking.unused_data
    except zlib.error as error:
        raise FormatError(f"{name} cannot be decompressed: {error}") from None
    if len(found) > most:
        raise FormatError(f"{name} decompresses to more than {most} bytes, {_UNPACKED} times its size")
    return found


def numbered(counts: Mapping[Any, int], more_than: int) -> dict[Any, int]:
    """Word -> number, the most frequent words first and equally frequent ones by their letters, of those that
    occur often enough; the last number is that of "<unk>".
    """
    often = [item for item in counts.items() if item[1] > more_than]
    # texts are bytes, and marks are str: these two have no order
    often.sort(key=lambda item: (-item[1], isinstance(item[0], bytes), item[0]))
    found = {word: number for number, (word, _) in enumerate(often)}
    found["<unk>"] = len(often)
    return found


def lines_of(archive: tarfile.TarFile, names: Iterable[str]) -> Iterator[bytes]:
    """The lines of several files of an archive."""
    for name in names:
        yield from open_member(archive, name)
