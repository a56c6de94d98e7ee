"""Blocks: variables by name and ops in order, edited only through insertion points."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.attr_types import BlockValue
from fluidlite.base.dtypes import VarType, to_vartype
from fluidlite.base.errors import NotFoundError, ProgramEditError, did_you_mean
from fluidlite.ir import views
from fluidlite.ir.operator import Operator
from fluidlite.ir.printing import block_text
from fluidlite.ir.variable import PARAMETER_FIELDS, Parameter, Variable, check_switches, declared_dtype

if TYPE_CHECKING:
    from fluidlite.ir.program import Program

__all__ = ["Block"]


class Block(BlockValue):
    """A list of ops and the variables that they use; other names are looked up in the parent block.

    The only ways to change `ops`: `append_op`, `_prepend_op`, `_insert_op`, `insert_before`, `insert_after`,
    `insert_ops`, `adopt`; `remove_op`, `remove_ops`, `_remove_op`; `set_ops`. A test finds other ones.
    Each bumps the program's version, by which plans are cached.
    """

    def __init__(self, program: Program, idx: int, parent_idx: int = -1) -> None:
        self.program = program
        self.idx = idx
        self.parent_idx = parent_idx
        self.forward_block_idx = -1
        self.vars: dict[str, Variable] = {}
        self.ops: list[Operator] = []
        # fluid's blocks have it; nothing fills it here
        self.removed_vars: dict[str, Variable] = {}

    @property
    def id(self) -> int:
        """The position of this block in its program."""
        return self.idx

    @property
    def desc(self) -> Any:
        """A view with the methods of Paddle's BlockDesc."""
        return views.description(self)

    @property
    def parent(self) -> Block | None:
        """The enclosing block."""
        return None if self.parent_idx < 0 else self.program.blocks[self.parent_idx]

    # ------------------------------------------------------------------ variables
    def var(self, name: str) -> Variable:
        """The variable of this block (not its parents) called `name`; NotFoundError with the nearest name."""
        if not isinstance(name, str):
            raise TypeError(f"var require string as parameter, but get {type(name)} instead.")
        found = self.vars.get(name)
        if found is None:
            raise NotFoundError(f"var {name} not in this block{did_you_mean(name, self.vars)}")
        return found

    def has_var(self, name: str) -> bool:
        """True if this block itself has the variable."""
        return name in self.vars

    def _find_var_recursive(self, name: str) -> Variable | None:
        block: Block | None = self
        while block is not None:
            if name in block.vars:
                return block.vars[name]
            # a block of gradients sees the variables of its forward block before those around it
            if block.forward_block_idx >= 0:
                return next((seen.vars[name] for seen in self._visible_blocks() if name in seen.vars), None)
            block = block.parent
        return None

    def _visible_blocks(self) -> Iterator[Block]:
        """This block, then breadth first those whose gradients they hold and the blocks around them."""
        queue = [self.idx]
        seen = set()
        while queue:
            index = queue.pop(0)
            if index >= 0 and index not in seen:
                seen.add(index)
                block = self.program.blocks[index]
                yield block
                queue += [block.forward_block_idx, block.parent_idx]

    @property
    def backward_block_idx(self) -> int:
        """The block that holds this block's gradient ops; -1 where there is none."""
        return next((block.idx for block in self.program.blocks if block.forward_block_idx == self.idx), -1)

    def _set_forward_block_idx(self, idx: int) -> None:
        self.forward_block_idx = idx
        self.program.bump_version()

    def _var_recursive(self, name: str) -> Variable:
        found = self._find_var_recursive(name)
        if found is None:
            raise NotFoundError(
                f"Var {name} is not found recursively{did_you_mean(name, self.visible_names())}"
            )
        return found

    def visible_names(self) -> Iterator[str]:
        """Names of the variables that ops of this block can use."""
        for block in self._visible_blocks():
            yield from block.vars

    def all_parameters(self) -> list[Parameter]:
        """The parameters of this block, in order of creation."""
        return list(self.iter_parameters())

    def iter_parameters(self) -> Iterator[Parameter]:
        """The parameters of this block, one by one."""
        return (var for var in self.vars.values() if isinstance(var, Parameter))

    def create_var(self, *args: Any, **attrs: Any) -> Variable:
        """A new variable, or the one that has this name already (ValueError when its declaration differs)."""
        # declaring a variable again is no error in fluid, if both say the same
        var = self.vars.get(attrs.get("name") or "")
        if var is None:
            var = self.program.variable_type(self, *args, **attrs)
            self.program.bump_version()
        else:
            _check_same_declaration(var, attrs)
        if attrs.get("initializer") is not None:
            attrs["initializer"](var, self)
        return var

    def create_parameter(self, *args: Any, **attrs: Any) -> Parameter:
        """A parameter in the global block; its `initializer` writes the op that fills it."""
        home = self.program.global_block()
        initializer = attrs.pop("initializer", None)
        # layers that share a parameter declare it one after the other, and have to say the same
        if attrs.get("name") in home.vars:
            _check_same_declaration(
                home.vars[attrs["name"]], {key: attrs.get(key) for key in ("shape", "dtype")}
            )
        # what no block declared yet, no op has written: in a program of many parameters, looking through all
        # initialisers for each of them takes as long as everything else
        is_new = attrs.get("name") not in home.vars
        param = self.program.parameter_type(home, *args, **attrs)
        self.program.bump_version()
        # a shared parameter is filled once, by the first layer that declares it
        if initializer is not None and (is_new or not self._already_initialized(param)):
            param.op = initializer(param, self)
        param.stop_gradient = False
        return param

    def _already_initialized(self, param: Parameter) -> bool:
        """True if an earlier op of this (startup) block fills `param`, as happens with shared parameters."""
        # of a program that is transpiled already: the ranks begin with one value
        passed_on = ("c_broadcast", "c_sync_comm_stream")
        writers = [op for op in self.ops if param.name in op.output_arg_names and op.type not in passed_on]
        if len(writers) > 1:
            raise RuntimeError(
                f"param {param.name} is inited by multiple init ops {[op.type for op in writers]}"
            )
        return len(writers) == 1

    def _rename_var(self, name: str | bytes, new_name: str | bytes) -> Variable:
        name, new_name = (text.decode() if isinstance(text, bytes) else text for text in (name, new_name))
        if name not in self.vars:
            raise ValueError(f"var {name} is not in current block{did_you_mean(name, self.vars)}")
        var = self.vars.pop(name)
        var.name = new_name
        self.vars[new_name] = var
        for op in self.ops:
            op._rename_input(name, new_name)
            op._rename_output(name, new_name)
        return var

    def _remove_var(self, name: str) -> None:
        if name not in self.vars:
            raise NotFoundError(f"there is no variable {name!r} to remove{did_you_mean(name, self.vars)}")
        del self.vars[name]
        self.program.bump_version()

    def _copy_param_info_from(self, other: Block) -> None:
        """Make variables parameters again that are some in `other`, as they are there."""
        if not isinstance(other, Block):
            raise TypeError(f"_copy_param_info_from takes a Block, not {type(other)}")
        for param in other.iter_parameters():
            mine = self.vars.get(param.name)
            if mine is not None:
                # the new object takes the variable's place in `vars`
                fields = {name: getattr(param, name) for name in PARAMETER_FIELDS}
                self.program.parameter_type(
                    self,
                    mine.shape,
                    mine.dtype,
                    type=mine.type,
                    name=mine.name,
                    lod_level=mine.lod_level,
                    stop_gradient=param.stop_gradient,
                    error_clip=param.error_clip,
                    **fields,
                )
        self.program.bump_version()

    def _clone_variable(self, var: Variable, force_persistable: bool = True) -> Variable:
        """Declare in this block what another program's block declares."""
        # these kinds hold no tensor, so there is no shape to copy
        if var.type in (VarType.STEP_SCOPES, VarType.RAW):
            return self.create_var(name=var.name, persistable=var.persistable, type=var.type)
        made = self.create_var(
            name=var.name,
            shape=var.shape,
            dtype=var._dtype,
            type=var.type,
            lod_level=var.lod_level,
            persistable=True if force_persistable else var.persistable,
            is_data=var.is_data,
            need_check_feed=var.need_check_feed,
        )
        made.declared_at = var.declared_at
        return made

    # ------------------------------------------------------------------ ops
    def append_op(
        self,
        type: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        **unused: Any,
    ) -> Operator:
        """Add an op at the end; its outputs' shapes and dtypes are inferred."""
        op = self._insert_op(len(self.ops), type=type, inputs=inputs, outputs=outputs, attrs=attrs)
        if self.program.is_of_2x and not op.has_attr("sub_block"):
            self._stop_behind(op)
        return op

    def _stop_behind(self, op: Operator) -> None:
        """As in 2.x, results that depend on no variable with a gradient have none either."""
        found = map(self._find_var_recursive, op.input_arg_names)
        if all(var is None or var.stop_gradient for var in found):
            for name in op.output_arg_names:
                var = self._find_var_recursive(name)
                if var is not None:
                    var.stop_gradient = True

    def _prepend_op(
        self,
        type: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        **unused: Any,
    ) -> Operator:
        return self._insert_op(0, type=type, inputs=inputs, outputs=outputs, attrs=attrs)

    def _insert_op(
        self,
        index: int,
        type: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        **unused: Any,
    ) -> Operator:
        op = Operator.build(self, type, inputs, outputs, attrs)
        op.infer()
        return self.adopt(index, op)

    def adopt(self, index: int, op: Operator) -> Operator:
        """Insert an op object at `index` as it is: unknown outputs are declared, nothing is inferred."""
        op.block = self
        # `var.op` is the last op that was added, not the last in order: layers append, so it is both
        for name in op.output_arg_names:
            var = self._find_var_recursive(name)
            if var is not None:
                var.op = op
        self.ops.insert(index, op)
        self.program.bump_version()
        return op

    def insert_before(self, anchor: Operator, **op: Any) -> Operator:
        """Insert a new op right in front of `anchor`."""
        return self._insert_op(anchor.idx, **op)

    def insert_after(self, anchor: Operator, **op: Any) -> Operator:
        """Insert a new op right after `anchor`."""
        return self._insert_op(anchor.idx + 1, **op)

    def insert_ops(
        self,
        before: Mapping[Operator, Sequence[Operator]],
        after: Mapping[Operator, Sequence[Operator]],
        last: Sequence[Operator] = (),
    ) -> None:
        """Insert many ops, made for this block by `Operator.build`, around ops of it and at its end.

        Takes time linear in the block's size, where `insert_before` moves all later ops for each new one.
        """
        merged: list[Operator] = []
        for op in self.ops:
            merged += [*before.get(op, ()), op, *after.get(op, ())]
        self.set_ops([*merged, *last])
        for op in self.ops:
            for name in op.output_arg_names:
                if name in self.vars:
                    self.vars[name].op = op

    def remove_op(self, op: Operator, given: Collection[str] = ()) -> None:
        """Take one op out, under the conditions of `remove_ops`."""
        self.remove_ops([op], given)

    def remove_ops(self, ops: Iterable[Operator], given: Collection[str] = ()) -> None:
        """Take ops out; ProgramEditError while a later op still reads what only they compute.

        Persistable variables have their values from outside when no op writes them, and so have those whose
        names are in `given`: they are fed, say.
        """
        gone = set(ops)
        kept = [op for op in self.ops if op not in gone]
        if len(kept) + len(gone) != len(self.ops):
            raise ProgramEditError(f"cannot remove ops from block {self.idx}: some of them are not in it")
        self._check_unread(gone, {*given, *(name for op in kept for name in op.output_arg_names)})
        self.set_ops(kept)

    def _check_unread(self, gone: set[Operator], given: set[str]) -> None:
        """ProgramEditError where an op that stays reads what one of `gone` computed, and nothing gives."""
        lost: dict[str, Operator] = {}
        for op in self.ops:
            if op in gone:
                lost.update((name, op) for name in op.output_arg_names if name not in given)
                continue
            for name in op.input_arg_names:
                var = self._find_var_recursive(name) if name in lost else None
                if var is not None and not var.persistable:
                    raise ProgramEditError(
                        f"cannot remove op {lost[name].type!r}: op {op.type!r} still reads {name!r}\n"
                        f"  {op.call_text()}\n  built at {op.where}"
                    )

    def set_ops(self, ops: Sequence[Operator]) -> None:
        """Have exactly these ops in this order, each the block's own or made for it.

        For edits that decide about all ops at once: nothing checks that later ops still find what they
        read.
        """
        assert all(op.block is self for op in ops), (
            f"block {self.idx} was given ops that belong to other blocks"
        )
        self.ops[:] = ops  # whoever holds the list sees the edit, as with the other methods
        self.program.bump_version()

    def _remove_op(self, index: int, sync: bool = True) -> None:
        del self.ops[index]
        self.program.bump_version()

    def _slice_ops(self, start: int, end: int) -> list[Operator]:
        return self.ops[start:end]

    def _sync_with_cpp(self) -> None:
        """Count a new version, as if the block had been edited; see `Program._sync_with_cpp`."""
        self.program.bump_version()

    # ------------------------------------------------------------------ printing
    def to_string(self, throw_on_error: bool, with_details: bool = False) -> str:
        """This block's text, which `fluidlite.ir.text.parse` reads back as part of a program."""
        check_switches(throw_on_error=throw_on_error, with_details=with_details)
        return repr(self)

    def __repr__(self) -> str:
        return block_text(self)

    __str__ = __repr__


def _check_same_declaration(var: Variable, attrs: Mapping[str, Any]) -> None:
    shape = attrs.get("shape")
    dtype = attrs.get("dtype")
    if shape is not None and tuple(shape) != var.shape:
        raise ValueError(
            f"Variable '{var.name}' has been created before. The previous shape is {var.shape}, "
            f"the new shape is {tuple(shape)}. They are not matched."
        )
    if dtype is not None and var._dtype is not None and declared_dtype(dtype) != var._dtype:
        raise ValueError(
            f"Variable '{var.name}' has been created before. The previous data type is {var._dtype}, "
            f"the new data type is {to_vartype(dtype)}. They are not matched."
        )
    kind = attrs.get("type")
    if kind is not None and kind != var.type:
        raise ValueError(
            f"Variable '{var.name}' has been created before. The previous type is {var.type}, "
            f"the new type is {kind}. They are not matched"
        )
    level = attrs.get("lod_level")
    if level is not None and level != var.lod_level:
        raise ValueError(
            f"Variable '{var.name}' has been created before. The previous lod_level is {var.lod_level}, "
            f"the new lod_level is {level}. They are not matched"
        )
    persistable = attrs.get("persistable")
    if persistable is not None and persistable != var.persistable:
        raise ValueError(
            f"Variable '{var.name}' has been created before. The previous persistable is {var.persistable}, "
            f"the new persistable is {persistable}. They are not matched"
        )
