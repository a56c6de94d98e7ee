"""Observations of an op in a row: the shapes that it declares, its values, or the error that it raises."""

from __future__ import annotations

import functools
import gzip
import json
import os
from typing import Any, Dict, Iterator, List

import numpy as np

from .rows import Row, Rows, Seq

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {
    "bool": 0,
    "int16": 1,
    "int32": 2,
    "int64": 3,
    "float16": 4,
    "float32": 5,
    "float64": 6,
    "uint8": 20,
    "int8": 21,
}
KINDS = {"dense": 7, "rows": 8}
Facts = Dict[str, Any]


@functools.lru_cache(None)
def protos() -> Any:
    """Slots and attributes of every op of 1.8.5."""
    with gzip.open(os.path.join(os.path.dirname(HERE), "op_protos.json.gz"), "rt") as source:
        return json.load(source)


def _items(value: Any) -> List[Any]:  # noqa: UP006
    return list(value) if isinstance(value, list) else [value]


def _array(item: Any) -> Any:
    return item.array if isinstance(item, (Seq, Rows)) else item


def _lod_level(item: Any) -> Any:
    if isinstance(item, Rows):
        return None  # Paddle refuses any other
    return len(item.lengths) if isinstance(item, Seq) else 0


class Scene:
    """The program of one row."""

    def __init__(self, fluid: Any, row: Row) -> None:
        self.fluid, self.row = fluid, row
        self.program = fluid.Program()
        self.block = self.program.global_block()
        self.values: Dict[str, Any] = {}  # noqa: UP006
        self.inputs = {slot: self._declare(slot, value) for slot, value in row.inputs.items()}
        self.outputs = {slot: self._names(slot) for slot in self._output_slots()}

    def _declare(self, slot: str, value: Any) -> List[str]:  # noqa: UP006
        names = []
        for index, item in enumerate(_items(value)):
            name = f"{slot}_{index}"
            array = _array(item)
            shape = list(array.shape)
            if isinstance(item, Seq):
                shape[0] = -1
            self.block.create_var(
                name=name,
                shape=self.row.declared.get(
                    slot, [item.height] + shape[1:] if isinstance(item, Rows) else shape
                ),
                dtype=self._dtype(array),
                type=self._kind(item),
                is_data=True,
                lod_level=_lod_level(item),
                stop_gradient=False,
            )
            self.values[name] = item
            names.append(name)
        return names

    def _dtype(self, array: Any) -> Any:
        return getattr(
            self.fluid.core.VarDesc.VarType,
            {
                "float32": "FP32",
                "float64": "FP64",
                "float16": "FP16",
                "int64": "INT64",
                "int32": "INT32",
                "int16": "INT16",
                "int8": "INT8",
                "uint8": "UINT8",
                "bool": "BOOL",
            }[str(array.dtype)],
        )

    def _kind(self, item: Any) -> Any:
        kinds = self.fluid.core.VarDesc.VarType
        return kinds.SELECTED_ROWS if isinstance(item, Rows) else kinds.LOD_TENSOR

    def _output_slots(self) -> List[str]:  # noqa: UP006
        needed = [slot for slot, _, _, dispensable in self._proto_outputs() if not dispensable]
        return needed + [slot for slot in self.row.outputs if slot not in needed]

    def _proto_outputs(self) -> Any:
        return protos()[self.row.op]["outputs"]

    def _names(self, slot: str) -> List[str]:  # noqa: UP006
        if slot in self.row.alias:
            return self.inputs[self.row.alias[slot]]
        names = [f"{slot}_out_{index}" for index in range(self.row.outputs.get(slot, 1))]
        kinds = self.fluid.core.VarDesc.VarType
        for name in names:
            kind = kinds.SELECTED_ROWS if slot in self.row.rows else kinds.LOD_TENSOR
            self.block.create_var(name=name, type=kind)
        return names

    def append(self) -> None:
        slots = (
            {slot: [self.block.var(name) for name in names] for slot, names in given.items()}
            for given in (self.inputs, self.outputs)
        )
        inputs, outputs = slots
        self.block.append_op(type=self.row.op, inputs=inputs, outputs=outputs, attrs=dict(self.row.attrs))

    def run(self, program: Any, extra: Any, fetches: List[str]) -> List[Any]:  # noqa: UP006
        """The values of the variables `fetches`, as [dtype, shape, numbers, sequence lengths]."""
        fluid, scope = self.fluid, self.fluid.Scope()
        block = program.global_block()
        rows = {name: item for name, item in self.values.items() if isinstance(item, Rows)}
        feed = {name: self._fed(item) for name, item in {**self.values, **extra}.items() if name not in rows}
        # what stays in the scope: dense and sparse results are read from it alike
        for name in [*fetches, *rows]:
            block.var(name).persistable = True
        with fluid.scope_guard(scope):
            for name, item in rows.items():
                self._put(scope.var(name), item)
            fluid.Executor(fluid.CPUPlace()).run(program, feed=feed, fetch_list=[])
            return [_value(scope.find_var(name)) for name in fetches]

    def _fed(self, item: Any) -> Any:
        if not isinstance(item, Seq):
            return item
        tensor = self.fluid.LoDTensor()
        tensor.set(item.array, self.fluid.CPUPlace())
        tensor.set_recursive_sequence_lengths(item.lengths)
        return tensor

    def _put(self, var: Any, item: Rows) -> None:
        held = var.get_selected_rows()
        held.set_height(item.height)
        held.set_rows(list(item.ids))
        held.get_tensor().set(item.array, self.fluid.CPUPlace())
        held.sync_index()


def _value(var: Any) -> List[Any]:  # noqa: UP006
    try:
        tensor = var.get_tensor()
        rows: Any = None
    except Exception:
        held = var.get_selected_rows()
        tensor, rows = held.get_tensor(), [list(held.rows()), held.height()]
    array = np.array(tensor)
    lengths = tensor.recursive_sequence_lengths() if rows is None else rows
    return [str(array.dtype), list(array.shape), numbers(array), lengths]


def numbers(array: Any) -> List[Any]:  # noqa: UP006
    """The values with seven digits; nan and infinities by name."""
    flat = np.asarray(array).reshape(-1)
    if flat.size > 40:
        flat = _digest(flat)
    if flat.dtype.kind in "biu":
        return [int(value) for value in flat]
    return [float(f"{value:.7g}") if np.isfinite(value) else str(value) for value in flat.astype("float64")]


def _digest(flat: Any) -> Any:
    """Six sums of the numbers of a large array, weighted with fixed numbers around 1 and -1."""
    rng = np.random.RandomState(3)
    weights = rng.rand(6, flat.size) + 0.5
    weights[1::2] *= rng.choice([-1, 1], weights[1::2].shape)
    return weights.dot(flat.astype("float64"))


def _error(error: Exception, stage: str) -> Facts:
    return {
        "error": [kind.__name__ for kind in type(error).__mro__],
        "stage": stage,
        "text": str(error)[-300:],
    }


def _declared(scene: Scene) -> Any:
    found = {}
    for names in scene.outputs.values():
        for name in names:
            var = scene.block.var(name)
            found[name] = [list(var.shape), int(var.dtype), int(var.lod_level)]
    return found


def observe(fluid: Any, row: Row) -> Facts:
    """Build and run the row."""
    scene = Scene(fluid, row)
    try:
        scene.append()
        facts: Facts = {"declared": {}}
        with_shape = [n for s, names in scene.outputs.items() for n in names if s not in row.ignore]
        for name in with_shape:
            try:
                var = scene.block.var(name)
                facts["declared"][name] = [list(var.shape), int(var.dtype), int(var.lod_level)]
            except Exception:  # SelectedRows and arrays have fewer
                pass
    except Exception as error:
        return _error(error, "build")
    names = [
        name
        for slot, several in scene.outputs.items()
        if slot not in row.ignore and slot != "XShape"
        for name in several
    ]
    try:
        found = scene.run(scene.program.clone(), {}, names)
    except Exception as error:
        return dict(facts, **_error(error, "run"))
    facts["values"] = dict(zip(names, found))
    if row.grad:
        facts.update(_gradients(scene, facts["values"]))
    return facts


def _gradients(scene: Scene, values: Any) -> Facts:
    row, fluid = scene.row, scene.fluid
    wants = row.wants or [next(iter(scene.outputs))]
    targets = [scene.block.var(name) for slot in wants for name in scene.outputs[slot]]
    sources = [scene.block.var(name) for slot in row.grad for name in scene.inputs[slot]]
    extra, weights = {}, []
    for target in targets:
        dtype, shape, _, lengths = values[target.name]
        name = target.name + "_weight"
        rng = np.random.RandomState(7)
        array = np.asarray(rng.rand(*shape) + 0.5).astype(dtype)
        extra[name] = Seq(array, lengths) if lengths and isinstance(lengths[0], list) else array
        weights.append(
            scene.block.create_var(
                name=name,
                shape=target.shape,
                dtype=target.dtype,
                is_data=True,
                stop_gradient=True,
                lod_level=target.lod_level,
            )
        )
    try:
        with fluid.program_guard(scene.program):
            made = fluid.gradients(targets, sources, weights)
    except Exception as error:
        return {"grad_error": _error(error, "build")}
    names = [grad.name for grad in made if grad is not None]
    facts: Facts = {"made": [source.name for source, grad in zip(sources, made) if grad is not None]}
    try:
        found = scene.run(scene.program, extra, names)
    except Exception as error:
        return {"grad_error": _error(error, "run")}
    facts["gradients"] = dict(zip(facts["made"], found))
    return facts


# ---------------------------------------------------------------------- comparing
def _same_numbers(mine: Any, theirs: Any, tolerance: float) -> bool:
    left, right = (np.array([float(value) for value in several]) for several in (mine, theirs))
    if left.shape != right.shape:
        return False
    scale = np.abs(right[np.isfinite(right)]).max() if np.isfinite(right).any() else 0.0
    return bool(np.allclose(left, right, tolerance, tolerance * max(scale, 1e-3), equal_nan=True))


def _value_differences(where: str, mine: Any, theirs: Any, tolerance: float) -> Iterator[str]:
    for what, left, right in zip(("dtype", "shape", "numbers", "lengths"), mine, theirs):
        same = _same_numbers(left, right, tolerance) if what == "numbers" else left == right
        same = same or (what == "lengths" and where.endswith("@GRAD") and not right)  # Paddle forgets many
        if not same:
            yield f"{what} of {where}: {left}, Paddle has {right}"


def differences(row: Row, mine: Facts, theirs: Facts) -> List[str]:  # noqa: UP006
    """Differences between two observations, a line each."""
    if "error" in theirs:  # while it runs, Paddle raises where it has no kernel for a type: we may have one
        missed = theirs["stage"] == "build" and mine.get("stage") != "build"
        return ["Paddle raises at build"] if missed else []
    if "error" in mine:
        return [f"raises at {mine['stage']}: {mine['text']}"]
    lines = []
    for name, right in theirs["declared"].items():
        left = mine["declared"].get(name)
        if left is not None and right[1] == 0:  # where Paddle infers no type, its variables hold truth values
            right = [right[0], left[1], right[2]]
        unknown = 0 in right[0]  # what Paddle says of a shape that it has not looked at
        if left != right and not (unknown or row.undeclared):
            lines.append(f"declared {name}: {left}, Paddle has {right}")
    for name, right in theirs["values"].items():
        lines += _value_differences(name, mine["values"][name], right, row.tolerance)
    return lines + _gradient_differences(row, mine, theirs)


def _gradient_differences(row: Row, mine: Facts, theirs: Facts) -> List[str]:  # noqa: UP006
    if "grad_error" in theirs:
        return [] if "grad_error" in mine else ["Paddle's gradient raises"]
    if "grad_error" in mine:
        return ["gradient raises at {stage}: {text}".format(**mine["grad_error"])]
    if mine.get("made") != theirs.get("made"):
        return [f"gradients of {mine.get('made')}, Paddle has {theirs.get('made')}"]
    lines: List[str] = []  # noqa: UP006
    for name, right in theirs.get("gradients", {}).items():
        lines += _value_differences(name + "@GRAD", mine["gradients"][name], right, row.tolerance)
    return lines
