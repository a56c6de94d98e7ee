"""Functions of the user's that stand in front of rounding, or in its place: clipping that is learnt, say.

A function gets a Variable, appends ops to the program that it finds as the default one, and gives what they
make. That is copied into the graph; in training with its gradient and the updates of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fluidlite import unique_name
from fluidlite.backward import append_backward
from fluidlite.base.records import dataclass
from fluidlite.contrib.slim.quantization.edits import GraphEditor
from fluidlite.executor.executor import scope_guard
from fluidlite.framework import IrOpNode, IrVarNode, Operator, Program, Variable, program_guard
from fluidlite.layers.arithmetic.reduce import mean
from fluidlite.layers.tensors.inputs import data

__all__ = ["Functions", "Preprocessor"]

GRAD = "@GRAD"


@dataclass(frozen=True)
class Functions:
    """The functions of a pass, for weights and for other values, each None where there is none."""

    weight_preprocess: Callable[[Variable], Variable] | None = None
    act_preprocess: Callable[[Variable], Variable] | None = None
    weight_quantize: Callable[[Variable], Variable] | None = None
    act_quantize: Callable[[Variable], Variable] | None = None


@dataclass(frozen=True)
class Built:
    """The work of a function: its program, what it was given and what it gave."""

    program: Program
    given: Variable
    made: Variable
    loss: Variable | None


class Preprocessor:
    """Puts what functions build into a graph.

    Parameters
    ----------
    editor: the graph to edit.
    functions: those of the user.
    optimizer: a function that makes an optimizer for the parameters of functions, None where there are none.
    executor: runs the startup programs of what functions build.
    """

    def __init__(self, editor: GraphEditor, functions: Functions, optimizer: Any, executor: Any) -> None:
        self.editor, self.functions = editor, functions
        self.optimizer, self.executor = optimizer, executor
        self.role_vars: list[str] = []  # the parameter and gradient of the weight that a function is about

    def preprocess(self, node: IrVarNode, op: IrOpNode, is_weight: bool) -> IrVarNode:
        """The value to round in the place of `node`, which `op` reads."""
        found = self.functions.weight_preprocess if is_weight else self.functions.act_preprocess
        return node if found is None else self._insert(found, node, op)

    def quantize(self, node: IrVarNode, op: IrOpNode, is_weight: bool) -> IrVarNode | None:
        """`node` as a function rounds it; None where the pass has to do so."""
        found = self.functions.weight_quantize if is_weight else self.functions.act_quantize
        return None if found is None else self._insert(found, node, op)

    def _insert(self, function: Callable[[Variable], Variable], node: IrVarNode, op: IrOpNode) -> IrVarNode:
        built = self._build(function, node)
        known = {built.given.name: node}
        backward = self.editor.graph.is_test() or self._gradients(built, node, op, known)
        for one in built.program.global_block().ops:
            if not _is_of_loss(one, built) and (backward or not one.role):
                self._copy(one, built, known)
        return known[built.made.name]

    def _build(self, function: Callable[[Variable], Variable], node: IrVarNode) -> Built:
        main, startup, loss = Program(), Program(), None
        with program_guard(main, startup), unique_name.guard(f"{node.name()}_"):
            name = f"{node.name()}_tmp_input"
            given = data(name, node.shape(), append_batch_size=False, dtype=node.dtype())
            given.stop_gradient = False
            made = function(given)
            if not self.editor.graph.is_test():
                loss = mean(made)
                self._minimize(loss, bool(main.all_parameters()))
        if startup.global_block().ops:
            assert self.executor is not None, "a function that makes parameters needs the pass's executor"
            with scope_guard(self.editor.scope):
                self.executor.run(startup)
        return Built(main, given, made, loss)

    def _minimize(self, loss: Variable, trains: bool) -> None:
        if trains and self.optimizer is not None:
            self.optimizer().minimize(loss)
            return
        given = loss.block.program.global_block().ops[0].input_arg_names
        append_backward(loss, parameter_list=[given[0]])

    def _gradients(self, built: Built, node: IrVarNode, op: IrOpNode, known: dict[str, IrVarNode]) -> bool:
        """Have the gradient of `node` go through the function; False where `op` has no gradient op.

        What was that gradient becomes the gradient of what the function makes.
        """
        graph = self.editor.graph
        outer = self.editor.temporary(built.made.name + GRAD, node)
        known[outer.name()] = outer
        name = node.name() + GRAD
        found = [one for one in graph.all_var_nodes() if one.name() == name and one.inputs]
        if found:
            last = max(found, key=lambda one: one.id())
            self.role_vars = _take_role(last.inputs[0], name)
            graph.update_output_link(last, outer, last.inputs[0])
            known[built.given.name + GRAD] = last
            return True
        backward = [one for one in node.outputs if one.name() == f"{op.name()}_grad"]
        for one in backward:  # nobody wanted a gradient of `node` so far, as of data
            slot = next(slot for slot in op.desc().input_names() if node.name() in op.input(slot))
            one.desc().set_output(slot + GRAD, [outer.name()])
            graph.link_to(one, outer)
        return bool(backward)

    def _copy(self, op: Operator, built: Built, known: dict[str, IrVarNode]) -> None:
        graph, block = self.editor.graph, built.program.global_block()
        node = graph.create_op_node_from_desc(op.desc)
        for name in op.input_arg_names:
            if name not in known:
                known[name] = graph.create_var_node_from_desc(block.var(name).desc)
            graph.link_to(known[name], node)
            node.rename_input(name, known[name].name())
        for name in op.output_arg_names:
            outer = known.get(name) if name == built.given.name + GRAD else None
            if outer is not None and self.role_vars:
                node.set_attr("op_role_var", self.role_vars)
            if outer is None:
                outer = known[name] = graph.create_var_node_from_desc(block.var(name).desc)
            graph.link_to(node, outer)
            node.rename_output(name, outer.name())


def _take_role(op: IrOpNode, gradient: str) -> list[str]:
    """The parameter and gradient that an op says it makes, if it is this one; another op will say so."""
    found = list(op.desc().attr("op_role_var")) if op.desc().has_attr("op_role_var") else []
    if gradient not in found:
        return []
    op.set_attr("op_role_var", [])
    return found


def _is_of_loss(op: Operator, built: Built) -> bool:
    """True for the ops of the loss that stands for whatever reads what a function makes."""
    if built.loss is None:
        return False
    names = {built.loss.name, built.loss.name + GRAD}
    return not names.isdisjoint([*op.input_arg_names, *op.output_arg_names])
