"""A program's main block as a graph to edit: `core.Graph` and `core.Node`.

Ops and values are nodes, and what an op reads and writes are links. A name that several ops write has a node
for each of them. Where an op must wait for another one although it reads nothing of it, a control variable
links them: a name's next writer waits for the last one, and for whoever still reads what that one wrote.

Nodes hold copies of the program's ops and variables, so edits leave the program as it is; `to_program` makes
another one, in which the ops stand in topological order.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import EnforceNotMet
from fluidlite.compat.desc import OpDesc, ProgramDesc, VarDesc
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program, copy_operator, copy_variable
from fluidlite.ir.variable import Parameter, Variable

Target: TypeAlias = "Operator | Variable | None"

__all__ = [
    "GraphNode",
    "NodeKind",
    "ProgramGraph",
    "describe_op",
    "describe_variable",
    "find_by_name",
    "link",
]

CONTROL = "__control_var"


class NodeKind(enum.Enum):
    """The kinds of nodes."""

    Operation = 0
    Variable = 1


class GraphNode:
    """An op, a variable or a control variable, with links to its neighbours; `id` counts up in a graph."""

    Type = NodeKind
    Operation, Variable = NodeKind.Operation, NodeKind.Variable

    def __init__(self, number: int, name: str, kind: NodeKind, target: Target) -> None:
        self.number, self.kind, self.target = number, kind, target
        self.given_name = name
        self.inputs: list[GraphNode] = []
        self.outputs: list[GraphNode] = []

    # Small integers as hashes: sets of nodes are gone through in nearly the order of creation, the same in
    # every process, where Paddle's follow addresses in memory.
    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def id(self) -> int:
        """The number of this node in its graph."""
        return self.number

    def name(self) -> str:
        """The op type, or the variable's name."""
        if isinstance(self.target, Operator):
            return self.target.type
        return self.given_name if self.target is None else self.target.name

    def node_type(self) -> NodeKind:
        """Operation or Variable."""
        return self.kind

    def is_op(self) -> bool:
        """True for an op."""
        return self.kind is NodeKind.Operation

    def is_var(self) -> bool:
        """True for a variable, control variables among them."""
        return self.kind is NodeKind.Variable

    def is_ctrl_var(self) -> bool:
        """True for a variable that only orders ops."""
        return self.is_var() and CONTROL in self.name()

    def op(self) -> OpDesc | None:
        """The op's description; EnforceNotMet for a variable."""
        if not self.is_op():
            raise EnforceNotMet(f"node {self.number} ({self.name()}) is a variable and has no op")
        return OpDesc(self.target) if isinstance(self.target, Operator) else None

    def var(self) -> VarDesc | None:
        """The variable's description, None for a control variable; EnforceNotMet for an op."""
        if not self.is_var():
            raise EnforceNotMet(f"node {self.number} ({self.name()}) is an op and has no variable")
        return VarDesc(self.target) if isinstance(self.target, Variable) else None

    # ------------------------------------------------------------------ links
    def append_input(self, node: GraphNode) -> None:
        """Link from `node` to this one, at this end."""
        self.inputs.append(node)

    def append_output(self, node: GraphNode) -> None:
        """Link from this node to `node`, at this end."""
        self.outputs.append(node)

    def remove_input(self, node: GraphNode | int) -> None:
        """Cut the link from `node`, or the node of that number, at this end."""
        self.inputs = _without(self.inputs, node)

    def remove_output(self, node: GraphNode | int) -> None:
        """Cut the link to `node`, or the node of that number, at this end."""
        self.outputs = _without(self.outputs, node)

    def clear_inputs(self) -> None:
        """Cut all links into this node, at this end."""
        self.inputs = []

    def clear_outputs(self) -> None:
        """Cut all links out of this node, at this end."""
        self.outputs = []


def _without(nodes: Sequence[GraphNode], gone: GraphNode | int) -> list[GraphNode]:
    number = gone if isinstance(gone, int) else gone.number
    return [node for node in nodes if node.number != number]


def link(source: GraphNode, target: GraphNode) -> None:
    """Link two nodes at both ends."""
    source.append_output(target)
    target.append_input(source)


def find_by_name(nodes: Iterable[GraphNode], name: str) -> GraphNode | None:
    """The first node of that name."""
    return next((node for node in nodes if node.name() == name), None)


def plain_variable(var: Variable, block: Block) -> Variable:
    """A copy in `block` that is not a Parameter: Paddle's descriptions do not tell one from a variable."""
    if not isinstance(var, Parameter):
        return copy_variable(var, block)
    return Variable(
        block, var.type, var.name, var.shape, var.dtype, var.lod_level, persistable=var.persistable
    )


class ProgramGraph:
    """The graph of a program's main block; sub-blocks stay with their ops.

    Parameters
    ----------
    source: the program's description, `program.desc`; TypeError for anything else.
    """

    def __init__(self, source: ProgramDesc | None = None) -> None:
        if source is not None and not isinstance(source, ProgramDesc):
            raise TypeError(f"core.Graph takes a program's desc, not {type(source).__name__}")
        self.program = Program() if source is None else source.target.clone()
        self._home = Program().global_block()  # of the nodes' variables, one each
        self._count = 0
        self._nodes: dict[int, GraphNode] = {}
        self._attributes: dict[str, Any] = {}
        self.resolve_hazard(self._read_block(self.program.global_block()))

    def _read_block(self, block: Block) -> dict[str, list[GraphNode]]:
        """Make nodes of a block's ops and variables: the versions of each name, in order."""
        versions: dict[str, list[GraphNode]] = {}
        for op in block.ops:
            node = self._add(op.type, NodeKind.Operation, copy_operator(op, block))
            for slot in sorted(op.inputs):
                for name in op.inputs[slot]:
                    known = versions.setdefault(name, [])
                    if not known:
                        known.append(self._variable(block, name))
                    link(known[-1], node)
            for slot in sorted(op.outputs):
                for name in op.outputs[slot]:
                    version = self._variable(block, name)
                    versions.setdefault(name, []).append(version)
                    link(node, version)
        for name in block.vars:
            if name not in versions:
                self._variable(block, name)
        return versions

    def _add(self, name: str, kind: NodeKind, target: Target) -> GraphNode:
        node = GraphNode(self._count, name, kind, target)
        self._nodes[node.number] = node
        self._count += 1
        return node

    def _variable(self, block: Block, name: str) -> GraphNode:
        """A node with a copy of its own of the variable; a name that no block declares, such as @EMPTY@, has
        none.
        """
        var = block._find_var_recursive(name)
        return self._add(name, NodeKind.Variable, None if var is None else plain_variable(var, self._home))

    # ------------------------------------------------------------------ nodes
    def nodes(self) -> set[GraphNode]:
        """All nodes."""
        return set(self._nodes.values())

    def retrieve_node(self, number: int) -> GraphNode | None:
        """The node of that number, None where there is none."""
        return self._nodes.get(number)

    def create_op_node(self, op_desc: OpDesc) -> GraphNode:
        """A node for a copy of an op, without links."""
        return self._add("", NodeKind.Operation, copy_operator(op_desc.target, self.program.global_block()))

    def create_var_node(self, var_desc: VarDesc) -> GraphNode:
        """A node for a copy of a variable, without links."""
        var = plain_variable(var_desc.target, self._home)
        return self._add(var.name, NodeKind.Variable, var)

    def create_empty_node(self, name: str, kind: NodeKind) -> GraphNode:
        """A node with a name and nothing else."""
        return self._add(name, kind, None)

    def create_control_dep_var(self) -> GraphNode:
        """A control variable, without links."""
        return self._add(f"{CONTROL}@{self._count}", NodeKind.Variable, None)

    def remove_node(self, node: GraphNode) -> GraphNode:
        """Take a node out of the graph, with the links that its neighbours have to it."""
        if self._nodes.pop(node.number, None) is not node:
            raise EnforceNotMet(f"node {node.number} ({node.name()}) is not in this graph")
        for source in node.inputs:
            source.remove_output(node)
        for target in node.outputs:
            target.remove_input(node)
        return node

    def release_nodes(self) -> list[GraphNode]:
        """Give all nodes away: the graph is empty afterwards."""
        released = list(self._nodes.values())
        self._nodes = {}
        return released

    # ------------------------------------------------------------------ order
    def resolve_hazard(self, var_nodes: Mapping[str, Sequence[GraphNode]]) -> None:
        """Have the writer of each version of a variable wait for the last writer and for that one's readers.

        `var_nodes` are the versions of each name, in order.
        """
        for name in sorted(var_nodes):
            versions = var_nodes[name]
            for old, new in zip(versions[-2::-1], versions[:0:-1], strict=True):
                if not new.inputs:
                    raise EnforceNotMet(f"no op writes the later version {new.number} of variable {name!r}")
                writer = new.inputs[0]
                for before in old.inputs[:1]:
                    self._order(before, writer)
                for reader in old.outputs:
                    if not set(reader.outputs) & set(writer.inputs):
                        self._order(reader, writer)

    def _order(self, first: GraphNode, then: GraphNode) -> None:
        if first is then:
            return
        control = self.create_control_dep_var()
        link(first, control)
        link(control, then)

    def upstream(self) -> dict[GraphNode, list[GraphNode]]:
        """Each op with the ops that make what it reads, both by number."""
        ops = (node for node in self._nodes.values() if node.is_op())
        return {
            op: sorted({maker for value in op.inputs for maker in value.inputs}, key=GraphNode.id)
            for op in ops
        }

    def sorted_ops(self) -> list[GraphNode]:
        """The ops in topological order: each right after those that it waits for, by number otherwise.

        EnforceNotMet where ops wait for each other.
        """
        upstream = self.upstream()
        order: list[GraphNode] = []
        state: dict[GraphNode, bool] = {}  # False while an op waits for others, True once it has its place
        for start in upstream:
            stack = [start]
            while stack:
                op = stack[-1]
                if op not in state:
                    state[op] = False
                    stack += [one for one in reversed(upstream[op]) if one not in state]
                    _check_circle(op, upstream, state)
                    continue
                stack.pop()
                if not state[op]:
                    state[op] = True
                    order.append(op)
        return order

    def has_circle(self) -> bool:
        """True if ops wait for each other."""
        try:
            self.sorted_ops()
        except EnforceNotMet:
            return True
        return False

    # ------------------------------------------------------------------ programs
    def origin_program_desc(self) -> ProgramDesc:
        """The program that the graph was made from."""
        return ProgramDesc(self.program)

    def to_program(self) -> Program:
        """A program with this graph's ops in topological order, and its variables; none is a Parameter."""
        program = self.program.clone()
        block = program.global_block()
        block.set_ops([])
        block.vars.clear()
        for node in self._nodes.values():
            if isinstance(node.target, Variable) and node.name() not in block.vars:
                block.vars[node.name()] = plain_variable(node.target, block)
        for node in self.sorted_ops():
            if isinstance(node.target, Operator):
                block.adopt(len(block.ops), copy_operator(node.target, block))
        return program

    def clone(self) -> ProgramGraph:
        """A copy, with the same numbers."""
        copy = ProgramGraph()
        copy.program, copy._count = self.program.clone(), self._count
        block = copy.program.global_block()
        for number, node in self._nodes.items():
            target = node.target
            if isinstance(target, Operator):
                target = copy_operator(target, block)
            elif target is not None:
                target = plain_variable(target, copy._home)
            copy._nodes[number] = GraphNode(number, node.given_name, node.kind, target)
        for number, node in self._nodes.items():
            copy._nodes[number].inputs = [copy._nodes[one.number] for one in node.inputs]
            copy._nodes[number].outputs = [copy._nodes[one.number] for one in node.outputs]
        copy._attributes = dict(self._attributes)
        return copy

    # ------------------------------------------------------------------ attributes
    def get_marked_nodes(self, name: str) -> set[GraphNode]:
        """An attribute that is a set of nodes."""
        return set(self._typed(name, set))

    def has(self, name: str) -> bool:
        """True if the graph has an attribute of that name."""
        return name in self._attributes

    def set_attribute(self, name: str, value: Any) -> None:
        """Set an attribute; EnforceNotMet for a name that has a value already."""
        if name in self._attributes:
            raise EnforceNotMet(
                f"the graph's attribute {name!r} is set already, to {self._attributes[name]!r}"
            )
        self._attributes[name] = value

    set = set_not_owned = set_attribute

    def erase(self, name: str) -> None:
        """Take an attribute away, if it is there."""
        self._attributes.pop(name, None)

    def _typed(self, name: str, kind: type) -> Any:
        if name not in self._attributes:
            raise EnforceNotMet(f"{name} attribute not registered for current graph.")
        value = self._attributes[name]
        if type(value) is not kind:
            raise EnforceNotMet(
                f"Invalid attribute type of {name}, expected: {kind.__name__}, "
                f"received: {type(value).__name__}."
            )
        return value

    def get_bool(self, name: str) -> bool:
        """An attribute that is true or false."""
        return bool(self._typed(name, bool))

    def get_int(self, name: str) -> int:
        """An attribute that is an integer."""
        return int(self._typed(name, int))

    def get_float(self, name: str) -> float:
        """An attribute that is a number."""
        return float(self._typed(name, float))

    get_double = get_float

    def get_string(self, name: str) -> str:
        """An attribute that is a text."""
        return str(self._typed(name, str))


def _check_circle(
    op: GraphNode, upstream: Mapping[GraphNode, Sequence[GraphNode]], state: Mapping[GraphNode, bool]
) -> None:
    """EnforceNotMet if `op` waits for an op that waits for it."""
    for other in upstream[op]:
        if state.get(other) is False:
            raise EnforceNotMet(f"ops depend on each other in a cycle: {op.name()!r} and {other.name()!r}")


def describe_op(
    graph: ProgramGraph,
    op_type: str,
    attrs: Mapping[str, Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> OpDesc:
    """The description of a new op for `graph`, from names by slot."""
    op = Operator(graph.program.global_block(), type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)
    if op.definition is not None:
        op._fill_attrs(op.definition)
    return OpDesc(op)


def describe_variable(
    name: str, kind: VarType, shape: Iterable[int], dtype: VarType, persistable: bool
) -> VarDesc:
    """The description of a new variable."""
    block = Program().global_block()
    return VarDesc(Variable(block, kind, name, shape, dtype, persistable=persistable))
