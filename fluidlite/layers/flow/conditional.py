"""Branches: `cond`, `case`, `switch_case`, `Switch`, `IfElse`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from fluidlite import unique_name
from fluidlite.backward.rules import GradientContext
from fluidlite.base.dtypes import VarType
from fluidlite.base.registry import grad_name
from fluidlite.data_feeder import check_type, check_variable_and_dtype, convert_dtype
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.compare import equal, logical_and, logical_not
from fluidlite.layers.flow.array import merge_lod_tensor
from fluidlite.layers.flow.while_loop import BlockGuard, reads_and_writes, visible
from fluidlite.layers.tensors.constants import fill_constant
from fluidlite.layers.tensors.variables import cast, copied
from fluidlite.layers.utils import assert_same_structure, map_structure

__all__ = [
    "ConditionalBlock",
    "ConditionalBlockGuard",
    "IfElse",
    "Switch",
    "case",
    "cond",
    "copy_var_to_parent_block",
    "select_input",
    "select_output",
    "switch_case",
]

Branch = Callable[[], Any]


def select_output(input: Variable, outputs: Sequence[Variable], mask: Variable) -> Sequence[Variable]:
    """Write `input` to the one of `outputs` that `mask` (int32, one element) numbers."""
    check_type(input, "input", Variable, "select_output")
    check_variable_and_dtype(mask, "mask", ["int32"], "select_output")
    check_type(outputs, "outputs", (list, tuple), "select_output")
    LayerHelper("select_output").append_op(
        type="select_output", inputs={"X": input, "Mask": mask}, outputs={"Out": outputs}
    )
    return outputs


def select_input(inputs: Sequence[Variable], mask: Variable) -> Variable:
    """The one of `inputs` that `mask` (int32, one element) numbers; it looks like the first."""
    helper = LayerHelper("select_input")
    check_type(inputs, "inputs", (list, tuple), "select_input")
    check_variable_and_dtype(mask, "mask", ["int32"], "select_input")
    out = helper.create_variable(dtype=inputs[0].dtype, shape=inputs[0].shape, type=inputs[0].type)
    helper.append_op(type="select_input", inputs={"X": inputs, "Mask": mask}, outputs={"Out": out})
    return out


# ---------------------------------------------------------------------- the block of a branch
class ConditionalBlockGuard(BlockGuard):
    """The `with` in which the ops of a branch are written."""

    def __init__(self, block: ConditionalBlock) -> None:
        check_type(block, "block", ConditionalBlock, "ConditionalBlockGuard")
        super().__init__(block.helper.main_program)
        self.block = block

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None:
            self.block.complete()
        return super().__exit__(kind, error, trace)


class ConditionalBlock:
    """A block that runs if its inputs say so: a scalar condition that is true, else inputs that all have
    elements.
    """

    def __init__(
        self, inputs: Sequence[Variable], is_scalar_condition: bool = False, name: str | None = None
    ) -> None:
        for var in inputs:
            check_type(var, "input", Variable, "ConditionalBlock")
        self.inputs = inputs
        self.is_scalar_condition = is_scalar_condition
        self.helper = LayerHelper("conditional_block", name=name)

    def block(self) -> ConditionalBlockGuard:
        """The `with` in which the ops are written."""
        return ConditionalBlockGuard(self)

    def complete(self) -> None:
        """Append the op that runs the block, and after it its gradient if the block's own ops include an
        optimizer.
        """
        inside = self.helper.main_program.current_block()
        parent = inside.parent
        assert parent is not None
        reads, writes = reads_and_writes(inside)
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        op = parent.append_op(
            type="conditional_block",
            inputs={"Cond": self.inputs, "Input": [parent._var_recursive(name) for name in reads]},
            outputs={"Out": visible(parent, writes), "Scope": [scopes]},
            attrs={"sub_block": inside, "is_scalar_condition": self.is_scalar_condition},
        )
        if inside.backward_block_idx != -1:
            _append_gradient(op, parent, inside.program.block(inside.backward_block_idx))


def _append_gradient(op: Operator, parent: Block, gradients: Block) -> None:
    """The gradient of a branch that was differentiated while it was written: `append_backward` ran inside
    of it.
    """
    names = [var.name for var in visible(parent, reads_and_writes(gradients)[0])]
    gradient = GradientContext(op, set(), gradients).ops[0]
    gradient.set_input("Input", names)
    gradient.set_output("Input@GRAD", [grad_name(name) for name in names])
    parent.adopt(len(parent.ops), gradient)
    for name in names:
        if gradients._find_var_recursive(grad_name(name)) is None:
            var = parent._var_recursive(name)
            gradients.create_var(name=grad_name(name), shape=var.shape, dtype=var._dtype)


# ---------------------------------------------------------------------- cond, case, switch_case
def copy_var_to_parent_block(var: Variable | None, layer_helper: LayerHelper) -> Variable | None:
    """A variable of the enclosing block that gets the value of `var` when the current block runs."""
    if var is None:
        return None
    parent = layer_helper.main_program.current_block().parent
    assert parent is not None, (
        "Got wrong parent block index when assigning var to parent scope in control_flow"
    )
    copy = parent.create_var(dtype=var.dtype, shape=var.shape, type=var.type)
    copied(var, copy)
    return copy


def cond(
    pred: Variable, true_fn: Branch | None = None, false_fn: Branch | None = None, name: str | None = None
) -> Any:
    """The result of one of two functions, chosen in the run.

    Both functions are called once, while the program is built, to append their ops. A run executes the ops of
    one of them.

    Parameters
    ----------
    pred: a bool Variable of one element.
    true_fn: a function without arguments, for True; it returns Variables, nested structures of them, or None.
    false_fn: the same for False; it returns the same structure.
    name: the prefix of names.

    Returns
    -------
    The structure of Variables that both functions return.

    >>> x = fluid.layers.assign(np.array([-3], "float32"))
    >>> size = fluid.layers.cond(x > 0.0, lambda: x, lambda: x * -1.0)
    >>> exe.run(fetch_list=[size])[0]
    array([3.], dtype=float32)
    """
    check_variable_and_dtype(pred, "pred", ["bool"], "fluid.layers.cond")
    check_type(name, "name", (str, type(None)), "fluid.layers.cond")
    helper = LayerHelper("cond", name=name)
    true_output = _branch(helper, "true_fn", true_fn, lambda: pred)
    false_output = _branch(helper, "false_fn", false_fn, lambda: logical_not(pred))
    if true_output is None and false_output is None:
        return None
    _check_outputs(true_output, false_output)
    mask = cast(pred, dtype="int32")
    return map_structure(lambda false, true: select_input([false, true], mask), false_output, true_output)


def _branch(
    helper: LayerHelper, argument: str, function: Branch | None, condition: Callable[[], Variable]
) -> Any:
    """The result of `function`, in variables of the current block, written where `condition` holds."""
    if function is None:
        return None
    if not callable(function):
        raise TypeError(f"The {argument} in cond must be callable, but received {type(function).__name__}")
    with ConditionalBlock([condition()], is_scalar_condition=True).block():
        output = function()
        return (
            None
            if output is None
            else map_structure(lambda var: copy_var_to_parent_block(var, helper), output)
        )


def _check_outputs(true_output: Any, false_output: Any) -> None:
    start = "Incompatible return values of true_fn and false_fn in cond: "
    if true_output is None:
        raise ValueError(f"{start}true_fn returns None while false_fn returns non-None")
    if false_output is None:
        raise ValueError(f"{start}true_fn returns non-None while false_fn returns None")
    try:
        assert_same_structure(true_output, false_output, check_types=False)
    except ValueError as error:
        raise ValueError(f"{start}{error}") from error


def _wrong(what: str, argument: str, op: str, wanted: Any, found: Any) -> TypeError:
    return TypeError(f"{what} of '{argument}' in {op} must be {wanted}, but received: {found}.")


def _nested(pairs: Sequence[tuple[Variable, Branch]], default: Branch) -> Any:
    """The branch of the first condition that holds; `pairs` has the condition that is tested first at its
    end.
    """
    function = default
    for pred, true_fn in pairs:
        function = functools.partial(cond, pred=pred, true_fn=true_fn, false_fn=function)
    return function()


def case(
    pred_fn_pairs: Sequence[tuple[Variable, Branch]], default: Branch | None = None, name: str | None = None
) -> Any:
    """The result of the function whose condition is the first to hold; without `default` the last function is
    the default.
    """
    LayerHelper("case", name=name)
    check_type(pred_fn_pairs, "pred_fn_pairs", (list, tuple), "case")
    for pair in pred_fn_pairs:
        if not isinstance(pair, tuple):
            raise _wrong("The elements' type", "pred_fn_pairs", "case", tuple, type(pair))
        if len(pair) != 2:
            raise _wrong("The tuple's size", "pred_fn_pairs", "case", "2", f"{len(pair)}-tuple")
        if not isinstance(pair[0], Variable):
            raise _wrong("The pred's type", "pred_fn_pairs", "case", "boolean Variable", type(pair[0]))
        if not callable(pair[1]):
            raise TypeError(f"The fn for {pair[0].name} of pred_fn_pairs in Op(case) must be callable.")
    if default is None:
        pred_fn_pairs, default = pred_fn_pairs[:-1], pred_fn_pairs[-1][1]
    elif not callable(default):
        raise TypeError("The default in Op(case) must be callable.")
    return _nested(list(reversed(pred_fn_pairs)), default)


def switch_case(
    branch_index: Variable, branch_fns: Any, default: Branch | None = None, name: str | None = None
) -> Any:
    """The result of the function numbered by `branch_index`, an integer of one element.

    `branch_fns` is a dict number -> function, a list of such pairs, or a list of functions; without `default`
    the one of the largest number is the default.
    """
    LayerHelper("switch_case", name=name)
    check_variable_and_dtype(branch_index, "branch_index", ["uint8", "int32", "int64"], "switch_case")
    if convert_dtype(branch_index.dtype) != "int64":
        branch_index = cast(branch_index, "int64")
    pairs = _numbered(branch_fns)
    if default is None:
        ordered = sorted(pairs, key=lambda pair: pair[0])
        pairs, default = ordered[:-1], ordered[-1][1]
    elif not callable(default):
        raise TypeError("The default in Op(case) must be callable.")
    conditions = [
        equal(branch_index, fill_constant(shape=[1], dtype="int64", value=index)) for index, _ in pairs
    ]
    return _nested(
        [(condition, function) for condition, (_, function) in zip(conditions, pairs, strict=True)], default
    )


def _numbered(branch_fns: Any) -> list[tuple[int, Branch]]:
    """The functions of `switch_case` with their numbers; TypeError or ValueError where something else was
    given.
    """
    check_type(branch_fns, "branch_fns", (list, tuple, dict), "switch_case")
    pairs = list(branch_fns.items() if isinstance(branch_fns, dict) else branch_fns)
    if all(callable(item) for item in pairs):
        pairs = list(enumerate(pairs))
    seen: set[int] = set()
    for pair in pairs:
        if not isinstance(pair, tuple):
            raise _wrong("The elements' type", "branch_fns", "switch_case", tuple, type(pair))
        if len(pair) != 2:
            raise _wrong("The tuple's size", "branch_fns", "switch_case", "2", f"{len(pair)}-tuple")
        key, function = pair
        if not isinstance(key, int):
            raise _wrong("The key's type", "branch_fns", "switch_case", int, type(key))
        if key in seen:
            raise ValueError(f"The key in 'branch_fns' must be unique, but '{key}' appears more than once.")
        seen.add(key)
        if not callable(function):
            raise _wrong(
                f"The type of function for key {key}", "branch_fns", "switch_case", "callable", type(function)
            )
    return pairs


# ---------------------------------------------------------------------- Switch
class Switch:
    """Blocks of ops, of which a run executes the first one whose condition holds.

    The blocks assign to variables that were made before. For a result, use `case` or `cond`.

    >>> step = fluid.data("step", [1])
    >>> rate = fluid.layers.create_global_var([1], 0.0, "float32", name="rate")
    >>> with fluid.layers.Switch() as switch:
    ...     with switch.case(step < 10.0):
    ...         _ = fluid.layers.assign(np.array([0.1], "float32"), rate)
    ...     with switch.default():
    ...         _ = fluid.layers.assign(np.array([0.01], "float32"), rate)
    >>> exe.run(feed={"step": np.array([12], "float32")}, fetch_list=[rate])[0]
    array([0.01], dtype=float32)
    """

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("switch", name=name)
        self.inside_scope = False
        self.pre_not_conditions: list[Variable] = []

    def case(self, condition: Variable) -> ConditionalBlockGuard:
        """The `with` for the ops that run where `condition` is the first that holds."""
        if not self.inside_scope:
            raise ValueError("case should be called inside with")
        check_variable_and_dtype(
            condition, "condition", ["bool"], "the member function case of fluid.layers.Switch"
        )
        if not self.pre_not_conditions:
            block = ConditionalBlock([condition], is_scalar_condition=True)
            self.pre_not_conditions.append(logical_not(x=condition))
            return ConditionalBlockGuard(block)
        before = self.pre_not_conditions[-1]
        self.pre_not_conditions.append(logical_and(x=before, y=logical_not(x=condition)))
        return ConditionalBlockGuard(
            ConditionalBlock([logical_and(x=before, y=condition)], is_scalar_condition=True)
        )

    def default(self) -> ConditionalBlockGuard:
        """The `with` for the ops that run where no condition holds."""
        if not self.pre_not_conditions:
            raise ValueError("there should be at least one condition")
        return ConditionalBlockGuard(
            ConditionalBlock([self.pre_not_conditions[-1]], is_scalar_condition=True)
        )

    def __enter__(self) -> Switch:
        self.inside_scope = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.inside_scope = False
        return kind is None


# ---------------------------------------------------------------------- IfElse
class IfElseBlockGuard:
    """The `with` of one side of an IfElse."""

    def __init__(self, is_true: bool, ifelse: IfElse) -> None:
        if not isinstance(ifelse, IfElse):
            raise TypeError("ifelse must be an instance of IfElse class")
        if ifelse.status != IfElse.OUT_IF_ELSE_BLOCKS:
            raise ValueError("You cannot invoke IfElse.block() inside a block")
        self.is_true = is_true
        self.ie = ifelse
        self.cond_block = (
            ifelse.conditional_true_block if is_true else ifelse.conditional_false_block
        ).block()

    def __enter__(self) -> None:
        self.ie.status = IfElse.IN_IF_ELSE_TRUE_BLOCKS if self.is_true else IfElse.IN_IF_ELSE_FALSE_BLOCKS
        self.cond_block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self.cond_block.__exit__(kind, error, trace):
            return False
        if not self.ie.output_table[self.is_true]:
            raise ValueError("Must set output inside block")
        self.ie.status = IfElse.OUT_IF_ELSE_BLOCKS
        return True


class IfElse:
    """Sends the rows of its inputs where `cond` (bool, one column) holds through one block, the others
    through another.
    """

    OUT_IF_ELSE_BLOCKS = 0
    IN_IF_ELSE_TRUE_BLOCKS = 1
    IN_IF_ELSE_FALSE_BLOCKS = 2

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        check_type(cond, "cond", Variable, "fluid.layers.IfElse")
        check_type(name, "name", (str, type(None)), "fluid.layers.IfElse")
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = cond
        self.input_table: dict[int, tuple[Variable, Variable]] = {}
        self.status = IfElse.OUT_IF_ELSE_BLOCKS
        self.conditional_true_block = ConditionalBlock(inputs=[self.cond])
        self.conditional_false_block = ConditionalBlock(inputs=[self.cond])
        # results of the block for false, and of the one for true
        self.output_table: tuple[list[Variable], list[Variable]] = ([], [])

    def input(self, x: Variable) -> Variable:
        """The rows of `x` that belong to the block that is being written."""
        if self.status == IfElse.OUT_IF_ELSE_BLOCKS:
            raise ValueError("input must in true/false blocks")
        if id(x) not in self.input_table:
            self.input_table[id(x)] = self._split(x)
        return self.input_table[id(x)][self.status != IfElse.IN_IF_ELSE_TRUE_BLOCKS]

    def _split(self, x: Variable) -> tuple[Variable, Variable]:
        parent = self._parent_block()
        out_true, out_false = (
            parent.create_var(name=unique_name.generate("ifelse_input" + self.helper.name), dtype=x.dtype)
            for _ in range(2)
        )
        parent.append_op(
            type="split_lod_tensor",
            inputs={"X": x, "Mask": self.cond},
            outputs={"OutTrue": out_true, "OutFalse": out_false},
            attrs={"level": 0},
        )
        return out_true, out_false

    def _parent_block(self) -> Block:
        parent = self.helper.main_program.current_block().parent
        assert parent is not None
        return parent

    def true_block(self) -> IfElseBlockGuard:
        """The `with` for the rows where the condition holds."""
        return IfElseBlockGuard(True, self)

    def false_block(self) -> IfElseBlockGuard:
        """The `with` for the other rows."""
        return IfElseBlockGuard(False, self)

    def output(self, *outs: Variable) -> None:
        """Name the results of the block that is being written; both blocks name the same number of them."""
        if self.status == self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("output can only be invoked in the sub-block")
        table = self.output_table[self.status == self.IN_IF_ELSE_TRUE_BLOCKS]
        for out in outs:
            check_type(out, "each output", Variable, "fluid.layers.IfElse.output")
            outside = self._parent_block().create_var(
                name=unique_name.generate(self.helper.name + "_output"), dtype=out.dtype
            )
            table.append(outside)
            copied(out, outside)

    def __call__(self) -> list[Variable]:
        if self.status != self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("IfElse::__call__ must be out of sub-block")
        false, true = self.output_table
        if not false and not true:
            raise ValueError("Must invoke true_block/false_block before __call__")
        if not false or not true:
            return false or true
        if len(false) != len(true):
            raise ValueError("The output side must be same")
        return [
            merge_lod_tensor(in_true=true_var, in_false=false_var, mask=self.cond, x=self.cond, level=0)
            for false_var, true_var in zip(false, true, strict=True)
        ]
