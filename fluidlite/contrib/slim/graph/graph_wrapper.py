"""`fluid.contrib.slim.graph.graph_wrapper`: a program whose inputs and outputs have names."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fluidlite import io
from fluidlite.base.dtypes import VarType
from fluidlite.compiler import BuildStrategy, CompiledProgram
from fluidlite.executor.executor import Executor, scope_guard
from fluidlite.framework import Operator, OpRole, Parameter, Program, Variable, program_guard
from fluidlite.ir.program import copy_operator, copy_variable

__all__ = ["GraphWrapper", "OpWrapper", "VarWrapper"]


class VarWrapper:
    """A variable of a graph; two are equal when they stand for the same one."""

    def __init__(self, var: Variable, graph: GraphWrapper) -> None:
        assert isinstance(var, Variable)
        assert isinstance(graph, GraphWrapper)
        self._var, self._graph = var, graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarWrapper) and other._var.name == self._var.name

    def __hash__(self) -> int:
        return hash(self._var.name)

    def name(self) -> str:
        """The name."""
        return self._var.name

    def shape(self) -> tuple[int, ...]:
        """The dimensions, -1 for the batch."""
        return self._var.shape

    def set_shape(self, shape: Iterable[int]) -> None:
        """Set the dimensions."""
        self._var.shape = tuple(shape)

    def inputs(self) -> list[OpWrapper]:
        """The ops that have the variable among their inputs."""
        return [op for op in self._graph.ops() if self in op.all_inputs()]

    def outputs(self) -> list[OpWrapper]:
        """The ops that have the variable among their outputs."""
        return [op for op in self._graph.ops() if self in op.all_outputs()]


class OpWrapper:
    """An op of a graph; two are equal when they stand at the same place."""

    def __init__(self, op: Operator, graph: GraphWrapper) -> None:
        assert isinstance(op, Operator)
        assert isinstance(graph, GraphWrapper)
        self._op, self._graph = op, graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpWrapper) and other._op is self._op

    def __hash__(self) -> int:
        return hash(id(self._op))

    def _vars(self, names: Iterable[str]) -> list[VarWrapper]:
        return [self._graph.var(name) for name in names]

    def all_inputs(self) -> list[VarWrapper]:
        """All variables read."""
        return self._vars(self._op.input_arg_names)

    def all_outputs(self) -> list[VarWrapper]:
        """All variables written."""
        return self._vars(self._op.output_arg_names)

    def idx(self) -> int:
        """The place among the graph's ops."""
        return self._op.idx

    def type(self) -> str:
        """The op type."""
        return self._op.type

    def is_bwd_op(self) -> bool:
        """True for a gradient op."""
        return self._op.type.endswith("_grad")

    def is_opt_op(self) -> bool:
        """True for an op that updates a parameter."""
        return bool(self._op.role & OpRole.Optimize) and bool(self._op.inputs.get("Param"))

    def inputs(self, name: str) -> list[VarWrapper]:
        """The variables of an input slot."""
        return self._vars(self._op.input(name))

    def outputs(self, name: str) -> list[VarWrapper]:
        """The variables of an output slot."""
        return self._vars(self._op.output(name))

    def set_attr(self, key: str, value: Any) -> None:
        """Set an attribute."""
        self._op._set_attr(key, value)

    def attr(self, name: str) -> Any:
        """The value of an attribute."""
        return self._op.attr(name)


class GraphWrapper:
    """A program, and what its inputs and outputs are called.

    Parameters
    ----------
    program: the program; a new one by default.
    in_nodes, out_nodes: pairs of a name, such as "image" or "loss", and the name of a variable; or a dict.
    """

    def __init__(self, program: Program | None = None, in_nodes: Any = (), out_nodes: Any = ()) -> None:
        self.program = Program() if program is None else program
        self.persistables = {var.name: var for var in self.program.list_vars() if var.persistable}
        self.teacher_persistables: dict[str, Variable] = {}
        self.compiled_graph: CompiledProgram | None = None
        self.in_nodes: OrderedDict[str, str] = OrderedDict(in_nodes)
        self.out_nodes: OrderedDict[str, str] = OrderedDict(out_nodes)

    # ------------------------------------------------------------------ parts
    def all_parameters(self) -> list[VarWrapper]:
        """All parameters."""
        return [VarWrapper(var, self) for var in self.program.all_parameters()]

    def is_parameter(self, var: VarWrapper) -> bool:
        """True for a parameter."""
        return isinstance(var._var, Parameter)

    def is_persistable(self, var: VarWrapper) -> bool:
        """True for a variable that outlives a run."""
        return var._var.persistable

    def ops(self) -> list[OpWrapper]:
        """The ops of the main block."""
        return [OpWrapper(op, self) for op in self.program.global_block().ops]

    def vars(self) -> list[VarWrapper]:
        """All variables."""
        return [VarWrapper(var, self) for var in self.program.list_vars()]

    def var(self, name: str) -> VarWrapper:
        """The variable of that name."""
        return VarWrapper(self.program.global_block().var(name), self)

    def pre_ops(self, op: OpWrapper) -> list[OpWrapper]:
        """The ops that write what `op` reads."""
        read = set(op._op.input_arg_names)
        return [one for one in self.ops() if read & set(one._op.output_arg_names)]

    def next_ops(self, op: OpWrapper) -> list[OpWrapper]:
        """The ops that read what `op` writes."""
        written = set(op._op.output_arg_names)
        return [one for one in self.ops() if written & set(one._op.input_arg_names)]

    def get_param_by_op(self, op: OpWrapper) -> list[VarWrapper]:
        """The parameters that an op reads."""
        return [var for var in op.all_inputs() if self.is_parameter(var)]

    # ------------------------------------------------------------------ whole graphs
    def clone(self, for_test: bool = False) -> GraphWrapper:
        """A copy; `for_test` as of `Program.clone`."""
        return GraphWrapper(self.program.clone(for_test), self.in_nodes, self.out_nodes)

    def merge(self, graph: GraphWrapper) -> None:
        """Add the variables and ops of another graph, a teacher's; variables of one name become one."""
        block, source = self.program.global_block(), graph.program.global_block()
        for var in source.vars.values():
            if var.name not in block.vars:
                block.vars[var.name] = copy_variable(var, block)
            if var.persistable:
                self.teacher_persistables[var.name] = block.vars[var.name]
        for op in source.ops:
            block.adopt(len(block.ops), copy_operator(op, block))

    def compile(self, for_parallel: bool = True, for_test: bool = False, mem_opt: bool = False) -> None:
        """Compile the program; for several devices with `for_parallel`."""
        build = BuildStrategy()
        compiled = CompiledProgram(self.program, build)
        if for_parallel:
            loss = None if for_test else self.out_nodes.get("loss", self.out_nodes.get("cost"))
            compiled = compiled.with_data_parallel(loss_name=loss, build_strategy=build)
        self.compiled_graph = compiled

    def get_optimize_graph(
        self, optimizer: Any, place: Any, scope: Any, no_grad_var_names: Sequence[str] = ()
    ) -> GraphWrapper:
        """A copy that minimises its output "loss" (or "cost"); what the optimizer keeps is initialised in the
        scope.
        """
        graph, startup = self.clone(), Program()
        target = graph.out_nodes.get("loss") or graph.out_nodes["cost"]
        with program_guard(graph.program, startup):
            loss = graph.program.global_block().var(target)
            optimizer.minimize(loss, no_grad_set=set(no_grad_var_names))
        with scope_guard(scope):
            Executor(place).run(startup)
        return graph

    # ------------------------------------------------------------------ sizes
    def numel_params(self) -> int:
        """The number of numbers in all parameters."""
        return sum(math.prod(param.shape()) for param in self.all_parameters())

    def flops(self, only_conv: bool = False) -> float:
        """Multiplications and additions for one sample, of convolutions or of most ops."""
        found = 0.0
        for op in self.ops():
            if op.type() in ("conv2d", "depthwise_conv2d"):
                found += _conv_flops(op)
            elif not only_conv and op.type() in _FLOPS:
                found += _FLOPS[op.type()](op)
        return found

    def update_param_shape(self, scope: Any) -> None:
        """Have parameters, and what optimizers keep for them, the shapes of their values in the scope."""
        for var in self.program.list_vars():
            found = scope.find_var(var.name) if var.persistable and var.type == VarType.LOD_TENSOR else None
            if found is not None and found.get_tensor()._is_initialized():
                var.shape = found.get_tensor().shape()

    def infer_shape(self) -> None:
        """Infer the shapes of what ops compute from those of the parameters again."""
        for op in self.program.global_block().ops:
            if op.type != "conditional_block":
                op.infer()

    def update_groups_of_conv(self) -> None:
        """Have depthwise convolutions as many groups as their weights have channels."""
        for op in self.ops():
            if op.type() in ("depthwise_conv2d", "depthwise_conv2d_grad"):
                op.set_attr("groups", op.inputs("Filter")[0].shape()[0])

    # ------------------------------------------------------------------ files
    def save_model(self, path: str, exe: Executor) -> None:
        """Save the program with its parameters, for inference."""
        targets = [self.var(name)._var for name in self.out_nodes.values()]
        io.save_inference_model(path, list(self.in_nodes.values()), targets, exe, self.program.clone())

    def save_infer_model(self, path: str, exe: Executor, in_out: Any, program_only: bool = False) -> None:
        """Save a model that infers; `in_out` names its inputs and outputs, as the graph calls them."""
        feeds = [self.in_nodes[name] for name in in_out[0]]
        targets = [self.var(self.out_nodes[name])._var for name in in_out[1]]
        io.save_inference_model(
            path,
            feeds,
            targets,
            exe,
            self.program.clone(),
            model_filename="__model__.infer",
            program_only=program_only,
        )

    def save_persistables(self, path: str, exe: Executor) -> None:
        """Save what outlives a run, without the teacher's."""
        kept = [
            var
            for var in self.program.list_vars()
            if var.persistable and var.name not in self.teacher_persistables
        ]
        io.save_vars(exe, path, self.program, vars=kept)

    def load_persistables(self, path: str, exe: Executor) -> None:
        """Load what is in a folder of what outlives a run; values may have other shapes than the parameters,
        as those of a pruned model have.
        """
        program = Program()
        block = program.global_block()
        for var in self.program.list_vars():
            if var.persistable and os.path.exists(os.path.join(path, var.name)):
                block.create_var(name=var.name, type=var.type, dtype=var.dtype, persistable=True)
        io.load_vars(exe, path, program, vars=list(program.list_vars()))


def _per_sample(var: VarWrapper) -> int:
    return math.prod(abs(dim) for dim in var.shape())  # the batch of -1 counts as one


def _conv_flops(op: OpWrapper) -> float:
    weight, out = op.inputs("Filter")[0].shape(), op.outputs("Output")[0].shape()
    taps = weight[1] * weight[2] * weight[3] / op.attr("groups")  # Paddle divides depthwise ones as well
    return 2.0 * out[1] * out[2] * out[3] * taps


def _pool_flops(op: OpWrapper) -> float:
    out = op.outputs("Out")[0].shape()
    return float(out[1] * out[2] * out[3] * math.prod(op.attr("ksize")))


def _product_flops(op: OpWrapper) -> float:
    x, y = op.inputs("X")[0].shape(), op.inputs("Y")[0].shape()
    return 2.0 * abs(x[0]) * x[1] * y[1]


def _element_flops(op: OpWrapper) -> float:
    return float(_per_sample(op.inputs("X")[0]))


_FLOPS: dict[str, Callable[[OpWrapper], float]] = {
    "pool2d": _pool_flops,
    "mul": _product_flops,
    "relu": _element_flops,
    "sigmoid": _element_flops,
    "batch_norm": _element_flops,
}
