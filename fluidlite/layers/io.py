"""Layers that bring data into a program: `data`, readers that a generator feeds, and parameters from
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType, to_vartype
from fluidlite.base.errors import ShapeError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import Place
from fluidlite.base.registry import Spec
from fluidlite.framework import Program, default_main_program, default_startup_program
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.flow.remote import BlockGuardServ, ListenAndServ, Recv, Send  # noqa: F401
from fluidlite.layers.tensors.inputs import data
from fluidlite.reader import GeneratorLoader
from fluidlite.reading.queues import BlockingQueue, Feed
from fluidlite.reading.variables import (
    copy_reader,
    create_py_reader,
    declare_reader,
    queue_in_scope,
    read_ahead,
)

__all__ = ["create_py_reader_by_data", "data", "double_buffer", "load", "py_reader", "read_file"]


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[Any],
    lod_levels: Sequence[int] | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> Variable:
    """A reader that a Python generator feeds through a queue of `capacity` batches; `read_file` gives what it
    reads.

    It has the methods `decorate_paddle_reader` (a generator of lists of samples), `decorate_tensor_provider`
    (of batches), `start` and `reset`. Runs raise EOFException at the end of the data.
    """
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    if not len(shapes) == len(dtypes) == len(levels):
        raise ShapeError(
            f"py_reader needs as many shapes as dtypes and levels of detail, but has {len(shapes)} shapes, "
            f"{len(dtypes)} dtypes and {len(levels)} levels"
        )
    specs = [
        Spec(tuple(int(dim) for dim in shape), to_vartype(dtype), level)
        for shape, dtype, level in zip(shapes, dtypes, levels, strict=True)
    ]
    return _fed_reader(capacity, specs, [False] * len(specs), name, use_double_buffer)


def create_py_reader_by_data(
    capacity: int, feed_list: Sequence[Variable], name: str | None = None, use_double_buffer: bool = True
) -> Variable:
    """A `py_reader` of the shapes, dtypes and levels of detail of the variables in `feed_list`."""
    checks = [var.need_check_feed for var in feed_list]
    return _fed_reader(capacity, [var.spec for var in feed_list], checks, name, use_double_buffer)


def _fed_reader(
    capacity: int, specs: Sequence[Spec], checks: Sequence[bool], name: str | None, use_double_buffer: bool
) -> Variable:
    """A reader made in the startup program, seen by the main program, with its methods."""

    def named(key: str, suffix: str) -> str:
        return unique_name.generate(key) if name is None else f"{name}_{suffix}"

    queue_name, reader_name = named("lod_tensor_blocking_queue", "queue"), named("create_py_reader", "reader")
    buffer_name = named("double_buffer", "double_buffer")
    feed = Feed(capacity)
    startup, main = default_startup_program().current_block(), default_main_program().current_block()
    queue = queue_in_scope(queue_name, feed.queue)
    made = create_py_reader(startup, reader_name, queue, specs, checks, stop_gradient=False)
    if not use_double_buffer:
        return FedReader(main, made.name, made.reader_specs, feed)
    buffered = FedReader(main, buffer_name, made.reader_specs, feed)
    return read_ahead(main, copy_reader(main, made), buffered)


class FedReader(Variable):
    """A reader variable that a Python generator feeds, with the methods that fluid gives to `py_reader`."""

    def __init__(self, block: Block, name: str, specs: Sequence[Spec], feed: Feed) -> None:
        super().__init__(
            block, name=name, type=VarType.READER, persistable=True, stop_gradient=True, reader_specs=specs
        )
        self.feed = feed
        block.program.bump_version()

    @property
    def queue(self) -> BlockingQueue:
        """The queue of batches."""
        return self.feed.queue

    def start(self) -> None:
        """Begin a pass over the data; one that is running ends."""
        self.feed.start()

    def reset(self) -> None:
        """End the pass and drop what was read ahead."""
        self.feed.reset()

    def _loader(self) -> GeneratorLoader:
        block = Program().global_block()
        variables = [
            block.create_var(
                name=f"feed_data_{number}", shape=spec.shape, dtype=spec.dtype, lod_level=spec.lod_level
            )
            for number, spec in enumerate(self.reader_specs)
        ]
        return GeneratorLoader(variables, self.feed.queue.capacity())

    def decorate_paddle_reader(self, source: Callable[[], Iterable[Any]], places: Any = None) -> None:
        """Feed what a generator of lists of samples gives."""
        self.feed.source = self._loader().set_sample_list_generator(source, places or ()).source

    def decorate_tensor_provider(self, source: Callable[[], Iterable[Any]], places: Any = None) -> None:
        """Feed what a generator of batches gives."""
        self.feed.source = self._loader().set_batch_generator(source, places or ()).source

    decorate_sample_list_generator = decorate_paddle_reader
    decorate_batch_generator = decorate_tensor_provider


def double_buffer(reader: Any, place: Place | None = None, name: str | None = None) -> Variable:
    """A reader that reads ahead from `reader`; a thread does so in any case, so only the program changes."""
    block = default_main_program().current_block()
    new_name = unique_name.generate("create_double_buffer_reader") if name is None else name
    specs = reader.reader_specs
    if isinstance(reader, FedReader):
        buffered: Variable = FedReader(block, new_name, specs, reader.feed)
    else:
        buffered = declare_reader(block, new_name, specs)
    return read_ahead(block, reader, buffered, "AUTO" if place is None else repr(place).upper())


def read_file(reader: Variable) -> Variable | list[Variable]:
    """The variables of a reader's next batch: one, or a list of them."""
    helper = LayerHelper("read_file")
    outputs = [
        helper.create_variable_for_type_inference(stop_gradient=True, dtype="float32")
        for _ in reader.reader_specs
    ]
    for var, spec in zip(outputs, reader.reader_specs, strict=True):
        var.set_spec(spec)
    helper.append_op(type="read", inputs={"Reader": [reader]}, outputs={"Out": outputs})
    return outputs[0] if len(outputs) == 1 else outputs


def load(out: Variable, file_path: str, load_as_fp16: bool | None = None) -> None:
    """Load the variable `out` from a file that `save_vars` wrote, each time the program runs."""
    attrs: dict[str, Any] = {"file_path": file_path}
    if load_as_fp16 is not None:
        attrs["load_as_fp16"] = load_as_fp16
    LayerHelper("load", out=out).append_op(type="load", inputs={}, outputs={"Out": [out]}, attrs=attrs)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
