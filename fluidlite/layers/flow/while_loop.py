"""Loops: `While` and `while_loop`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.tensors.variables import assign, copied
from fluidlite.layers.utils import assert_same_structure, copy_mutable_vars, flatten, hold_mutable_vars

__all__ = ["BlockGuard", "While", "WhileGuard", "while_loop"]


class BlockGuard:
    """Inside the `with`, layers append to a new block below the current one."""

    def __init__(self, main_program: Program) -> None:
        if not isinstance(main_program, Program):
            raise TypeError("BlockGuard takes a program")
        self.main_program = main_program

    def __enter__(self) -> Any:
        self.main_program._create_block()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.main_program._rollback()
        return kind is None


def reads_and_writes(block: Block, written: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Names that the ops of `block` read before they are written, and names that they write; each in
    order.
    """
    reads, writes = dict[str, None](), dict.fromkeys(written)
    for op in block.ops:
        reads.update(dict.fromkeys(name for name in op.input_arg_names if name not in writes))
        writes.update(dict.fromkeys(op.output_arg_names))
    return list(reads), list(writes)


def visible(block: Block, names: Iterable[str]) -> list[Variable]:
    """The variables of those names that ops of `block` can use."""
    return [var for var in map(block._find_var_recursive, names) if var is not None]


class WhileGuard(BlockGuard):
    """The `with` in which the body of a While is written."""

    def __init__(self, while_op: While) -> None:
        if not isinstance(while_op, While):
            raise TypeError("WhileGuard takes a while op")
        super().__init__(while_op.helper.main_program)
        self.while_op = while_op

    def __enter__(self) -> None:
        self.while_op.status = While.IN_WHILE_BLOCK
        super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None:
            self.while_op.status = While.AFTER_WHILE_BLOCK
            self.while_op._complete()
        return super().__exit__(kind, error, trace)


class While:
    """A loop that runs the ops of its block for as long as `cond`, a bool of one element, holds.

    The block has to write `cond`; one that never does is an error when the program runs.
    """

    BEFORE_WHILE_BLOCK = 0
    IN_WHILE_BLOCK = 1
    AFTER_WHILE_BLOCK = 2

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:
        self.helper = LayerHelper("while", name=name)
        self.status = While.BEFORE_WHILE_BLOCK
        if not isinstance(cond, Variable):
            raise TypeError("condition should be a variable")
        if cond.dtype != VarType.BOOL:
            raise TypeError("condition should be a boolean variable")
        if math.prod(cond.shape) != 1:
            raise TypeError(f"condition expected shape as [], but given shape as {list(cond.shape)}.")
        self.cond_var = cond
        self.is_test = is_test

    def block(self) -> WhileGuard:
        """The `with` in which the body is written."""
        return WhileGuard(self)

    def _complete(self) -> None:
        body = self.helper.main_program.current_block()
        parent = body.parent
        assert parent is not None
        reads, writes = reads_and_writes(body, [self.cond_var.name])
        scopes = parent.create_var(type=VarType.STEP_SCOPES)
        parent.append_op(
            type="while",
            inputs={"X": [parent._var_recursive(name) for name in reads], "Condition": [self.cond_var]},
            outputs={"Out": visible(parent, writes), "StepScopes": [scopes]},
            attrs={"sub_block": body, "is_test": self.is_test},
        )


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,
    name: str | None = None,
) -> Any:
    """Repeats `loop_vars = body(*loop_vars)` in the run for as long as `cond(*loop_vars)` is true.

    Parameters
    ----------
    cond: a function of the loop's variables that returns a bool Variable of one element. It is called twice,
        while the program is built.
    body: a function of the loop's variables that returns their next values, in the same structure.
    loop_vars: a list or tuple of Variables, or of nested structures of them.
    is_test: do not keep what gradients need.
    name: the prefix of names.

    Returns
    -------
    The last values of `loop_vars`.

    >>> x = fluid.layers.fill_constant([1], "float32", 1.0)
    >>> limit = fluid.layers.fill_constant([1], "float32", 100.0)
    >>> (last,) = fluid.layers.while_loop(lambda x: x < limit, lambda x: [x * 2.0], [x])
    >>> exe.run(fetch_list=[last])[0]
    array([128.], dtype=float32)
    """
    LayerHelper("while_loop", name=name)
    if not callable(cond):
        raise TypeError("cond in while_loop should be callable")
    if not callable(body):
        raise TypeError("body in while_loop should be callable")
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError("loop_vars in while_loop should be a list or tuple")
    if len(loop_vars) == 0:
        raise ValueError("loop_vars in while_loop should not be empty")
    going = cond(*loop_vars)
    _check_condition(going)
    loop = While(going, is_test, name)
    with loop.block():
        _write_body(cond, body, loop_vars, going)
    return loop_vars


def _check_condition(going: Any) -> None:
    if not isinstance(going, Variable):
        raise TypeError("cond in while_loop should return a variable")
    if going.dtype != VarType.BOOL:
        raise TypeError("cond in while_loop should return a boolean variable")
    if math.prod(going.shape) != 1:
        raise TypeError(
            f"the shape of the variable returned by cond should be [],but given shape as {list(going.shape)}."
        )


def _write_body(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Sequence[Any], going: Variable
) -> None:
    # the body may change a list or dict that it is given, and the variables outside must stay those that were
    # passed
    given = copy_mutable_vars(loop_vars) if hold_mutable_vars(loop_vars) else loop_vars
    outputs = body(*given)
    if not isinstance(outputs, (list, tuple)):
        outputs = [outputs]
    try:
        assert_same_structure(outputs, loop_vars, check_types=False)
    except ValueError as error:
        raise ValueError(
            f"body in while_loop should return the same arity (length and structure) as loop_vars: {error}"
        ) from error
    still = cond(*outputs)
    _assign_at_once(flatten(outputs), flatten(loop_vars))
    copied(still, going)


def _assign_at_once(values: Sequence[Any], targets: Sequence[Any]) -> None:
    """Assign each value to its target, where a value may be a target of another: `a, b = b, a`."""
    written = set[str]()
    ready = []
    for value, target in zip(values, targets, strict=True):
        # written over before its turn comes; an op less where it is not, as in fluid
        is_late = isinstance(value, Variable) and value.name in written
        ready.append(copied(value) if is_late else value)
        written.update([target.name] if value is not target else [])
    for value, target in zip(ready, targets, strict=True):
        (copied if isinstance(value, Variable) else assign)(value, target)
