"""Programs: blocks of ops, with the state that new ops are stamped with (role, name scope, device)."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fluidlite.base.flags import FIRST_OF_2X, PROGRAM_VERSION
from fluidlite.ir import views
from fluidlite.ir.block import Block
from fluidlite.ir.distribution import Distribution, FluidName
from fluidlite.ir.operator import DEVICE_ATTR, NAMESCOPE_ATTR, ROLE_ATTR, ROLE_VAR_ATTR, Operator, OpRole
from fluidlite.ir.printing import program_text
from fluidlite.ir.proto import read_program
from fluidlite.ir.prune import inference_copy, prune, prune_backward, set_test_mode
from fluidlite.ir.variable import VARIABLE_NAMES, Parameter, Variable, check_switches
from fluidlite.ir.verify import verify
from fluidlite.ir.warned import warn_near_miss, warn_user

__all__ = ["Program"]

_PROGRAM_NAMES: set[str] = set()

# ids of objects come back after a program is collected; these numbers do not
_serial = itertools.count()
_held: weakref.WeakValueDictionary[int, Program] = weakref.WeakValueDictionary()
"""The programs that somebody holds, by these numbers."""


class Belongings:
    """Owner -> what it made of a program, which holds that program and so must live no longer than it, nor
    than the owner. Copies of the program have none.
    """

    def __init__(self) -> None:
        self._made: dict[weakref.ref[Any], dict[Any, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._made)

    def of(self, owner: weakref.ref[Any]) -> dict[Any, Any]:
        """The dict of an owner, by the reference to itself that it keeps: a lookup in each step."""
        found = self._made.get(owner)
        return self._begin(owner()) if found is None else found

    def _begin(self, owner: Any) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        mine = weakref.ref(self)

        def ended(reference: weakref.ref[Any]) -> None:
            belongings = mine()
            if belongings is not None:
                belongings._made.pop(reference, None)

        self._made[weakref.ref(owner, ended)] = made
        return made

    def __deepcopy__(self, memo: Any) -> Belongings:
        return Belongings()

    def __reduce__(self) -> Any:
        return Belongings, ()


class Program:
    """One or more blocks; block 0 is the one that runs, the others are bodies of control-flow ops.

    `serial` tells programs apart, `version` counts edits: together they key the plans made from a program.
    """

    variable_type: type[Variable] = Variable
    parameter_type: type[Parameter] = Parameter
    """The classes of its variables: their operators are fluid's, or PaddlePaddle 2.x's."""
    _first_seed = 0
    """The seed that a new program has; `global_seed` changes it."""

    def __init__(self) -> None:
        self.blocks = [Block(self, 0)]
        self.current_block_idx = 0
        self.serial = next(_serial)
        _held[self.serial] = self
        self.version = 0
        self.stamps_paused = False
        self._seed = Program._first_seed
        self._current_role = OpRole.Forward
        self._op_role_var: list[str] = []
        # names with an underscore below are read and set by old programs, and by contrib, under fluid's
        # spelling
        self.distribution = Distribution()
        self._appending_grad_times = 0
        self._enable_dgc = False
        self._use_lamb = False
        self._fleet_opt: dict[str, Any] | None = None
        self._pipeline_opt: dict[str, Any] | None = None
        self._program_config: Any = None
        self._is_start_up_program_ = False
        self.file_version = PROGRAM_VERSION
        """Paddle's number for the version that wrote the program's file, or that could have."""
        self.op_versions: dict[str, int] = {}
        """Op type -> the version of its meaning, where the program's file says that: those of 2.x do."""
        self.belongings = Belongings()

    # ------------------------------------------------------------------ the job, in fluid's names
    _is_distributed = FluidName("distributed")
    _is_chief = FluidName("chief")
    _endpoints = FluidName("servers")
    _ps_endpoint = FluidName("endpoint")
    _distributed_lookup_table = FluidName("table")
    _parameters_on_pservers = FluidName("parts")
    _trainers_endpoints = FluidName("trainers")
    _nccl_comm_num = FluidName("rings")
    _use_hierarchical_allreduce = FluidName("hierarchical")
    _hierarchical_allreduce_inter_nranks = FluidName("group")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PROGRAM_NAMES and _PROGRAM_NAMES:
            warn_near_miss("Program", name, _PROGRAM_NAMES)
        object.__setattr__(self, name, value)

    # ------------------------------------------------------------------ versions and stamps
    @property
    def is_of_2x(self) -> bool:
        """True if the ops mean what they mean in PaddlePaddle 2.x."""
        return self.file_version >= FIRST_OF_2X

    def bump_version(self) -> None:
        """Say that this program has changed."""
        self.version += 1

    def stamp(self, op: Operator) -> None:
        """Give a new op the current role, name scope and device, where it does not state its own."""
        # setdefault: gradient ops and transpilers state roles of their own
        op.attrs.setdefault(ROLE_ATTR, int(self._current_role))
        op.attrs.setdefault(ROLE_VAR_ATTR, list(self._op_role_var))
        op.attrs.setdefault(NAMESCOPE_ATTR, current_name_scope())
        if DEVICE_ATTR not in op.attrs:
            op.attrs[DEVICE_ATTR] = self._device_of(op)

    @staticmethod
    def _device_of(op: Operator) -> str:
        """The current device; none, with a warning, for an op that has no kernel, such as a loop."""
        device = current_device()
        if device and not op._has_kernel(op.type):
            warn_user(f"The Op({op.type}) is not support to set device.", category=UserWarning)
            return ""
        return device

    @property
    def op_role(self) -> OpRole:
        """The role that new ops get."""
        return self._current_role

    @op_role.setter
    def op_role(self, role: int) -> None:
        self._current_role = OpRole(int(role))

    _op_role = op_role

    @property
    def op_role_var(self) -> list[str]:
        """The parameter and gradient that new ops get."""
        return self._op_role_var

    @contextlib.contextmanager
    def _with_role(self, role: OpRole, names: Sequence[str] = ()) -> Iterator[None]:
        saved = self._current_role, self._op_role_var
        self._current_role = role
        self._op_role_var = list(names)
        try:
            yield
        finally:
            self._current_role, self._op_role_var = saved

    def _backward_role_guard(self) -> contextlib.AbstractContextManager[None]:
        return self._with_role(OpRole.Backward)

    def _optimized_guard(self, param_and_grads: Iterable[Any]) -> contextlib.AbstractContextManager[None]:
        return self._with_role(
            OpRole.Optimize, [var if isinstance(var, str) else var.name for var in param_and_grads]
        )

    def _lr_schedule_guard(self, is_with_opt: bool = False) -> contextlib.AbstractContextManager[None]:
        return self._with_role(OpRole.LRSched | OpRole.Optimize if is_with_opt else OpRole.LRSched)

    # ------------------------------------------------------------------ blocks
    def global_block(self) -> Block:
        """The block that runs."""
        return self.blocks[0]

    def block(self, index: int) -> Block:
        """The block at `index`."""
        return self.blocks[index]

    def current_block(self) -> Block:
        """The block that layers append to."""
        return self.blocks[self.current_block_idx]

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def make_blocks(self, count: int) -> None:
        """Start anew with `count` empty blocks, as a reader of files fills them."""
        self.blocks = [Block(self, index) for index in range(count)]
        self.current_block_idx = 0

    def _create_block(self, parent_idx: int | None = None) -> Block:
        parent = self.current_block_idx if parent_idx is None else parent_idx
        self.blocks.append(Block(self, len(self.blocks), parent))
        self.current_block_idx = len(self.blocks) - 1
        return self.current_block()

    def _rollback(self) -> None:
        self.current_block_idx = self.current_block().parent_idx

    # ------------------------------------------------------------------ variables
    @property
    def random_seed(self) -> int:
        """The seed of random ops that have none of their own; 0 means a different one each run."""
        return self._seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if not isinstance(seed, int):
            raise ValueError(
                f"Program.random_seed's input seed must be an integer, but received {type(seed)}."
            )
        self._seed = seed
        self.bump_version()
        if seed:
            self._warn_of_unseeded(seed)

    def global_seed(self, seed: int = 0) -> None:
        """Set the random seed of this program, and of every one that is made from now on."""
        self.random_seed = seed
        Program._first_seed = seed

    def _warn_of_unseeded(self, seed: int) -> None:
        """Warn where ops that draw were appended before the seed, which they would have taken."""
        ops = [
            op for op in self.global_block().ops if op.attrs.get("seed") == 0 and not op.attrs.get("fix_seed")
        ]
        drawing = [op for op in ops if not op.type.endswith("_grad") and not op.attrs.get("is_test")]
        if drawing:
            name = (drawing[0].output_arg_names or ["?"])[0]
            warn_user(
                f"random_seed = {seed} is set after {len(drawing)} ops that draw random numbers "
                f"(the first: {drawing[0].type!r} of {name!r}, built at {drawing[0].where}): they "
                "draw different numbers in each run; set the seed before building the layers"
            )

    def list_vars(self) -> Iterator[Variable]:
        """All variables of all blocks, as each block has them when its turn comes: they may be renamed, and
        others declared, meanwhile.
        """
        for block in self.blocks:
            yield from list(block.vars.values())

    def all_parameters(self) -> list[Parameter]:
        """All parameters of all blocks, in order of creation."""
        return [param for block in self.blocks for param in block.all_parameters()]

    # ------------------------------------------------------------------ copies
    @property
    def rates_of_runs(self) -> tuple[str, ...]:
        """The learning rates that every run sets before its first op; none in fluid's programs."""
        return ()

    def clone(self, for_test: bool = False) -> Program:
        """A copy; `for_test` drops the backward and optimizer ops and switches dropout, batch_norm, ... to
        inference.
        """
        copy = type(self)()
        copy.adopt(self)
        if for_test:
            prune_backward(copy)
            set_test_mode(copy)
        return copy

    def adopt(self, other: Program) -> None:
        """Become a deep copy of `other`: the way a rewritten program is put in the place of the original."""
        self.blocks = [Block(self, block.idx, block.parent_idx) for block in other.blocks]
        for block, source in zip(self.blocks, other.blocks, strict=True):
            block.forward_block_idx = source.forward_block_idx
            for var in source.vars.values():
                block.vars[var.name] = copy_variable(var, block)
        # after the variables of all blocks: an op may write those of an outer block
        for block, source in zip(self.blocks, other.blocks, strict=True):
            for op in source.ops:
                block.adopt(len(block.ops), copy_operator(op, block))
        self.current_block_idx = other.current_block_idx
        self._copy_state(other)
        self.bump_version()

    def take_over(self, other: Program) -> None:
        """Become `other`, whose blocks are this program's from now on: `adopt` without a copy, for a
        program that nobody else holds.
        """
        self.blocks = other.blocks
        other.blocks = []
        for block in self.blocks:
            block.program = self
        self.current_block_idx = other.current_block_idx
        self._copy_state(other)
        self.bump_version()

    def _copy_state(self, other: Program) -> None:
        # serial and version stay: plans are cached by them, and this is still the same object, changed
        skip = {"blocks", "current_block_idx", "serial", "version", "belongings"}
        self.__dict__.update({key: value for key, value in other.__dict__.items() if key not in skip})

    def _sync_with_cpp(self) -> None:
        """Count a new version: old programs call this after edits, for Paddle's second copy of a program."""
        self.bump_version()

    def _construct_from_desc(self, desc: Any) -> Program:
        return Program.parse_from_string(desc.serialize_to_string())

    def _version(self) -> int:
        return self.file_version

    def _copy_param_info_from(self, other: Program) -> None:
        """Make variables parameters again that are some in `other`: bytes of Paddle do not say so."""
        _check_program("_copy_param_info_from", other)
        self.global_block()._copy_param_info_from(other.global_block())

    def _copy_data_info_from(self, other: Program) -> None:
        """Mark variables as data, and as without gradient, that are so in `other`."""
        _check_program("_copy_data_info_from", other)
        for source in other.global_block().vars.values():
            var = self.global_block().vars.get(source.name)
            if var is not None:
                var.is_data = var.is_data or source.is_data
                var.need_check_feed = var.need_check_feed or source.need_check_feed
                var.stop_gradient = var.stop_gradient or source.stop_gradient

    def _copy_dist_param_info_from(self, other: Program) -> None:
        _check_program("_copy_dist_param_info_from", other)
        self.distribution = self.distribution.on_servers_of(other.distribution)

    def _prune(self, targets: Any) -> Program:
        return self._prune_with_input([], targets)

    def _prune_with_input(self, feeded_var_names: Sequence[str], targets: Any) -> Program:
        return prune(
            self, targets, [feeded_var_names] if isinstance(feeded_var_names, str) else feeded_var_names
        )

    def _inference_optimize(self, prune_read_op: bool = True) -> Program:
        return inference_copy(self, prune_read_op)

    # ------------------------------------------------------------------ text and bytes
    @property
    def desc(self) -> Any:
        """A view with the methods of Paddle's ProgramDesc, `serialize_to_string()` among them."""
        return views.description(self)

    @classmethod
    def parse_from_string(cls, binary_str: bytes) -> Program:
        """The program in Paddle's ProgramDesc bytes (a saved `__model__`); FormatError where they are
        none.
        """
        program = cls()
        read_program(program, binary_str)
        return program

    def verify(self) -> None:
        """Infer every shape again and check definition before use; ProgramEditError names what is wrong."""
        verify(self)

    def to_string(self, throw_on_error: bool, with_details: bool = False) -> str:
        """This program's text; `fluidlite.ir.text.parse` reads it back."""
        check_switches(throw_on_error=throw_on_error, with_details=with_details)
        return repr(self)

    def _repr_html_(self) -> str:
        return views.notebook_html(self)

    def __repr__(self) -> str:
        return program_text(self)

    __str__ = __repr__


def programs_since(serial: int) -> list[Program]:
    """The programs with a higher number that somebody holds, in the order in which they were made."""
    # one call that copies: other threads may make programs meanwhile
    found = [program for reference in _held.valuerefs() if (program := reference()) is not None]
    return sorted((one for one in found if one.serial > serial), key=lambda program: program.serial)


def _learn_names() -> None:
    """Note the attributes of programs and variables: others that are nearly the same are slips."""
    program = Program()
    parameter = program.global_block().create_parameter(name="w", shape=[1], dtype="float32")
    VARIABLE_NAMES.update(dir(parameter))
    _PROGRAM_NAMES.update(dir(program))


_learn_names()


def _check_program(method: str, other: Any) -> None:
    if not isinstance(other, Program):
        raise TypeError(f"Program.{method}() needs a Program, but received {type(other)}")


def copy_variable(var: Variable, block: Block) -> Variable:
    """The same declaration in another block; a Parameter stays one."""
    # past `__init__`, which would check again what was checked when the variable was declared
    copy = object.__new__(type(var))
    copy.__dict__ = var.__dict__.copy()
    copy.block = block
    copy.op = None
    return copy


def copy_operator(op: Operator, block: Block) -> Operator:
    """The same op in another program: sub-blocks become that program's blocks of the same index."""
    new = Operator.__new__(Operator)
    new.__dict__.update(op.__dict__)  # `where` among it: a copy comes from the user's line of the original
    new.block = block
    new.inputs = {slot: list(names) for slot, names in op.inputs.items()}
    new.outputs = {slot: list(names) for slot, names in op.outputs.items()}
    new.attr_types = dict(op.attr_types)
    new.attrs = {name: _copy_attr(value, block.program) for name, value in op.attrs.items()}
    return new


def _copy_attr(value: Any, program: Program) -> Any:
    if isinstance(value, Block):
        return program.blocks[value.idx]
    return [_copy_attr(item, program) for item in value] if isinstance(value, list) else value


# ---------------------------------------------------------------------- default programs and guards
class _NameScope:
    def __init__(self, name: str = "", parent: _NameScope | None = None) -> None:
        self.name = name
        self.parent = parent
        self.children: dict[str, int] = {}

    def child(self, prefix: str) -> _NameScope:
        """A scope below this one; the second one of the same name gets a number."""
        count = self.children.get(prefix, 0)
        self.children[prefix] = count + 1
        return _NameScope(prefix if count == 0 else f"{prefix}_{count}", self)

    def path(self) -> str:
        """`/a/b/`."""
        return "/" if self.parent is None else f"{self.parent.path()}{self.name}/"


class _Defaults:
    """The programs, name scope and device that layers use when nothing else is said."""

    def __init__(self) -> None:
        self.main = Program()
        self.startup = Program()
        self.startup._is_start_up_program_ = True
        self.scope = _NameScope()
        self.device = ""


_defaults = _Defaults()


def default_main_program() -> Program:
    """The program that layers append to."""
    return _defaults.main


def default_startup_program() -> Program:
    """The program that initialisers append to."""
    return _defaults.startup


def switch_main_program(program: Program) -> Program:
    """Make `program` the default main program; returns the old one."""
    old = _defaults.main
    _defaults.main = program
    return old


def switch_startup_program(program: Program) -> Program:
    """Make `program` the default startup program; returns the old one."""
    old = _defaults.startup
    _defaults.startup = program
    return old


@contextlib.contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Inside the `with`, layers append to `main_program` and initialisers to `startup_program`."""
    for what, program in (("main_program", main_program), ("startup_program", startup_program)):
        if not isinstance(program, Program) and not (what == "startup_program" and program is None):
            raise TypeError(
                f"The type of '{what}' in 'fluid.program_guard' must be {Program}, but received "
                f"{type(program)}."
            )
    old_main = switch_main_program(main_program)
    old_startup = switch_startup_program(startup_program) if startup_program is not None else None
    if startup_program is not None:
        startup_program._is_start_up_program_ = True
    try:
        yield
    finally:
        switch_main_program(old_main)
        if old_startup is not None:
            switch_startup_program(old_startup)


@contextlib.contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Ops made inside the `with` carry `/prefix/` in `op_namescope`; it helps to read a program, nothing
    else.
    """
    if not prefix:
        raise AssertionError("namescope prefix can not be empty.")
    _defaults.scope = _defaults.scope.child(prefix)
    try:
        yield
    finally:
        assert _defaults.scope.parent is not None
        _defaults.scope = _defaults.scope.parent


def current_name_scope() -> str:
    """`/a/b/` for the scopes that are open."""
    return _defaults.scope.path()


@contextlib.contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Ops made inside the `with` carry `device` ("cpu" or "gpu") in `op_device`."""
    if device not in ("cpu", "gpu", "", None):
        raise ValueError(f"device_guard takes 'cpu', 'gpu', '' or None, but received {device!r}")
    old = _defaults.device
    _defaults.device = device or ""
    try:
        yield
    finally:
        _defaults.device = old


def current_device() -> str:
    """The device of `device_guard`, "" outside any."""
    return _defaults.device
