"""Op types that are left out are refused by name, with the reason."""

import gzip
import json
import pathlib

import pytest
from golden import attrs_2x

import fluidlite as fluid
from fluidlite.base.errors import UnknownOpError
from fluidlite.base.refused_ops import _REASON_OF, why_refused
from fluidlite.base.registry import find
from fluidlite.ir.fused import FUSED_TYPES

PROTOS = pathlib.Path(__file__).parents[1] / "golden" / "op_protos.json.gz"


@pytest.mark.parametrize("op_type", sorted(_REASON_OF))
def test_refused_with_its_reason(op_type):
    assert find(op_type) is None
    for kind in (op_type, f"{op_type}_grad"):
        with pytest.raises(UnknownOpError, match=f'"{kind}" has not been registered. It '):
            fluid.default_main_program().global_block().append_op(type=kind)
    assert why_refused(op_type) == _REASON_OF[op_type]


def test_every_op_of_paddle_exists_or_is_refused():
    with gzip.open(PROTOS, "rt", encoding="utf8") as source:
        types = json.load(source)
    assert [name for name in types if find(name) is None and not why_refused(name)] == []


def test_every_op_of_2x_exists_or_is_written_out_or_is_refused():
    types = json.loads(gzip.decompress(pathlib.Path(attrs_2x.PATH).read_bytes()))
    forward = [name for name in types if "_grad" not in name.removeprefix("grad_")]
    left = [
        name for name in forward if find(name) is None and name not in FUSED_TYPES and not why_refused(name)
    ]
    assert left == []


def test_a_slip_is_no_refusal():
    assert why_refused("matmull") == ""
    with pytest.raises(UnknownOpError, match="did you mean 'matmul'"):
        fluid.default_main_program().global_block().append_op(type="matmull")
