"""Attributes in the bytes of programs: those that 1.8.5's ops register, and its gradients' kernels read."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import pytest
from layer_programs import read

import fluidlite as fluid
from fluidlite.base import registry
from fluidlite.base.kept_attrs import kept_attrs
from fluidlite.ir import framework_pb

TESTS = pathlib.Path(__file__).parents[1]
# a mark for shape inference, which 1.8.5 registers as if it were an attribute
_MARK = "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@"


def _recorded() -> dict[str, dict[str, list[Any]]]:
    """op type -> attribute -> [type, default], of 1.8.5."""
    with gzip.open(TESTS / "golden" / "op_protos.json.gz", "rt", encoding="utf8") as source:
        return {name: proto["attrs"] for name, proto in json.load(source).items()}


RECORDED = _recorded()
LINES = [
    code
    for name in ("layer_programs_nn.txt", "layer_programs_sequence.txt")
    for code, built in read(str(TESTS / "layers" / name))
    if built and not built[0].startswith("raises")
]


def test_every_registered_attribute_is_known() -> None:
    for name in RECORDED.keys() & set(registry.known_types()):
        known = {**registry.get(name).attr_defs, **kept_attrs(name)}
        for attr, (kind, default) in RECORDED[name].items():
            if attr == _MARK:
                continue
            assert attr in known, f"{name}.{attr}"
            assert known[attr].type.name == kind, f"{name}.{attr}"
            if default not in (None, "required", "blocks") and not isinstance(default, float):
                assert known[attr].default == default, f"{name}.{attr}"


def trained(code: str) -> fluid.Program | None:
    """The program of a layer call with its gradients; None for one without numbers to take a mean of."""
    names: dict[str, Any] = {"fluid": fluid, "layers": fluid.layers}
    exec(code, names)
    program = fluid.default_main_program()
    for var in program.global_block().vars.values():
        var.stop_gradient = var.stop_gradient and not var.is_data
    out = names.get("y")
    while isinstance(out, (list, tuple)):
        out = out[0]
    if not isinstance(out, fluid.framework.Variable):
        return None
    try:
        fluid.backward.append_backward(fluid.layers.mean(out))
    # of whole numbers, or of what no gradient goes through
    except (TypeError, ValueError):
        return None
    return program


@pytest.mark.filterwarnings("ignore")
def test_gradients_carry_what_their_kernels_read() -> None:
    seen = set()
    for code in LINES:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            program = trained(code)
        if program is None:
            continue
        desc = framework_pb.ProgramDesc.FromString(program.desc.serialize_to_string())
        for op in (op for block in desc.blocks for op in block.ops):
            name = op.type.decode()
            # forward ops get their defaults when 1.8.5 makes them
            if not name.endswith("_grad"):
                continue
            wanted = RECORDED.get(name.removesuffix("_grad"), {}).keys() - {_MARK}
            missing = wanted - {attr.name.decode() for attr in op.attrs}
            assert not missing, f"{name} of {code}"
            seen.add(name)
    assert len(seen) > 80 and {"transpose2_grad", "pool2d_grad", "lrn_grad"} <= seen


def test_default_is_not_stored_when_read() -> None:
    x = fluid.data("x", [2, 3])
    fluid.layers.transpose(x, [1, 0])
    program = fluid.default_main_program()
    again = fluid.Program.parse_from_string(program.desc.serialize_to_string())
    (op,) = again.global_block().ops
    assert "use_mkldnn" not in op.attrs and op.attr("use_mkldnn") is False and op.has_attr("use_mkldnn")
    op._set_attr("use_mkldnn", True)
    kept = fluid.Program.parse_from_string(again.desc.serialize_to_string())
    assert kept.global_block().ops[0].attr("use_mkldnn") is True
