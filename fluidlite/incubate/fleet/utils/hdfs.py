"""`fluid.incubate.fleet.utils.hdfs`: files on HDFS, by the command `hadoop`."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from fluidlite.base.errors import MissingExtraError
from fluidlite.base.hadoop import HadoopCommand, entries
from fluidlite.base.imported_names import imported_names

__all__ = ["HDFSClient"]


class HDFSClient:
    """Runs `hadoop_home/bin/hadoop fs`.

    configs: options of hadoop, such as {"fs.default.name": "hdfs://host:port", "hadoop.job.ugi":
    "user,password"}.

    A command that fails is tried again, and then answered with False, "" or []. MissingExtraError where there
    is no hadoop.
    """

    def __init__(self, hadoop_home: str, configs: Mapping[str, str] | None) -> None:
        self._command = HadoopCommand(hadoop_home, configs)
        self.pre_commands = self._command.words

    def _run(self, *arguments: str, retry_times: int = 5) -> tuple[bool, str]:
        """Run a command; gives its success and its output."""
        try:
            done = self._command.run(*arguments, tries=retry_times)
        except OSError as error:
            raise MissingExtraError(
                f"HDFS is reached by the command hadoop, and {self.pre_commands[0]} cannot be "
                f"run: {error.strerror}. Check hadoop_home"
            ) from error
        return done.returncode == 0, done.stdout

    # ------------------------------------------------------------------ questions
    def is_exist(self, hdfs_path: str | None = None) -> bool:
        """True if a file or folder of that name exists."""
        return self._run("-test", "-e", str(hdfs_path), retry_times=1)[0]

    def is_dir(self, hdfs_path: str | None = None) -> bool:
        """True if a folder of that name exists."""
        return self.is_exist(hdfs_path) and self._run("-test", "-d", str(hdfs_path), retry_times=1)[0]

    def is_file(self, hdfs_path: str | None = None) -> bool:
        """True if that name exists and is no folder."""
        return self.is_exist(hdfs_path) and not self.is_dir(hdfs_path)

    def cat(self, hdfs_path: str | None = None) -> str:
        """Content of a file; "" where there is none."""
        return (
            self._run("-cat", str(hdfs_path), retry_times=1)[1].rstrip("\n")
            if self.is_file(hdfs_path)
            else ""
        )

    def ls(self, hdfs_path: str) -> list[str]:
        """The paths in a folder."""
        return [path for _, path in self._listed("-ls", hdfs_path)]

    def lsr(self, hdfs_path: str, excludes: Sequence[str] = ()) -> list[str]:
        """The paths of the files in a folder and below it, the newest last; `excludes` are names left out."""
        found = [
            (when, path)
            for when, path in self._listed("-lsr", hdfs_path, files_only=True)
            if posixpath.basename(path) not in excludes
        ]
        return [path for _, path in sorted(found, key=lambda item: item[0])]

    def _listed(self, command: str, hdfs_path: str, files_only: bool = False) -> list[tuple[str, str]]:
        if not self.is_exist(hdfs_path):
            return []
        listed = entries(self._run(command, hdfs_path)[1])
        return [(each.modified, each.path) for each in listed if not (files_only and each.is_folder)]

    # ------------------------------------------------------------------ changes
    def delete(self, hdfs_path: str) -> bool:
        """Remove a file or a folder; True where there is nothing any more."""
        if not self.is_exist(hdfs_path):
            return True
        return self._run("-rmr" if self.is_dir(hdfs_path) else "-rm", hdfs_path)[0]

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Rename; with `overwrite` what had the name before is removed."""
        if overwrite and self.is_exist(hdfs_dst_path):
            self.delete(hdfs_dst_path)
        return self._run("-mv", hdfs_src_path, hdfs_dst_path)[0]

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """Make a folder of this machine, and those above it."""
        os.makedirs(local_path, exist_ok=True)

    def makedirs(self, hdfs_path: str) -> bool:
        """Make a folder, unless it is there."""
        return self.is_exist(hdfs_path) or self._run("-mkdir", hdfs_path)[0]

    # ------------------------------------------------------------------ copies
    @staticmethod
    def split_files(files: Sequence[str], trainer_id: int, trainers: int) -> list[str]:
        """A trainer's share of the files: neighbours, and the first trainers get one more where they do
        not come out even.
        """
        each, more = divmod(len(files), trainers)
        first = trainer_id * each + min(trainer_id, more)
        return list(files[first : first + each + (trainer_id < more)])

    def download(
        self,
        hdfs_path: str,
        local_path: str,
        multi_processes: int = 5,
        overwrite: bool = False,
        retry_times: int = 5,
    ) -> Any:
        """Copy the files of a folder to this machine, several at a time; a file that is there stays unless
        `overwrite`.
        """
        self.make_local_dirs(local_path)

        def fetch(path: str) -> bool:
            target = os.path.join(local_path, posixpath.basename(path))
            if os.path.exists(target):
                if not overwrite:
                    return True
                os.remove(target)
            return self._run("-get", path, target, retry_times=retry_times)[0]

        with ThreadPoolExecutor(max(1, multi_processes)) as pool:
            return all(pool.map(fetch, self.ls(hdfs_path)))

    def upload(
        self,
        hdfs_path: str,
        local_path: str,
        multi_processes: int = 5,
        overwrite: bool = False,
        retry_times: int = 5,
    ) -> Any:
        """Copy a file, or the files of a folder, from this machine, several at a time; False where there
        are none.
        """
        paths = [os.path.join(base, name) for base, _, names in os.walk(local_path) for name in names]
        paths = [local_path] if os.path.isfile(local_path) else paths
        if not paths:
            return False
        self.makedirs(hdfs_path)

        def send(path: str) -> bool:
            target = posixpath.join(hdfs_path, os.path.basename(path))
            if overwrite:
                self.delete(target)
            return self._run("-put", path, target, retry_times=retry_times)[0]

        with ThreadPoolExecutor(max(1, multi_processes)) as pool:
            return all(pool.map(send, paths))

    def upload_dir(self, dest_dir: str, local_dir: str, overwrite: bool = False) -> bool:
        """Copy a whole folder into another one; False where that has one of the name, unless `overwrite`."""
        target = posixpath.join(dest_dir, os.path.basename(os.path.normpath(local_dir)))
        if self.is_exist(target):
            if not overwrite:
                return False
            self.delete(target)
        self.makedirs(dest_dir)
        return self._run("-put", local_dir, dest_dir)[0]


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
