"""Files of texts inside archives, and dictionaries of their words."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fluidlite.base.errors import FormatError

__all__ = ["numbered", "open_member"]


def open_member(archive: tarfile.TarFile, name: str | tarfile.TarInfo) -> Any:
    """A file of an archive; FormatError where there is none of that name."""
    try:
        found = archive.extractfile(name)
    except KeyError:
        found = None
    if found is None:
        raise FormatError(f"{archive.name!s} has no file {name}")
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
