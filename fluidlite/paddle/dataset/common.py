"""`paddle.dataset.common`: the folder of the data sets, and files that hold parts of a reader's samples."""

from __future__ import annotations

import functools
import glob
import hashlib
import importlib
import os
import pathlib
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from fluidlite.base.errors import FormatError, MissingFileError

__all__ = [
    "DATA_HOME",
    "check_md5",
    "cluster_files_reader",
    "download",
    "fetch_all",
    "find_file",
    "md5file",
    "must_mkdirs",
    "split",
]

Reader: TypeAlias = "Callable[[], Iterator[Any]]"
DATA_HOME = os.path.expanduser("~/.cache/paddle/dataset")
_MAY_DOWNLOAD = "FLUIDLITE_DOWNLOAD"  # the environment variable of `fluidlite run --download`
_PART = 1 << 20
_PATIENCE = 30  # seconds without a byte


def must_mkdirs(path: str) -> None:
    """Make a folder, which may be there already."""
    os.makedirs(path, exist_ok=True)


def md5file(fname: str) -> str:
    """The MD5 sum of a file."""
    facts = os.stat(fname)
    return _md5_of(fname, facts.st_size, facts.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _md5_of(fname: str, size: int, changed: int) -> str:
    # readers ask at every pass, and the largest of the files has 2 GB: 4 s
    with open(fname, "rb") as source:
        return hashlib.file_digest(source, "md5").hexdigest() if _FAST else _digest(source)


_FAST = hasattr(hashlib, "file_digest")  # from Python 3.11 on


def _digest(source: Any) -> str:
    found = hashlib.md5(usedforsecurity=False)
    while part := source.read(_PART):
        found.update(part)
    return found.hexdigest()


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """The path of a data set's file in `DATA_HOME`, where 1.8.5 would have put it; MissingFileError where it
    is not there, FormatError where its MD5 sum is another one.
    """
    path = os.path.join(DATA_HOME, module_name, url.split("/")[-1] if save_name is None else save_name)
    return find_file(path, url, md5sum)


def find_file(path: str, url: str, md5sum: str | None) -> str:
    """The path of a file that Paddle would fetch from `url`, with its MD5 sum checked unless that is None.

    It is fetched only where the user has allowed it, and only by its sum: `fluidlite run --download`, or
    FLUIDLITE_DOWNLOAD=1. MissingFileError where it is not there, FormatError where its sum is another one.
    """
    is_there = os.path.isfile(path)
    if not is_there and (md5sum is None or os.environ.get(_MAY_DOWNLOAD, "0") in ("", "0")):
        known = "" if md5sum is None else f" (MD5 {md5sum})"
        allowed = "" if md5sum is None else ", or run the script by `fluidlite run --download`"
        raise MissingFileError(f"file {path} not found: put {url}{known} there{allowed}")
    if not is_there:
        _fetch(path, url, str(md5sum))
    if md5sum is not None:
        check_md5(path, md5sum)
    return path


def _fetch(path: str, url: str, md5sum: str) -> None:
    """Fetch a file; it is in its place when it is whole, and has the sum."""
    import tempfile
    import urllib.request

    if not url.startswith(("https://", "http://")):
        raise MissingFileError(f"file {path} not found: {url} is not an address of the web")
    folder = os.path.dirname(path)
    must_mkdirs(folder)
    sys.stderr.write(f"fetching {url}\n")
    handle, waiting = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out, urllib.request.urlopen(url, timeout=_PATIENCE) as source:
            while part := source.read(_PART):
                out.write(part)
        found = md5file(waiting)
        if found != md5sum:
            raise FormatError(f"{url} is not the file that Paddle reads: its MD5 is {found}, not {md5sum}")
        os.replace(waiting, path)
    except OSError as error:
        raise MissingFileError(f"file {path} not found, and {url} cannot be fetched: {error}") from error
    finally:
        if os.path.exists(waiting):
            os.unlink(waiting)


def check_md5(path: str, md5sum: str) -> None:
    """FormatError unless the MD5 sum of a file is `md5sum`."""
    found = md5file(path)
    if found != md5sum:
        raise FormatError(f"{path} is not the file that Paddle reads: its MD5 is {found}, not {md5sum}")


def fetch_all() -> None:
    """See that the files of all data sets are there."""
    package = importlib.import_module("fluidlite.paddle.dataset")
    for name in package.__all__:
        fetch = getattr(importlib.import_module(f"{package.__name__}.{name}"), "fetch", None)
        if fetch is not None:
            fetch()


def split(
    reader: Callable[[], Iterable[Any]],
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[..., Any] = pickle.dump,
) -> None:
    """Write a reader's samples to files of about `line_count` each: `suffix` with a number is a file's name,
    and `dumper(samples, file)` writes one. Files for `pickle.dump` are binary, those of others text.
    """
    if not callable(dumper):
        raise TypeError("dumper should be callable.")
    lines: list[Any] = []
    number = 0
    for place, sample in enumerate(reader()):
        lines.append(sample)
        # so 1.8.5 counts: the first file has one more
        if place >= line_count and place % line_count == 0:
            _dump(lines, suffix % number, dumper)
            lines = []
            number += 1
    if lines:
        _dump(lines, suffix % number, dumper)


def _dump(lines: list[Any], path: str, dumper: Callable[..., Any]) -> None:
    with open(path, "wb" if dumper is pickle.dump else "w") as out:
        dumper(lines, out)


def cluster_files_reader(
    files_pattern: str, trainer_count: int, trainer_id: int, loader: Callable[..., Any] = pickle.load
) -> Reader:
    """A reader of those files of `split` that are this trainer's: every `trainer_count`-th."""

    def reader() -> Iterator[Any]:
        if not callable(loader):
            raise TypeError("loader should be callable.")
        mine = sorted(glob.glob(files_pattern))[trainer_id::trainer_count]
        for path in mine:
            sys.stdout.write(f"append file: {path}\n")
        for path in mine:
            with open(pathlib.Path(path), "rb" if loader is pickle.load else "r") as source:
                yield from loader(source)

    return reader
