"""`core.Dataset`: a data set in files by the names of Paddle's compiled class, beside `fluid.dataset`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fluidlite.base.errors import NotFoundError, UnsupportedError

__all__ = ["CoreDataset"]

_KIND = "MultiSlotDataset"


class CoreDataset:
    """The other side of a data set of `fluid.DatasetFactory`, its member `dataset`: what is set here is set
    there.

    One that is made by itself keeps its settings; it knows no variables, so that it reads no files.
    """

    def __init__(self, name: str, owner: Any = None) -> None:
        if name != _KIND:
            raise NotFoundError(f"there is no data set {name!r}, only {_KIND!r}")
        self._owner = owner
        self._filelist: list[str] = []
        self._threads = 1
        self._trainers = 1
        self._send_batch_size = 1024
        self._hdfs_config = ("", "")
        self._download_cmd = ""

    def _reading(self) -> Any:
        if self._owner is None:
            raise UnsupportedError(
                "a core.Dataset that is created directly has no variables: create data sets with "
                "fluid.DatasetFactory()"
            )
        return self._owner

    # ------------------------------------------------------------------ settings
    def set_filelist(self, filelist: Sequence[str]) -> None:
        """Set the files."""
        self._filelist = list(filelist)
        if self._owner is not None:
            self._owner.filelist = list(filelist)

    def get_filelist(self) -> list[str]:
        """The files."""
        return list(self._filelist if self._owner is None else self._owner.filelist)

    def set_thread_num(self, thread_num: int) -> None:
        """Set how many files are read at the same time."""
        self._threads = thread_num
        if self._owner is not None:
            self._owner.thread_num = thread_num

    def get_thread_num(self) -> int:
        """The number of files that are read at the same time."""
        return int(self._threads if self._owner is None else self._owner.thread_num)

    def set_trainer_num(self, trainer_num: int) -> None:
        """Kept for programs that name it."""
        self._trainers = trainer_num

    def get_trainer_num(self) -> int:
        """The number that was set, or 1."""
        return self._trainers

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int) -> None:
        """Kept for programs that name it: samples are exchanged all at once."""
        self._send_batch_size = fleet_send_batch_size

    def get_fleet_send_batch_size(self) -> int:
        """The number that was set, or 1024."""
        return self._send_batch_size

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Kept for programs that name it: the pipe command reads what is on HDFS."""
        self._hdfs_config = fs_name, fs_ugi

    def get_hdfs_config(self) -> tuple[str, str]:
        """The two texts that were set."""
        return self._hdfs_config

    def set_download_cmd(self, download_cmd: str) -> None:
        """Kept for programs that name it."""
        self._download_cmd = download_cmd

    def get_download_cmd(self) -> str:
        """The text that was set."""
        return self._download_cmd

    # ------------------------------------------------------------------ samples in memory
    def load_into_memory(self) -> None:
        """Read all files."""
        self._reading().load_into_memory()

    def preload_into_memory(self) -> None:
        """Begin to read all files."""
        self._reading().preload_into_memory()

    def wait_preload_done(self) -> None:
        """Wait until all files are read."""
        self._reading().wait_preload_done()

    def local_shuffle(self) -> None:
        """Shuffle the samples of this worker."""
        self._reading().local_shuffle()

    def global_shuffle(self, thread_num: int = 12) -> None:
        """Shuffle the samples, of this worker where the data set knows no others."""
        self._reading().global_shuffle(thread_num=thread_num)

    def slots_shuffle(self, slots: Iterable[str]) -> None:
        """Shuffle some fields among the samples, where `set_fea_eval` asked for it."""
        self._reading().slots_shuffle(list(slots))

    def release_memory(self) -> None:
        """Forget the samples."""
        self._reading().release_memory()

    def get_memory_data_size(self) -> int:
        """The number of samples here."""
        return int(self._reading().get_memory_data_size())

    def get_shuffle_data_size(self) -> int:
        """The number of samples after the last global shuffle."""
        return int(self._reading().get_shuffle_data_size())
