"""A training program taken apart: the ops that update each parameter, from which gradient, and those of the
learning-rate schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.errors import TranspilerError
from fluidlite.base.records import dataclass
from fluidlite.ir.operator import NAMESCOPE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program

__all__ = [
    "Training",
    "ParameterUpdate",
    "is_clipping_alone",
    "is_scheduling",
    "is_updating",
    "read_training",
    "trained_by_ops",
]

_CLIP_SCOPE = "@CLIP"  # the name scope that fluid opens around the ops of `set_gradient_clip`


def is_scheduling(op: Operator) -> bool:
    """True if `op` computes a learning rate."""
    return bool(op.role & OpRole.LRSched)


def is_updating(op: Operator) -> bool:
    """True if `op` is part of the update of parameters (clip, weight decay and accumulators count)."""
    return bool(op.role & OpRole.Optimize) and not is_scheduling(op) and not is_clipping_alone(op)


def is_clipping_alone(op: Operator) -> bool:
    """True if `op` comes from `set_gradient_clip`, by which, as in fluid, each trainer clips its own
    gradients before it sends them.
    """
    return _CLIP_SCOPE in str(op.attrs.get(NAMESCOPE_ATTR, ""))


@dataclass(frozen=True)
class ParameterUpdate:
    """How one parameter is updated: `ops` in program order, from the gradient `grad`, which the backward
    pass computes.
    """

    param: str
    grad: str
    ops: tuple[Operator, ...]

    @property
    def step(self) -> Operator:
        """The op that writes the parameter."""
        return next(op for op in self.ops if self.param in op.output_arg_names)

    @property
    def written(self) -> frozenset[str]:
        """All that the ops write."""
        return frozenset(name for op in self.ops for name in op.output_arg_names)

    @property
    def needs_whole(self) -> bool:
        """True if a server must hold the parameter in one piece."""
        return any(op.definition is not None and op.definition.whole for op in self.ops)


@dataclass(frozen=True)
class Training:
    """A training program, taken apart; the program itself is never changed."""

    program: Program
    updates: tuple[ParameterUpdate, ...]  # in the order of their first ops
    schedule: tuple[Operator, ...]  # the ops that compute learning rates
    rates: tuple[str, ...] = ()  # learning rates that each run of the program sets anew

    def is_served(self, op: Operator) -> bool:
        """True if servers carry out an op, of this program or of a copy, in place of the trainers."""
        if is_scheduling(op):
            return True
        names = op.role_vars or op.inputs.get("Param", [])
        return is_updating(op) and names[0] in self._updated

    @cached_property
    def _updated(self) -> frozenset[str]:
        return frozenset(update.param for update in self.updates)

    @cached_property
    def by_step(self) -> tuple[ParameterUpdate, ...]:
        """The updates in the order of the ops that write the parameters."""
        position = {id(op): index for index, op in enumerate(self.program.global_block().ops)}
        return tuple(sorted(self.updates, key=lambda update: position[id(update.step)]))


def read_training(program: Program) -> Training:
    """Take a program apart; TranspilerError where it does not train, or is transpiled already, or updates
    what cannot be told apart.
    """
    ops = program.global_block().ops
    _refuse_transpiled(program)
    updating = [op for op in ops if is_updating(op)]
    if not updating:
        raise TranspilerError(
            "the program has no optimizer ops: call optimizer.minimize(loss) before transpiling it"
        )
    if trained_by_ops(program):
        raise TranspilerError(
            f"{trained_by_ops(program)[0]!r} is trained by an op of the trainers, and gives servers no "
            "gradient: geo-SGD sends its changes (GeoSgdTranspiler)"
        )
    groups = _by_parameter(program, updating)
    idle = {param for param in groups if _is_idle(program, param, groups[param])}
    _refuse_schedules(ops, [op for param in idle for op in groups.pop(param)])
    computed = {
        name for op in ops if not is_updating(op) and not is_scheduling(op) for name in op.output_arg_names
    }
    owners = {name: param for param, group in groups.items() for op in group for name in op.output_arg_names}
    updates = tuple(_update(program, param, group, computed, owners) for param, group in groups.items())
    read = {name for update in updates for op in update.ops for name in op.input_arg_names}
    rates = tuple(name for name in program.rates_of_runs if name in read)
    return Training(program, updates, tuple(op for op in ops if is_scheduling(op)), rates)


def trained_by_ops(main: Program) -> list[str]:
    """Parameters that an op changes itself, and says so in its attribute, such as those of `pyramid_hash`."""
    told = [str(op.attrs.get("distribute_update_vars") or "") for op in main.global_block().ops]
    return list(dict.fromkeys(name for names in told for name in names.split(",") if name))


def _refuse_transpiled(program: Program) -> None:
    for op in program.global_block().ops:
        is_served = op.communicates is not None and (
            op.communicates.is_of_trainer or op.communicates is CommKind.SERVE
        )
        if is_served or (op.type.startswith("c_") and op.role & OpRole.Backward):
            raise TranspilerError(
                f"the program is transpiled already: it has the op {op.type!r} (built at {op.where}); "
                "transpile a fresh copy (program.clone() before the first time)"
            )


def _by_parameter(program: Program, updating: Iterable[Operator]) -> dict[str, list[Operator]]:
    """The updating ops by the parameter that they are for."""
    groups: dict[str, list[Operator]] = {}
    for op in updating:
        # updates that were not made by `minimize` may carry no role variables
        names = op.role_vars or op.inputs.get("Param", [])
        if not names:
            raise TranspilerError(
                f"op {op.type!r} belongs to the optimizer, but not to a parameter: a server cannot "
                f"determine whether to run it\n  {op.call_text()}\n  built at {op.where}"
            )
        groups.setdefault(names[0], []).append(op)
    block = program.global_block()
    for param, group in groups.items():
        if param not in block.vars:
            raise TranspilerError(
                f"op {group[0].type!r} updates {param!r}, which is not a variable of the program\n "
                f" built at {group[0].where}"
            )
    return groups


def _is_idle(program: Program, param: str, group: Sequence[Operator]) -> bool:
    """True for ops that keep an average of a parameter which nothing updates: they stay on the trainers."""
    block = program.global_block()
    written = {name for op in group for name in op.output_arg_names}
    made = [name for name in _outside_reads(group) if not block._var_recursive(name).persistable]
    return param not in written and not made


def _refuse_schedules(ops: Iterable[Operator], staying: Iterable[Operator]) -> None:
    scheduled = {name for op in ops if is_scheduling(op) for name in op.output_arg_names}
    for op in staying:
        for name in scheduled.intersection(op.input_arg_names):
            raise TranspilerError(
                f"op {op.type!r} averages a parameter that no op updates, so it would stay on the "
                f"trainers, but it reads {name!r}, which the servers compute\n  built at {op.where}"
            )


def _update(
    program: Program, param: str, group: list[Operator], computed: set[str], owners: dict[str, str]
) -> ParameterUpdate:
    block = program.global_block()
    # learning rates and accumulators are persistable: what is left comes from this step
    wanted = [name for name in _outside_reads(group) if not block._var_recursive(name).persistable]
    for name in wanted:
        if name not in computed and owners.get(name, param) != param:
            raise TranspilerError(
                f"the update of {param!r} reads {name!r}, which comes from the gradient of "
                f"{owners[name]!r}: parameter servers process one parameter at a time, so ops that "
                "need all gradients (GradientClipByGlobalNorm) would be wrong there; clip by "
                "value or by norm, let each trainer clip its own gradients "
                "(fluid.clip.set_gradient_clip), or use a collective mode\n  built at "
                f"{group[0].where}"
            )
    grads = [name for name in wanted if name in computed]
    if len(grads) != 1:
        raise TranspilerError(
            f"the update of {param!r} should read one gradient, but reads {grads}\n  built at "
            f"{group[0].where}"
        )
    if not any(param in op.output_arg_names for op in group):
        raise TranspilerError(f"no optimizer op writes the parameter {param!r}\n  built at {group[0].where}")
    return ParameterUpdate(param, grads[0], tuple(group))


def _outside_reads(ops: Iterable[Operator]) -> Iterator[str]:
    """Variables that the ops read and none of them wrote before, each once."""
    made: set[str] = set()
    for op in ops:
        for name in op.input_arg_names:
            if name not in made:
                made.add(name)
                yield name
        made.update(op.output_arg_names)
