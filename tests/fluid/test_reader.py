"""Readers, loaders and `read` ops: what they yield is what 1.8.5's yield, errors surface, and no thread is
left behind.
"""

from __future__ import annotations

import gc
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from waiting import until

import fluidlite as fluid
from fluidlite import core, io
from fluidlite.core import EnforceNotMet, EOFException
from fluidlite.dataloader import BatchSampler, Dataset
from fluidlite.errors import FeedError, ReaderError
from fluidlite.ir.text import parse
from fluidlite.reading.queues import BlockingQueue
from fluidlite.values.tensor import LoDTensor

Reader = Callable[[], Iterator[Any]]


def numbers(count: int = 5) -> Reader:
    return lambda: iter(range(count))


def broken() -> Iterator[int]:
    yield 1
    raise KeyError("boom")


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    if reads():
        # with all tests of the suite in memory it takes 0.2 s, and most tests leave nothing to it
        gc.collect()
    until(lambda: not reads())


def reads() -> bool:
    """True while a thread of a reader is alive."""
    return any(thread.name.startswith("fluidlite-reader") for thread in threading.enumerate())


# ------------------------------------------------------------------------------------------------ decorators
@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        (io.batch(numbers(), 2), [[0, 1], [2, 3], [4]]),
        (io.batch(numbers(), 2, drop_last=True), [[0, 1], [2, 3]]),
        (io.map_readers(lambda a, b: a + b, numbers(), numbers(3)), [0, 2, 4]),
        (io.chain(numbers(2), numbers(3)), [0, 1, 0, 1, 2]),
        (
            io.compose(numbers(3), lambda: iter([(0, 10), (1, 11), (2, 12)])),
            [(0, 0, 10), (1, 1, 11), (2, 2, 12)],
        ),
        (io.compose(numbers(3), numbers(4), check_alignment=False), [(0, 0), (1, 1), (2, 2)]),
        (io.buffered(numbers(), 2), [0, 1, 2, 3, 4]),
        (io.buffered(numbers(), 0), [0, 1, 2, 3, 4]),
        (io.firstn(numbers(), 2), [0, 1]),
        (io.firstn(numbers(), 20), [0, 1, 2, 3, 4]),
        (io.cache(numbers(3)), [0, 1, 2]),
        (io.shuffle(numbers(), 0), [0, 1, 2, 3, 4]),
        (io.xmap_readers(lambda x: 2 * x, numbers(), 2, 4, order=True), [0, 2, 4, 6, 8]),
    ],
)
def test_decorated_readers(reader: Reader, expected: list[Any]) -> None:
    assert list(reader()) == expected
    assert list(reader()) == expected


def test_readers_in_any_order() -> None:
    assert sorted(io.shuffle(numbers(), 3)()) == [0, 1, 2, 3, 4]
    assert sorted(io.xmap_readers(lambda x: 2 * x, numbers(50), 4, 8)()) == list(range(0, 100, 2))
    assert sorted(io.multiprocess_reader([numbers(3), numbers(4)])()) == [0, 0, 1, 1, 2, 2, 3]


def test_shuffle_obeys_the_seed_of_random() -> None:
    random.seed(3)
    first = list(io.shuffle(numbers(20), 10)())
    random.seed(3)
    assert list(io.shuffle(numbers(20), 10)()) == first
    assert sorted(first[:10]) == list(range(10))


def test_wrong_arguments_of_readers() -> None:
    with pytest.raises(
        ValueError, match="batch_size should be a positive integeral value, but got batch_size=0"
    ):
        io.batch(numbers(), 0)
    with pytest.raises(io.ComposeNotAligned):
        list(io.compose(numbers(3), numbers(4))())
    with pytest.raises(AssertionError, match="at least one reader"):
        io.multiprocess_reader([])
    with pytest.raises(ValueError, match="sample has None"):
        list(io.multiprocess_reader([lambda: iter([None])])())


@pytest.mark.parametrize(
    "reader",
    [
        io.buffered(broken, 2),
        io.multiprocess_reader([broken]),
        io.xmap_readers(lambda x: x, broken, 2, 2),
        io.xmap_readers(lambda x: [][x], numbers(), 2, 2),
        io.batch(broken, 2),
    ],
)
def test_errors_in_readers_surface(reader: Reader) -> None:
    with pytest.raises(LookupError):
        list(reader())


def test_a_reader_that_is_left_early_ends_its_threads() -> None:
    for reader in (
        io.buffered(itertools.count, 2),
        io.multiprocess_reader([itertools.count] * 2, queue_size=2),
        io.xmap_readers(lambda x: x, itertools.count, 2, 4),
    ):
        assert len(list(itertools.islice(reader(), 3))) == 3


# ---------- iterable loaders
def samples() -> Iterator[Any]:
    for number in range(5):
        yield np.full(2, number, "float32"), np.array([number])


def batches(count: int = 3) -> Iterator[Any]:
    for number in range(count):
        yield np.full((4, 2), number, "float32"), np.full((4, 1), number)


@pytest.fixture
def feeds() -> list[fluid.framework.Variable]:
    with fluid.program_guard(fluid.Program()):
        return [fluid.data("x", [None, 2]), fluid.data("y", [None, 1], "int64")]


def loader(feeds: Any, **options: Any) -> Any:
    return io.DataLoader.from_generator(feeds, capacity=2, **options)


def shown(item: Any) -> Any:
    """The structure of a batch, with (shape, first element) for a tensor."""
    if isinstance(item, dict):
        return {key: shown(value) for key, value in item.items()}
    if isinstance(item, list):
        return [shown(value) for value in item]
    assert isinstance(item, LoDTensor)
    return tuple(item.shape()), np.asarray(item).flat[0]


def whole(number: int) -> dict[str, Any]:
    return {"x": ((4, 2), number), "y": ((4, 1), number)}


def test_batches_for_one_device_and_for_two(feeds: Any) -> None:
    one = loader(feeds).set_batch_generator(batches, fluid.CPUPlace())
    assert [shown(batch) for batch in one()] == [[whole(0)], [whole(1)], [whole(2)]]
    assert [shown(batch) for batch in one] == [[whole(0)], [whole(1)], [whole(2)]]
    two = loader(feeds).set_batch_generator(batches, fluid.cpu_places(2))
    assert [shown(batch) for batch in two()] == [[whole(0), whole(1)]]
    rest = loader(feeds, drop_last=False).set_batch_generator(batches, fluid.cpu_places(2))
    assert [shown(batch) for batch in rest()] == [[whole(0), whole(1)], [whole(2)]]
    lists = loader(feeds, return_list=True).set_batch_generator(batches, fluid.cpu_places(2))
    assert [shown(batch) for batch in lists()] == [[list(whole(0).values()), list(whole(1).values())]]


def test_samples_and_lists_of_samples(feeds: Any) -> None:
    sizes = [
        batch[0]["x"].shape()[0]
        for batch in loader(feeds).set_sample_generator(samples, 2, places=fluid.CPUPlace())()
    ]
    assert sizes == [2, 2]
    sizes = [
        batch[0]["x"].shape()[0]
        for batch in loader(feeds).set_sample_generator(samples, 2, False, fluid.CPUPlace())()
    ]
    assert sizes == [2, 2, 1]
    listed = loader(feeds).set_sample_list_generator(io.batch(samples, 3), fluid.CPUPlace())
    assert [shown(batch) for batch in listed()] == [
        [{"x": ((3, 2), 0), "y": ((3, 1), 0)}],
        [{"x": ((2, 2), 3), "y": ((2, 1), 3)}],
    ]


def test_one_variable_and_sequences() -> None:
    with fluid.program_guard(fluid.Program()):
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
    made = loader([words]).set_sample_generator(lambda: iter([([1, 2],), ([3],)]), 2, places=fluid.CPUPlace())
    tensor = next(made)[0]["words"]
    assert tensor.recursive_sequence_lengths() == [[2, 1]] and tensor.shape() == [3, 1]


def test_next_goes_from_pass_to_pass(feeds: Any) -> None:
    made = loader(feeds).set_batch_generator(lambda: batches(1), fluid.CPUPlace())
    for _ in range(2):
        assert shown(next(made)) == [whole(0)]
        with pytest.raises(StopIteration):
            made.next()


def test_leaving_a_pass_early_ends_its_thread(feeds: Any) -> None:
    made = loader(feeds).set_batch_generator(lambda: batches(10**6), fluid.CPUPlace())
    for _ in made():
        break
    for _, _ in zip(made(), range(3), strict=False):
        pass


def test_wrong_use_of_loaders(feeds: Any) -> None:
    with pytest.raises(ValueError, match="Please give value to capacity"):
        io.DataLoader.from_generator(feeds)
    with pytest.raises(Exception, match="Feed list must be given"):
        io.DataLoader.from_generator(capacity=2)
    with pytest.raises(AssertionError, match="has not set yet"):
        list(loader(feeds)())
    with pytest.raises(AssertionError, match="Places cannot be None"):
        loader(feeds).set_batch_generator(batches)
    with pytest.raises(AssertionError, match="batch_size must be larger than 0"):
        loader(feeds).set_sample_generator(samples, 0, places=fluid.CPUPlace())
    with pytest.raises(AssertionError, match="cannot be called when DataLoader is iterable"):
        loader(feeds).start()


def test_errors_in_generators_surface_behind_what_they_gave(feeds: Any) -> None:
    def failing() -> Iterator[Any]:
        yield from batches(2)
        raise KeyError("boom")

    passing = loader(feeds).set_batch_generator(failing, fluid.CPUPlace())()
    assert [shown(next(passing)), shown(next(passing))] == [[whole(0)], [whole(1)]]
    with pytest.raises(EnforceNotMet, match="raised KeyError: 'boom'") as caught:
        next(passing)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ReaderError, match="a batch has 1 fields where feed_list has 2 variables"):
        list(loader(feeds).set_batch_generator(lambda: iter([[np.ones(2)]]), fluid.CPUPlace())())


class Squares(Dataset):
    """Five samples."""

    def __getitem__(self, index: int) -> Any:
        return np.full(2, index * index, "float32"), np.array([index])

    def __len__(self) -> int:
        return 5


def test_data_sets(feeds: Any) -> None:
    made = io.DataLoader(Squares(), feed_list=feeds, places=fluid.CPUPlace(), batch_size=2)
    assert len(made) == 3
    assert [shown(batch)[0]["x"] for batch in made] == [((2, 2), 0), ((2, 2), 4), ((1, 2), 16)]
    made = io.DataLoader(
        Squares(),
        places=fluid.CPUPlace(),
        return_list=True,
        batch_sampler=BatchSampler(indices=[4, 1], batch_size=2),
    )
    assert [shown(batch) for batch in made] == [[[((2, 2), 16), ((2, 1), 4)]]]
    assert (
        len(io.DataLoader(Squares(), feed_list=feeds, places=fluid.CPUPlace(), batch_size=2, drop_last=True))
        == 2
    )
    assert sorted(itertools.chain(*BatchSampler(Squares(), shuffle=True, batch_size=2))) == [0, 1, 2, 3, 4]
    for wrong in (
        {"dataset": 3, "feed_list": feeds, "places": fluid.CPUPlace()},
        {"dataset": Squares(), "places": fluid.CPUPlace()},
        {"dataset": Squares(), "feed_list": feeds},
    ):
        with pytest.raises(AssertionError):
            io.DataLoader(**wrong)


# ------------------------------------------------------------------------------------------------ read ops
class Reading:
    """A program that reads and doubles `x`, in scope and startup of its own."""

    def __init__(self, build: Callable[[], tuple[Any, Any]]) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with (
            fluid.scope_guard(self.scope),
            fluid.unique_name.guard(),
            fluid.program_guard(self.main, self.startup),
        ):
            self.reader, x = build()
            self.out = fluid.layers.scale(x, 2.0)
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.exe.run(self.startup, scope=self.scope)

    def run(self) -> tuple[tuple[int, ...], float]:
        """Shape and first element of one run's result."""
        value = self.exe.run(self.main, fetch_list=[self.out], scope=self.scope)[0]
        return value.shape, value.flat[0]

    def one_pass(self) -> list[float]:
        """First elements until the end of the data."""
        found = []
        self.reader.start()
        with pytest.raises(EOFException):
            while True:
                found.append(self.run()[1])
        self.reader.reset()
        return found

    def ops(self) -> list[str]:
        return [op.type for op in self.main.global_block().ops]


def from_generator(**options: Any) -> tuple[Any, Any]:
    x, y = fluid.data("x", [None, 2]), fluid.data("y", [None, 1], "int64")
    return io.DataLoader.from_generator([x, y], capacity=2, iterable=False, **options), x


def test_a_loader_that_is_read_by_ops() -> None:
    reading = Reading(from_generator)
    assert reading.ops() == ["create_py_reader", "create_double_buffer_reader", "read", "scale"]
    reading.reader.set_batch_generator(batches)
    assert reading.one_pass() == [0, 2, 4]
    assert reading.one_pass() == [0, 2, 4]
    reading.reader.start()
    assert reading.run() == ((4, 2), 0)
    reading.reader.reset()  # in the middle of a pass
    assert reading.one_pass() == [0, 2, 4]
    with pytest.raises(AssertionError, match="not iterable"):
        iter(reading.reader)


def test_ops_without_double_buffer_and_sizes_that_change() -> None:
    reading = Reading(lambda: from_generator(use_double_buffer=False))
    assert reading.ops() == ["create_py_reader", "read", "scale"]
    reading.reader.set_sample_generator(samples, 2, drop_last=False)
    reading.reader.start()
    assert [reading.run() for _ in range(3)] == [((2, 2), 0), ((2, 2), 4), ((1, 2), 8)]
    reading.reader.reset()


def test_a_reader_that_was_not_started() -> None:
    reading = Reading(from_generator)
    reading.reader.set_batch_generator(batches)
    with pytest.raises(EOFException, match="was not started"):
        reading.run()


def test_reading_without_data_or_with_wrong_data() -> None:
    reading = Reading(from_generator)
    with pytest.raises(ReaderError, match="no source of data"):
        reading.reader.start()
    reading.reader.set_batch_generator(lambda: iter([(np.ones((4, 3), "float32"), np.ones((4, 1), "int64"))]))
    reading.reader.start()
    with pytest.raises(
        FeedError, match=r"tensor 0 of the data reader has shape \[4, 3\], and \[-1, 2\] is declared"
    ):
        reading.run()
    reading.reader.reset()
    reading.reader.set_batch_generator(lambda: iter([(np.ones((4, 2), "float64"), np.ones((4, 1), "int64"))]))
    reading.reader.start()
    with pytest.raises(FeedError, match="type VarType.FP64"):
        reading.run()
    reading.reader.reset()


def test_errors_in_generators_surface_in_runs() -> None:
    def failing() -> Iterator[Any]:
        yield from batches(1)
        raise KeyError("boom")

    reading = Reading(from_generator)
    reading.reader.set_batch_generator(failing)
    reading.reader.start()
    assert reading.run()[1] == 0
    with pytest.raises(EnforceNotMet, match="boom"):
        reading.run()
    reading.reader.reset()


def py_reader(**options: Any) -> tuple[Any, Any]:
    reader = fluid.layers.py_reader(2, [(-1, 2), (-1, 1)], ["float32", "int64"], lod_levels=[0, 1], **options)
    return reader, fluid.layers.read_file(reader)[0]


@pytest.mark.parametrize("buffered", [True, False])
def test_py_reader(buffered: bool) -> None:
    reading = Reading(lambda: py_reader(use_double_buffer=buffered))
    assert [op.type for op in reading.startup.global_block().ops] == ["create_py_reader"]
    assert reading.ops() == ["create_double_buffer_reader"] * buffered + ["read", "scale"]
    reading.reader.decorate_tensor_provider(batches)
    assert reading.one_pass() == [0, 2, 4]
    reading.reader.decorate_paddle_reader(io.batch(lambda: iter([([1, 1], [[1], [2]]), ([3, 3], [[3]])]), 1))
    assert reading.one_pass() == [2, 6]


def test_names_of_readers() -> None:
    reading = Reading(lambda: py_reader(name="rd"))
    assert reading.reader.name == "rd_double_buffer" and reading.startup.global_block().ops[0].input(
        "blocking_queue"
    ) == ["rd_queue"]
    reading = Reading(py_reader)
    assert reading.reader.name == "double_buffer_0" and reading.startup.global_block().has_var(
        "create_py_reader_0"
    )
    outputs = reading.main.global_block().ops[1].output("Out")
    assert outputs == ["read_file_0.tmp_0", "read_file_0.tmp_1"]
    variables = [reading.main.global_block().var(name) for name in outputs]
    assert [(var.shape, var.lod_level, var.stop_gradient) for var in variables] == [
        ((-1, 2), 0, True),
        ((-1, 1), 1, True),
    ]


def test_readers_by_data_and_double_buffers() -> None:
    def build() -> tuple[Any, Any]:
        reader = fluid.layers.create_py_reader_by_data(
            2, [fluid.data("x", [None, 2])], use_double_buffer=False
        )
        reader = fluid.layers.double_buffer(reader)
        return reader, fluid.layers.read_file(reader)

    reading = Reading(build)
    assert reading.reader.name == "create_double_buffer_reader_0"
    reading.reader.decorate_batch_generator(lambda: iter([[np.full((1, 2), 7, "float32")]]))
    assert reading.one_pass() == [14]


def test_py_reader_class(feeds: Any) -> None:
    reader = io.PyReader(feeds, capacity=2)
    reader.decorate_sample_generator(samples, 2, places=fluid.CPUPlace())
    assert [shown(batch)[0]["x"] for batch in reader()] == [((2, 2), 0), ((2, 2), 2)]

    def build() -> tuple[Any, Any]:
        x = fluid.data("x", [None, 2])
        return io.PyReader([x], capacity=2, iterable=False), x

    reading = Reading(build)
    reading.reader.decorate_sample_list_generator(io.batch(lambda: iter([([1, 1],), ([2, 2],)]), 1))
    assert reading.one_pass() == [2, 4]
    reading.reader.decorate_batch_generator(lambda: iter([[np.full((1, 2), 7, "float32")]]))
    assert reading.one_pass() == [14]


def test_training_from_a_reader() -> None:
    def build() -> tuple[Any, Any]:
        x, y = fluid.data("x", [None, 2]), fluid.data("y", [None, 1])
        made = io.DataLoader.from_generator([x, y], capacity=4, iterable=False)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        fluid.optimizer.SGD(0.1).minimize(loss)
        return made, loss

    def data() -> Iterator[Any]:
        rng = np.random.RandomState(0)
        for _ in range(20):
            x = rng.rand(8, 2).astype("float32")
            yield x, x.sum(1, keepdims=True)

    reading = Reading(build)
    reading.reader.set_batch_generator(data)
    first, last = reading.one_pass(), reading.one_pass()
    assert np.mean(last) < np.mean(first)


def test_programs_with_readers_read_back() -> None:
    reading = Reading(py_reader)
    for program in (reading.main, reading.startup):
        program.verify()
        assert str(parse(str(program))) == str(program)
        again = fluid.Program.parse_from_string(program.desc.serialize_to_string())
        assert [var.reader_specs for var in again.list_vars()] == [
            var.reader_specs for var in program.list_vars()
        ]


# ------------------------------------------------------------------------------------------------ the queue
def test_queue() -> None:
    queue = BlockingQueue(2)
    assert queue.push(1)  # by hand, before a reader starts
    queue.reopen()
    assert queue.size() == 0
    assert queue.push(1) and queue.push(2) and queue.size() == 2
    queue.close()
    assert not queue.push(3)
    assert [queue.pop(), queue.pop()] == [1, 2]
    with pytest.raises(EOFException):
        queue.pop()
    with pytest.raises(ValueError, match="capacity"):
        BlockingQueue(0)


@pytest.mark.parametrize("compiled, counts", [(False, [3, 7]), (True, [2, 5])])
def test_counters_at_the_end_of_the_data(compiled: bool, counts: list[int]) -> None:
    """A plain program counts, then finds no batch; a compiled one reads first: both as 1.8.5."""

    def build() -> tuple[Any, Any]:
        made = from_generator()
        fluid.layers.exponential_decay(1.0, 1, 0.5)
        return made

    loader = Reading(build)
    loader.reader.set_batch_generator(lambda: ([np.ones((1, 2), "float32"), np.zeros((1, 1), "int64")],) * 3)
    if compiled:
        loader.main = fluid.CompiledProgram(loader.main)
    for count in counts:
        assert len(loader.one_pass()) == 3
        value = loader.scope.find_var("@LR_DECAY_COUNTER@").get_tensor()
        assert np.array(value).tolist() == [count]


def test_a_py_reader_needs_a_shape_for_each_dtype() -> None:
    with pytest.raises(fluid.core.EnforceNotMet, match="1 shapes, 2 dtypes"):
        fluid.layers.py_reader(2, [[-1, 3]], ["float32", "int64"])


def test_a_queue_by_hand() -> None:
    """As 1.8.5's LoDTensorBlockingQueue."""
    queue = core.init_lod_tensor_blocking_queue(fluid.global_scope().var("by_hand"), 3, False)
    batch = [fluid.create_lod_tensor(np.ones((2, 3), "float32"), [[2]], fluid.CPUPlace())]
    assert isinstance(queue, core.LoDTensorBlockingQueue) and queue.wait_for_inited(1000)
    assert (queue.push(batch), queue.size(), queue.capacity()) == (True, 1, 3)
    queue.close()
    assert (queue.push(batch), queue.size()) == (False, 1)
    queue.kill()
    for use in (lambda: queue.push(batch), queue.pop):
        with pytest.raises(core.EnforceNotMet, match="killed"):
            use()


# ---------- passes that end early
@pytest.mark.parametrize("kind", ["DataLoader", "PyReader"])
@pytest.mark.parametrize("return_list", [False, True])
def test_a_pass_is_ended_in_its_middle(kind: str, return_list: bool) -> None:
    x = fluid.data("x", [None, 2])
    options = {"capacity": 2, "iterable": True, "return_list": return_list}
    source = lambda: ((np.full((4, 2), number, "float32"),) for number in range(5))
    place = fluid.CPUPlace()
    if kind == "PyReader":
        loader = fluid.io.PyReader([x], **options)
        loader.decorate_batch_generator(source, place)
    else:
        loader = fluid.io.DataLoader.from_generator([x], **options)
        loader.set_batch_generator(source, place)

    def first(batch: Any) -> float:
        return float(np.array(batch[0][0] if return_list else batch[0]["x"])[0, 0])

    def threads() -> int:
        return sum(thread.name == "fluidlite-reader" for thread in threading.enumerate())

    before = threads()
    running = iter(loader)
    # the loader itself goes on with the pass, as in 1.8.5
    assert [first(next(running)), first(next(loader)), first(next(running))] == [0, 1, 2]
    with pytest.raises(AssertionError, match="reset"):
        loader.reset()
    loader._reset()
    assert threads() == before and next(running, None) is None
    for _ in range(2):
        assert [first(batch) for batch in loader()] == [0, 1, 2, 3, 4]
    assert first(next(loader)) == 0
    loader._reset()
    assert threads() == before and first(next(loader)) == 0
    loader._reset()
