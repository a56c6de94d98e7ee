"""Drawings and listings of a program with hostile names: the same structure as with harmless ones."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hostile_text import HOSTILE, described, shuffled
from test_hostile_text import FEED, HARMLESS, Model, spelled

import fluidlite as fluid
from fluidlite import debugger
from fluidlite.executor import timeline
from fluidlite.framework import IrGraph
from fluidlite.ir import framework_pb
from fluidlite.ir.text import parse
from fluidlite.show import FORMATS
from fluidlite.show import json as as_json

_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*"')


def _outside_quotes(data: bytes) -> Any:
    """Lines of a graph without what stands in quotes."""
    text = data.decode()
    assert all(char.isprintable() or char == "\n" for char in text)
    # numbers of nodes go on from drawing to drawing
    return re.sub(r"node_\d+", "node", _IN_QUOTES.sub('""', text)).split("\n")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, [name for name, _ in attrs]))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)


def _tags(data: bytes) -> Any:
    """The elements of a page."""
    tags = _Tags()
    tags.feed(data.decode())
    tags.close()
    return tags.found


def _of_json(data: bytes) -> Any:
    """The program that was read back from JSON in ASCII."""
    return _shape(as_json.parse(data.decode("ascii")))


def _fields(data: bytes) -> Any:
    """The program that was read back from bytes."""
    return _shape(fluid.Program.parse_from_string(data))


def _shape(program: fluid.Program) -> Any:
    return [
        (op.type, [(slot, len(op.input(slot))) for slot in op.inputs])
        for block in program.blocks
        for op in block.ops
    ]


def _read_back(data: bytes) -> Any:
    return _shape(parse(data.decode()))


STRUCTURE: dict[str, Callable[[bytes], Any]] = {
    "text": _read_back,
    "code": lambda data: len(data.decode().splitlines()),
    "json": _of_json,
    "pb": _fields,
    "dot": _outside_quotes,
    "mermaid": _outside_quotes,
    "svg": _tags,
    "html": _tags,
}


def _unnatural(texts: list[str]) -> Model:
    """A model with attributes that are no UTF-8 besides."""
    found = spelled(texts)
    desc = described(found.main)
    kind = framework_pb.ATTR_TYPES["STRING"]
    for op in desc.blocks[0].ops:
        op.attrs.add(name=b"note", type=kind, s=b"a\xed\xb0\x80\xff\r" if texts is not HARMLESS else b"note")
    return found._replace(main=fluid.Program.parse_from_string(desc.SerializeToString()))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_keeps_its_structure(name: str) -> None:
    structure = STRUCTURE[name]
    render = FORMATS[name].render
    hostile = render(_unnatural(shuffled(HOSTILE, 3)).main)
    assert structure(hostile) == structure(render(_unnatural(HARMLESS).main))


def test_drawings_of_fluid(tmp_path: pathlib.Path) -> None:
    drawn = []
    for texts in (HARMLESS, shuffled(HOSTILE, 4)):
        main = spelled(texts).main
        debugger.draw_block_graphviz(main.global_block(), path=str(tmp_path / "block.dot"))
        IrGraph(fluid.core.Graph(main.desc)).draw(str(tmp_path), "graph", set())
        drawn.append([_outside_quotes((tmp_path / name).read_bytes()) for name in ("block.dot", "graph.dot")])
    assert drawn[0] == drawn[1]


def test_a_timeline(tmp_path: pathlib.Path) -> None:
    for texts in (HARMLESS, HOSTILE):
        model = spelled(texts)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(model.startup)
        with timeline.recorded(str(tmp_path / "trace.json")):
            exe.run(model.main, feed={model.fed: FEED}, fetch_list=model.fetched)
        assert json.loads((tmp_path / "trace.json").read_text(encoding="ascii"))["traceEvents"]


def test_an_explanation_is_printable() -> None:
    model = spelled(HOSTILE)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(model.startup)
    text = str(exe.explain(model.main, feed={model.fed: FEED}, fetch_list=model.fetched, full=True))
    assert all(line.isprintable() for line in text.split("\n"))


def test_errors_are_printable() -> None:
    model = spelled(["\x1b[2J", "a\rb", "\u202eabc"])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(model.startup)
    with pytest.raises(Exception) as caught:
        exe.run(model.main, feed={model.fed: np.ones((2, 5), "float32")}, fetch_list=model.fetched)
    assert "\x1b" not in str(caught.value) and "\r" not in str(caught.value)


def test_a_source_that_is_a_device_is_not_read() -> None:
    """A model says from which file an op comes: `/dev/zero` has no end, other files are nobody's business."""
    main = spelled(["/dev/zero", "/dev/stdin", "/etc/passwd"]).main
    for op in main.global_block().ops:
        assert "root:" not in "".join(op.attr("op_callstack"))
    assert b"root:" not in FORMATS["html"].render(main)
