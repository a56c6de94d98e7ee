"""Random row kernels: calls of an array module, blocks of rows, compiled loops and a device give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_rows import host_rows

import fluidlite as fluid
from fluidlite.executor.fast.loops.compiler import RunCount, is_available
from fluidlite.executor.fast.loops.rows import CompiledRows
from fluidlite.executor.run.rows import LabelledRows
from fluidlite.ops.kernels.row_calls import over_rows
from fluidlite.ops.kernels.row_kernels import RowForm, RowKernel

SIGNATURE = "x[rc] y[rc] m[r] b[c]=0 label[r]:ignored slope -> out[rc] other[rc] loss[r] tall[c]"
SHAPES = [(1, 1), (5, 3), (40, 17), (3, 600)]
IGNORED = -100
SLOPE = 0.75


class Author:
    """Writes the text of a kernel, line by line."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.along = ["x", "y", "x"]
        self.of_rows = ["m", "slope"]
        self.outputs: set[str] = set()

    def one(self, names: list[str]) -> str:
        return str(self.random.choice(names))

    def elements(self) -> str:
        """A value along the row, whose numbers stay small."""
        first, second = self.one(self.along), self.one([*self.along, *self.of_rows, "b", "0.5"])
        texts = (
            f"{first} * 0.5 + {second}",
            f"{first} - {second}",
            f"maximum({first}, {second}) * slope",
            f"exp(minimum({first}, 1) - abs({second}))",
            f"where({first} > {second}, {first}, -{second})",
            f"{first} / (1 + square({second}))",
        )
        return self.one(list(texts))

    def number(self) -> str:
        """A number of a row."""
        value = self.one(self.along)
        texts = [f"mean({value})", f"max({value})", f"sum({value} * {self.one(self.along)}) * 0.125"]
        texts += ["sqrt(abs(m) + 1)", f"{self.one(self.of_rows)} - slope", "x[label]"]
        texts += [f"{name}[label] - 0.5" for name in sorted(self.outputs)]
        return self.one(texts)

    def line(self) -> None:
        """One more value, sometimes an output's."""
        kind = self.random.integers(5)
        if kind == 0:
            name = f"r{len(self.lines)}"
            self.lines.append(f"{name} = {self.number()}")
            self.of_rows.append(name)
        elif kind == 1:
            name = self.one(["out", "other"])
            self.lines.append(f"{name} = {self.elements()}")
            self.along = [value for value in self.along if value != name] + [name]
            self.outputs.add(name)
        elif kind == 2 and self.outputs:
            name = self.one(sorted(self.outputs))
            self.lines.append(f"{name}[label] = {name}[label] - {self.one(self.of_rows)}")
        else:
            name = f"e{len(self.lines)}"
            self.lines.append(f"{name} = {self.elements()}")
            self.along.append(name)

    def text(self) -> str:
        """The whole text."""
        self.lines.append("tall = total(x * y - m)")
        for _ in range(self.random.integers(3, 10)):
            self.line()
        self.lines += [f"out = {self.elements()}", f"other = {self.elements()}", f"loss = {self.number()}"]
        return "\n".join(self.lines)


def kernel_of(seed: int) -> RowKernel:
    """A kernel that the language takes: some texts read a value of an output that is no longer there."""
    for attempt in range(100):
        text = Author(1000 * seed + attempt).text()
        try:
            kernel = RowKernel(f"random_{seed}", SIGNATURE, text, cleared=["loss", "other"])
            kernel.form(b=None)
            return kernel
        except ValueError:
            continue
    raise AssertionError("no text is a kernel")


def drawn(seed: int, shape: tuple[int, int], form: RowForm) -> dict[str, Any]:
    """Arrays for a form."""
    random = np.random.default_rng(seed)
    rows, columns = shape
    sizes = {"rc": shape, "r": (rows,), "c": (columns,)}
    given: dict[str, Any] = {name: random.normal(0, 1, sizes[form.axes[name]]) for name in form.inputs}
    given["label"] = random.integers(0, columns, rows)
    given["label"][1::3] = IGNORED
    return given


def wanted(form: RowForm, shape: tuple[int, int], given: dict[str, Any]) -> list[Any]:
    """The outputs in double precision; labels as a column."""
    return over_rows(np, form.kernel, shape, **given, slope=SLOPE, ignored=IGNORED)


def check(found: Any, right: list[Any]) -> None:
    for have, want in zip(found, right, strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-5 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("has_bias", [True, False])
def test_on_the_host(seed: int, has_bias: bool) -> None:
    form = kernel_of(seed).form(**({} if has_bias else {"b": None}))
    for shape in SHAPES:
        given = drawn(seed, shape, form)
        right = wanted(form, shape, given)
        arrays = [value.astype("float32") if value.dtype.kind == "f" else value for value in given.values()]
        arguments = (form, shape, np.dtype("float32"), (SLOPE, IGNORED), 2)
        kernels: list[Any] = [host_rows(*arguments)]
        if is_available():
            kernels.append(CompiledRows(np, LabelledRows, arguments, True, RunCount()))
        for kernel in kernels:
            found = [np.full(value.shape, 7, "float32") for value in right]
            for _ in range(2):
                kernel(*arrays, *found)
            check(found, right)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(12))
def test_on_a_device(seed: int) -> None:
    import cupy

    from fluidlite.executor.cuda.rows import DeviceRowKernel

    form = kernel_of(seed).form()
    for shape in SHAPES[1:]:
        given = drawn(seed, shape, form)
        right = wanted(form, shape, given)
        arrays = [
            cupy.asarray(value.astype("float32") if value.dtype.kind == "f" else value)
            for value in given.values()
        ]
        found = [cupy.asarray(np.full(value.shape, 7, "float32")) for value in right]
        DeviceRowKernel(cupy, form, shape, np.dtype("float32"), (SLOPE, IGNORED))(*arrays, *found)
        check([value.get() for value in found], right)


# what a text gives to the outputs -> the complaint
MISTAKES = {
    "out = x + z": "'z' has no value",
    "out = x\nout += x": r"not a step over rows: out \+= x",
    "a = x * 2\nout = x * a[label]": "an element at a label of what is neither an array nor an output",
    "out = x\ntall = total(x - mean(x))": "a total needs a reduction first",
    "out = x * 2\nb = out\nout = x * 3\nout = out + b + mean(b)": "'out' is read after it has another",
    "out = mean(x)": r"'out' has the axes \[rc\], its value others",
    "out = x\nlater = x": "'loss' gets no value",
    "loss = m + 1\nout = x * loss": "'loss' is cleared, and another output is made of it",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_show_when_a_kernel_is_declared(text: str) -> None:
    outputs = {"out": "rc", "tall": "c", "loss": "r"}
    named = [
        f"{name}[{axes}]" for name, axes in outputs.items() if f"{name} = " in text or name in MISTAKES[text]
    ]
    with pytest.raises(ValueError, match=MISTAKES[text]):
        RowKernel("wrong", f"x[rc] m[r] label[r]:ignored -> {' '.join(named)}", text, cleared=["loss"])


@pytest.mark.parametrize("loops", ["off", "wait"])
@pytest.mark.parametrize("label", [-100, 0, 2])
def test_labels_that_are_one_constant(label: int, loops: str) -> None:
    fluid.set_flags({"FLAGS_fast_loops": loops})
    x = fluid.data("x", [4, 3])
    x.stop_gradient = False
    loss = fluid.layers.softmax_with_cross_entropy(x, fluid.layers.fill_constant([4, 1], "int64", label))
    gradients = fluid.gradients(loss, x)
    value = np.random.RandomState(0).rand(4, 3).astype("float32")
    found = []
    for naive in (False, True):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        found.append([exe.run(feed={"x": value}, fetch_list=[loss, *gradients]) for _ in range(3)][-1])
    for ours, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)
        assert label >= 0 or not ours.any()
