"""LoDTensors and SelectedRows as bytes, exactly as Paddle writes them to files.

    tensor         u32 0, i32 n, n bytes of TensorDesc, the elements in row-major order, little-endian
    LoDTensor      u32 0, u64 levels, for each level u64 bytes and its offsets as u64, tensor
    SelectedRows   u32 0, u64 rows, the row numbers as i64, i64 height, tensor

Whatever a file says about sizes is held against the bytes that it has before anything is allocated.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array, VarType, to_numpy, to_vartype
from fluidlite.base.errors import FormatError
from fluidlite.base.exhausted import memory_errors
from fluidlite.ir import framework_pb
from fluidlite.values.disk import descriptor_to_disk, folder_to_disk, make_folders, tree_to_disk
from fluidlite.values.tensor import LoDTensor, SelectedRows, as_lod, host

try:
    import fcntl
except ImportError:  # Windows: what a killed process has left stays there
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "FileSet",
    "Piece",
    "ValueReader",
    "complete_save",
    "file_bytes",
    "inside",
    "is_unfinished",
    "naming",
    "replace_file",
    "tensor_bytes",
    "tensor_pieces",
    "value_bytes",
    "value_pieces",
    "write_folder",
]

Piece: TypeAlias = "bytes | memoryview[int]"

_MAX_DESC = 1 << 12  # a TensorDesc of 64 dimensions takes some 700 bytes
_MAX_LEVELS = 64


# ------------------------------------------------------------------------------------------------ writing
def _plain_pieces(array: Array) -> Iterator[Piece]:
    """A tensor without level of detail."""
    tensor = framework_pb.TensorDesc(data_type=int(to_vartype(array.dtype)), dims=list(array.shape))
    with memory_errors("the description of a tensor"):
        desc = tensor.SerializeToString()
    # 0 is the version, which Paddle has never raised
    yield struct.pack("<Ii", 0, len(desc)) + desc
    # the files are little-endian, whatever machine writes them
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    # the array's own memory: as bytes, the largest parameter would be there twice
    yield little.reshape(-1).view(np.uint8).data


def tensor_pieces(tensor: LoDTensor, dtype: Any = None) -> Iterator[Piece]:
    """A LoDTensor in pieces, its elements converted to `dtype` if that is given; the last piece shows its own
    memory.
    """
    levels = b"".join(
        struct.pack("<Q", 8 * len(level)) + np.asarray(level, "<u8").tobytes() for level in tensor.lod()
    )
    yield struct.pack("<IQ", 0, len(tensor.lod())) + levels
    array = host(tensor.array)
    yield from _plain_pieces(array if dtype is None else array.astype(dtype))


def value_pieces(value: LoDTensor | SelectedRows, dtype: Any = None) -> Iterator[Piece]:
    """The same of a LoDTensor or SelectedRows."""
    if isinstance(value, LoDTensor):
        yield from tensor_pieces(value, dtype)
        return
    rows = np.asarray(host(value.ids), "<i8")
    yield struct.pack("<IQ", 0, len(rows)) + rows.tobytes() + struct.pack("<q", value.height())
    yield from _plain_pieces(host(value.array))


def tensor_bytes(tensor: LoDTensor, dtype: Any = None) -> bytes:
    """A LoDTensor as bytes, its elements converted to `dtype` if that is given."""
    return b"".join(tensor_pieces(tensor, dtype))


def value_bytes(value: LoDTensor | SelectedRows, dtype: Any = None) -> bytes:
    """A LoDTensor or SelectedRows as bytes."""
    return b"".join(value_pieces(value, dtype))


# ------------------------------------------------------------------------------------------------ reading
class ValueReader:
    """Reads values one after the other from a file or from bytes; FormatError names the file where it is
    none of ours. With `forms`, elements are passed over, and arrays of that form without memory stand for
    them.
    """

    def __init__(self, stream: io.BufferedIOBase, size: int, name: str, forms: bool = False) -> None:
        self.stream = stream
        self.left = size
        self.name = name
        self.forms = forms

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str | os.PathLike[str], forms: bool = False) -> Iterator[ValueReader]:
        """A source over a file."""
        _check_file(path)
        where = pathlib.Path(path)
        # a disk that cannot read a file any more does not name it
        with naming(where, where), open(path, "rb") as stream:
            yield cls(stream, os.fstat(stream.fileno()).st_size, str(path), forms)

    @classmethod
    def of_bytes(cls, data: bytes, name: str = "the bytes given", forms: bool = False) -> ValueReader:
        """A source over bytes in memory."""
        return cls(io.BytesIO(data), len(data), name, forms)

    def bad(self, what: str) -> FormatError:
        """The error for this source."""
        return FormatError(f"{self.name}: {what}")

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes."""
        self._spend(count, what)
        data = self.stream.read(count)
        if len(data) != count:
            raise self.bad(f"{what} ends after {len(data)} of {count} bytes")
        return data

    def _spend(self, count: int, what: str) -> None:
        # before anything is read: a size that lies would have the reader allocate that much
        if not 0 <= count <= self.left:
            raise self.bad(f"{what} should have {count} bytes, but only {self.left} are left")
        self.left -= count

    def numbers(self, form: str, what: str) -> tuple[Any, ...]:
        """The next numbers, in the notation of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form), what))

    def version(self, what: str) -> None:
        """A version, which has always been 0."""
        (found,) = self.numbers("<I", f"the version of {what}")
        if found:
            raise self.bad(f"{what} has version {found}, and only version 0 is known")

    def end(self) -> None:
        """FormatError unless everything was read."""
        if self.left:
            raise self.bad(f"{self.left} bytes are left over: it holds more values than the program asks for")

    def array(self) -> Array:
        """A tensor without level of detail."""
        self.version("a tensor")
        (size,) = self.numbers("<i", "the size of a description")
        if not 0 < size <= _MAX_DESC:
            raise self.bad(f"the description of a tensor takes {size} bytes")
        try:
            desc = framework_pb.parsed(
                framework_pb.TensorDesc, self.take(size, "the description of a tensor")
            )
        except framework_pb.DecodeError as error:
            raise self.bad(f"a tensor has no description: {error}") from None
        if not desc.IsInitialized():
            raise self.bad("the description of a tensor names no type")
        return self._elements(tuple(desc.dims), desc.data_type)

    def _elements(self, shape: tuple[int, ...], data_type: int) -> Array:
        try:
            dtype = to_numpy(VarType(data_type)).newbyteorder("<")
        except (TypeError, ValueError):
            raise self.bad(
                f"a tensor has elements of type number {data_type}, which is not a numeric type"
            ) from None
        if len(shape) > _MAX_LEVELS or any(not 0 <= dim < 1 << 60 for dim in shape):
            raise self.bad(f"a tensor has the shape {list(shape[:_MAX_LEVELS])}")
        # in Python's integers: NumPy's would wrap around, and a small product would pass the next check
        count = 1
        for dim in shape:
            count *= dim
        what = f"a tensor of shape {list(shape)} and type {dtype}"
        self._spend(count * dtype.itemsize, what)
        try:
            return self._passed_over(shape, dtype) if self.forms else self._read_in(shape, dtype, what)
        except ValueError as error:  # more dimensions, or emptier ones, than NumPy has
            raise self.bad(f"a tensor has the shape {list(shape)}: {error}") from None

    def _passed_over(self, shape: tuple[int, ...], dtype: Any) -> Array:
        form = np.broadcast_to(np.zeros((), dtype.newbyteorder("=")), shape)
        self.stream.seek(form.nbytes, os.SEEK_CUR)
        return form

    def _read_in(self, shape: tuple[int, ...], dtype: Any, what: str) -> Array:
        array = np.empty(shape, dtype)
        # into the array itself: bytes first, and then a copy of them, would be twice the memory
        count = self.stream.readinto(array.reshape(-1).view(np.uint8).data)
        if count != array.nbytes:
            raise self.bad(f"{what} ends after {count} of {array.nbytes} bytes")
        return array.astype(dtype.newbyteorder("="), copy=False)

    def tensor(self) -> LoDTensor:
        """A LoDTensor."""
        self.version("a LoDTensor")
        (levels,) = self.numbers("<Q", "the number of levels")
        if levels > _MAX_LEVELS:
            raise self.bad(f"a LoDTensor has {levels} levels of detail")
        lod = []
        for level in range(levels):
            (size,) = self.numbers("<Q", f"the size of level {level}")
            if size % 8 or not size:
                raise self.bad(f"level {level} of a LoDTensor takes {size} bytes")
            lod.append(np.frombuffer(self.take(size, f"level {level}"), "<u8").tolist())
        tensor = LoDTensor(self.array())
        try:
            tensor.set_lod(as_lod(lod))
        except ValueError as error:
            raise self.bad(str(error)) from None
        return tensor

    def tensors(self, count: int) -> list[LoDTensor]:
        """`count` LoDTensors and nothing more."""
        return list(self.each_tensor(count))

    def each_tensor(self, count: int) -> Iterator[LoDTensor]:
        """The same one after the other."""
        for _ in range(count):
            yield self.tensor()
        self.end()

    def selected_rows(self) -> SelectedRows:
        """SelectedRows."""
        self.version("SelectedRows")
        (count,) = self.numbers("<Q", "the number of rows")
        rows = np.frombuffer(self.take(8 * count, f"{count} row numbers"), "<i8").astype(np.int64)
        (height,) = self.numbers("<q", "the height")
        values = self.array()
        if values.ndim == 0 or len(values) != count or (count and not 0 <= rows.min() <= rows.max() < height):
            raise self.bad(
                f"SelectedRows of height {height} have {count} row numbers, and values of shape "
                f"{list(values.shape)}"
            )
        return SelectedRows(rows, height, values)


def _check_file(path: str | os.PathLike[str]) -> None:
    """FormatError for a pipe or a device among a model's files: to open or to read one may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise FormatError(f"{os.fspath(path)} is a pipe or a device, not a file of a model")


def file_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of one of a model's files."""
    _check_file(path)
    with naming(pathlib.Path(path), pathlib.Path(path)), open(path, "rb") as file:
        return file.read()


# ---------- whole or not at all
_HIDDEN = re.compile(r"\..{1,100}\.([0-9a-f]{32}\.tmp|saved)", re.DOTALL)
_PATIENCE = 60.0  # seconds for another process to put files in place, which takes it milliseconds


def is_unfinished(name: str) -> bool:
    """True for the names of files and folders of saves that are going on, or were killed."""
    return _HIDDEN.fullmatch(name) is not None


def _beside(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A hidden name that nobody else uses."""
    # in the same folder, because a rename across file systems is a copy; names have 255 bytes at most
    return folder / f".{name[:100]}.{os.urandom(16).hex()}.tmp"


@contextlib.contextmanager
def naming(target: pathlib.Path, hidden: pathlib.Path) -> Iterator[None]:
    """Have errors of the system (a disk that is full, a folder that is closed) name the file that was asked
    for, where they name none or the hidden one.
    """
    try:
        yield
    except OSError as error:
        where = str(error.filename or hidden)
        if error.errno is None or not where.startswith(str(hidden)):
            raise
        inner = where[len(str(hidden)) :]
        raise OSError(error.errno, error.strerror, f"{target}{inner}") from None


@contextlib.contextmanager
def _locked(path: pathlib.Path, seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file or folder, which ends with the process that holds it, killed or not; OSError
    where another process holds it for longer than that, and where there are no locks.
    """
    if fcntl is None:
        raise OSError(f"cannot lock {path}: this system does not support file locks")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise
            time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _claimed(
    folder: pathlib.Path, name: str, target: pathlib.Path, is_folder: bool
) -> Iterator[pathlib.Path]:
    """A new hidden file or folder, locked, so that nobody takes it for what a killed process has left."""
    with contextlib.ExitStack() as held:
        while True:
            made = _beside(folder, name)
            with naming(target, made):
                # where a file has its name, what is made in it says so
                with contextlib.suppress(FileExistsError):
                    make_folders(folder)
                made.mkdir() if is_folder else made.touch(exist_ok=False)
            # without locks, as on some network file systems, nobody sweeps either
            with contextlib.suppress(OSError):
                held.enter_context(_locked(made, _PATIENCE))
            # before it was locked somebody may have swept it away
            if made.exists():
                break
        yield made


def _sweep(folder: pathlib.Path) -> None:
    """Remove what killed processes have left in a folder."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.name.endswith(".tmp") and is_unfinished(entry.name):
                path = pathlib.Path(entry.path)
                with contextlib.suppress(OSError), _locked(path):
                    _remove_tree(path) if entry.is_dir(follow_symlinks=False) else path.unlink()


def _write(path: pathlib.Path, chunks: Iterable[Piece], is_synced: bool = False) -> None:
    with open(path, "wb") as out:
        for chunk in chunks:
            out.write(chunk)
        if is_synced:
            out.flush()
            descriptor_to_disk(out.fileno())


def replace_file(path: str | os.PathLike[str], chunks: Iterable[Piece], is_kept: bool = True) -> None:
    """Write a file under another name beside `path` and put it in place when it is complete; folders are
    made. With `is_kept` a loss of power leaves the old file or the new one; without, it may leave neither.
    """
    target = pathlib.Path(path)
    _sweep(target.parent)
    with contextlib.ExitStack() as held:
        temporary = held.enter_context(_claimed(target.parent, target.name, target, False))
        try:
            with naming(target, temporary):
                _write(temporary, chunks, is_kept)
                # at once, on every system: a reader sees the old file or the new one
                os.replace(temporary, target)
                if is_kept:
                    folder_to_disk(target.parent)
        finally:
            # there only if something went wrong before
            temporary.unlink(missing_ok=True)


def inside(folder: str | os.PathLike[str], name: str) -> str:
    """The path of `name` in `folder`; ValueError for a name that leads out of it, as a hostile program's
    variables could.
    """
    pure = pathlib.PurePath(name)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in name:
        raise ValueError(f"{name!r} cannot name a file in {str(folder)!r}")
    return os.path.join(folder, name)


class FileSet:
    """Files that come into a folder together; see `write_folder`."""

    def __init__(self, staging: pathlib.Path, label: str) -> None:
        self.staging = staging
        self.label = label

    def put(self, name: str, chunks: Iterable[Piece]) -> None:
        """Add a file; ValueError for a name that leads out of the folder."""
        path = pathlib.Path(inside(self.staging, name))
        path.parent.mkdir(parents=True, exist_ok=True)
        # a disk that is full says no name
        with naming(path, path):
            _write(path, chunks)

    def move_to(self, target: pathlib.Path) -> None:
        """Put the files in place, all or none for whoever calls `complete_save` before reading: the set gets
        its name at once, and whatever is killed then, the next reader or writer moves the rest of it.
        """
        tree_to_disk(self.staging)
        if self._is_the_first(target):
            folder_to_disk(target.parent)
            return
        waiting = _waiting(target, self.label)
        for attempt in range(100):
            complete_save(target, self.label)
            try:
                os.rename(self.staging, waiting)
                break
            except OSError:
                # another process was faster: its files come first, and then these
                if attempt == 99 or not waiting.exists():
                    raise
        # from here on the save is done: what moves now is moved again after a loss of power
        folder_to_disk(target)
        _put_in_place(waiting, target)

    def _is_the_first(self, target: pathlib.Path) -> bool:
        """True where there was no folder, and the staged one has become it."""
        if target.exists():
            return False
        with contextlib.suppress(OSError):  # another process may have made it just now
            os.rename(self.staging, target)
            return True
        return False


def _waiting(folder: pathlib.Path, label: str) -> pathlib.Path:
    """The files of a complete save that are not in place yet."""
    return folder / f".{label[:100]}.saved"


def _remove_tree(folder: pathlib.Path) -> None:
    """Remove a folder and all that can be removed of what is in it."""
    import shutil  # start-up time

    shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(waiting: pathlib.Path, target: pathlib.Path) -> None:
    for root, _, names in os.walk(waiting):
        place = target / os.path.relpath(root, waiting)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # another process has moved it
                os.replace(os.path.join(root, name), place / name)
    _remove_tree(waiting)


def _check_links(waiting: pathlib.Path, target: pathlib.Path) -> None:
    """FormatError where a folder among them is a link: a model from somebody else could move this user's
    files into itself, or its own into another folder.
    """
    folders = [waiting, *(pathlib.Path(root, name) for root, names, _ in os.walk(waiting) for name in names)]
    places = [target / folder.relative_to(waiting) for folder in folders[1:]]
    for path in (*folders, *places):
        if path.is_symlink():
            raise FormatError(f"{path} is a link: an interrupted save is completed in one folder only")


def complete_save(folder: str | os.PathLike[str], label: str = "files") -> None:
    """Put the files in place that a killed save has left complete, so that files of two saves are never read
    together. OSError where this process may not; FormatError where links would lead files elsewhere.
    """
    target = pathlib.Path(folder)
    waiting = _waiting(target, label)
    if not waiting.is_dir():
        return
    _check_links(waiting, target)
    with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as held:
        try:
            held.enter_context(_locked(waiting, _PATIENCE))
        except BlockingIOError:
            raise TimeoutError(f"another process has been saving into {str(target)!r} for too long") from None
        except FileNotFoundError:
            return
        except OSError:  # without locks two may move the files, each of which one finds
            pass
        try:
            _put_in_place(waiting, target)
        except OSError as error:
            raise OSError(
                error.errno,
                f"a save into this folder was interrupted, and cannot be completed here ({error.strerror})",
                str(target),
            ) from None


@contextlib.contextmanager
def write_folder(folder: str | os.PathLike[str], label: str = "files") -> Iterator[FileSet]:
    """Collect files for `folder` out of sight; they are put in place only when all are complete. A `label`
    tells apart sets of files that lie in one folder.
    """
    target = pathlib.Path(os.path.abspath(folder))
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{str(target)!r} is a file, not a folder to save into")
    # inside of a folder that is there: its parent may belong to somebody else
    where, name = (target, label) if target.exists() else (target.parent, target.name)
    _sweep(where)
    with contextlib.ExitStack() as held:
        staging = held.enter_context(_claimed(where, name, target, True))
        try:
            files = FileSet(staging, label)
            with naming(target, staging):
                yield files
                files.move_to(target)
        finally:
            _remove_tree(staging)
