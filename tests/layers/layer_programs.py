"""Programs of one layer call, as text: what PaddlePaddle 1.8.5 builds for each line of layer_programs_nn.txt.

Under a Python with PaddlePaddle 1.8.5, `python layer_programs.py layer_programs_nn.txt` records the file
anew: lines of code at the margin, what they build (or the error that they raise) indented below.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

TENSOR = 7  # `VarType.LOD_TENSOR`
HERE = os.path.dirname(os.path.abspath(__file__))
# what steers other back ends, or says the same as another attribute
IGNORED = frozenset(
    [
        "op_callstack",
        "op_device",
        "op_role",
        "op_role_var",
        "op_namescope",
        "use_mkldnn",
        "use_cudnn",
        "use_quantizer",
        "mkldnn_data_type",
        "exhaustive_search",
        "workspace_size_MB",
        "Scale_in",
        "Scale_out",
        "Scale_in_eltwise",
        "Scale_weights",
        "Scale_x",
        "Scale_y",
        "force_fp32_output",
        "fuse_relu",
        "fuse_brelu",
        "fuse_brelu_threshold",
        "fuse_activation",
        "fuse_alpha",
        "fuse_beta",
        "fuse_residual_connection",
        "fuse_relu_before_depthwise_conv",
        "fuse_with_relu",
        "x_data_format",
        "y_data_format",
        "scale_x",
        "scale_y",
        "scale_out",
        "grad_inplace",
        "head_number",
        "fused_transpose_Out",
        "fused_reshape_Out",
        "str_value",
        "force_cpu",
        "with_quant_attr",
        "sub_block",
        "skip_eager_deletion_vars",
    ]
)


def load_defaults() -> Any:
    """op type -> attribute -> [type, default]."""
    with gzip.open(os.path.join(os.path.dirname(HERE), "golden", "op_protos.json.gz"), "rt") as source:
        return {name: proto["attrs"] for name, proto in json.load(source).items()}


DEFAULTS = load_defaults()


def build(fluid: Any, code: str) -> list[str]:
    """The ops that `code` appends to an empty program, a line each, or the name of its error."""
    main = fluid.Program()
    try:
        with fluid.unique_name.guard(), fluid.program_guard(main, fluid.Program()):
            exec(code, {"fluid": fluid, "layers": fluid.layers})
    except Exception as error:
        return ["raises " + " ".join(kind.__name__ for kind in type(error).__mro__)]
    return [line(op) for block in main.blocks for op in block.ops]


def line(op: Any) -> str:
    in_order = (
        sorted if op.type in ("while", "recurrent") else list
    )  # PaddlePaddle lists what a loop reads in any order
    inputs = [
        f"{slot}={','.join(in_order(op.input(slot)))}" for slot in sorted(op.input_names) if op.input(slot)
    ]
    outputs = [
        f"{slot}={','.join(name + shape(op.block, name) for name in in_order(op.output(slot)))}"
        for slot in sorted(op.output_names)
        if op.output(slot)
    ]
    attrs = [
        f"{name}={text(op.attr(name))}"
        for name in sorted(op.attr_names)
        if name not in IGNORED and not is_default(op, name)
    ]
    return " ".join([op.type, *inputs, "->", *outputs, *attrs])


def shape(block: Any, name: str) -> str:
    """The shape of a tensor, which may be one of an outer block; "" for what is no tensor."""
    var = block._var_recursive(name)
    return text(list(var.shape)) if int(var.type) == TENSOR else ""


def is_default(op: Any, name: str) -> bool:
    declared = DEFAULTS.get(op.type, {}).get(name)
    return declared is not None and text(declared[1]) == text(op.attr(name))


def text(value: Any) -> str:
    """A value as it stands in the file; single precision is as good as double."""
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(text, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read(path: str) -> Iterator[tuple[str, list[str]]]:
    """(code, lines) from a file of this kind."""
    code = ""
    lines: list[str] = []
    with open(path) as source:
        for row in source.read().splitlines() + ["end"]:
            if row.startswith("  "):
                lines.append(row[2:])
                continue
            if code:
                yield code, lines
            code, lines = row, []


def record(path: str) -> None:
    import paddle.fluid as fluid

    rows = []
    for code, _ in read(path):
        found = build(fluid, code)
        found = [" ".join(found[0].split()[:2])] if found and found[0].startswith("raises") else found
        rows += [code, *("  " + row for row in found)]
    with open(path, "w") as target:
        target.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    record(sys.argv[1])
