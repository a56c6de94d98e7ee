"""`framework.IrGraph` and its nodes: what passes over programs edit in Python.

An `IrGraph` wraps a `core.Graph`. Its methods keep both ends of a link and the names in the op's slots
in step.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.compat.desc import OpDesc, VarDesc
from fluidlite.compat.graph import (
    GraphNode,
    NodeKind,
    ProgramGraph,
    describe_op,
    describe_variable,
    find_by_name,
    link,
)
from fluidlite.graphviz import Graph as Drawing
from fluidlite.ir.program import Program

__all__ = ["IrGraph", "IrNode", "IrOpNode", "IrVarNode"]


def _bare(node: IrNode | GraphNode) -> GraphNode:
    return node.node if isinstance(node, IrNode) else node


class IrNode:
    """A node of an `IrGraph`; two are equal when they wrap the same node."""

    def __init__(self, node: GraphNode) -> None:
        assert isinstance(node, GraphNode), "node must be the instance of core.Node."
        self.node = node

    def __hash__(self) -> int:
        return hash(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IrNode) and other.node is self.node

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id()}: {self.name()}>"

    def name(self) -> str:
        """The op type, or the variable's name."""
        return self.node.name()

    def node_type(self) -> NodeKind:
        """Operation or Variable."""
        return self.node.node_type()

    def var(self) -> VarDesc | None:
        """The variable's description; EnforceNotMet for an op."""
        return self.node.var()

    def op(self) -> OpDesc | None:
        """The op's description; EnforceNotMet for a variable."""
        return self.node.op()

    def id(self) -> int:
        """The number of the node in its graph."""
        return self.node.id()

    def is_op(self) -> bool:
        """True for an op."""
        return self.node.is_op()

    def is_var(self) -> bool:
        """True for a variable, control variables among them."""
        return self.node.is_var()

    def is_ctrl_var(self) -> bool:
        """True for a variable that only orders ops."""
        return self.node.is_ctrl_var()

    # ------------------------------------------------------------------ links, at this end only
    def clear_inputs(self) -> None:
        """Cut all links into this node."""
        self.node.clear_inputs()

    def remove_input_by_id(self, node_id: int) -> None:
        """Cut the link from the node of that number."""
        self.node.remove_input(node_id)

    def remove_input(self, node: IrNode) -> None:
        """Cut the link from `node`."""
        self.node.remove_input(node.node)

    def append_input(self, node: IrNode) -> None:
        """Link from `node` to this one."""
        self.node.append_input(node.node)

    def clear_outputs(self) -> None:
        """Cut all links out of this node."""
        self.node.clear_outputs()

    def remove_output_by_id(self, node_id: int) -> None:
        """Cut the link to the node of that number."""
        self.node.remove_output(node_id)

    def remove_output(self, node: IrNode) -> None:
        """Cut the link to `node`."""
        self.node.remove_output(node.node)

    def append_output(self, node: IrNode) -> None:
        """Link from this node to `node`."""
        self.node.append_output(node.node)

    @property
    def inputs(self) -> list[Any]:
        """Nodes with a link to this one."""
        return [IrNode(node) for node in self.node.inputs]

    @property
    def outputs(self) -> list[Any]:
        """Nodes that this one has a link to."""
        return [IrNode(node) for node in self.node.outputs]


class IrVarNode(IrNode):
    """A variable."""

    def __init__(self, node: GraphNode) -> None:
        assert isinstance(node, GraphNode) and node.is_var(), (
            "node must be the instance of core.Node and it must be a variable node."
        )
        super().__init__(node)

    def desc(self) -> VarDesc:
        """The variable's description; AssertionError for a control variable, which has none."""
        desc = self.node.var()
        assert desc is not None, f"The node variable description can not be None ({self.name()})."
        return desc

    def set_shape(self, shape: Iterable[int]) -> None:
        """Set the shape."""
        self.desc().set_shape(list(shape))

    def persistable(self) -> bool:
        """True if the value outlives a run."""
        return self.desc().persistable()

    def type(self) -> VarType:
        """The kind of variable."""
        return self.desc().type()

    def dtype(self) -> VarType:
        """The element type."""
        return self.desc().dtype()

    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self.desc().shape())

    @property
    def inputs(self) -> list[Any]:
        """Ops that write it: one, or none."""
        return [IrOpNode(node) for node in self.node.inputs]

    @property
    def outputs(self) -> list[Any]:
        """Ops that read it."""
        return [IrOpNode(node) for node in self.node.outputs]


class IrOpNode(IrNode):
    """An op."""

    def __init__(self, node: GraphNode) -> None:
        assert isinstance(node, GraphNode) and node.is_op(), (
            "node must be the instance of core.Node and it must be a operator node."
        )
        super().__init__(node)

    def desc(self) -> OpDesc:
        """The op's description."""
        found = self.node.op()
        assert found is not None, "The node operator description can not be None."
        return found

    def rename_input(self, old_input_name: str, new_input_name: str) -> None:
        """Read another name in all slots that hold `old_input_name`."""
        self.desc()._rename_input(old_input_name, new_input_name)

    def rename_output(self, old_output_name: str, new_output_name: str) -> None:
        """Write another name in all slots that hold `old_output_name`."""
        self.desc()._rename_output(old_output_name, new_output_name)

    def input(self, name: str) -> list[str]:
        """Names in an input slot."""
        return self.desc().input(name)

    def output(self, name: str) -> list[str]:
        """Names in an output slot."""
        return self.desc().output(name)

    def set_type(self, new_type: str) -> None:
        """Make it an op of another type."""
        self.desc().set_type(new_type)

    def set_attr(self, name: str, val: Any) -> None:
        """Set an attribute; a block is given as a Block or as its description."""
        self._update_desc_attr(name, val)

    def _update_desc_attr(self, name: str, val: Any) -> None:
        self.desc()._set_attr(name, val)

    def input_arg_names(self) -> list[str]:
        """All names read."""
        return self.desc().input_arg_names()

    def output_arg_names(self) -> list[str]:
        """All names written."""
        return self.desc().output_arg_names()

    @property
    def inputs(self) -> list[Any]:
        """Variables that it reads, then control variables."""
        return [IrVarNode(node) for node in self.node.inputs]

    @property
    def outputs(self) -> list[Any]:
        """Variables that it writes, then control variables."""
        return [IrVarNode(node) for node in self.node.outputs]


class IrGraph:
    """A graph over a program's main block, to be edited and turned back into a program.

    Parameters
    ----------
    graph: a `core.Graph`, which the methods edit.
    for_test: the program infers only; passes ask for it by `is_test`.
    """

    def __init__(self, graph: ProgramGraph, for_test: bool = False) -> None:
        assert isinstance(graph, ProgramGraph), "graph must be the instance of core.Graph."
        self.graph = graph
        self._for_test = for_test

    def clone(self) -> IrGraph:
        """A copy of the graph and its nodes."""
        return IrGraph(self.graph.clone(), self._for_test)

    def is_test(self) -> bool:
        """True if the program infers only."""
        return self._for_test

    # ------------------------------------------------------------------ nodes
    def all_nodes(self) -> set[IrNode]:
        """All nodes."""
        return {IrNode(node) for node in self.graph.nodes()}

    def all_var_nodes(self) -> set[IrVarNode]:
        """All variables, control variables among them."""
        return {IrVarNode(node) for node in self.graph.nodes() if node.is_var()}

    def all_persistable_nodes(self) -> set[IrVarNode]:
        """The variables that outlive a run."""
        return {node for node in self.all_var_nodes() if node.var() is not None and node.persistable()}

    def all_op_nodes(self) -> set[IrOpNode]:
        """All ops."""
        return {IrOpNode(node) for node in self.graph.nodes() if node.is_op()}

    def create_persistable_node(
        self, name: str, var_type: VarType, shape: Iterable[int], var_dtype: VarType
    ) -> IrVarNode:
        """A new variable that outlives a run, without links."""
        return self.create_var_node_from_desc(describe_variable(name, var_type, shape, var_dtype, True))

    def create_var_node(
        self, name: str, var_type: VarType, shape: Iterable[int], var_dtype: VarType
    ) -> IrVarNode:
        """A new variable, without links."""
        return self.create_var_node_from_desc(describe_variable(name, var_type, shape, var_dtype, False))

    def create_control_dep_var(self) -> IrVarNode:
        """A new control variable, without links."""
        return IrVarNode(self.graph.create_control_dep_var())

    def create_var_node_from_desc(self, var_desc: VarDesc) -> IrVarNode:
        """A new node for a copy of a described variable, without links."""
        return IrVarNode(self.graph.create_var_node(var_desc))

    def create_op_node(
        self, op_type: str, attrs: Mapping[str, Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> IrOpNode:
        """A new op, without links; `inputs` and `outputs` map slots to nodes or lists of nodes."""
        desc = describe_op(self.graph, op_type, attrs, _slot_names(inputs), _slot_names(outputs))
        return self.create_op_node_from_desc(desc)

    def create_op_node_from_desc(self, op_desc: OpDesc) -> IrOpNode:
        """A new node for a copy of a described op, without links."""
        return IrOpNode(self.graph.create_op_node(op_desc))

    def _in_graph(self, *nodes: IrNode) -> None:
        for node in nodes:
            assert self.graph.retrieve_node(node.id()) is node.node, (
                f"the node {node.name()!r} must be in the graph nodes."
            )

    # ------------------------------------------------------------------ links
    def update_input_link(self, old_input_node: IrNode, new_input_node: IrNode, op_node: IrOpNode) -> None:
        """Have an op read `new_input_node` where it read `old_input_node`."""
        self._in_graph(old_input_node, new_input_node, op_node)
        old_input_node.remove_output(op_node)
        op_node.remove_input(old_input_node)
        link(new_input_node.node, op_node.node)
        op_node.rename_input(old_input_node.name(), new_input_node.name())

    def update_output_link(self, old_output_node: IrNode, new_output_node: IrNode, op_node: IrOpNode) -> None:
        """Have an op write `new_output_node` where it wrote `old_output_node`."""
        self._in_graph(old_output_node, new_output_node, op_node)
        old_output_node.remove_input(op_node)
        op_node.remove_output(old_output_node)
        link(op_node.node, new_output_node.node)
        op_node.rename_output(old_output_node.name(), new_output_node.name())

    def link_to(self, node_in: IrNode, node_out: IrNode) -> None:
        """Link two nodes; the names in an op's slots stay."""
        self._in_graph(node_in, node_out)
        link(node_in.node, node_out.node)

    def safe_remove_nodes(self, remove_nodes: Any) -> None:
        """Remove a node, or several, with all links to them."""
        nodes = remove_nodes if isinstance(remove_nodes, Iterable) else [remove_nodes]
        for node in set(nodes):
            self.graph.remove_node(_bare(node))

    def resolve_hazard(self) -> None:
        """Put the writers and readers of each name in order again, by control variables."""
        versions: dict[str, list[GraphNode]] = {}
        for node in self.topology_sort():
            for name in node.input_arg_names():
                if name not in versions:
                    versions[name] = [self._find_node_by_name(node.inputs, name).node]
            for name in node.output_arg_names():
                versions.setdefault(name, []).append(self._find_node_by_name(node.outputs, name).node)
        self.graph.resolve_hazard(versions)

    # ------------------------------------------------------------------ the whole
    def has_circle(self) -> bool:
        """True if ops wait for each other."""
        return self.graph.has_circle()

    def graph_num(self) -> int:
        """The number of parts without links between them."""
        parts, seen = 0, set[GraphNode]()
        for start in self.graph.nodes():
            parts += start not in seen
            stack = [start]
            while stack:
                node = stack.pop()
                if node not in seen:
                    seen.add(node)
                    stack += [*node.inputs, *node.outputs]
        return parts

    def topology_sort(self) -> list[IrOpNode]:
        """The ops, each behind those that it waits for."""
        return [IrOpNode(node) for node in self.graph.sorted_ops()]

    def build_adjacency_list(self) -> dict[IrNode, set[IrNode]]:
        """Each op with the ops that it waits for."""
        return {
            IrOpNode(op): {IrOpNode(before) for before in found}
            for op, found in self.graph.upstream().items()
        }

    def draw(self, save_path: str, name: str, marked_nodes: Any = None, remove_ctr_var: bool = True) -> None:
        """Write `name`.dot into the folder `save_path`, and a PDF of it where Graphviz is installed.

        Nodes in `marked_nodes` are highlighted; `remove_ctr_var` takes the control variables out of the graph
        first.
        """
        if remove_ctr_var:
            self.safe_remove_nodes({node for node in self.all_var_nodes() if node.is_ctrl_var()})
        marked = {_bare(node) for node in marked_nodes or ()}
        folder = pathlib.Path(save_path)
        folder.mkdir(parents=True, exist_ok=True)
        _drawing(self.graph, marked).compile(str(folder / f"{name}.dot"))

    def to_program(self) -> Program:
        """The program of this graph: ops in topological order, variables without what only Python knew, so
        that none is a Parameter.
        """
        return self.graph.to_program()

    def _find_node_by_name(self, nodes: Iterable[IrNode], node_name: str) -> IrNode:
        """The node of that name; AssertionError where there is none."""
        found = find_by_name([node.node for node in nodes], node_name)
        assert found is not None, f"Cannot find the target node in the giving set ({node_name!r})."
        return IrVarNode(found) if found.is_var() else IrOpNode(found)

    def _update_desc_attr(self, desc: OpDesc, name: str, val: Any) -> None:
        desc._set_attr(name, val)


def _slot_names(slots: Mapping[str, Any]) -> dict[str, list[str]]:
    """Slot -> names, from nodes or lists of nodes."""
    listed = {slot: nodes if isinstance(nodes, (list, tuple)) else [nodes] for slot, nodes in slots.items()}
    return {slot: [node.name() for node in nodes] for slot, nodes in listed.items()}


def _label(name: str) -> str:
    """A name as a label: never as markup, which Graphviz reads in `<<...>>`."""
    return f" {name}" if name.startswith("<") else name


def _drawing(graph: ProgramGraph, marked: set[GraphNode]) -> Drawing:
    """Ops as boxes, variables as ellipses, those that are marked in orange."""
    drawing = Drawing("graph", rankdir="TB")
    drawn = {}
    for node in sorted(graph.nodes(), key=GraphNode.id):
        shape = "box" if node.is_op() else "ellipse"
        fill = {"style": "filled", "fillcolor": "orange"} if node in marked else {}
        drawn[node] = drawing.node(_label(node.name()), "node", shape=shape, **fill)
    for node, source in drawn.items():
        for target in node.outputs:
            drawing.edge(source, drawn[target])
    return drawing
