"""`fluid.incubate.fleet.utils.fleet_barrier_util`: a barrier of files on HDFS."""

from __future__ import annotations

import os
import pathlib
import posixpath
import tempfile
import time
from typing import Any

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError
from fluidlite.contrib.utils import HDFSClient
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler import fleet

__all__ = ["check_all_trainers_ready"]

_PAUSE = 1.0  # seconds between two looks into the folder: each starts a Java program


def check_all_trainers_ready(ready_path: str, epoch: Any) -> None:
    """Leave a file in a folder of HDFS that says that this worker has come to an epoch, and wait until all of
    `fleet` have; each epoch has a folder of its own.

    HADOOP_HOME, FS_NAME and FS_UGI in the environment say how HDFS is reached. CommunicatorError after
    FLAGS_rpc_deadline.
    """
    count, index = fleet.worker_num(), fleet.worker_index()
    configs = {
        "fs.default.name": os.environ.get("FS_NAME", ""),
        "hadoop.job.ugi": os.environ.get("FS_UGI", ""),
    }
    client = HDFSClient(os.environ.get("HADOOP_HOME", ""), configs)
    if not client.is_dir(ready_path):
        client.makedirs(ready_path)
    with tempfile.TemporaryDirectory() as folder:
        mine = pathlib.Path(folder) / _name(epoch, index)
        mine.touch()
        client.upload(ready_path, str(mine), overwrite=True, retry_times=0)
    deadline = float(flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"]) / 1000.0
    end, missing = time.monotonic() + deadline, _missing(client, ready_path, epoch, count)
    while missing:
        if time.monotonic() > end:
            raise CommunicatorError(
                f"worker {index} has waited {deadline:g} s in {ready_path} "
                f"for epoch {epoch} of workers {missing}"
            )
        time.sleep(_PAUSE)
        missing = _missing(client, ready_path, epoch, count)


def _name(epoch: Any, index: int) -> str:
    return f"ready.{epoch}.{index}.done"


def _missing(client: HDFSClient, path: str, epoch: Any, count: int) -> list[int]:
    """The workers whose files are not there."""
    there = {posixpath.basename(name) for name in client.ls(path)}
    return [index for index in range(count) if _name(epoch, index) not in there]
