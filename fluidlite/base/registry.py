"""The registry of op types: an `Op` object each, with slots, attributes, shape rule, gradient rule, kernels.

An op is declared in one block of a family file in `fluidlite/ops`:

    mul = Op("mul", "X. Y. -> Out", attrs={"x_num_col_dims": 1, "y_num_col_dims": 1})

    @mul.shape
    def _(X: Spec, Y: Spec, x_num_col_dims: int, y_num_col_dims: int) -> Spec: ...

    @mul.kernel
    def _(xp: Any, X: Array, Y: Array, x_num_col_dims: int, y_num_col_dims: int) -> Array: ...

    @mul.grad("X Y")                        # makes the op mul_grad: X Y Out@GRAD -> X@GRAD Y@GRAD
    def _(xp: Any, X: Array, Y: Array, dOut: Array, x_num_col_dims: int, y_num_col_dims: int) -> Any: ...

Slots read `X` (one variable), `X*` (any number), `X?` (may be absent), `X*?`. A point as that of a literal,
`X.`, `X.*?`, says that 1.8.5 has no kernel for integers or booleans in that slot. The functions name
what they need as parameters and get nothing else:

    X, Out            the value of a slot (a `Spec` in a shape rule; a list for `X*`; None where it is absent)
    dOut              the slot Out@GRAD
    X_lod             the level-of-detail offsets of slot X's value: () or a tuple of offset tuples
    axis              an attribute
    xp                the array module, NumPy or CuPy
    wants             the output slots that somebody reads (a frozenset): the rest may be returned as None
    ctx               the `KernelContext` of the run: random generators, scope, the Operator itself

A kernel returns the value of its first output, a tuple in the order of the output slots, or a dict slot ->
value; a `WithLod(value, lod)` in place of a value sets the level of detail. An output that a kernel does not
mention keeps the level of detail of the input slot named by `lod=`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from fluidlite.base.attr_limits import at_least, check_limits
from fluidlite.base.attr_types import (
    BLOCK,
    BLOCKS,
    BOOLEANS,
    FLOATS,
    INTS,
    LONG,
    LONGS,
    STRINGS,
    Attr,
    AttrType,
    as_attr,
    infer_attr_type,
    later,
    required,
)
from fluidlite.base.comm_kind import CommKind
from fluidlite.base.contexts import GradContext, KernelContext
from fluidlite.base.derived import Vjp, derived_grad_rule, derived_slots, parameter_name
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import UnknownOpError, did_you_mean
from fluidlite.base.families import FAMILIES, families, stems
from fluidlite.base.forks import ChildRLock
from fluidlite.base.gradient_names import GRAD_SUFFIX, OUTPUTS_GRAD, grad_name
from fluidlite.base.op_specs import spec_arguments, specs_of_gradient, with_known_sizes
from fluidlite.base.records import dataclass
from fluidlite.base.refused_ops import why_refused
from fluidlite.base.specs import Argument, Lod, Slot, Spec, WithLod, handed_on, slot_of

__all__ = [
    "Attr",
    "AttrType",
    "BOOLEANS",
    "BLOCK",
    "BLOCKS",
    "EMPTY_VAR",
    "FLOATS",
    "GRAD_SUFFIX",
    "GradContext",
    "INTS",
    "LONG",
    "LONGS",
    "KernelContext",
    "Lod",
    "OF_2X_ATTR",
    "Op",
    "Slot",
    "Spec",
    "STRINGS",
    "WithLod",
    "ZERO_DIM_ATTR",
    "at_least",
    "find",
    "get",
    "grad_name",
    "handed_on",
    "infer_attr_type",
    "known_types",
    "later",
    "required",
    "same_as",
]

EMPTY_VAR = "@EMPTY@"
OF_2X_ATTR = "of_2x"
"""The attribute of op types that mean something else in PaddlePaddle 2.x, although they look the same: True
in programs of 2.x. A type has it that declares `later(False)` for it.
"""
ZERO_DIM_ATTR = "zero_dim"
"""The attribute of ops as PaddlePaddle 2.x has them: output slots whose one number has the shape [], where
1.8 has [1]. Rules and kernels say [1], and `Op.infer` and `Op.without_dims` take the dimension away.
"""
Function: TypeAlias = "Callable[..., Any]"
_CATCHES_OTHERS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


@dataclass(eq=False)
class Op:
    """Everything known about one op type; see the module's docstring for how to declare one.

    Parameters
    ----------
    type: Paddle's name.
    slots: `"X. Y? -> Out XShape?"`.
    attrs: name -> default (its Python type is the attribute's type) or an `Attr`.
    lod: the input slot whose level of detail the first output shares; "" for the first input slot; None for
        none.
    lod_of_2x: the same in programs of 2.x, where that is another slot or none; "" for the same.
    effect: the op does something beyond writing its outputs, so it must run.
    outside: input slots whose values other processes give, or a startup program.
    communicates: what the op exchanges with other processes: the run's communicator carries it out, not a
        kernel.
    boundary: the op hands a value into or out of the program, which a run does by itself.
    waits: the op orders what others do, and computes nothing.
    reaches: what the op does outside of the program, such as "writes a file": untrusted models are refused.
    random: two runs may differ.
    drawn_by: of a random op, the attribute that is 0 where nothing is drawn.
    sparse: the output slot that holds SELECTED_ROWS where the attribute `is_sparse` is true.
    dynamic: an output may have another shape than the shape rule says, even where that says all dimensions.
    later: slots that ops have since PaddlePaddle 2.x, and fluid's op of that type has not.
    alike: input slots whose values have one data type: with two, NumPy would compute in a third one, which no
        variable declares. All slots of floating-point numbers, unless the kernel asks for a type of each.
    updates: output slots whose old value shows through, as an array's of which the op writes one entry. A
        kernel may name such a slot as a parameter and gets the old value, None where there is none.
    blas_threads: the kernel leaves large products to BLAS's threads, which plans that call it leave on.
    held_as: output slots whose arrays have another data type than 1.8.5, and so the shape rule, declares.
    only: attributes that kernels do not read, with the values that they compute with; runs refuse others.
    kept: attributes that steer libraries which are not here, with defaults (`fluidlite.base.kept_attrs`).
    version: the newest version of the op's meaning that files of 2.0 to 3.0 name and that is known here.
    newer: attributes that versions brought and the op does not have, with the values that change nothing.
    idle: attributes that change no value here, beside those that no op reads (`kept_attrs.IDLE`).
    of_complex: the kernel of a gradient op keeps to the convention of complex gradients by itself
        (`executor/run/complexes.py`); others multiply by a derivative.
    constants: slots of floating-point numbers without gradients: outputs in steps, settings.
    opaque: why no gradient can be derived from the op's kernel (`Op.derivative`), "" where it can.
    beyond: input slots of a gradient op that 1.8.5's lacks: left out where nothing makes that gradient.
    untouched: output slots whose variables the op reads, and leaves as they are.
    frames: the output slot that holds the frames of a sub-block's runs, with the outer values before each.
    repeats: the op runs its sub-block any number of times, so that each of its ops may count for the results.
    rewinds: the gradient op puts back the number that the op counted on in place.
    adds: the input slot whose values the op adds up, so that one which nobody makes is left out.
    absent: input slots whose variables may hold no value: an array that nothing has been written to.
    makes_lod: the kernel gives an output a level of detail where its inputs have none.
    tells_lod: the shape rule tells whether the output has a level of detail, from shapes that are known.
    booleans: 1.8.5 has a kernel for truth values.
    classes: the input slot that holds numbers of classes, unless the attribute `soft_label` is true.
    below: input slot of integers -> what they must be below: an attribute, or (input slot, dimension).
    fractions: input slots of numbers between 0 and 1.
    only_shape: input slots of whose values the kernel reads no more than shape and data type.
    fresh: the kernel never hands on the memory of an input.
    moves: the op puts elements elsewhere, or zeros, and computes nothing; so does its gradient op, unless
        that says otherwise.
    captured: the portable kernel asks nothing of the host and takes nothing from it, so that a graph of a
        device can hold it, and that of its gradient op; what they allocate comes from the graph's pool.
    table: the input slot of a table whose rows the op looks up, and that servers may hold instead.
    whole: the op reads a norm of a parameter or gradient: of a slice it would be another one.
    cuttable: the op can fill a slice of its output alone.
    amp: fluid's list for mixed precision that the op is on: "white", "black", "gray" or none.
    amp_fp16: those that it is on in 2.x, in words; None for the same.
    amp_bf16: those for bfloat16; None for the ones of `amp_fp16`.
    condition: of an op that gives truth values of elements: "order", "equality" or "logic".
    follows: the op finishes what the one before it began: a bias, an activation, a normalisation.
    once: a second run gives other values, for which no seed makes up.
    scalars: the attribute that 2.6.2 takes as messages of their own type alone.
    takes: input slot -> the slot whose presence says that the kernel takes an entry out of the array in it.
    """

    type: str
    slots: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    lod: str | None = ""
    lod_of_2x: str | None = ""
    effect: bool = False
    outside: tuple[str, ...] = ()
    communicates: CommKind | None = None
    waits: bool = False
    boundary: bool = False
    random: bool = False
    sparse: str = ""
    of_complex: bool = False
    dynamic: bool = False
    alike: tuple[str, ...] = ()
    blas_threads: bool = False
    updates: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()
    frames: str = ""
    repeats: bool = False
    rewinds: bool = False
    adds: str = ""
    absent: tuple[str, ...] = ()
    takes: Mapping[str, str] = field(default_factory=dict)
    makes_lod: bool = False
    tells_lod: bool = False
    booleans: bool = False
    moves: bool = False
    captured: bool = False
    table: str = ""
    condition: str = ""
    follows: bool = False
    once: bool = False
    scalars: str = ""
    amp: str = ""
    amp_fp16: str | None = None
    amp_bf16: str | None = None
    whole: bool = False
    cuttable: bool = False
    classes: str = ""
    below: Mapping[str, tuple[str, int] | str] = field(default_factory=dict)
    fractions: tuple[str, ...] = ()
    only_shape: tuple[str, ...] = ()
    fresh: bool = False
    held_as: Mapping[str, VarType] = field(default_factory=dict)
    only: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    newer: Mapping[str, Any] = field(default_factory=dict)
    idle: tuple[str, ...] = ()
    opaque: str = ""
    drawn_by: str = ""
    constants: tuple[str, ...] = ()
    reaches: str = ""

    def __post_init__(self) -> None:
        left, _, right = self.slots.partition("->")
        self.effect = self.effect or self.communicates is not None
        self.inputs = {slot.name: slot for slot in map(Slot.parse, left.split())}
        self.outputs = {slot.name: slot for slot in map(Slot.parse, right.split())}
        self.floating = tuple(name for name, slot in self.inputs.items() if slot.floating)
        self.attr_defs: dict[str, Attr] = {name: as_attr(value) for name, value in self.attrs.items()}
        self.kept_defs = {name: as_attr(value) for name, value in self.kept.items()}
        self.amp_fp16 = self.amp if self.amp_fp16 is None else self.amp_fp16
        self.amp_bf16 = self.amp_fp16 if self.amp_bf16 is None else self.amp_bf16
        self.shape_rule: Function | None = None
        self.refusal_rule: Function | None = None
        self.compute: Function | None = None
        self.flops_rule: Function | None = None
        self.expr: str | None = None  # an element-wise op: its scalar expression
        self.grad_exprs: dict[str, str] = {}  # and those of its gradients, by input slot
        self.by_rows: Any = None  # an op over rows: how it uses its row kernel (`ops/kernels/row_kernels.py`)
        self.grad_rule_fn: Function | None = None
        self.grad_slots: tuple[str, ...] = ()
        self.forward: Op | None = None  # of a gradient op: the op that it was declared for
        self.grad_type = self.type + "_grad"
        self.arguments: dict[str, tuple[Argument, ...]] = {}
        if self.lod == "":
            self.lod = next(iter(self.inputs), None)
        if self.type in _OPS:
            raise ValueError(f"op {self.type!r} is declared twice")
        _OPS[self.type] = self

    def lod_slot(self, of_2x: bool) -> str:
        """The input slot whose level of detail the first output shares, or nothing."""
        return (self.lod_of_2x if of_2x and self.lod_of_2x != "" else self.lod) or ""

    @property
    def root(self) -> Op:
        """The op that this one is a gradient of, of any order; itself if it is none."""
        # some are declared by themselves: a gradient op stands with its op
        forward = self.forward or _OPS.get(self.type.removesuffix("_grad"))
        return self if forward is None or forward is self else forward.root

    def reads(self, slot: str) -> bool:
        """True if the kernel reads the elements of an input slot, not only their number or levels."""
        arguments = self.arguments.get("kernel")
        if arguments is None or any(kind == "ctx" for _, kind, _ in arguments):
            return slot not in self.only_shape
        return slot not in self.only_shape and any((kind, key) == ("in", slot) for _, kind, key in arguments)

    def may_lack(self, slot: str) -> bool:
        """True if the op can do without a value in an input slot."""
        return slot not in self.inputs or self.inputs[slot].optional or slot in self.absent

    def _bind(self, role: str, function: Function) -> Function:
        """Remember what each parameter of `function` stands for."""
        self.arguments[role] = tuple(map(self._argument, _parameters(function)))
        return function

    def _argument(self, name: str) -> Argument:
        if name in ("xp", "wants", "ctx"):
            return Argument(name, name, name)
        for kind, slots in (("in", self.inputs), ("out", self.outputs)):
            slot = slot_of(name, slots)
            if slot is not None:
                return Argument(name, kind, slot)
        if name.endswith("_lod"):
            slot = slot_of(name[:-4], self.inputs)
            if slot is not None:
                return Argument(name, "lod", slot)
        # lambda_ stands for the attribute lambda
        if name.removesuffix("_") in self.attr_defs:
            return Argument(name, "attr", name.removesuffix("_"))
        raise ValueError(f"op {self.type!r}: parameter {name!r} is neither a slot nor an attribute of the op")

    def shape(self, function: Function) -> Function:
        """Declare the shape rule: specs in, spec(s) out."""
        self.shape_rule = self._bind("shape", function)
        return function

    def refuses(self, function: Function) -> Function:
        """Declare what fluid refuses although the op could do it: a function of specs and attributes that
        gives the reason, or nothing. Programs of 2.x, which has more of them, are not asked.
        """
        self.refusal_rule = self._bind("refuses", function)
        return function

    def flops(self, function: Function) -> Function:
        """Declare the multiplications and additions, a function of the specs of inputs and outputs: of
        products, which do not take as long as their memory does.
        """
        self.flops_rule = self._bind("flops", function)
        return function

    def kernel(self, function: Function) -> Function:
        """Declare the portable kernel: arrays in, array(s) out."""
        self.compute = self._bind("kernel", function)
        return function

    def grad(
        self,
        wrt: str,
        *,
        type: str = "",
        attrs: Mapping[str, Any] | None = None,
        shape: Function | None = None,
        **flags: Any,
    ) -> Callable[[Function], Op]:
        """Declare `<type>_grad` by its kernel, whose parameters say what it reads; `wrt` are the inputs that
        get gradients.

        The kernel returns the gradients in the order of `wrt`. Slots in `wrt` may carry `*`. Its own gradient
        is derived from it (`fluidlite.base.derived`) unless it is `opaque`. Gives the new Op.
        """

        def declare(function: Function) -> Op:
            wrt_slots = [Slot.parse(text) for text in wrt.split()]
            needed = self._needed_slots(function)
            outputs = [
                grad_name(slot.name) + ("*" if self.inputs[slot.name].many else "") + "?"
                for slot in wrt_slots
            ]
            grad_op = Op(
                type or self.type + "_grad",
                f"{' '.join(needed)} -> {' '.join(outputs)}",
                attrs={**self.attr_defs, **(attrs or {})},
                only=self.only,
                **{"moves": self.moves, "captured": self.captured, **flags},
            )
            grad_op.kernel(function)
            grad_op.shape_rule = grad_op._bind("shape", shape) if shape else None
            # a gradient has the level of detail of its variable, which whoever runs the op sees to
            grad_op.lod = None
            self.grad_type = grad_op.type
            self.grad_slots = tuple(slot.name for slot in wrt_slots)
            if self.grad_rule_fn in (None, derived_grad_rule):
                self.grad_rule_fn = _default_grad_rule
            grad_op.forward = self
            if not grad_op.opaque:
                grad_op.derive()
            return grad_op

        return declare

    def _needed_slots(self, function: Function) -> list[str]:
        """The input slots of the gradient op, in Paddle's order: forward inputs, forward outputs, output
        gradients.
        """
        everything = {
            **self.inputs,
            **self.outputs,
            **{grad_name(n): Slot(grad_name(n), s.many, s.optional) for n, s in self.outputs.items()},
        }
        named = set()
        for parameter in _parameters(function):
            stem = parameter[:-4] if parameter.endswith("_lod") else parameter
            slot = slot_of(stem, everything)
            if slot is not None:
                named.add(slot)
        # optional, all of them: a gradient that nobody made is an empty slot
        return [name + "*" * everything[name].many + "?" for name in everything if name in named]

    def derive(self, forward: Op | None = None) -> Op:
        """Let the gradient be derived from the kernel (`fluidlite.base.derived`), and that one's again.
        `forward` is the op whose gradient op this is, as `grad` knows it.
        """
        self.grad_rule_fn = derived_grad_rule
        self.forward = forward or self.forward
        return self

    def derivative(self, suffix: str) -> Op:
        """Declare what is derived from the kernel: the gradient op of a gradient op ("_grad"), or the op for
        gradients of outputs that the gradient op does not read (OUTPUTS_GRAD).
        """
        assert self.compute is not None
        slots, incoming = derived_slots(self)
        beyond = tuple(incoming.values())
        op = Op(self.type + suffix, slots, self.attr_defs, lod=None, later=self.later, beyond=beyond)
        product = Vjp(self.compute, self.by_slot, self.arguments["kernel"], incoming)

        def kernel(**given: Any) -> dict[str, Any]:
            return product(given["xp"], given, given["wants"])

        op.compute = kernel
        slots_read = (Argument(parameter_name(slot), "in", slot) for slot in op.inputs)
        own = (Argument(name, name, name) for name in ("xp", "wants"))
        op.arguments["kernel"] = (*slots_read, *product.carried(), *own)
        return op.derive(self)

    @property
    def is_gradient(self) -> bool:
        """True for a gradient op whose own may be derived."""
        return self.forward is not None or self.grad_rule_fn is derived_grad_rule

    def grad_rule(self, wrt: str = "") -> Callable[[Function], Function]:
        """Declare a gradient rule that emits ops itself: a function of a `GradContext`."""

        def declare(function: Function) -> Function:
            self.grad_slots = tuple(wrt.split())
            self.grad_rule_fn = function
            return function

        return declare

    @property
    def differentiable(self) -> bool:
        """True if `append_backward` goes through this op."""
        return self.grad_rule_fn is not None

    def infer(
        self, inputs: Mapping[str, list[Spec | None]], attrs: Mapping[str, Any]
    ) -> dict[str, list[Spec]]:
        """Output specs by slot; raises ShapeError where the inputs do not fit."""
        check_limits(self.type, self.attr_defs, attrs)
        if self.shape_rule is None:
            specs = specs_of_gradient(self, inputs)
        else:
            found = self.by_slot(self.shape_rule(**spec_arguments(self, "shape", inputs, attrs)))
            specs = {
                name: list(value) if isinstance(value, list) else [value]
                for name, value in found.items()
                if value is not None
            }
            specs = {name: [with_known_sizes(spec) for spec in values] for name, values in specs.items()}
        if self.sparse in specs and attrs.get("is_sparse"):
            # the declared shape stays that of the dense table
            specs[self.sparse] = [spec._replace(kind=VarType.SELECTED_ROWS) for spec in specs[self.sparse]]
        for slot in attrs.get(ZERO_DIM_ATTR, ()):
            if slot in specs:
                specs[slot] = [spec.with_shape(()) for spec in specs[slot]]
        return specs

    def count_flops(self, shape_of: Callable[[str], tuple[int, ...]], attrs: Mapping[str, Any]) -> int:
        """Multiplications and additions, from the shapes of the variables in its slots; 0 without a rule."""
        if self.flops_rule is None:
            return 0
        specs: dict[str, list[Spec | None]] = {
            slot: [Spec(shape_of(slot))] for slot in (*self.inputs, *self.outputs)
        }
        count: int = self.flops_rule(**spec_arguments(self, "flops", specs, attrs))
        return count

    def refusal(self, inputs: Mapping[str, list[Spec | None]], attrs: Mapping[str, Any]) -> str:
        """The reason for which fluid refuses such an op, or nothing."""
        if self.refusal_rule is None:
            return ""
        reason: str = self.refusal_rule(**spec_arguments(self, "refuses", inputs, attrs))
        return reason

    def by_slot(self, returned: Any) -> dict[str, Any]:
        """The result of a rule or kernel as slot -> value."""
        if isinstance(returned, dict):
            return returned
        # named tuples, both of them, but a single output each
        if isinstance(returned, tuple) and not isinstance(returned, (Spec, WithLod)):
            return dict(zip(self.outputs, returned, strict=False))
        return {next(iter(self.outputs)): returned} if self.outputs else {}


def _parameters(function: Function) -> tuple[str, ...]:
    """The names of a function's parameters."""
    code = getattr(function, "__code__", None)
    # there are thousands of functions, and `inspect.signature` takes 25 microseconds
    if code is None or hasattr(function, "__wrapped__") or code.co_flags & _CATCHES_OTHERS:
        return tuple(inspect.signature(function).parameters)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def _default_grad_rule(context: Any) -> None:
    context.default()


def same_as(slot: str = "X", dtype: VarType | None = None) -> Function:
    """The shape rule of an op whose (first) output looks like its input slot `slot`."""

    def rule(**specs: Any) -> Spec:
        return Spec(specs[slot].shape, specs[slot].dtype if dtype is None else dtype)

    # `_bind` reads parameters by their names, and `**specs` has none
    rule.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(slot, inspect.Parameter.KEYWORD_ONLY)]
    )
    return rule


_OPS: dict[str, Op] = {}  # all that are declared; those of a family that is being imported have no kernel yet
_WHOLE: dict[str, Op] = {}  # those that `find` has given
_importing = ChildRLock()  # an op may name another one of its family while that is imported


def find(op_type: str) -> Op | None:
    """The op of that type, importing its family at first use; None where there is none."""
    # without the lock: what stands here is complete, and most calls find it
    if op_type in _WHOLE:
        return _WHOLE[op_type]
    with _importing:
        op = _declared(op_type)
        if op is not None:
            _WHOLE[op_type] = op
        return op


def _declared(op_type: str) -> Op | None:
    if op_type in _OPS:
        return _OPS[op_type]
    stem = next((stem for stem in stems(op_type) if stem in _OPS or stem in families()), None)
    if stem is None:
        return None  # nor has an unknown op gradients of any order: files may name thousands of them
    if stem in families():
        # importing a family declares its ops, the one that is looked for among them
        importlib.import_module(f"fluidlite.ops.{families()[stem]}")
    return _OPS.get(op_type) or _derived(op_type)


def _derived(op_type: str) -> Op | None:
    """The op that is made from another one's kernel."""
    suffix = OUTPUTS_GRAD if op_type.endswith(OUTPUTS_GRAD) else "_grad"
    op = find(op_type.removesuffix(suffix)) if op_type.endswith(suffix) else None
    if op is None or not (op.differentiable if suffix == OUTPUTS_GRAD else op.is_gradient):
        return None
    return op.derivative(suffix)


def get(op_type: str) -> Op:
    """The op of that type; UnknownOpError with the nearest name where there is none."""
    op = find(op_type)
    if op is None:
        reason = why_refused(op_type)
        text = f". It {reason}." if reason else _what_to_do(op_type) or "."
        raise UnknownOpError(f'Operator "{op_type}" has not been registered{text}')
    return op


def _what_to_do(op_type: str) -> str:
    types = known_types()
    if op_type in types:
        return ": fluidlite/base/op_index.py does not name it. Run `python tests/house/op_index.py`."
    return did_you_mean(op_type, types)


def known_types() -> list[str]:
    """All registered op types, sorted; imports every family."""
    with _importing:
        for family in FAMILIES:
            importlib.import_module(f"fluidlite.ops.{family}")
        return sorted(_OPS)
