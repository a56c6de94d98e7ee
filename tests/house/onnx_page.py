"""Writes docs/ONNX.md: what becomes a file of ONNX, and what a file can hold, by the tables of rules.

python tests/house/onnx_page.py
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterable

from fluidlite.base import registry
from fluidlite.saving.onnx.export import OPSET
from fluidlite.saving.onnx.graph import OLDEST, RULES, rule_of

# its rules enter the table as it is imported
from fluidlite.saving.onnx.loading import load as _load  # noqa: F401
from fluidlite.saving.onnx.loading.graph import READERS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ONNX.md"

_HEAD = f"""\
# Files of ONNX

`fluidlite-run --model saved --to-onnx saved.onnx` writes a saved model as a file of ONNX, and
`fluidlite.saving.onnx.export.onnx_model(program, feeds, fetches)` gives the bytes of one (extra `[onnx]`).

<!-- run: file=save.py -->
```python
import fluidlite as fluid

x = fluid.data("x", [None, 4])
y = fluid.layers.fc(fluid.layers.fc(x, 3, act="relu"), 2, act="softmax")
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
fluid.io.save_inference_model("saved", ["x"], [y], exe)
```

```console
$ python save.py
$ fluidlite-run --model saved --to-onnx saved.onnx --opset 18 --shape x=1,4
$ fluidlite-run --model saved --to-onnx saved.onnx --check >check.txt
```

- `--opset N`: 13 to the newest that the installed `onnx` knows; {OPSET} without it. What an opset cannot say
  is an error that names the least one that can.
- `--shape NAME=1,3,640,640`: the shape of an input. Sizes that are free in the model are free in the
  file without it. Some ops want to know them: a pool whose windows follow from the size of the picture.
- `--check`: onnxruntime runs the file beside our own run, on the values of `--input` or on random ones, and
  the largest difference of each output is printed. The exit code is 1 where it is more than other orders of
  additions make.

The file computes what our run computes. A rule reads or refuses every attribute and every input of its op: an
attribute that it does not read must have the value that the op has without it. All else is one error that
names the op, the attribute or input, and the line.

- ONNX has no sequences of different lengths: an input with a level of detail is one sequence, and an
  input with a row for each sequence has one row. An op that makes a sequence of each row fails in the file
  with more rows than one.
- A program that drops or normalises by its batch is exported from its `clone(for_test=True)`.
- Of tensors without elements onnxruntime has other means, and of boxes without area other neighbours.
- Pairs of QuantizeLinear and DequantizeLinear stand for ops that quantise to 8 bits by a known scale, and go
  back; half-way between two steps theirs may be the other one.

## Read a file

`fluidlite-run --from-onnx FILE` takes a file of ONNX, also one of other frameworks, as a saved model: it is
run, shown, measured and checked like one, and `--convert 2.x --output new/model` writes it as a saved model.

```console
$ fluidlite-run --from-onnx saved.onnx --check --convert 2.x --output again/net >check.txt
$ fluidlite-run --model again --summary >summary.txt
```

In a script, `fluid.io.load_onnx` gives the program, the names that it is fed and the variables to fetch; the
weights go into the global scope, or into the one that is named.

<!-- run: file=read.py -->
```python
import fluidlite as fluid
import numpy as np
from fluidlite.saving.onnx.export import onnx_model

exe = fluid.Executor(fluid.CPUPlace())
saved, feeds, fetches = fluid.io.load_inference_model("saved", exe)
with open("saved.onnx", "wb") as out:
    out.write(onnx_model(saved, feeds, [var.name for var in fetches]))
program, feeds, fetches = fluid.io.load_onnx("saved.onnx")
(y,) = exe.run(program, feed={{feeds[0]: np.ones((2, 4), "float32")}}, fetch_list=fetches)
print(feeds, fetches[0].shape, y.shape)
```

```console
$ python save.py
$ python read.py
['x'] (-1, 2) (2, 2)
```

The program computes what the file does, or there is one error that names the op, the node and the attribute
or input: a rule reads or refuses each of them.

- Opsets {OLDEST} to the newest of the installed `onnx`; `onnx.version_converter` converts older files.
- The ops mean what they mean in 2.x. Inputs and results keep their names, and sizes that are free stay free.
  What nodes compute of shapes is computed as the file is read, where it can be known.
- `fluid.io.trainable(program)` makes parameters of the weights, so that the program can be trained on.
- The file is not trusted: its sizes are held against its bytes, weights in other files are looked for in its
  own folder alone, and its nodes do nothing but compute.
- Refused by name: types that variables do not hold (bfloat16, 8-bit floats, unsigned integers but uint8),
  sequences that branch, weights of recurrent layers that are computed, and whatever has no rule below.

## ONNX ops that are read

| what | ONNX ops |
|---|---|
{{read}}

## Ops that are exported

| what | op types |
|---|---|
"""


def _title(module: str) -> str:
    """The subject of a file of rules, from its first sentence."""
    doc = sys.modules[module].__doc__ or ""
    title = " ".join(doc.partition(".")[0].split()).removeprefix("ONNX for ")
    return title.removeprefix("ONNX ").partition(":")[0] if ".loading." in module else title


def _listed(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in sorted(names))


def page() -> str:
    """The text of docs/ONNX.md."""
    known = set(registry.known_types())
    by_module: dict[str, list[str]] = {}
    for name in RULES.keys() & known:
        # a rule that another function made stands where that function does
        by_module.setdefault(RULES[name].__module__, []).append(name)
    others = [name for name in known if name not in RULES and rule_of(name) is not None]
    rows = [f"| {_title(module)} | {_listed(names)} |" for module, names in sorted(by_module.items())]
    rows.append(
        f"| other functions of one element, by the expression that the op declares | {_listed(others)} |"
    )
    return _HEAD.replace("{read}", "\n".join(_read())) + "\n".join(rows) + "\n"


def _read() -> list[str]:
    """The rows of ONNX ops that are read."""
    by_module: dict[str, list[str]] = {}
    for name, rule in READERS.items():
        by_module.setdefault(rule.__module__, []).append(name)
    return [f"| {_title(module)} | {_listed(names)} |" for module, names in sorted(by_module.items())]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
