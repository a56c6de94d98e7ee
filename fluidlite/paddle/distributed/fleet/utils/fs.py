"""`paddle.distributed.fleet.utils.fs`: the file system of this machine, and Hadoop's by its own command."""

from __future__ import annotations

import os
import pathlib
import posixpath
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.base.hadoop import HadoopCommand, HadoopEntry, entries

__all__ = ["FS", "HDFSClient", "LocalFS"]


class ExecuteError(Exception):
    """A command of a file system failed, also when it was repeated."""


class FSFileExistsError(Exception):
    """There is something of that name already."""


class FSFileNotExistsError(Exception):
    """There is nothing of that name."""


class FSTimeOut(Exception):
    """A command of a file system did not end in time."""


class FSShellCmdAborted(ExecuteError):
    """A command of a file system could not be run at all."""


class FS:
    """Operations on a file system; derived classes have them."""

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """(folders, files) of a folder."""
        abstract()

    def is_file(self, fs_path: str) -> bool:
        """True if that is a file."""
        abstract()

    def is_dir(self, fs_path: str) -> bool:
        """True if that is a folder."""
        abstract()

    def is_exist(self, fs_path: str) -> bool:
        """True if there is something of that name."""
        abstract()

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copy from this machine."""
        abstract()

    def download(self, fs_path: str, local_path: str) -> None:
        """Copy to this machine."""
        abstract()

    def mkdirs(self, fs_path: str) -> None:
        """Make a folder, unless it is there."""
        abstract()

    def delete(self, fs_path: str) -> None:
        """Remove a file or a folder with all in it, or nothing."""
        abstract()

    def need_upload_download(self) -> bool:
        """True if programs write to it only by way of this machine's own."""
        abstract()

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Give another name."""
        abstract()

    def mv(
        self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = False
    ) -> None:
        """Give another name, which must be free unless `overwrite`."""
        abstract()

    def upload_dir(self, local_dir: str, dest_dir: str) -> None:
        """Copy a whole folder from this machine."""
        abstract()

    def list_dirs(self, fs_path: str) -> list[str]:
        """The folders of a folder."""
        abstract()

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Make an empty file."""
        abstract()

    def cat(self, fs_path: str | None = None) -> str:
        """The text of a file."""
        abstract()


class LocalFS(FS):
    """This machine's own file system."""

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """(folders, files) of a folder; ([], []) where there is none."""
        if not self.is_exist(fs_path):
            return [], []
        names = os.listdir(fs_path)
        folders = [name for name in names if os.path.isdir(os.path.join(fs_path, name))]
        return folders, [name for name in names if name not in folders]

    def list_dirs(self, fs_path: str) -> list[str]:
        """The folders of a folder; [] where there is none."""
        return self.ls_dir(fs_path)[0]

    def is_dir(self, fs_path: str) -> bool:
        """True if that is a folder."""
        return os.path.isdir(fs_path)

    def is_file(self, fs_path: str) -> bool:
        """True if that is a file."""
        return os.path.isfile(fs_path)

    def is_exist(self, fs_path: str) -> bool:
        """True if there is something of that name."""
        return os.path.exists(fs_path)

    def mkdirs(self, fs_path: str) -> None:
        """Make a folder, and those above it; AssertionError where a file has that name."""
        assert not os.path.isfile(fs_path), f"{fs_path} is already a file"
        os.makedirs(fs_path, exist_ok=True)

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Give another name; what had it is replaced."""
        os.rename(fs_src_path, fs_dst_path)

    def mv(self, src_path: str, dst_path: str, overwrite: bool = False, test_exists: bool = False) -> None:
        """Give another name; FSFileNotExistsError, and FSFileExistsError where it is taken, unless
        `overwrite`.
        """
        if not self.is_exist(src_path):
            raise FSFileNotExistsError(src_path)
        if overwrite and self.is_exist(dst_path):
            self.delete(dst_path)
        if self.is_exist(dst_path):
            raise FSFileExistsError(dst_path)
        self.rename(src_path, dst_path)

    def delete(self, fs_path: str) -> None:
        """Remove a file or a folder with all in it, or nothing."""
        if os.path.isdir(fs_path) and not os.path.islink(fs_path):
            shutil.rmtree(fs_path)
        elif os.path.lexists(fs_path):
            os.remove(fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Make an empty file; FSFileExistsError where there is one, unless `exist_ok`."""
        if self.is_exist(fs_path):
            if not exist_ok:
                raise FSFileExistsError(fs_path)
            return
        pathlib.Path(fs_path).touch()

    def cat(self, fs_path: str | None = None) -> str:
        """The text of a file; "" where there is none."""
        path = pathlib.Path(fs_path or "")
        return path.read_text(encoding="utf8").rstrip("\n") if path.is_file() else ""

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copy a file or a folder."""
        copy = shutil.copytree if os.path.isdir(local_path) else shutil.copyfile
        copy(local_path, fs_path)

    def download(self, fs_path: str, local_path: str) -> None:
        """Copy a file or a folder."""
        self.upload(fs_path, local_path)

    def upload_dir(self, local_dir: str, dest_dir: str) -> None:
        """Copy a folder."""
        self.upload(local_dir, dest_dir)

    def need_upload_download(self) -> bool:
        """False: programs write to it themselves."""
        return False


class HDFSClient(FS):
    """Hadoop's file system, through the command `hadoop fs`.

    hadoop_home: the folder whose `bin/hadoop` is run.
    configs: options of every command, such as "fs.default.name" and "hadoop.job.ugi".
    time_out: milliseconds that a command may take, its repetitions included.
    sleep_inter: milliseconds between these.
    """

    def __init__(
        self,
        hadoop_home: str,
        configs: Mapping[str, str] | None,
        time_out: float = 5 * 60 * 1000,
        sleep_inter: float = 1000,
    ) -> None:
        self._command = HadoopCommand(hadoop_home, configs, time_out / 1000, sleep_inter / 1000)
        self.pre_commands = self._command.words

    # ------------------------------------------------------------------ commands
    def _run(self, *args: str, tries: int = 5) -> tuple[bool, str]:
        """True and the output of a command that works at last; else False and its errors."""
        try:
            done = self._command.run(*args, tries=tries)
        except subprocess.TimeoutExpired as error:
            raise FSTimeOut(f"args: {args} timeout: {error.timeout:g} s") from error
        except OSError as error:
            raise FSShellCmdAborted(f"{self.pre_commands[0]}: {error}") from error
        if done.returncode == 0:
            return True, done.stdout
        return False, done.stderr

    def _do(self, *args: str) -> str:
        """The output of a command; ExecuteError where it fails."""
        done, output = self._run(*args)
        if not done:
            raise ExecuteError(f"hadoop fs {' '.join(args)}: {output.strip()[-2000:]}")
        return output

    def _listed(self, fs_path: str) -> list[HadoopEntry]:
        return entries(self._do("-ls", fs_path))

    # ------------------------------------------------------------------ questions
    def is_exist(self, fs_path: str) -> bool:
        """True if there is something of that name."""
        return self._run("-test", "-e", fs_path, tries=1)[0]

    def is_dir(self, fs_path: str) -> bool:
        """True if that is a folder."""
        return self.is_exist(fs_path) and self._run("-test", "-d", fs_path, tries=1)[0]

    def is_file(self, fs_path: str) -> bool:
        """True if that is a file."""
        return self.is_exist(fs_path) and not self._run("-test", "-d", fs_path, tries=1)[0]

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """(folders, files) of a folder; ([], []) where there is none."""
        if not self.is_exist(fs_path):
            return [], []
        folders: list[str] = []
        files: list[str] = []
        for each in self._listed(fs_path):
            (folders if each.is_folder else files).append(posixpath.basename(each.path))
        return folders, files

    def list_dirs(self, fs_path: str) -> list[str]:
        """The folders of a folder; [] where there is none."""
        return self.ls_dir(fs_path)[0]

    def list_files_info(self, path_list: Sequence[str]) -> list[dict[str, Any]]:
        """{"path": ..., "size": bytes} of all that is in some folders."""
        found = [each for path in path_list for each in self._listed(path)]
        return [{"path": each.path, "size": each.size} for each in found]

    def cat(self, fs_path: str | None = None) -> str:
        """The text of a file; "" where there is none."""
        return self._do("-cat", fs_path).rstrip("\n") if fs_path and self.is_file(fs_path) else ""

    # ------------------------------------------------------------------ changes
    def mkdirs(self, fs_path: str) -> None:
        """Make a folder and those above it, unless it is there."""
        if not self.is_exist(fs_path):
            self._do("-mkdir", "-p", fs_path)

    def delete(self, fs_path: str) -> None:
        """Remove a file or a folder with all in it, or nothing."""
        if self.is_exist(fs_path):
            self._do("-rmr" if self.is_dir(fs_path) else "-rm", fs_path)

    def touch(self, fs_path: str, exist_ok: bool = True) -> None:
        """Make an empty file; FSFileExistsError where there is one, unless `exist_ok`."""
        if self.is_exist(fs_path):
            if not exist_ok:
                raise FSFileExistsError(fs_path)
            return
        self._do("-touchz", fs_path)

    def mv(
        self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = True
    ) -> None:
        """Give another name; FSFileNotExistsError, and FSFileExistsError where it is taken, are found before
        unless `test_exists` is False. `overwrite` removes what has the name.
        """
        if overwrite and self.is_exist(fs_dst_path):
            self.delete(fs_dst_path)
        if test_exists:
            if not self.is_exist(fs_src_path):
                raise FSFileNotExistsError(f"{fs_src_path} is not exists")
            if self.is_exist(fs_dst_path):
                raise FSFileExistsError(f"{fs_dst_path} exists already")
        self._do("-mv", fs_src_path, fs_dst_path)

    def rename(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Give another name."""
        self.mv(fs_src_path, fs_dst_path)

    # ------------------------------------------------------------------ copies
    def upload(
        self, local_path: str, fs_path: str, multi_processes: int = 5, overwrite: bool = False
    ) -> None:
        """Copy a file, or all that is in a folder, from this machine, several at a time;
        FSFileNotExistsError.
        """
        if not os.path.exists(local_path):
            raise FSFileNotExistsError(f"{local_path} not exists")
        whole = [local_path]
        if os.path.isdir(local_path):
            whole = [os.path.join(local_path, name) for name in sorted(os.listdir(local_path))]
            self.mkdirs(fs_path)
        if overwrite:
            for path in whole:
                self.delete(posixpath.join(fs_path, os.path.basename(path)))
        with ThreadPoolExecutor(max(1, multi_processes)) as pool:
            list(pool.map(lambda path: self._do("-put", path, fs_path), whole))

    def upload_dir(self, local_dir: str, dest_dir: str, overwrite: bool = False) -> None:
        """Copy a whole folder into another one; FSFileExistsError where that has one of the name, unless
        `overwrite`.
        """
        target = posixpath.join(dest_dir, os.path.basename(os.path.normpath(local_dir)))
        if self.is_exist(target):
            if not overwrite:
                raise FSFileExistsError(f"{target} exists already")
            self.delete(target)
        self.mkdirs(dest_dir)
        self._do("-put", local_dir, dest_dir)

    def download(
        self, fs_path: str, local_path: str, multi_processes: int = 5, overwrite: bool = False
    ) -> None:
        """Copy a file, or all that is in a folder, to this machine; FSFileNotExistsError."""
        if not self.is_exist(fs_path):
            raise FSFileNotExistsError(f"{fs_path} not exits")
        if not self.is_dir(fs_path):
            self._fetch(fs_path, local_path, overwrite)
            return
        os.makedirs(local_path, exist_ok=True)
        folders, files = self.ls_dir(fs_path)
        with ThreadPoolExecutor(max(1, multi_processes)) as pool:
            paths = [posixpath.join(fs_path, name) for name in folders + files]
            list(pool.map(lambda path: self._fetch(path, local_path, overwrite), paths))

    def _fetch(self, fs_path: str, local_path: str, overwrite: bool) -> None:
        target = local_path
        if os.path.isdir(local_path):
            target = os.path.join(local_path, posixpath.basename(fs_path))
        if overwrite:
            LocalFS().delete(target)
        self._do("-get", fs_path, target)

    def need_upload_download(self) -> bool:
        """True: programs write to it by way of this machine's own."""
        return True
