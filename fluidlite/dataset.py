"""`fluid.DatasetFactory`: data sets in files, for `Executor.train_from_dataset` and
`DataLoader.from_dataset`.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.abstract import abstract
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError, FeedError, ReaderError, UnsupportedError
from fluidlite.base.forks import child_lock
from fluidlite.base.imported_names import imported_names
from fluidlite.compat.core_dataset import CoreDataset
from fluidlite.data_feed_desc import feed_message, feed_text
from fluidlite.ir.guarded import guarded
from fluidlite.reading.multi_slot import Field, Samples, read_file
from fluidlite.values.npy import arrays_of, bytes_of_all
from fluidlite.values.tensor import LoDTensor

__all__ = ["DatasetBase", "DatasetFactory", "FileInstantDataset", "InMemoryDataset", "QueueDataset"]

_KINDS = {VarType.FP32: "float", VarType.INT64: "uint64"}


class DatasetFactory:
    """Makes data sets."""

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> Any:
        """A new QueueDataset, InMemoryDataset or FileInstantDataset; ValueError for other names."""
        kinds = {
            "QueueDataset": QueueDataset,
            "InMemoryDataset": InMemoryDataset,
            "FileInstantDataset": FileInstantDataset,
        }
        if datafeed_class not in kinds:
            raise ValueError(f"datafeed class {datafeed_class} does not exist")
        return kinds[datafeed_class]()


class DatasetBase:
    """Files whose lines are samples; each goes through a shell's command, which writes what `multi_slot`
    describes.
    """

    def __init__(self) -> None:
        self.proto_desc = feed_message()
        self.dataset = CoreDataset("MultiSlotDataset", weakref.proxy(self))
        self.filelist: list[str] = []
        self.thread_num = 1
        self.use_vars: list[Any] = []
        self.fea_eval = False
        self.leading_texts = 0  # fields of text that a line begins with, and that are passed by

    # ------------------------------------------------------------------ what is read, and how
    def set_pipe_command(self, pipe_command: str) -> None:
        """Set the command that each file goes through ("cat")."""
        self.proto_desc.pipe_command = pipe_command

    def set_batch_size(self, batch_size: int) -> None:
        """Set how many samples make a batch (32)."""
        self.proto_desc.batch_size = batch_size

    def set_pv_batch_size(self, pv_batch_size: int) -> None:
        """Kept in the description."""
        self.proto_desc.pv_batch_size = pv_batch_size

    def set_rank_offset(self, rank_offset: str) -> None:
        """Kept in the description."""
        self.proto_desc.rank_offset = rank_offset

    def set_thread(self, thread_num: int) -> None:
        """Set how many files are read at the same time."""
        if not isinstance(thread_num, int):
            raise TypeError(f"thread_num must be an integer, not {thread_num!r}")
        self.thread_num = thread_num

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """Set the files."""
        if isinstance(filelist, str) or not all(isinstance(path, str) for path in filelist):
            raise TypeError(f"filelist must be a list of paths, not {filelist!r}")
        self.filelist = list(filelist)

    def set_use_var(self, var_list: Sequence[Any]) -> None:
        """Set the variables that the fields of a line are fed to, in order; ValueError for other types than
        float32 and int64.

        A variable without a level of detail takes the same number of values from each line, by its shape.
        """
        slots = self.proto_desc.multi_slot_desc.slots
        for var in var_list:
            slot = slots.add(name=var.name, is_used=True)
            if var.lod_level == 0:
                slot.is_dense = True
                slot.shape.extend(var.shape)
            if var.dtype not in _KINDS:
                raise ValueError("Currently, fluid.dataset only supports dtype=float32 and dtype=int64")
            slot.type = _KINDS[var.dtype]
            self.use_vars.append(var)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Kept for programs that name it: the pipe command reads what is on HDFS."""
        self.dataset.set_hdfs_config(fs_name, fs_ugi)

    def set_download_cmd(self, download_cmd: str) -> None:
        """Kept for programs that name it."""
        self.dataset.set_download_cmd(download_cmd)

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Let `slots_shuffle` act; `record_candidate_size` is kept for programs that name it: all samples
        are candidates.
        """
        self.fea_eval = fea_eval

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Shuffle some fields among the samples in memory, where `set_fea_eval` asked for it: how much
        does the model need them?
        """

    def desc(self) -> str:
        """The description, in protobuf's text format."""
        return feed_text(self.proto_desc)

    # ------------------------------------------------------------------ batches
    def batches(self, drop_last: bool = False) -> Iterator[dict[str, LoDTensor]]:
        """The feeds of the steps, batch by batch, in the order of the files; batches may begin in one and end
        in the next.
        """
        return self._batches_of(self._parts(), drop_last)

    def streams(self, count: int) -> list[Iterator[dict[str, LoDTensor]]]:
        """The feeds for `count` threads, or for fewer where there is less: one stream each.

        Each begins with a file of its own; a thread that comes to the end of one takes the next that no
        other has.
        """
        count = min(count, len(self.filelist))
        if count <= 1:
            return [self.batches()]
        files = iter(self.filelist[count:])
        lock = child_lock()
        return [self._batches_of(self._taken(first, files, lock)) for first in self.filelist[:count]]

    def groups(self, count: int, drop_last: bool = False) -> Iterator[list[dict[str, LoDTensor]]]:
        """The feeds of steps on `count` devices, a batch for each. The last step's samples are shared out
        evenly where they do not fill all batches, or left out with `drop_last`.
        """
        size = self.proto_desc.batch_size * count
        for samples in self._pieces(self._parts(), size):
            if len(samples) < size and drop_last:
                return
            share = min(count, len(samples))
            cuts = [number * len(samples) // share for number in range(share + 1)]
            yield [self._feed(samples.part(low, high)) for low, high in itertools.pairwise(cuts)]

    def _batches_of(
        self, parts: Iterator[Samples], drop_last: bool = False
    ) -> Iterator[dict[str, LoDTensor]]:
        size = self.proto_desc.batch_size
        for samples in self._pieces(parts, size):
            if len(samples) == size or not drop_last:
                yield self._feed(samples)

    def _pieces(self, parts: Iterator[Samples], size: int) -> Iterator[Samples]:
        """The samples of all parts in pieces of `size`, and what is left."""
        if not self.use_vars:
            raise ArgumentError("the data set has no variables to feed: call set_use_var")
        rest = None
        for part in parts:
            part = part if rest is None else Samples.joined([rest, part])
            whole = len(part) // size * size
            for start in range(0, whole, size):
                yield part.part(start, start + size)
            rest = part.part(whole, len(part)) if whole < len(part) else None
        if rest is not None:
            yield rest

    def _parts(self) -> Iterator[Samples]:
        """The samples of each file, read by several threads, a few files ahead."""
        from concurrent.futures import ThreadPoolExecutor

        threads = max(1, min(self.thread_num, len(self.filelist)))
        with ThreadPoolExecutor(threads, "dataset") as pool:
            waiting = [pool.submit(self._read, path) for path in self.filelist[:threads]]
            for number in range(len(self.filelist)):
                # in the order of the files, whichever is read first: training is the same in every run
                found = waiting.pop(0).result()
                if number + threads < len(self.filelist):
                    waiting.append(pool.submit(self._read, self.filelist[number + threads]))
                if len(found):
                    yield found

    def _taken(self, first: str, files: Iterator[str], lock: threading.Lock) -> Iterator[Samples]:
        """The samples of a file, and of others that this thread takes, each read while the one before is
        used.
        """
        from concurrent.futures import ThreadPoolExecutor

        path: str | None = first
        with ThreadPoolExecutor(1, "dataset") as pool:
            ahead = pool.submit(self._read, first)
            while path is not None:
                found = ahead.result()
                with lock:
                    path = next(files, None)
                if path is not None:
                    ahead = pool.submit(self._read, path)
                if len(found):
                    yield found

    def _read(self, path: str) -> Samples:
        kinds = [_KINDS[var.dtype] for var in self.use_vars]
        return read_file(path, self.proto_desc.pipe_command, kinds, self.leading_texts)

    def _feed(self, samples: Samples) -> dict[str, LoDTensor]:
        return {
            var.name: _tensor(var, field) for var, field in zip(self.use_vars, samples.fields, strict=True)
        }

    def _prepare_to_run(self) -> None:
        """Do nothing: files are read while the data set is used."""

    def _finish_to_run(self) -> None:
        """Do nothing: files are closed where they end."""


def _tensor(var: Any, field: Field) -> LoDTensor:
    """The values of a field in the form of the variable that is fed."""
    if var.lod_level:
        return LoDTensor(
            field.values.reshape(-1, *(1,) * (len(var.shape) - 1)), (tuple(field.offsets.tolist()),)
        )
    shape = [1 if dim < 0 else dim for dim in var.shape[1:]]
    rows = len(field.offsets) - 1
    if (np.diff(field.offsets) != int(np.prod(shape, dtype=np.int64))).any():
        raise FeedError(
            f"variable {var.name!r} has the shape {list(var.shape)} and takes "
            f"{int(np.prod(shape))} values of each line, but a line has "
            f"{int(np.diff(field.offsets).max())}: declare it with lod_level=1 if their number "
            "differs"
        )
    return LoDTensor(np.ascontiguousarray(field.values.reshape(rows, *shape)), ())


class QueueDataset(DatasetBase):
    """Samples are read while they are used, in the order of the files."""

    def __init__(self) -> None:
        super().__init__()
        self.proto_desc.name = "MultiSlotDataFeed"

    def local_shuffle(self) -> None:
        """Only an InMemoryDataset can be shuffled."""
        _unshuffled("local")

    def global_shuffle(self, fleet: Any = None) -> None:
        """Only an InMemoryDataset can be shuffled."""
        _unshuffled("global")


class FileInstantDataset(QueueDataset):
    """A QueueDataset under another name, which Paddle reads faster."""

    def __init__(self) -> None:
        super().__init__()
        self.proto_desc.name = "MultiSlotFileInstantDataFeed"


def _unshuffled(how: str) -> None:
    abstract(f"QueueDataset does not support {how} shuffle, please use InMemoryDataset for {how}_shuffle")


class InMemoryDataset(DatasetBase):
    """Samples are read into memory first (`load_into_memory`), where they can be shuffled.

    As in fluid, fields with a level of detail lose their zeros, of which one stays where a sample has nothing
    else.
    """

    def __init__(self) -> None:
        super().__init__()
        self.proto_desc.name = "MultiSlotInMemoryDataFeed"
        self.samples: Samples | None = None
        self.shuffled = 0  # samples that came in the last global shuffle
        self.rounds = 0
        self.parse_ins_id = self.parse_content = self.parse_logkey = False
        self.merge_by_lineid = self.enable_pv_merge = self.gen_uni_feasigns = False
        self.merge_by_sid = True
        self.merge_size = self.local_shard_num = -1
        self.queue_num: int | None = None
        self.fleet_send_batch_size: int | None = None
        self.fleet_send_sleep_seconds: int | None = None
        self._loading: Any = None

    def load_into_memory(self) -> None:
        """Read all files."""
        parts = list(super()._parts())
        whole = Samples.joined(parts) if parts else Samples([])
        self.samples = Samples(
            [
                field.without_zeros() if var.lod_level else field
                for var, field in zip(self.use_vars, whole.fields, strict=False)
            ]
        )

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begin to read all files, `thread_num` at a time; `wait_preload_done` ends it."""
        from concurrent.futures import ThreadPoolExecutor

        if thread_num is not None:
            self.set_thread(thread_num)
        pool = ThreadPoolExecutor(1, "preload")
        self._loading = pool.submit(self.load_into_memory)
        pool.shutdown(wait=False)

    def wait_preload_done(self) -> None:
        """Return when all files are read; raises what went wrong."""
        if self._loading is not None:
            self._loading.result()
            self._loading = None

    def release_memory(self) -> None:
        """Forget the samples."""
        self.samples, self.shuffled = None, 0

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """The number of samples here, or with `fleet` with all workers."""
        return _summed(0 if self.samples is None else len(self.samples), fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """The number of samples after the last global shuffle, here or with `fleet` with all workers."""
        return _summed(self.shuffled, fleet)

    # ------------------------------------------------------------------ shuffling
    def local_shuffle(self) -> None:
        """Shuffle the samples of this worker, by NumPy's global random numbers."""
        if self.samples is not None and len(self.samples):
            self.samples = self.samples.take(np.random.permutation(len(self.samples)))

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Shuffle some fields among the samples, where `set_fea_eval` asked for it."""
        if self.fea_eval and self.samples is not None:
            for number, var in enumerate(self.use_vars):
                if var.name in slots:
                    self.samples.fields[number] = self.samples.fields[number].take(
                        np.random.permutation(len(self.samples))
                    )

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Deal the samples of all workers of `fleet` out again; without `fleet`, shuffle those that are here.

        ReaderError where the fleet's role maker lets workers exchange nothing: GeneralRoleMaker does.
        UnsupportedError where `set_merge_by_lineid` was called.
        """
        if self.merge_by_lineid:
            raise UnsupportedError("InMemoryDataset.global_shuffle: samples are not joined by their names")
        if fleet is None or fleet.worker_num() == 1:
            self.local_shuffle()
            return
        packed = fleet._role_maker._gather("workers", _pack(self.samples))
        parts = [_unpack(part) for part in packed]
        whole = Samples.joined(parts) if any(len(part) for part in parts) else Samples([])
        self.rounds += 1
        dealt = np.random.RandomState([self.rounds, len(whole)]).permutation(
            len(whole)
        )  # the same on all workers
        self.samples = whole.take(dealt[fleet.worker_index() :: fleet.worker_num()]) if len(whole) else whole
        self.shuffled = len(self.samples)

    def streams(self, count: int) -> list[Iterator[dict[str, LoDTensor]]]:
        """The feeds for `count` threads: each gets an equal part of the samples."""
        held = self.samples
        if held is None or len(held) < 2 or count < 2:
            return [self.batches()]
        count = min(count, len(held))
        cuts = [number * len(held) // count for number in range(count + 1)]
        parts = [held.part(low, high) for low, high in itertools.pairwise(cuts)]
        return [self._batches_of(iter([part])) for part in parts]

    def _parts(self) -> Iterator[Samples]:
        if self.samples is not None and len(self.samples):
            yield self.samples

    def _prepare_to_run(self) -> None:
        self.wait_preload_done()
        if self.samples is None:
            raise ReaderError("an InMemoryDataset is read before it is used: call load_into_memory")

    # ------------------------------------------------------------------ how lines begin
    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Let lines begin with `1 name`, the name of a sample, which is passed by."""
        self.parse_ins_id = parse_ins_id
        self._count_texts()

    def set_parse_content(self, parse_content: bool) -> None:
        """Let lines begin (after the name, if there is one) with `1 text`, which is passed by."""
        self.parse_content = parse_content
        self._count_texts()

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Ask that `global_shuffle` joins the samples of a name, which it then refuses."""
        self.merge_by_lineid, self.merge_size = True, merge_size
        self.set_parse_ins_id(True)

    def set_parse_logkey(self, parse_logkey: bool) -> None:
        """Kept for programs that name it."""
        self.parse_logkey = parse_logkey

    def set_merge_by_sid(self, merge_by_sid: bool) -> None:
        """Kept for programs that name it: page views are joined only by `preprocess_instance`."""
        self.merge_by_sid = merge_by_sid

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Kept for programs that name it: page views are joined only by `preprocess_instance`."""
        self.enable_pv_merge = enable_pv_merge

    def _count_texts(self) -> None:
        self.leading_texts = int(self.parse_ins_id) + int(self.parse_content)

    # ------------------------------------------------------------------ page views, and Paddle's own servers
    def preprocess_instance(self) -> None:
        """UnsupportedError."""
        raise UnsupportedError(f"InMemoryDataset.preprocess_instance: {_NO_PAGE_VIEWS}")

    def set_current_phase(self, current_phase: int) -> None:
        """UnsupportedError."""
        raise UnsupportedError(f"InMemoryDataset.set_current_phase: {_NO_PAGE_VIEWS}")

    def postprocess_instance(self) -> None:
        """UnsupportedError."""
        raise UnsupportedError(f"InMemoryDataset.postprocess_instance: {_NO_PAGE_VIEWS}")

    def get_pv_data_size(self) -> int:
        """UnsupportedError."""
        raise UnsupportedError(f"InMemoryDataset.get_pv_data_size: {_NO_PAGE_VIEWS}")

    def set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int) -> None:
        """Kept for programs that name it: only `generate_local_tables_unlock` reads it."""
        self.gen_uni_feasigns, self.local_shard_num = generate_uni_feasigns, shard_num

    def generate_local_tables_unlock(
        self, table_id: int, fea_dim: int, read_thread_num: int, consume_thread_num: int, shard_num: int
    ) -> None:
        """UnsupportedError."""
        raise UnsupportedError(
            "InMemoryDataset.generate_local_tables_unlock: tables of Paddle's closed parameter server (pslib)"
        )

    # ------------------------------------------------------------------ what changes nothing here
    def set_queue_num(self, queue_num: int) -> None:
        """Kept for programs that name it."""
        self.queue_num = queue_num

    def set_feed_type(self, data_feed_type: str) -> None:
        """Set the name in the description."""
        self.proto_desc.name = data_feed_type

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Kept for programs that name it: samples are exchanged all at once."""
        self.fleet_send_batch_size = fleet_send_batch_size

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """Kept for programs that name it."""
        self.fleet_send_sleep_seconds = fleet_send_sleep_seconds


_NO_PAGE_VIEWS = "samples are not joined to page views"


def _summed(count: int, fleet: Any) -> int:
    if fleet is None or fleet.worker_num() == 1:
        return count
    total = np.zeros(1, np.int64)
    fleet._role_maker.barrier_worker()
    fleet._role_maker.all_reduce_worker(np.array([count], np.int64), total)
    return int(total[0])


def _pack(samples: Samples | None) -> bytes:
    fields = [] if samples is None else samples.fields
    return bytes_of_all(array for field in fields for array in field)


def _unpack(data: bytes) -> Samples:
    arrays = arrays_of(data)
    return Samples(
        [Field(values, offsets) for values, offsets in zip(arrays[::2], arrays[1::2], strict=True)]
    )


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
