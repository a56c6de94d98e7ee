"""The op table's machinery: a `Case` names an op, its inputs and what must come out; `check_*` hold the op to
it.

Rows live in `tests/ops/op_tables/<family>.py` as a list called CASES; `tests/ops/test_ops.py` runs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.base.dtypes import to_vartype
from fluidlite.base.flags import FIRST_OF_2X
from fluidlite.base.registry import get
from fluidlite.values.tensor import LoDTensor, SelectedRows, offsets_of

Arrays = Mapping[str, Any]


@dataclass
class Case:
    """One row. Inputs: slot -> array, list of arrays (slot of many), or (array, sequence lengths by level).

    expect: slot -> array (or list of arrays), or a function from the inputs' arrays (keywords, slot names) to
    the first
        output's array, a tuple of arrays in slot order, or a dict.
    grad: input slots whose gradients are compared with central differences in float64; empty for none.
    rtol, atol: of the forward comparison. grad_tol: largest relative error of a gradient.
    outputs: slots of many outputs -> how many; lods: output slot -> expected sequence lengths.
    ignore: output slots that are made but not compared. wants: output slots that the gradient is taken of
    (default: first).
    """

    op: str
    inputs: Arrays
    expect: Any
    attrs: Mapping[str, Any] = field(default_factory=dict)
    grad: Sequence[str] = ()
    rtol: float = 1e-5
    atol: float = 1e-6
    grad_tol: float = 1e-4
    outputs: Mapping[str, int] = field(default_factory=dict)
    lods: Mapping[str, Any] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    wants: Sequence[str] = ()
    name: str = ""
    of_2x: bool = False  # fluid refuses it

    def __str__(self) -> str:
        return f"{self.op}{'-' + self.name if self.name else ''}"


def _items(value: Any) -> list[tuple[np.ndarray, Any]]:
    """A slot's values as (array, sequence lengths) pairs."""
    if isinstance(value, list):
        return [item for part in value for item in _items(part)]
    if isinstance(value, tuple):
        return [(np.asarray(value[0]), value[1])]
    return [(np.asarray(value), None)]


def build(case: Case, dtype: str | None = None) -> tuple[Any, dict[str, Any], dict[str, list[str]]]:
    """A program with the one op, its feeds, and output names by slot; `dtype` replaces float32 inputs'
    type.
    """
    program = fluid.Program()
    if case.of_2x:
        program.file_version = FIRST_OF_2X
    block = program.global_block()
    feeds: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for slot, value in case.inputs.items():
        names[slot] = []
        for index, (array, lengths) in enumerate(_items(value)):
            array = array.astype(dtype) if dtype and array.dtype == np.float32 else array
            name = f"{slot}_{index}"
            shape = (
                (-1, *array.shape[1:]) if lengths else array.shape
            )  # how many rows there are depends on the sequences
            block.create_var(
                name=name,
                shape=shape,
                dtype=to_vartype(array.dtype),
                is_data=True,
                lod_level=len(lengths or ()),
                stop_gradient=False,
            )
            feeds[name] = LoDTensor(array, offsets_of(lengths)) if lengths else array
            names[slot].append(name)
    outputs = {
        slot: [f"{slot}_out_{i}" for i in range(case.outputs.get(slot, 1))]
        for slot, info in get(case.op).outputs.items()
        if not info.optional or _expected(case, slot)
    }
    for slot_names in outputs.values():
        for name in slot_names:
            block.create_var(name=name, dtype=dtype or "float32")
    block.append_op(type=case.op, inputs=names, outputs=outputs, attrs=dict(case.attrs))
    return program, feeds, outputs


def _expected(case: Case, slot: str) -> bool:
    return (
        (isinstance(case.expect, Mapping) and slot in case.expect)
        or slot in case.outputs
        or slot in case.lods
        or slot in case.ignore
    )


def expected(case: Case) -> dict[str, list[np.ndarray]]:
    """The expected outputs, slot -> arrays."""
    found = case.expect
    if callable(found):
        arguments = {
            slot: ([array for array, _ in _items(value)] if isinstance(value, list) else _items(value)[0][0])
            for slot, value in case.inputs.items()
        }
        found = found(**arguments)
    if not isinstance(found, Mapping):
        found = found if isinstance(found, tuple) else (found,)
        found = dict(zip(get(case.op).outputs, found, strict=False))
    return {
        slot: [np.asarray(item) for item in value] if isinstance(value, list) else [np.asarray(value)]
        for slot, value in found.items()
    }


def run(program: Any, feeds: Arrays, fetches: Sequence[str], place: Any = None) -> list[LoDTensor]:
    """The fetched values of one run in a fresh scope."""
    exe = fluid.Executor(place or fluid.CPUPlace())
    result: list[LoDTensor] = exe.run(
        program, feed=dict(feeds), fetch_list=list(fetches), scope=fluid.Scope(), return_numpy=False
    )
    return result


# Outputs that 1.8.5's layers declare in another type than its kernels write.
DECLARED_OTHERWISE = frozenset([("roi_pool", "Argmax")])


def check_forward(case: Case, place: Any = None) -> None:
    """The op's outputs equal the reference; their shapes and dtypes are what the shape rule said."""
    program, feeds, outputs = build(case)
    wanted = expected(case)
    for slot, arrays in wanted.items():
        found = run(program, feeds, outputs[slot], place)
        assert len(found) == len(arrays), (
            f"{case}: slot {slot} has {len(found)} outputs, wanted {len(arrays)}"
        )
        for name, tensor, array in zip(outputs[slot], found, arrays, strict=True):
            value = tensor.dense(np) if isinstance(tensor, SelectedRows) else np.asarray(tensor)
            np.testing.assert_allclose(value, array, rtol=case.rtol, atol=case.atol, err_msg=f"{case} {slot}")
            assert value.shape == array.shape, f"{case} {slot}: shape {value.shape}, wanted {array.shape}"
            _check_rule(case, slot, program.global_block().var(name), value)
        if slot in case.lods:
            assert found[0].recursive_sequence_lengths() == [list(level) for level in case.lods[slot]], (
                f"{case} {slot}"
            )


def _check_rule(case: Case, slot: str, var: Any, value: np.ndarray) -> None:
    rule = var.shape
    if get(case.op).dynamic:  # what it declares is 1.8.5's word, which may be wrong
        rule = (-1,) * len(rule)
    assert len(rule) == value.ndim and all(a in (-1, b) for a, b in zip(rule, value.shape, strict=True)), (
        f"{case}: the shape rule said {rule}, the kernel gave {value.shape}"
    )
    if (case.op, slot) in DECLARED_OTHERWISE:
        return
    assert var.dtype == to_vartype(value.dtype), (
        f"{case}: the shape rule said {var.dtype}, the kernel gave {value.dtype}"
    )


def _loss(case: Case) -> tuple[Any, dict[str, Any], Any, list[Any]]:
    """The op in float64, and the sum of its wanted outputs weighted with fixed numbers, so that gradients
    differ by element.
    """
    program, feeds, outputs = build(case, "float64")
    block = program.global_block()
    slots = case.wants or [next(iter(get(case.op).outputs))]
    rng, parts = np.random.RandomState(5), []
    arrays = run(program, feeds, [name for slot in slots for name in outputs[slot]])
    for name, value in zip([name for slot in slots for name in outputs[slot]], arrays, strict=True):
        weights = rng.uniform(0.5, 1.5, np.asarray(value).shape)
        feeds[name + "_weight"] = weights
        weight = block.create_var(
            name=name + "_weight", shape=weights.shape, dtype="float64", is_data=True, stop_gradient=True
        )
        product = block.create_var(name=name + "_product", dtype="float64")
        total = block.create_var(name=name + "_sum", dtype="float64")
        block.append_op(
            type="elementwise_mul", inputs={"X": [name], "Y": [weight]}, outputs={"Out": [product]}
        )
        block.append_op(
            type="reduce_sum", inputs={"X": [product]}, outputs={"Out": [total]}, attrs={"reduce_all": True}
        )
        parts.append(total)
    loss = block.create_var(name="loss", dtype="float64")
    block.append_op(type="sum", inputs={"X": parts}, outputs={"Out": [loss]})
    return (
        program,
        feeds,
        loss,
        [block.var(f"{slot}_{i}") for slot in case.grad for i in range(len(_items(case.inputs[slot])))],
    )


def check_gradient(case: Case, place: Any = None, step: float = 1e-5) -> None:
    """The gradient ops give what central differences of the forward op give, in float64."""
    program, feeds, loss, variables = _loss(case)
    forward = program.clone()
    with fluid.program_guard(program):
        gradients = fluid.gradients([loss], variables)
    found = run(program, feeds, [gradient.name for gradient in gradients], place)
    for var, tensor in zip(variables, found, strict=True):
        analytic = tensor.dense(np) if isinstance(tensor, SelectedRows) else np.asarray(tensor)
        numeric = differences(_evaluated(forward), feeds, var.name, step)
        error = np.abs(analytic - numeric).max(initial=0) / max(1e-3, np.abs(numeric).max(initial=0))
        assert analytic.shape == numeric.shape, (
            f"{case}: d{var.name} has shape {analytic.shape}, wanted {numeric.shape}"
        )
        assert error <= case.grad_tol, (
            f"{case}: d{var.name} is off by {error:.2e} (relative)\n{analytic}\n{numeric}"
        )


def _evaluated(program: Any) -> Callable[[Arrays], float]:
    """The loss of `program` as a function of its feeds, by a plan that is made once: an executor and a scope
    of their own for each element made `test_gradient` six times as long.
    """
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    return lambda feed: np.asarray(exe.run(program, feed=feed, fetch_list=["loss"], scope=scope)[0]).sum()


def differences(f: Callable[[Arrays], float], feeds: Arrays, name: str, step: float) -> np.ndarray:
    """Central differences of `f` in every element of feed `name`."""
    held = feeds[name]
    base = np.asarray(held).astype(np.float64)
    out = np.zeros(base.shape)
    for index in np.ndindex(*base.shape):
        values = []
        for sign in (1, -1):
            moved = base.copy()
            moved[index] += sign * step
            values.append(
                f({**feeds, name: LoDTensor(moved, held._lod) if isinstance(held, LoDTensor) else moved})
            )
        out[index] = (values[0] - values[1]) / (2 * step)
    return out
