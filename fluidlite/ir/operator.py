"""Operators: one step of a block, by op type, slots of variable names, and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fluidlite.base import registry
from fluidlite.base.attr_limits import broken_limit
from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import (
    ArgumentError,
    EnforceNotMet,
    NotFoundError,
    ShapeError,
    SlotError,
    did_you_mean,
)
from fluidlite.base.kept_attrs import kept_attrs
from fluidlite.base.registry import OF_2X_ATTR, ZERO_DIM_ATTR, AttrType, Op, Spec
from fluidlite.ir import views
from fluidlite.ir.attributes import (
    CALLSTACK_ATTR,
    COMMON_TYPES,
    DEVICE_ATTR,
    NAMESCOPE_ATTR,
    RING_RANKS_ATTR,
    ROLE_ATTR,
    ROLE_VAR_ATTR,
    ROLES,
    OpRole,
    as_32_bits,
    plain_value,
    typed_value,
)
from fluidlite.ir.printing import operator_text
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.ir.where import Where, user_location

if TYPE_CHECKING:
    from fluidlite.ir.block import Block

__all__ = [
    "CALLSTACK_ATTR",
    "COMMON_TYPES",
    "DEVICE_ATTR",
    "NAMESCOPE_ATTR",
    "OpRole",
    "Operator",
    "ROLE_ATTR",
    "ROLE_VAR_ATTR",
    "Where",
    "user_location",
]


def _names(value: Any) -> list[str]:
    """Variables, names, or lists of them, as names."""
    if value is None:
        return []
    if isinstance(value, (list, tuple, set)):
        return [_name(item) for item in value]
    return [_name(value)]


# attributes that no op declares: they tell ops of 2.x from those of 1.8, updates by the second; the third
# says who forms a ring
_MARKS = (ZERO_DIM_ATTR, "multi_precision", RING_RANKS_ATTR)


def _name(item: Any) -> str:
    if isinstance(item, Variable):
        return item.name
    if isinstance(item, bytes):
        return item.decode()
    if isinstance(item, str):
        return item
    name = getattr(item, "name", None)
    if isinstance(name, str):
        return name
    raise ArgumentError(f"an op's slot takes Variables or names, not {item!r} of type {type(item).__name__}")


def _slots(given: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Slot -> names in the order that Paddle keeps slots in, which is the alphabet's."""
    for slot, value in (given or {}).items():
        # what 1.8.5 takes is a list; a layer that was given a tuple for one variable fails here
        if isinstance(value, tuple):
            raise ArgumentError(f"slot {slot} takes a Variable, a name or a list of them, not {value!r}")
    return {slot: _names(value) for slot, value in sorted((given or {}).items()) if value is not None}


_SEQUENCES = frozenset((list, tuple))
_OPTIMIZE = int(OpRole.Optimize)
_PLAIN = frozenset((bool, int, float, str, list, tuple))


class Operator:
    """One op of a block. `inputs` and `outputs` map slots to lists of variable names; `attrs` holds plain
    values.

    Made by `Block.append_op` and its like, which check the slots, fill in defaults and infer the outputs'
    shapes.
    """

    OP_WITHOUT_KERNEL_SET = frozenset(
        (
            "c_comm_init",
            "c_gen_nccl_id",
            "c_sync_calc_stream",
            "c_sync_comm_stream",
            "checkpoint_notify",
            "conditional_block",
            "feed",
            "fetch",
            "fl_listen_and_serv",
            "gen_nccl_id",
            "go",
            "listen_and_serv",
            "ncclInit",
            "recurrent",
            "recv",
            "rnn_memory_helper_grad",
            "select",
            "send",
            "while",
        )
    )

    def __init__(
        self,
        block: Block,
        desc: Any = None,
        type: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        if type is None:
            raise ValueError("`type` to initialized an Operator can not be None.")
        # Paddle's way: a checked op, which the description then shows
        if desc is not None:
            self.__dict__.update(Operator.build(block, type, inputs, outputs, attrs).__dict__)
            self.infer()
            desc.become(self)
            return
        self.block = block
        self.type = type
        self.where = user_location()
        self.attr_types: dict[str, AttrType] = {}
        self.inputs = _slots(inputs)
        self.outputs = _slots(outputs)
        self.attrs: dict[str, Any] = {
            name: plain_value(value) for name, value in (attrs or {}).items() if value is not None
        }
        self.definition: Op | None = registry.find(type)

    @classmethod
    def build(
        cls,
        block: Block,
        type: str | None,
        inputs: Mapping[str, Any] | None,
        outputs: Mapping[str, Any] | None,
        attrs: Mapping[str, Any] | None,
    ) -> Operator:
        """A checked op of a registered type, with defaults and the program's current role filled in."""
        op = cls(block, type=type, inputs=inputs, outputs=outputs, attrs=attrs)
        definition = registry.get(op.type)
        given = op.inputs, op.outputs
        # as in Paddle, slots that the type does not have are dropped
        op.inputs = {slot: names for slot, names in op.inputs.items() if slot in definition.inputs}
        op.outputs = {slot: names for slot, names in op.outputs.items() if slot in definition.outputs}
        # and attributes: an activation gets its layer's `use_cudnn`, whether it has that or not
        known = {*COMMON_TYPES, *definition.attr_defs, *kept_attrs(op.type), *_MARKS}
        # 2.x has attributes that are not declared here, such as momentum's decay
        if not block.program.is_of_2x:
            op.attrs = {name: value for name, value in op.attrs.items() if name in known}
        op._check_slots(definition)
        op._doubt_slots(definition, *given)
        op._fill_attrs(definition)
        return op

    def _doubt_slots(
        self, definition: Op, inputs: Mapping[str, list[str]], outputs: Mapping[str, list[str]]
    ) -> None:
        """Warn of variables in slots that the type does not have, where it has one of nearly that name."""
        for kind, given, known in (
            ("input", inputs, definition.inputs),
            ("output", outputs, definition.outputs),
        ):
            for slot, names in given.items():
                if not names or slot in known or self.block.program.is_of_2x:
                    continue
                near = did_you_mean(slot, known)
                if near:
                    warn_user(f"op {self.type!r} has no {kind} slot {slot!r} for {', '.join(names)}{near}")

    def _check_slots(self, definition: Op) -> None:
        for kind, given, slots in (
            ("input", self.inputs, definition.inputs),
            ("output", self.outputs, definition.outputs),
        ):
            for name, slot in slots.items():
                found = given.get(name)
                # what is sent or received may be no variable at all; other ops derive shapes from theirs
                if not (found or slot.optional or (found == [] and definition.communicates)):
                    raise SlotError(
                        f'Incorrect setting for {kind}(s) of operator "{self.type}". Need: [{name}] Given: '
                        f"{sorted(given)}\n  built at {self.where}"
                    )
                if found and len(found) > 1 and not slot.many:
                    raise SlotError(
                        f"{kind.capitalize()} {name} expects only one {kind}, but {len(found)} are given, "
                        f"in operator {self.type!r}\n  built at {self.where}"
                    )

    def _fill_attrs(self, definition: Op) -> None:
        """Give missing attributes their defaults, and those that are there their types."""
        for name, attr in definition.attr_defs.items():
            if name not in self.attrs and not attr.later:
                if attr.required:
                    raise SlotError(
                        f'operator "{self.type}" needs the attribute {name!r}\n  built at {self.where}'
                    )
                # a list of its own, or all ops of the type would share the default's
                self.attrs[name] = list(attr.default) if isinstance(attr.default, list) else attr.default
        if OF_2X_ATTR in definition.attr_defs and self.block.program.is_of_2x:
            self.attrs[OF_2X_ATTR] = True
        self.block.program.stamp(self)
        for name, value in self.attrs.items():
            try:
                self.attrs[name] = typed_value(value, self._type_for(definition, name, value))
            except TypeError as error:
                raise SlotError(
                    f'operator "{self.type}": attribute {name!r}: {error}\n  built at {self.where}'
                ) from None
        is_checked = definition.root is definition and not self.block.program.is_of_2x
        broken = broken_limit(definition.attr_defs, self.attrs) if is_checked else None
        if broken is not None:
            raise SlotError(f'operator "{self.type}": {broken}\n  built at {self.where}')
        # 1.8.5 refuses such an op, too: a transpiler would not know where it belongs
        if self.attrs[ROLE_ATTR] not in ROLES:
            raise SlotError(
                f'operator "{self.type}": there is no role {self.attrs[ROLE_ATTR]}\n  built at {self.where}'
            )

    def _type_for(self, definition: Op, name: str, value: Any) -> AttrType:
        """The type of an attribute, which ops of 2.x may have in another one than fluid's."""
        attr = definition.attr_defs.get(name)
        if attr is not None and attr.other is not None and registry.infer_attr_type(value) == attr.other:
            self.attr_types[name] = attr.other
        return self.attr_type(name)

    def infer(self) -> None:
        """Set the outputs' shapes, dtypes and levels of detail from the inputs'."""
        definition = self.definition
        # without a rule of its own a gradient looks like the variable that it is the gradient of
        if definition is None or (definition.shape_rule is None and not self.type.endswith("_grad")):
            return
        inputs = {slot: [self._spec(name) for name in names] for slot, names in self.inputs.items()}
        self._check_declared(definition, inputs)
        try:
            specs = definition.infer(inputs, self.attrs)
            reason = "" if self.block.program.is_of_2x else definition.refusal(inputs, self.attrs)
            if reason:
                raise ShapeError(f"op {self.type!r}: {reason}")
        except EnforceNotMet as error:
            raise type(error)(f"{error}\n  {self.call_text()}\n  built at {self.where}") from None
        except (IndexError, ZeroDivisionError) as error:
            # of a dimension that is not there, or of an axis modulo a rank of 0
            raise ShapeError(
                f"op {self.type!r}: an input has too few dimensions, or an attribute too few numbers "
                f"({error})\n  {self.call_text()}\n  built at {self.where}"
            ) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise ShapeError(
                f"op {self.type!r}: {error} ({type(error).__name__})\n  {self.call_text()}\n  built at "
                f"{self.where}"
            ) from error
        for slot, names in self.outputs.items():
            for name, spec in zip(names, specs.get(slot, ()), strict=False):
                var = self.block._find_var_recursive(name)
                if var is not None and spec is not None:
                    # in place a level that is not handed on stays what it was, as in 1.8.5
                    stays = spec.lod_level == 0 and name in self.input_arg_names
                    var.set_spec(spec._replace(lod_level=None) if stays else spec)
        self._share_lod(definition, specs)

    def _check_declared(self, definition: Op, inputs: Mapping[str, list[Spec | None]]) -> None:
        """NotFoundError for an input that no block declares; 1.8.5 takes such an optional one for absent."""
        for slot, specs in inputs.items():
            if None not in specs or slot not in definition.inputs or definition.inputs[slot].optional:
                continue
            name = self.inputs[slot][specs.index(None)]
            if name != registry.EMPTY_VAR:
                raise NotFoundError(
                    f"op {self.type!r} reads {name!r}, which no block around it declares"
                    f"{did_you_mean(name, self.block.visible_names())}\n  built at {self.where}"
                )

    def _share_lod(self, definition: Op, specs: Mapping[str, list[Spec]]) -> None:
        slot = next(iter(definition.outputs), None)
        source = self.inputs.get(self.lod_slot)
        # the first output alone shares the level of detail of an input
        if slot is None or not source or not self.outputs.get(slot) or not specs.get(slot):
            return
        out = self.block._find_var_recursive(self.outputs[slot][0])
        var = self.block._find_var_recursive(source[0])
        if out is not None and var is not None and specs[slot][0].lod_level is None:
            out._lod_level = var.lod_level

    @property
    def communicates(self) -> CommKind | None:
        """The kind of exchange with other processes; None for an op without one."""
        return None if self.definition is None else self.definition.communicates

    @property
    def is_boundary(self) -> bool:
        """True if the op hands values into or out of the program: of saved models, feed and fetch."""
        return self.definition is not None and self.definition.boundary

    @property
    def waits(self) -> bool:
        """True if the op orders what others do, and computes nothing."""
        return self.definition is not None and self.definition.waits

    def reads(self, slot: str) -> bool:
        """True if the op reads the elements of an input slot, not only their number or levels."""
        return self.definition is None or self.definition.reads(slot)

    @property
    def lod_slot(self) -> str:
        """The input slot whose level of detail the first output shares, or nothing."""
        return "" if self.definition is None else self.definition.lod_slot(self.block.program.is_of_2x)

    def _spec(self, name: str) -> Spec | None:
        var = self.block._find_var_recursive(name)
        return None if var is None else var.spec

    # ------------------------------------------------------------------ Paddle's reading interface
    @property
    def idx(self) -> int:
        """This op's position in its block; ValueError for one that was removed."""
        # searched by identity each time: a position that was stored would be wrong after the next edit
        for index, op in enumerate(self.block.ops):
            if op is self:
                return index
        raise ValueError(f"Can't find op {self.type!r} itself in its block.")

    @property
    def desc(self) -> Any:
        """A view with the methods of Paddle's OpDesc."""
        return views.description(self)

    def input(self, name: str) -> list[str]:
        """Names in the input slot `name`; SlotError for a slot that the op neither has nor could have."""
        return self._slot(
            "input", name, self.inputs, None if self.definition is None else self.definition.inputs
        )

    def output(self, name: str) -> list[str]:
        """Names in the output slot `name`; SlotError for a slot that the op neither has nor could have."""
        return self._slot(
            "output", name, self.outputs, None if self.definition is None else self.definition.outputs
        )

    def _slot(
        self, kind: str, name: str, given: Mapping[str, list[str]], known: Mapping[str, Any] | None
    ) -> list[str]:
        if name not in given and name not in (known or ()):
            raise SlotError(
                f"{kind.capitalize()} {name} cannot be found in Op "
                f"{self.type}{did_you_mean(name, [*given, *(known or ())])}"
            )
        return list(given.get(name, ()))

    @property
    def input_names(self) -> list[str]:
        """The input slots; of a forward op, as in 1.8.5, those without a variable as well."""
        if self.definition is None or not self.inputs or self.type.endswith("_grad"):
            return list(self.inputs)
        declared = [slot for slot in self.definition.inputs if slot not in self.definition.later]
        return sorted({*declared, *self.inputs})

    @property
    def output_names(self) -> list[str]:
        """The output slots."""
        return list(self.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        """All variables read, slot after slot."""
        return [name for names in self.inputs.values() for name in names]

    @property
    def output_arg_names(self) -> list[str]:
        """All variables written, slot after slot."""
        return [name for names in self.outputs.values() for name in names]

    @property
    def attr_names(self) -> list[str]:
        """Names of all attributes, the op's defaults included."""
        # attributes that Paddle's op has and this one does not use are shown with their defaults all the same
        others = (CALLSTACK_ATTR, *kept_attrs(self.type))
        return [*self.attrs, *(name for name in others if name not in self.attrs and self.has_attr(name))]

    def has_attr(self, name: str) -> bool:
        """True if the op carries the attribute `name`."""
        return (
            name in self.attrs
            or (name == CALLSTACK_ATTR and self.where is not None)
            or name in kept_attrs(self.type)
        )

    def attr(self, name: str) -> Any:
        """The value of an attribute; a sub-block comes as a Block, and 0.1 as the 32-bit number that is
        next to it.
        """
        if name in self.attrs:
            return as_32_bits(self.attrs[name], self.attr_type(name))
        if name == CALLSTACK_ATTR:
            return self.where.callstack() if self.where else []
        if name in kept_attrs(self.type):
            return kept_attrs(self.type)[name].default
        raise SlotError(f"operator {self.type!r} has no attribute {name!r}{did_you_mean(name, self.attrs)}")

    def value_for_kernels(self, name: str) -> Any:
        """The value of an attribute that the op declares, as `attr` gives it, or its default."""
        declared = None if self.definition is None else self.definition.attr_defs.get(name)
        if name in self.attrs or declared is None:
            return self.attr(name)
        return None if declared.default is None else as_32_bits(declared.default, declared.type)

    def attr_type(self, name: str) -> AttrType:
        """The type of an attribute."""
        declared = self._declared_type(name)
        if declared is not None:
            return declared
        return registry.infer_attr_type(self.attrs[name] if name in self.attrs else self.attr(name))

    def _declared_type(self, name: str) -> AttrType | None:
        """The type that the attribute has by a file, or by the op's declaration; None where the value
        decides.
        """
        if name in self.attr_types:
            return self.attr_types[name]
        if name in COMMON_TYPES:
            return COMMON_TYPES[name]
        if self.definition is not None and name in self.definition.attr_defs:
            return self.definition.attr_defs[name].type
        kept = kept_attrs(self.type).get(name)
        return None if kept is None else kept.type

    def all_attrs(self) -> dict[str, Any]:
        """All attributes, name -> value."""
        return {name: self.attr(name) for name in self.attr_names}

    def _set_attr(self, name: str, value: Any) -> None:
        value = plain_value(value)
        # LONGS stays: a list of small numbers would turn into INTS
        if self.attr_types.get(name) != AttrType.LONGS:
            self.attr_types.pop(name, None)
        declared = self._declared_type(name)
        try:
            self.attrs[name] = typed_value(
                value, registry.infer_attr_type(value) if declared is None else declared
            )
        except TypeError:
            # as in Paddle, the type then is the value's
            self.attrs[name] = value
            self.attr_types[name] = registry.infer_attr_type(value)
        self.block.program.bump_version()

    _update_desc_attr = _set_attr
    _update_desc_plain_attr = _set_attr

    def _remove_attr(self, name: str) -> None:
        self.attrs.pop(name, None)
        self.block.program.bump_version()

    def _block_attr(self, name: str) -> Block:
        block: Block = self.attr(name)
        return block

    def _block_attr_id(self, name: str) -> int:
        return int(self.attr(name).idx)

    def _blocks_attr(self, name: str) -> list[Block]:
        return list(self.attr(name))

    def _blocks_attr_ids(self, name: str) -> list[int]:
        return [int(block.idx) for block in self.attr(name)]

    def _has_kernel(self, op_type: str) -> bool:
        return op_type not in self.OP_WITHOUT_KERNEL_SET

    def _is_optimize_op(self) -> bool:
        # asked for each step of a plan: to make a role of the number takes ten times as long
        return bool(int(self.attrs.get(ROLE_ATTR, 0)) & _OPTIMIZE)

    def sub_blocks(self) -> list[Block]:
        """Blocks that this op runs."""
        found: list[Block] = []
        for name, value in self.attrs.items():
            first = value[0] if type(value) in _SEQUENCES and value else value
            # most attributes: finding their type takes longer
            if type(first) in _PLAIN:
                continue
            if self.attr_type(name) == AttrType.BLOCK:
                found.append(value)
            elif self.attr_type(name) == AttrType.BLOCKS:
                found.extend(value)
        return found

    # ------------------------------------------------------------------ editing
    def set_input(self, slot: str, names: list[str]) -> None:
        """Replace the names in an input slot."""
        self.inputs[slot] = list(names)
        self.block.program.bump_version()

    def set_output(self, slot: str, names: list[str]) -> None:
        """Replace the names in an output slot."""
        self.outputs[slot] = list(names)
        self.block.program.bump_version()

    def _rename_input(self, old: str, new: str) -> None:
        self.inputs = {
            slot: [new if name == old else name for name in names] for slot, names in self.inputs.items()
        }
        self.block.program.bump_version()

    def _rename_output(self, old: str, new: str) -> None:
        self.outputs = {
            slot: [new if name == old else name for name in names] for slot, names in self.outputs.items()
        }
        self.block.program.bump_version()

    # ------------------------------------------------------------------ roles and printing
    @property
    def role(self) -> OpRole:
        """The purpose of this op."""
        return OpRole(int(self.attrs.get(ROLE_ATTR, 0)))

    @property
    def role_vars(self) -> list[str]:
        """[parameter, gradient, ...] on the op that makes or applies a parameter's gradient."""
        return list(self.attrs.get(ROLE_VAR_ATTR, ()))

    def call_text(self) -> str:
        """`out = mul(X=img, Y=fc_w)`: the op as an error message shows it, with shapes."""

        def show(name: str) -> str:
            var = self.block._find_var_recursive(name)
            # other kinds have no shape that a reader of the error would miss
            dense = var is not None and var.type in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS)
            return f"{name}{list(var.shape)}" if var is not None and dense else name

        inputs = ", ".join(
            f"{slot}={' '.join(map(show, names))}" for slot, names in self.inputs.items() if names
        )
        return f"{', '.join(self.output_arg_names)} = {self.type}({inputs})"

    def to_string(self, throw_on_error: bool) -> str:
        """This op, as it stands in the text of a program."""
        return operator_text(self)

    def __repr__(self) -> str:
        return self.to_string(True)

    __str__ = __repr__
