"""Parameter updates in place, from the same table of scalar expressions as the portable kernels; row-sparse
gradients touch only their rows where the op moves no others.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device_rows import kept_rows, update_rows, whole_rows
from fluidlite.executor.compile.repeated import RepeatedSteps, as_chains
from fluidlite.executor.compile.scalars import broadcast
from fluidlite.executor.fast.loops.row_updates import CompiledRowUpdate
from fluidlite.executor.fast.loops.tables import row_adder
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.ops.kernels.scalar import parse
from fluidlite.ops.training.optimizer import UPDATES, UpdateRule, decays, descends, target_of, update_function
from fluidlite.values.tensor import SelectedRows, merge_rows

MANY_NODES = 3  # functions of numbers that one call takes no longer for


def _attributes(e: Emitter, entry: UpdateRule) -> dict[str, Any]:
    """The op's attributes, 32-bit numbers as the wire format has them: 1 - 0.999 must not be 0.001."""
    return {name: e.attr(name) for name in entry.op.attr_defs}


def _state(e: Emitter, entry: UpdateRule) -> dict[str, Value]:
    """The inputs other than the gradient; what holds one number is a scalar."""
    values = {}
    for slot in entry.op.inputs:
        value = e.x(slot) if slot != "Grad" else None
        if value is None:
            continue
        # without dimensions it fits a parameter of any shape
        is_scalar = value.shape == (1,) and slot != "Param"
        values[slot] = _as_number(e, value) if is_scalar else value
    if any(slot in values for slot in ("Beta1Tensor", "Beta2Tensor")):
        raise CannotLower("betas from tensors")
    return values


def _as_number(e: Emitter, value: Value) -> Value:
    """A view without dimensions: one of the learning rate for all parameters."""
    key = (_as_number, value)
    found: Value | None = e.recall(key)
    if found is None:
        found = e.learned[key] = e.reshape(value, ())
    return found


def _written(e: Emitter, entry: UpdateRule) -> list[str]:
    """The output slots that the op fills; with use_global_beta_pow the powers are somebody else's."""
    skip = ("Beta1PowOut", "Beta2PowOut") if e.op.attrs.get("use_global_beta_pow") else ()
    return [slot for slot in entry.op.outputs if e.op.outputs.get(slot) and slot not in skip]


def _dense(e: Emitter, entry: UpdateRule, steps: Sequence[tuple[str, str]], grad: Value) -> None:
    """The steps of an update; those of the first parameter of a shape are repeated for all others."""
    values = {**_state(e, entry), "Grad": grad}
    if grad.shape != values["Param"].shape or grad.dtype != values["Param"].dtype:
        raise CannotLower("the gradient differs from the parameter")
    key = _form_of(e, entry, tuple(steps), values)
    if key is None:
        _emit(e, entry, steps, values)
        return
    found: tuple[list[str], RepeatedSteps] | None = e.recall(key)
    if found is not None:
        slots, repeated = found
        sources = [e.need(target_of(slot)) for slot in slots]
        outs = [
            e.out(slot, source.shape, source.dtype, inplace=True)
            for slot, source in zip(slots, sources, strict=True)
        ]
        repeated.emit(e, [*values.values(), *outs])
        return
    mark = len(e.steps)
    made = _emit(e, entry, steps, values)
    given = (*values.values(), *made.values())
    repeated = RepeatedSteps(given, as_chains(e.steps[mark:], values["Param"].shape))
    e.learned[key] = list(made), repeated
    e.steps[mark:] = repeated.steps


def _form_of(
    e: Emitter, entry: UpdateRule, steps: tuple[tuple[str, str], ...], values: Mapping[str, Value]
) -> Hashable:
    """The facts that the steps of an update follow from; None where others may have a say."""
    slots = _written(e, entry)
    is_plain = all(
        e.op.outputs[slot] == e.op.inputs.get(target_of(slot))
        and values[target_of(slot)].root.storage is Storage.PARAM
        and not e.has_no_dims(slot)
        for slot in slots
    )
    # a gradient of one number is no array; two slots may have the same one
    is_plain = is_plain and all(value.uniform is None for value in values.values())
    if not e.on_host or not is_plain or len(set(values.values())) < len(values):
        return None
    facts = [(slot, value.shape, value.dtype) for slot, value in values.items()]
    # as text: 0.0 and -0.0 are equal
    return (_form_of, steps, repr(_attributes(e, entry)), *slots, *facts)


def _emit(
    e: Emitter, entry: UpdateRule, steps: Sequence[tuple[str, str]], values: Mapping[str, Value]
) -> dict[str, Value]:
    """The steps of one update, and what its outputs are written to."""
    known: dict[str, Any] = {**_attributes(e, entry), **values}
    written = _written(e, entry)
    made: dict[str, Value] = {}
    late: list[tuple[Value, Value]] = []
    # a name may be computed in several steps: only the last of them is the output
    last = {name: index for index, (name, _) in enumerate(steps)}
    for index, (name, expr) in enumerate(steps):
        operands = {operand: known[operand] for operand in parse(expr).names}
        arrays = [item for item in operands.values() if isinstance(item, Value)]
        # numbers fit all: three steps of four have one shape
        shapes = {item.shape or () for item in arrays} - {()}
        shape = broadcast(*shapes) if shapes else ()
        slot = name if name in written and last[name] == index else None
        source = e.need(target_of(slot)) if slot else None
        if slot and source is not None:
            if source.shape != shape and max(source.size, math.prod(shape)) > 1:
                raise CannotLower("an accumulator of another shape")
            read_later = any(target_of(slot) in parse(text).names for _, text in steps[index + 1 :])
            out = made[slot] = e.out(slot, source.shape, source.dtype, inplace=True)
            # the old value is still needed: compute beside it, move at the end
            if read_later:
                target = out
                out = e.temp(source.shape or (), source.dtype)
                late.append((target, out))
        else:
            out = e.temp(shape, values["Param"].dtype)
        if e.on_host and not slot and not shape and len(parse(expr).nodes) >= MANY_NODES:
            e.run(_scalar_function(e, expr), *operands.values(), Out(out))
        else:
            e.elementwise(expr, out, **operands)
        known[name] = out
    for target, value in late:
        e.elementwise("x", target, x=value)
    return made


class ScalarFunction:
    """An expression over numbers, as arrays of no dimensions, in one call: a step for each function of it
    was a quarter of the plan of a network's updates by adam.
    """

    def __init__(self, expr: str) -> None:
        self.function = update_function(expr)

    def __call__(self, *operands: Any) -> None:
        *values, out = operands
        out[...] = self.function(np, *values)


def _scalar_function(e: Emitter, expr: str) -> Bound:
    """The function of an expression: one for all updates of a plan."""
    key = (ScalarFunction, expr)
    found: Bound | None = e.recall(key)
    if found is None:
        found = e.bind("rate", ScalarFunction(expr))
        e.remember(key, found)
    return found


class RowUpdate:
    """Applies an update to the rows of a sparse gradient, in the arrays themselves."""

    def __init__(
        self,
        xp: Any,
        steps: Sequence[tuple[str, str]],
        attributes: Mapping[str, Any],
        outputs: Sequence[str],
        loops: str,
        threads: int,
    ) -> None:
        self.xp = xp
        self.compiled = (
            None
            if loops == "off"
            else CompiledRowUpdate(steps, attributes, outputs, threads, loops == "wait")
        )
        self.add = row_adder(xp, loops)
        self.attributes = attributes
        self.outputs = outputs
        self.steps = [(name, update_function(expr), parse(expr).names) for name, expr in steps]

    def __call__(self, grad: SelectedRows | Array, state: Mapping[str, Array]) -> None:
        if isinstance(grad, SelectedRows):
            if self.compiled is not None and self.compiled(grad, state):
                return
            # a row that the batch had twice moves once, by the sum of its gradients
            ids, rows = merge_rows(self.xp, grad.ids, grad.array)
            height = grad.height()
        else:
            # a sum with a dense gradient is dense
            ids = slice(None)
            rows = grad
            height = -1
        # what has a row for each id is cut to the rows of the batch; learning rates and powers are not
        tall = {name for name, value in state.items() if _has_rows(value, height, rows.ndim)}
        current = {name: value[ids] if name in tall else value for name, value in state.items()}
        known = {**self.attributes, **current, "Grad": rows}
        for name, function, operands in self.steps:
            known[name] = function(self.xp, *(known[operand] for operand in operands))
        for name in self.outputs:
            if target_of(name) in tall:
                state[target_of(name)][ids] = known[name]
            else:
                state[target_of(name)][...] = known[name]


class RowDescent(RowUpdate):
    """The same for sgd, which needs no sum of a row's gradients: each moves it by itself, as in 1.8.5."""

    def __call__(self, grad: SelectedRows | Array, state: Mapping[str, Array]) -> None:
        if self.xp is not np or not isinstance(grad, SelectedRows):
            super().__call__(grad, state)
            return
        rate = float(np.asarray(state["LearningRate"]).reshape(()))
        self.add(state["Param"], grad.ids, grad.array, -rate)


def _has_rows(value: Array, height: int, rank: int) -> bool:
    """True if an array has `height` rows and as many dimensions as the gradient."""
    return value.ndim == rank and value.shape[:1] == (height,)


def _sparse(e: Emitter, entry: UpdateRule, steps: Sequence[tuple[str, str]]) -> None:
    attributes = _attributes(e, entry)
    values = _state(e, entry)
    written = _written(e, entry)
    for slot in written:
        if e.op.outputs[slot] != e.op.inputs[target_of(slot)]:
            raise CannotLower("outputs are other variables")
    parts = kept_rows(e, e.any("Grad"))
    if parts is not None:
        update_rows(e, parts, steps, {**attributes, **values}, written)
        return
    targets = [e.need(target_of(slot)) for slot in written]
    outs = [
        e.out(slot, target.shape, target.dtype, inplace=True)
        for slot, target in zip(written, targets, strict=True)
    ]
    kind = RowDescent if descends(e.op) else RowUpdate
    run = e.bind_fresh("update_rows", kind, list(steps), attributes, written, e.loops, e.threads)
    # `writes` by hand: the call changes the arrays of `values`, of which the outputs are newer versions
    e.run(run, e.any("Grad"), values, effect=True, writes=tuple(outs))


class WholeGradient:
    """Writes a sparse gradient out whole, with zeros in the rows that it does not have."""

    def __init__(self, xp: Any, loops: str) -> None:
        self.add = row_adder(xp, loops)

    def __call__(self, grad: SelectedRows | Array, out: Array) -> None:
        if isinstance(grad, SelectedRows):
            out.fill(0)
            self.add(out, grad.ids, grad.array)
        else:  # a sum with a dense gradient is dense
            out[...] = grad


def whole_gradient(e: Emitter) -> Value:
    """The sparse gradient as an array of the parameter's size: where all rows move (adam's moments decay in
    rows without a gradient too), one fused loop over zeros and rows is a quarter of the time of fresh arrays.
    """
    param = e.need("Param")
    assert param.shape is not None
    out = e.temp(param.shape, param.dtype)
    parts = kept_rows(e, e.any("Grad"))
    if parts is not None:
        whole_rows(e, parts, param, out)
        return out
    e.run(e.bind_fresh("whole_gradient", WholeGradient, e.loops), e.any("Grad"), Out(out))
    return out


@lowering(*UPDATES)
def _(e: Emitter) -> None:
    entry = UPDATES[e.op.type]
    steps = entry.chosen(e.op)
    if decays(e.op):
        raise CannotLower("decay inside the update")
    if e.kind("Param") == VarType.SELECTED_ROWS:
        raise CannotLower("a parameter that holds some of the rows only")
    if e.kind("Grad") != VarType.SELECTED_ROWS:
        _dense(e, entry, steps, e.need("Grad"))
    elif entry.rows_only(_attributes(e, entry)):
        _sparse(e, entry, steps)
    else:
        _dense(e, entry, steps, whole_gradient(e))
