"""Variables of kind READER in a program: the ops that make them, and the queue in the scope that they read
from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from fluidlite.base.dtypes import VarType
from fluidlite.base.registry import Spec
from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.reading.queues import BlockingQueue
from fluidlite.unique_name import UniqueNameGenerator
from fluidlite.values.scope import global_scope

__all__ = [
    "copy_reader",
    "create_double_buffer",
    "create_py_reader",
    "declare_reader",
    "queue_in_scope",
    "read_ahead",
    "reader_name",
]

Reading = TypeVar("Reading", bound=Variable)
# Loaders count on their own, outside of `unique_name.guard`, because their queues share the global scope
reader_name = UniqueNameGenerator()


def queue_in_scope(name: str, queue: BlockingQueue) -> str:
    """Put a queue into the global scope, where `create_py_reader` looks for it; returns its name."""
    global_scope().var(name).set(queue)
    return name


def declare_reader(block: Block, name: str, specs: Sequence[Spec], stop_gradient: bool = True) -> Variable:
    """A variable that holds a reader of batches of `specs`."""
    return block.create_var(
        name=name,
        type=VarType.READER,
        persistable=True,
        stop_gradient=stop_gradient,
        reader_specs=[Spec(tuple(spec.shape), spec.dtype, spec.lod_level or 0) for spec in specs],
    )


def create_py_reader(
    block: Block,
    name: str,
    queue: str,
    specs: Sequence[Spec],
    checks: Sequence[bool],
    stop_gradient: bool = True,
) -> Variable:
    """A reader of batches from the queue called `queue`; `checks` says which shapes are held against what
    is read.
    """
    reader = declare_reader(block, name, specs, stop_gradient)
    attrs: dict[str, Any] = {
        "shape_concat": [dim for spec in specs for dim in spec.shape],
        "ranks": [len(spec.shape) for spec in specs],
        "lod_levels": [spec.lod_level or 0 for spec in specs],
        "dtypes": [int(spec.dtype) for spec in specs],
        "need_check_feed": [int(check) for check in checks],
    }
    block.append_op(
        type="create_py_reader", inputs={"blocking_queue": [queue]}, outputs={"Out": [reader]}, attrs=attrs
    )
    return reader


def create_double_buffer(block: Block, name: str, reader: Variable, place: str = "AUTO") -> Variable:
    """A reader that reads ahead from `reader`."""
    return read_ahead(block, reader, declare_reader(block, name, reader.reader_specs), place)


def read_ahead(block: Block, reader: Variable, buffered: Reading, place: str = "AUTO") -> Reading:
    """Append the op that makes `buffered` read ahead from `reader`; gives `buffered`."""
    block.append_op(
        type="create_double_buffer_reader",
        inputs={"UnderlyingReader": [reader]},
        outputs={"Out": [buffered]},
        attrs={"place": place},
    )
    return buffered


def copy_reader(block: Block, reader: Variable) -> Variable:
    """Declare in the main program what the startup program makes."""
    return declare_reader(block, reader.name, reader.reader_specs)
