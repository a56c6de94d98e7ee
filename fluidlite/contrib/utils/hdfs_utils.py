"""`fluid.contrib.utils.hdfs_utils`: files of HDFS for the trainers of a job, by the command `hadoop`."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from fluidlite.base.errors import ArgumentError
from fluidlite.incubate.fleet.utils import hdfs

__all__ = ["HDFSClient", "multi_download", "multi_upload"]


class FileClient:
    """Files and folders of HDFS one by one: `hadoop_home/bin/hadoop fs` with the options `configs`.

    Offered as `HDFSClient`. A command that fails is tried again, and then answered with False or [];
    MissingExtraError where there is no hadoop.
    """

    def __init__(self, hadoop_home: str, configs: Mapping[str, str] | None) -> None:
        self._client = hdfs.HDFSClient(hadoop_home, configs)
        self.pre_commands = self._client.pre_commands

    def is_exist(self, hdfs_path: str | None = None) -> bool:
        """True if a file or folder of that name exists."""
        return self._client.is_exist(hdfs_path)

    def is_dir(self, hdfs_path: str | None = None) -> bool:
        """True if a folder of that name exists."""
        return self._client.is_dir(hdfs_path)

    def ls(self, hdfs_path: str) -> list[str]:
        """The paths in a folder."""
        return self._client.ls(hdfs_path)

    def lsr(self, hdfs_path: str, only_file: bool = True, sort: bool = True) -> list[str]:
        """The paths in a folder and below it: files, without `only_file` folders too; with `sort` the newest
        last.
        """
        found = self._client._listed("-lsr", hdfs_path, files_only=only_file)
        return [path for _, path in (sorted(found, key=lambda item: item[0]) if sort else found)]

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """Make a folder of this machine, and those above it."""
        hdfs.HDFSClient.make_local_dirs(local_path)

    def makedirs(self, hdfs_path: str) -> bool:
        """Make a folder, unless it is there."""
        return self._client.makedirs(hdfs_path)

    def delete(self, hdfs_path: str) -> bool:
        """Remove a file or a folder; True where there is nothing any more."""
        return self._client.delete(hdfs_path)

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Rename; with `overwrite` what had the name before is removed."""
        return self._client.rename(hdfs_src_path, hdfs_dst_path, overwrite)

    def upload(self, hdfs_path: str, local_path: str, overwrite: bool = False, retry_times: int = 5) -> bool:
        """Copy a file or folder of this machine into the folder `hdfs_path`; with `overwrite` over one of its
        name.
        """
        if not os.path.exists(local_path):
            raise ArgumentError(f"there is no {local_path} to upload to {hdfs_path}")
        target = posixpath.join(hdfs_path, os.path.basename(os.path.normpath(local_path)))
        self.makedirs(hdfs_path)
        if overwrite:
            self.delete(target)
        return self._client._run("-put", local_path, hdfs_path, retry_times=retry_times)[0]

    def download(self, hdfs_path: str, local_path: str, overwrite: bool = False, unzip: bool = False) -> bool:
        """Copy a file or folder into the folder `local_path`; False where there is none, or where one of its
        name is here already, unless `overwrite`. `unzip` is taken and not used, as in fluid.
        """
        if not self.is_exist(hdfs_path):
            return False
        os.makedirs(local_path, exist_ok=True)
        target = os.path.join(local_path, posixpath.basename(hdfs_path))
        if os.path.isfile(target):
            if not overwrite:
                return False
            os.remove(target)
        return self._client._run("-get", hdfs_path, local_path)[0]


HDFSClient = FileClient


def _at_once(work: Callable[[str], bool], paths: Sequence[str], workers: int) -> list[bool]:
    """The answers for all paths, several at a time: threads, as each waits for a command."""
    with ThreadPoolExecutor(max(1, workers)) as pool:
        return list(pool.map(work, paths))


def multi_download(
    client: FileClient,
    hdfs_path: str,
    local_path: str,
    trainer_id: int,
    trainers: int,
    multi_processes: int = 5,
) -> list[str]:
    """Copy a trainer's share of the files below a folder, every `trainers`-th of them, into folders as they
    are there; gives the files of this machine.
    """
    if not isinstance(client, FileClient):
        raise ArgumentError(f"client is an HDFSClient, not a {type(client).__name__}")
    os.makedirs(local_path, exist_ok=True)
    share = client.lsr(hdfs_path, sort=True)[trainer_id::trainers]

    def fetch(path: str) -> bool:
        return client.download(path, os.path.dirname(_local(path, hdfs_path, local_path)))

    _at_once(fetch, share, multi_processes)
    return [_local(path, hdfs_path, local_path) for path in share]


def _local(path: str, hdfs_path: str, local_path: str) -> str:
    """The name on this machine for a file below `hdfs_path`."""
    return os.path.normpath(os.path.join(local_path, posixpath.relpath(path, hdfs_path)))


def getfilelist(path: str) -> list[str]:
    """The files in a folder of this machine and below it."""
    return [os.path.join(base, name) for base, _, names in os.walk(path) for name in sorted(names)]


def multi_upload(
    client: FileClient,
    hdfs_path: str,
    local_path: str,
    multi_processes: int = 5,
    overwrite: bool = False,
    sync: bool = True,
) -> None:
    """Copy the files of a folder of this machine, and of the folders in it, into folders of the same names.

    `sync` is taken and not used, as in fluid: all are there when this returns.
    """
    if not isinstance(client, FileClient):
        raise ArgumentError(f"client is an HDFSClient, not a {type(client).__name__}")

    paths = getfilelist(local_path)
    for folder in sorted({_remote_folder(path, local_path, hdfs_path) for path in paths}):
        client.makedirs(folder)  # before the copies, which run beside each other

    def send(path: str) -> bool:
        return client.upload(_remote_folder(path, local_path, hdfs_path), path, overwrite)

    _at_once(send, paths, multi_processes)


def _remote_folder(path: str, local_path: str, hdfs_path: str) -> str:
    """The folder of HDFS for a file below `local_path`."""
    folder = os.path.dirname(os.path.relpath(path, local_path)).replace(os.sep, "/")
    return posixpath.join(hdfs_path, folder) if folder else hdfs_path
