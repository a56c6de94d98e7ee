"""File systems that checkpoints are written to, as `paddle.distributed.fs_wrapper` has them."""

from __future__ import annotations

import abc
import os
import shutil

__all__ = ["FS", "LocalFS"]


class FS(abc.ABC):
    """Operations on a file system that a checkpoint needs."""

    @abc.abstractmethod
    def list_dirs(self, fs_path: str) -> list[str]:
        """The names of the folders in a folder; [] where there is no such folder."""

    @abc.abstractmethod
    def ls_dir(self, fs_path: str) -> list[str]:
        """All names in a folder."""

    @abc.abstractmethod
    def stat(self, fs_path: str) -> bool:
        """True if a file or folder of that name exists."""

    @abc.abstractmethod
    def upload(self, local_path: str, fs_path: str) -> None:
        """Copy from this machine."""

    @abc.abstractmethod
    def download(self, fs_path: str, local_path: str) -> None:
        """Copy to this machine."""

    @abc.abstractmethod
    def mkdir(self, fs_path: str) -> None:
        """Make a folder, and those above it."""

    @abc.abstractmethod
    def mv(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Rename."""

    @abc.abstractmethod
    def rmr(self, fs_path: str) -> None:
        """Remove a folder with all that is in it."""

    @abc.abstractmethod
    def rm(self, fs_path: str) -> None:
        """Remove a file."""

    @abc.abstractmethod
    def delete(self, fs_path: str) -> None:
        """Remove what is there, file or folder, or nothing."""

    @abc.abstractmethod
    def need_upload_download(self) -> bool:
        """True if programs write to it only by way of this machine's own."""


class LocalFS(FS):
    """This machine's own file system."""

    def list_dirs(self, fs_path: str) -> list[str]:
        """The names of the folders in a folder; [] where there is no such folder."""
        return [name for name in self.ls_dir(fs_path) if os.path.isdir(os.path.join(fs_path, name))]

    def ls_dir(self, fs_path: str) -> list[str]:
        """All names in a folder; [] where there is no such folder."""
        return os.listdir(fs_path) if os.path.isdir(fs_path) else []

    def stat(self, fs_path: str) -> bool:
        """True if a file or folder of that name exists."""
        return os.path.exists(fs_path)

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copy a folder."""
        shutil.copytree(local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        """Copy a folder."""
        shutil.copytree(fs_path, local_path)

    def mkdir(self, fs_path: str) -> None:
        """Make a folder, and those above it; there must be nothing of that name."""
        assert not os.path.isfile(fs_path), f"{fs_path} is a file"
        os.makedirs(fs_path, exist_ok=True)

    def mv(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Rename."""
        os.rename(fs_src_path, fs_dst_path)

    def rmr(self, fs_path: str) -> None:
        """Remove a folder with all that is in it."""
        shutil.rmtree(fs_path)

    def rm(self, fs_path: str) -> None:
        """Remove a file."""
        os.remove(fs_path)

    def delete(self, fs_path: str) -> None:
        """Remove what is there, file or folder, or nothing."""
        if os.path.isdir(fs_path):
            self.rmr(fs_path)
        elif os.path.exists(fs_path):
            self.rm(fs_path)

    def need_upload_download(self) -> bool:
        """Programs write to it directly."""
        return False
