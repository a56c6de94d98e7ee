"""The check of a program whose feeds have other data types than its variables declare.

As in fluid 1.8, a feed of a `fluid.layers.data` keeps its type, and each op computes in the type that it
gets. An op stops the run where it has no computation in that type, or where two inputs that are declared
alike come in different types. Class numbers are no such case: what reads them takes them in any type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base import registry
from fluidlite.base.dtypes import to_numpy, to_vartype
from fluidlite.base.errors import FluidError, KernelError
from fluidlite.base.registry import Spec
from fluidlite.executor.run.operand_types import class_slot
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator

__all__ = ["check_fed_dtypes"]


def check_fed_dtypes(block: Block, ops: Sequence[Operator], fed: Mapping[str, np.dtype[Any]]) -> None:
    """KernelError where an op of the block cannot compute with feeds of these types, or mixes them.

    Types are followed from op to op by the ops' shape rules. Ops with sub-blocks are not looked into: what
    they write counts as declared.
    """
    specs: dict[str, Spec] = {}
    for name, dtype in fed.items():
        var = block._find_var_recursive(name)
        if var is not None and var._dtype is not None:
            specs[name] = var.spec._replace(dtype=to_vartype(dtype))
    for op in ops:
        if not specs.keys().isdisjoint(op.input_arg_names):
            _follow(block, op, specs)


def _follow(block: Block, op: Operator, specs: dict[str, Spec]) -> None:
    if op.definition is None or op.sub_blocks():
        return
    inputs = {
        slot: [specs.get(name) or _declared(block, name) for name in names]
        for slot, names in op.inputs.items()
    }
    _check_types(block, op, specs)
    try:
        found = op.definition.infer(inputs, op.attrs)
    # a rule that cannot tell leaves the declaration as it is; the kernel will see the values
    except (FluidError, IndexError, TypeError, ZeroDivisionError, AttributeError):
        return
    for slot, names in op.outputs.items():
        for name, spec in zip(names, found.get(slot, ()), strict=False):
            declared = _declared(block, name)
            if declared is not None and spec.dtype not in (None, declared.dtype):
                specs[name] = declared._replace(dtype=spec.dtype)


def _check_types(block: Block, op: Operator, specs: Mapping[str, Spec]) -> None:
    first: dict[Any, tuple[str, Any]] = {}
    definition = registry.get(op.type)
    # `data("label", [1], "int64")` declares a float32: the third argument is another one. Such programs train
    # all the same, as PaddlePaddle looks at what is fed
    labels = class_slot(op, definition.root)
    for slot, names in op.inputs.items():
        if not definition.reads(slot) or slot == labels:
            continue
        for name in names:
            declared = _declared(block, name)
            if declared is None or declared.dtype is None:
                continue
            dtype = specs[name].dtype if name in specs else declared.dtype
            if name in specs:
                _check_kernel(op, slot, name, declared.dtype, dtype)
            other, expected = first.setdefault(declared.dtype, (name, dtype))
            if dtype != expected:
                raise KernelError(
                    f"Tensor holds the wrong type: op {op.type!r} takes {other!r} as {to_numpy(expected)} "
                    f"and {name!r} as {to_numpy(dtype)}, since one of them comes from a feed of another type "
                    f"than its variable declares\n  {op.call_text()}\n  built at {op.where}"
                )


def _check_kernel(op: Operator, slot: str, name: str, declared: Any, found: Any) -> None:
    """KernelError for integers in a slot of floats, and for booleans where 1.8.5 has no kernel for them."""
    dtype = to_numpy(found)
    root = registry.get(op.type).root
    of_float = dtype.kind == "f" or (dtype.kind != "b" and to_numpy(declared).kind != "f")
    known = root.booleans if dtype.kind == "b" else slot not in root.floating
    if of_float or known:
        return
    raise KernelError(
        f"Operator {op.type} does not have kernel for {dtype}, as which {name!r} comes; it is "
        f"declared {to_numpy(declared)}\n  {op.call_text()}\n  built at {op.where}"
    )


def _declared(block: Block, name: str) -> Spec | None:
    var = block._find_var_recursive(name)
    return None if var is None or var._dtype is None else var.spec
