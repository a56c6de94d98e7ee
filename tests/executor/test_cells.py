"""The mathematics of a recurrence stands in one text: changed there, it is another one on every back end.

Each cell is replaced by one with other arithmetic. NumPy's steps, compiled ones and those of a device must
give the same then, and gradients must be those of the new text.
"""

from __future__ import annotations

import ast
import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.ops.kernels import gated_cells
from fluidlite.ops.kernels.cells import StepCell

layers = fluid.layers
LENGTHS = [3, 6, 1, 5]
SIZE = 5
LSTM = StepCell(
    "x_candidate x_entry x_forget x_output | before=0 of_entry=0 of_forget=0 of_output=0 clip -> "
    "candidate entry forget output cell shown hidden",
    """
    candidate = candidate_activation(x_candidate)
    entry = gate_activation(x_entry + before * of_entry)
    forget = gate_activation(x_forget + before * of_forget)
    cell = bounded(candidate * entry * 0.5 + (forget - entry) * before, clip)
    output = gate_activation(x_output + cell * of_output)
    shown = cell_activation(cell)
    hidden = output * shown - 0.25 * cell
    """,
    gated_cells.LSTM.layout,
)
GRU = StepCell(
    "x_update x_reset x_candidate | before=0 origin_mode -> update reset kept candidate hidden",
    """
    update = gate_activation(x_update)
    reset = gate_activation(x_reset)
    kept = reset * before
    candidate = activation(x_candidate)
    opened = where(origin_mode, before, candidate)
    closed = where(origin_mode, candidate, before)
    hidden = (opened - closed) * (update * update) + closed
    """,
    gated_cells.GRU.layout,
)


@contextlib.contextmanager
def replaced(name: str, cell: StepCell) -> Iterator[None]:
    """Another text in place of a declared one, and no form of either behind it."""
    forms = gated_cells.lstm_form, gated_cells.gru_form
    with mock.patch.object(gated_cells, name, cell):
        for form in forms:
            form.cache_clear()
        yield
    for form in forms:
        form.cache_clear()


def attr(seed: int) -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=seed))


def lstm(x: Any) -> Any:
    hidden, cell = layers.dynamic_lstm(x, 4 * SIZE, param_attr=attr(1), bias_attr=attr(2), dtype=x.dtype)
    return layers.reduce_sum(hidden * hidden) + layers.reduce_sum(cell)


def gru(x: Any) -> Any:
    hidden = layers.dynamic_gru(x, SIZE, param_attr=attr(1), bias_attr=attr(2))
    return layers.reduce_sum(hidden * hidden * hidden)


CELLS = {"lstm": ("LSTM", LSTM, lstm, 4), "gru": ("GRU", GRU, gru, 3)}


class Built:
    """A program of one recurrence: its loss, and the gradients of input and parameters."""

    def __init__(self, layer: Callable[[Any], Any], gates: int, dtype: str) -> None:
        self.x = fluid.data("x", [None, gates * SIZE], dtype, lod_level=1)
        self.x.stop_gradient = False
        self.loss = layer(self.x)
        self.parameters = fluid.default_main_program().all_parameters()
        gradients = fluid.gradients(self.loss, [self.x, *self.parameters])
        self.fetches = [self.loss, *gradients]
        random = np.random.default_rng(0)
        self.rows = random.normal(0, 0.7, (sum(LENGTHS), gates * SIZE)).astype(dtype)

    def run(self, place: Any, naive: bool, rows: Any = None) -> list[Any]:
        """The values of a run with fresh parameters."""
        exe, scope = fluid.Executor(place), fluid.Scope()
        exe.naive = naive
        exe.run(fluid.default_startup_program(), scope=scope)
        fed = self.rows if rows is None else rows
        feed = {"x": fluid.create_lod_tensor(fed, [LENGTHS], fluid.CPUPlace())}
        fetched = exe.run(feed=feed, fetch_list=self.fetches, scope=scope, return_numpy=False)
        return [np.array(one) for one in fetched]


def agree(found: list[Any], wanted: list[Any]) -> None:
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=3e-5, atol=3e-5 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("name", CELLS)
def test_one_text_changes_compiled_steps(name: str, flags: Callable[..., None]) -> None:
    flags(fast_loops="wait")
    constant, cell, layer, gates = CELLS[name]
    built = Built(layer, gates, "float32")
    plain = built.run(fluid.CPUPlace(), True)
    with replaced(constant, cell):
        wanted = built.run(fluid.CPUPlace(), True)
        agree(built.run(fluid.CPUPlace(), False), wanted)
    assert abs(wanted[0] - plain[0]).max() > 1e-2


@pytest.mark.gpu
@pytest.mark.parametrize("name", CELLS)
def test_one_text_changes_steps_of_a_device(name: str) -> None:
    constant, cell, layer, gates = CELLS[name]
    built = Built(layer, gates, "float32")
    with replaced(constant, cell):
        agree(built.run(fluid.CUDAPlace(0), False), built.run(fluid.CPUPlace(), True))


@pytest.mark.parametrize("name", CELLS)
def test_gradients_are_those_of_the_text(name: str) -> None:
    """Beside central differences in some elements of the input, in float64."""
    constant, cell, layer, gates = CELLS[name]
    built = Built(layer, gates, "float64")
    with replaced(constant, cell):
        _, gradient, *_ = built.run(fluid.CPUPlace(), True)
        for row, column in ((0, 0), (4, SIZE), (9, 2 * SIZE + 1), (14, gates * SIZE - 1)):
            losses = []
            for step in (1e-5, -1e-5):
                moved = built.rows.copy()
                moved[row, column] += step
                losses.append(built.run(fluid.CPUPlace(), True, moved)[0])
            difference = (losses[0] - losses[1]).item() / 2e-5
            np.testing.assert_allclose(gradient[row, column], difference, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kind", ["tanh", "relu"])
@pytest.mark.parametrize("unit", [gated_cells.RESET_AFTER, gated_cells.SIMPLE])
def test_a_form_needs_no_value_that_is_lost(unit: StepCell, kind: str) -> None:
    """Gradients read what a run forward keeps: a form that needs more is an error when it is made."""
    form = unit.form(activation=kind, gate_activation="sigmoid", clip=0.5)
    steps = form.back().whole()
    assert not set(unit.once) & {operand for node in steps.steps.nodes for operand in node.operands}


# ---------------------------------------------------------------------- all ops, and no other text
def gated(x: Any, gates: int) -> Any:
    return layers.fc(
        x, gates * SIZE, num_flatten_dims=len(x.shape) - 1, param_attr=attr(3), bias_attr=attr(4)
    )


def lstm_unit_op(x: Any) -> Any:
    block = fluid.default_main_program().global_block()
    hidden, cell = (block.create_var(name=name, dtype="float32") for name in ("hidden", "cell"))
    inputs = {"X": gated(x, 4), "C_prev": gated(x, 1)}
    block.append_op("lstm_unit", inputs=inputs, outputs={"C": cell, "H": hidden}, attrs={"forget_bias": 0.0})
    return hidden


def batched_lstm(x: Any) -> Any:
    steps = layers.reshape(x, [2, -1, SIZE])
    zeros = [layers.fill_constant([1, len(LENGTHS), SIZE], "float32", 0.0) for _ in range(2)]
    return layers.lstm(steps, *zeros, 2, SIZE, 1, default_initializer=attr(5).initializer)[0]


OPS: dict[str, tuple[str, StepCell, Callable[[Any], Any]]] = {
    "lstm": ("LSTM", LSTM, lambda x: lstm(layers.lod_reset(gated(x, 4), target_lod=[0, 3, 8]))),
    "lstmp": (
        "LSTM",
        LSTM,
        lambda x: layers.dynamic_lstmp(
            layers.lod_reset(gated(x, 4), target_lod=[0, 3, 8]), 4 * SIZE, 3, param_attr=attr(6)
        )[0],
    ),
    "cudnn_lstm": ("LSTM", LSTM, batched_lstm),
    "lstm_unit": ("LSTM", LSTM, lstm_unit_op),
    "gru": ("GRU", GRU, lambda x: gru(layers.lod_reset(gated(x, 3), target_lod=[0, 3, 8]))),
    "gru_unit": (
        "GRU",
        GRU,
        lambda x: layers.gru_unit(gated(x, 3), gated(x, 1), 3 * SIZE, param_attr=attr(7))[0],
    ),
}


@pytest.mark.parametrize("op", OPS)
def test_one_text_changes_each_op(op: str) -> None:
    """An op with arithmetic of its own would give what it gave before."""
    name, cell, build = OPS[op]
    out = build(fluid.data("x", [2 * len(LENGTHS), SIZE]))
    assert op in {each.type for each in fluid.default_main_program().global_block().ops}
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.random.default_rng(0).normal(0, 0.7, (2 * len(LENGTHS), SIZE)).astype("float32")}
    plain = exe.run(feed=feed, fetch_list=[out], return_numpy=False)
    with replaced(name, cell):
        changed = exe.run(feed=feed, fetch_list=[out], return_numpy=False)
    assert abs(np.array(changed[0]) - np.array(plain[0])).max() > 1e-3


ROOT = pathlib.Path(fluid.__file__).parents[1]
STEPS = re.compile(r"\.(recurrence|recurrent_steps|gated_cells|cells|cell_lanes|cell_text|gated)$")
"""The modules by which others go through steps."""
ACTIVATIONS = re.compile(r"\b(tanh|tanhf|exp|expf|expm1|sigmoid|relu|maximum|fmax)\(")
# attention has a softmax of its own, behind a relu
OTHERS = {"fluidlite/ops/neural/fused_inference.py": {"exp", "maximum"}}


def activations_of(text: str) -> set[str]:
    """The activations that code calls, or that texts of code in it do."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            code = [each for each in body if not is_text(each)]
            node.body = code or [ast.Pass()]  # type: ignore[attr-defined]
    return set(ACTIVATIONS.findall(ast.unparse(tree)))


def is_text(statement: ast.stmt) -> bool:
    """True for a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def goes_through_steps(text: str) -> bool:
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return any(STEPS.search(f"{node.module}") for node in imported)


def test_no_other_module_spells_gates() -> None:
    """Each gate has an activation, so a cell that is written by hand calls one."""
    found, seen = {}, 0
    for folder in ("fluidlite", "executor"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf8")
            if goes_through_steps(text):
                seen += 1
                name = str(path.relative_to(ROOT))
                found[name] = activations_of(text) - OTHERS.get(name, set())
    for path in (ROOT / "executor" / "cuda").glob("*.cu"):
        text = path.read_text(encoding="utf8")
        if "steps_of(" in text:
            seen += 1
            found[path.name] = set(ACTIVATIONS.findall(text))
    assert seen >= 12
    assert not {name: calls for name, calls in found.items() if calls}


def test_gates_by_hand_are_seen() -> None:
    by_hand = "from fluidlite.ops.kernels.recurrence import planes\nxp.tanh(gates, out=gates)"
    assert goes_through_steps(by_hand) and activations_of(by_hand) == {"tanh"}
    assert activations_of("text = 'const S a = tanh(x);'") == {"tanh"}
    assert not activations_of('def f():\n    """As tanh(x)."""')
