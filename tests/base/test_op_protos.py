"""OpProto: the slots of every op of 1.8.5, with their marks."""

import gzip
import json
import pathlib

import pytest

from fluidlite.base import proto_marks
from fluidlite.framework import OpProtoHolder

RECORDED = pathlib.Path(__file__).parents[1] / "golden" / "op_protos.json.gz"


@pytest.fixture(scope="module")
def protos():
    return OpProtoHolder.instance().op_proto_map


@pytest.fixture(scope="module")
def recorded():
    with gzip.open(RECORDED, "rt", encoding="utf8") as source:
        return json.load(source)


def test_slots_have_the_marks_of_paddle(protos, recorded):
    """(name, duplicable, dispensable) of inputs, and intermediate besides of outputs."""
    different = {}
    for name in protos.keys() & recorded.keys():
        inputs = {slot.name: [slot.duplicable, slot.dispensable] for slot in protos[name].inputs}
        outputs = {
            slot.name: [slot.duplicable, slot.dispensable, slot.intermediate] for slot in protos[name].outputs
        }
        for kind, mine in (("inputs", inputs), ("outputs", outputs)):
            for slot, *marks in recorded[name][kind]:
                if mine.get(slot) != marks:
                    different[f"{name}.{slot}"] = (mine.get(slot), marks)
    assert not different


def test_lists_name_slots_that_are_there(protos):
    known = {
        f"{name}.{slot.name}" for name, proto in protos.items() for slot in (*proto.inputs, *proto.outputs)
    }
    for name in proto_marks.__all__:
        marks = getattr(proto_marks, name)
        assert not isinstance(marks, frozenset) or marks <= known
