"""`fluid.graphviz`: drawing graphs by hand, as text for Graphviz."""

from __future__ import annotations

import html
import pathlib
import shutil
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.base.plain_text import in_graph

__all__ = ["Edge", "Graph", "GraphPreviewGenerator", "Node", "Rank", "crepr"]


def crepr(v: Any) -> str:
    """A value as Graphviz reads it: text in quotes, markup in `<...>` and numbers as they are."""
    if not isinstance(v, str):
        return str(v)
    return v if v.startswith("<<") and v.endswith(">>") else in_graph(v)


def _attributes(attrs: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={crepr(value)}" for key, value in attrs.items())


class Node:
    """A node; its name is its prefix and a number."""

    counter = 1

    def __init__(self, label: str, prefix: str, description: str = "", **attrs: Any) -> None:
        self.label, self.description, self.attrs = label, description, attrs
        self.name = f"{prefix}_{Node.counter}"
        Node.counter += 1

    def __str__(self) -> str:
        return f"{self.name} [label={crepr(self.label)}{',' if self.attrs else ''}{_attributes(self.attrs)}];"


class Edge:
    """An arrow from one node to another."""

    def __init__(self, source: Node, target: Node, **attrs: Any) -> None:
        self.source, self.target, self.attrs = source, target, attrs

    def __str__(self) -> str:
        return f"{self.source.name} -> {self.target.name} [{_attributes(self.attrs)}]"


class Rank:
    """Nodes that stand on one line; ranks of lower priority come first."""

    def __init__(self, kind: str, name: str, priority: int) -> None:
        assert kind in ("source", "sink", "same", "min", "max"), f"{kind!r} is not a kind of rank"
        self.kind, self.name, self.priority = kind, name, priority
        self.nodes: list[Node] = []

    def __str__(self) -> str:
        return f"{{rank={self.kind};{','.join(node.name for node in self.nodes)}}}" if self.nodes else ""


class Graph:
    """A directed graph."""

    rank_counter = 0

    def __init__(self, title: str, **attrs: Any) -> None:
        self.title, self.attrs = title, attrs
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.rank_groups: dict[str, Rank] = {}

    def code(self) -> str:
        """The graph's text."""
        ranks = sorted(self.rank_groups.values(), key=lambda rank: rank.priority)
        lines = [
            "digraph G {",
            f"title = {crepr(self.title)}",
            *(f"{key}={crepr(value)};" for key, value in self.attrs.items()),
        ]
        return "\n".join(
            [*lines, *filter(None, map(str, ranks)), *map(str, self.nodes), *map(str, self.edges), "}"]
        )

    __str__ = code

    def rank_group(self, kind: str, priority: int) -> str:
        """Make a rank; its name is what `node(rank=...)` takes."""
        name = f"rankgroup-{Graph.rank_counter}"
        Graph.rank_counter += 1
        self.rank_groups[name] = Rank(kind, name, priority)
        return name

    def node(self, label: str, prefix: str, description: str = "", **attrs: Any) -> Node:
        """A new node; `rank` puts it into a rank."""
        rank = attrs.pop("rank", None)
        node = Node(label, prefix, description, **attrs)
        if rank is not None:
            self.rank_groups[rank].nodes.append(node)
        self.nodes.append(node)
        return node

    def edge(self, source: Node, target: Node, **attrs: Any) -> Edge:
        """A new arrow."""
        self.edges.append(Edge(source, target, **attrs))
        return self.edges[-1]

    def compile(self, dot_path: str) -> str:
        """Write the text to `dot_path`, and a PDF beside it where Graphviz is installed; the PDF's path."""
        path = pathlib.Path(dot_path)
        path.write_text(self.code(), encoding="utf8")
        picture = str(path.with_suffix(".pdf"))
        if shutil.which("dot"):
            subprocess.run(["dot", "-Tpdf", dot_path, "-o", picture], check=True)
        return picture

    show = compile


class GraphPreviewGenerator:
    """Draws ops, parameters and values in fluid's colours."""

    def __init__(self, title: str) -> None:
        self.graph = Graph(title, layout="dot", concentrate="true", rankdir="TB")

    def __call__(self, path: str = "temp.dot", show: bool = False) -> None:
        self.graph.compile(path)

    def add_param(self, name: str, data_type: str, highlight: bool = False) -> Node:
        """A parameter."""
        return self.graph.node(
            f"{name}\n{data_type}",
            "param",
            name,
            shape="box",
            style="rounded,filled,bold",
            fontname="Arial",
            color="orange" if highlight else "#148b97",
            fontcolor="#ffffff",
        )

    def add_op(self, opType: str, **kwargs: Any) -> Node:
        """An op."""
        return self.graph.node(
            f"<<B>{html.escape(opType)}</B>>",
            "op",
            opType,
            shape="box",
            style="rounded, filled, bold",
            color="#303A3A",
            fontname="Arial",
            fontcolor="#ffffff",
            width="1.3",
            height="0.84",
        )

    def add_arg(self, name: str, highlight: bool = False) -> Node:
        """A value."""
        return self.graph.node(
            name,
            "arg",
            name,
            shape="box",
            style="rounded,filled,bold",
            fontname="Arial",
            fontcolor="#999999",
            color="orange" if highlight else "#dddddd",
        )

    def add_edge(self, source: Node, target: Node, **kwargs: Any) -> Edge:
        """An arrow; `highlight` colours it."""
        highlight = kwargs.pop("highlight", False)
        return self.graph.edge(source, target, **{"color": "#00000" if not highlight else "orange", **kwargs})


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
