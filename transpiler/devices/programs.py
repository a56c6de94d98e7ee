"""Programs for the devices of one process, made from one program that all of them train."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from fluidlite.base import flags, registry
from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.records import dataclass
from fluidlite.base.strategies import BuildStrategy, GradientScaleStrategy, ReduceStrategy
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.prune import reads, writes
from fluidlite.transpiler.devices.trainers import talks_to_servers, trainer_programs
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import LOSS_GRADIENT, is_distributed
from fluidlite.transpiler.rings.buckets import backward_passes
from fluidlite.transpiler.rings.gradients import reduce_gradients, scale_loss_gradients

__all__ = ["Division", "for_devices", "has_backward", "loss_gradients", "needs_all", "reading_first"]

# Of gradients that are reduced together, unless FLAGS_fuse_parameter_memory_size says otherwise
BUCKET_BYTES = 32 << 20


def has_backward(program: Program) -> bool:
    """True if the program makes gradients of a loss."""
    return any(op.role == LOSS_GRADIENT for block in program.blocks for op in block.ops)


def needs_all(program: Program, strategy: BuildStrategy) -> bool:
    """True if the devices wait for each other while they run the program: then none can be left out."""
    synchronised = ("batch_norm",) if strategy.sync_batch_norm else ()

    def waits(op: Operator) -> bool:
        kind = op.communicates
        meets = op.waits or (kind is not None and not kind.is_served)
        return meets or op.type in ("sync_batch_norm", *synchronised)

    return has_backward(program) or any(waits(op) for block in program.blocks for op in block.ops)


def loss_gradients(program: Program) -> list[str]:
    """The variables from which the backward passes start."""
    return [op.output_arg_names[0] for op in program.global_block().ops if op.role == LOSS_GRADIENT]


@dataclass(frozen=True)
class Division:
    """Division of the training of a program among devices.

    Attributes
    ----------
    programs: the program of each device.
    shared: persistable variables that all use in one place, each written by one device.
    closing: the same programs, at whose end all `shared` variables are written.
    own: for each device the persistable variables of which it has its own.
    readers: the variables that `read` ops take batches from.
    makers: the ops that make these readers, which the devices share; None where the program makes none.
    partial: readers of which the last batches are read too where they are fewer than the devices.
    made: variable -> the one device that makes it, for those on the way to an update that one device does.
    """

    programs: tuple[Program, ...]
    shared: frozenset[str] = frozenset()
    closing: tuple[Program, ...] = ()
    own: tuple[tuple[str, ...], ...] = ()
    readers: tuple[str, ...] = ()
    makers: Program | None = None
    partial: frozenset[str] = frozenset()
    made: Mapping[str, int] = field(default_factory=dict)

    def made_by(self, name: str) -> int | None:
        """The one device that makes a variable; None where each makes its own."""
        return self.made.get(name)

    def programs_for(self, fetches: Iterable[str]) -> tuple[Program, ...]:
        """The program of each device for a run that fetches these variables."""
        return self.programs if self.shared.isdisjoint(fetches) else self.closing


def for_devices(program: Program, strategy: BuildStrategy, devices: int, one_memory: bool) -> Division:
    """Divide a program among devices; say what each of them keeps, and where batches come from."""
    makers, rest = _split_readers(program)
    division = _divide(rest, strategy, devices, one_memory)
    return replace(
        division,
        own=_kept_apart(division, one_memory),
        readers=_readers_of(program),
        makers=makers,
        partial=_partial_readers_of(program),
    )


def _divide(program: Program, strategy: BuildStrategy, devices: int, one_memory: bool) -> Division:
    """Divide a program among devices, which may have `one_memory`.

    Every device has a part of each batch, and all get the same gradients. With ReduceStrategy.Reduce, each
    gets those of its own parameters, updates these, and gives them to the others; in one memory it does so in
    any case, without giving anything. A program that makes no gradients, or reduces them itself, stays as it
    is.
    """
    ranks = devices * strategy.num_trainers
    main = _with_loss_gradient(program, strategy)
    if strategy.sync_batch_norm:
        main = _with_synchronised_statistics(main)
    if not _has_gradients(main) or _reduces(main) or ranks == 1:
        return Division((main,) * devices)
    share = ranks if strategy.gradient_scale_strategy == GradientScaleStrategy.CoeffNumDevice else 1
    if talks_to_servers(main):
        programs, received = trainer_programs(
            main, min(share, devices), devices, _bucket_bytes(strategy), one_memory
        )
        return Division(tuple(programs), frozenset(received), tuple(programs))
    if strategy.reduce_strategy == ReduceStrategy.Reduce and devices > 1 and strategy.num_trainers == 1:
        made = _made_for_updates(main.global_block(), _owners(main.global_block(), devices), devices)
        return Division(tuple(_reduced_to_owners(main, share, devices)), made=made)
    reduced = reduce_gradients(main, share, 1, _bucket_bytes(strategy))
    together = _updated_together(reduced, devices) if one_memory and devices > 1 else None
    return together or Division((reduced,) * devices)


def _bucket_bytes(strategy: BuildStrategy) -> int:
    if not strategy.fuse_all_reduce_ops:
        return 0
    megabytes = float(flags.get_flags("FLAGS_fuse_parameter_memory_size")["FLAGS_fuse_parameter_memory_size"])
    return int(megabytes * (1 << 20)) if megabytes > 0 else BUCKET_BYTES


def _has_gradients(program: Program) -> bool:
    return next(backward_passes(program.global_block()), None) is not None


def _reduces(program: Program) -> bool:
    """True if the program was transpiled: then it reduces its gradients by itself."""
    return any(
        op.communicates is CommKind.ALL_REDUCE and op.role & OpRole.Backward
        for op in program.global_block().ops
    )


def _with_loss_gradient(program: Program, strategy: BuildStrategy) -> Program:
    """The program without the op that starts the gradient of the loss, where the user feeds that."""
    if strategy.gradient_scale_strategy != GradientScaleStrategy.Customized or not has_backward(program):
        return program
    new = program.clone()
    block = new.global_block()
    start = [op for op in block.ops if op.role == LOSS_GRADIENT]
    block.remove_ops(start, given={name for op in start for name in op.output_arg_names})
    return new


def _with_synchronised_statistics(program: Program) -> Program:
    """The program with the statistics of each batch_norm taken over all devices."""
    new = program.clone()
    # slots and attributes are the same, so the type is all that changes
    for block in new.blocks:
        for op in block.ops:
            if op.type.removesuffix("_grad") == "batch_norm":
                op.type = f"sync_{op.type}"
                op.definition = registry.get(op.type)
    new.bump_version()
    return new


# ---------------------------------------------------------------------- ReduceStrategy.Reduce
def _reduced_to_owners(program: Program, share: int, devices: int) -> list[Program]:
    """For each device a program that updates its own parameters from the sums of their gradients, and is
    given the others.
    """
    owners = _owners(program.global_block(), devices)
    return [_of_owner(program, share, owners, device) for device in range(devices)]


def _owners(block: Block, devices: int) -> dict[str, int]:
    """Parameter -> the device that updates it: the largest first, each to the device with least to do."""
    backward = [op for op in block.ops if op.role & OpRole.Backward]
    names = dict.fromkeys(name for op in backward for name in op.role_vars[::2])
    sizes = {name: _bytes(block, name) for name in names}
    loads = [0] * devices
    found = {}
    for name in sorted(names, key=lambda name: (-sizes[name], name)):
        found[name] = loads.index(min(loads))
        loads[found[name]] += sizes[name]
    return found


def _bytes(block: Block, name: str) -> int:
    var = block._var_recursive(name)
    return math.prod(var.shape) * to_numpy(var.dtype).itemsize


def _of_owner(program: Program, share: int, owners: dict[str, int], device: int) -> Program:
    new = program.clone()
    block = new.global_block()
    # anchors are found before anything is removed: the ops of other owners are among them
    updates = _last_updates(block, owners)
    foreign = [set(_foreign(block, owners, other)) for other in range(max(owners.values()) + 1)]
    edits = Insertions(block)
    for op, name in _gradients(block):
        _gather(edits, op, name, _readers(block, name, owners, foreign))
    scale_loss_gradients(edits, share)
    _give_back(edits, updates, owners)
    edits.apply()
    block.remove_ops(set(_foreign(block, owners, device)))
    return new


def _gradients(block: Block) -> Iterator[tuple[Operator, str]]:
    """The gradients of parameters, each with the op that makes it."""
    for backward in backward_passes(block):
        for op, names in backward.makers:
            yield from ((op, name) for name in names)


def _last_updates(block: Block, owners: dict[str, int]) -> dict[str, Operator]:
    """Parameter -> the optimizer op that writes it last."""
    return {
        name: op
        for op in block.ops
        if op.role & OpRole.Optimize
        for name in op.output_arg_names
        if name in owners
    }


def _foreign(block: Block, owners: dict[str, int], device: int) -> Iterator[Operator]:
    """The updating ops that `device` leaves to others: those for their parameters that nothing else here
    depends on.
    """
    needed: set[str] = set()
    for op in reversed(block.ops):
        is_update = op.role & OpRole.Optimize and not op.role & OpRole.LRSched
        is_others = owners.get(_parameter_of(op), device) != device
        # parameters come from their owners afterwards, so that a later op reads one is no reason to stay
        results = set(op.output_arg_names) - owners.keys()
        if is_update and is_others and needed.isdisjoint(results):
            yield op
        else:
            needed.update(reads(op))


def _made_for_updates(block: Block, owners: dict[str, int], devices: int) -> dict[str, int]:
    """Variable that does not outlive the step -> the device that writes it, where the others leave out the
    last op that does.
    """
    left = {op for device in range(devices) for op in _foreign(block, owners, device)}
    found: dict[str, int] = {}
    for op in block.ops:
        for name in op.output_arg_names:
            # an earlier op wrote it; the last one decides
            found.pop(name, None)
            if op in left and not _persistables(block.program, [name]):
                found[name] = owners[_parameter_of(op)]
    return found


def _parameter_of(op: Operator) -> str:
    """The parameter that an updating op is for; nothing where it does not say."""
    return op.role_vars[0] if op.role_vars else next(iter(op.inputs.get("Param", ())), "")


def _readers(
    block: Block, gradient: str, owners: dict[str, int], foreign: Sequence[set[Operator]]
) -> set[int]:
    """The devices on which some op after the backward pass reads a gradient."""
    users = [op for op in block.ops if gradient in op.input_arg_names and not op.role & OpRole.Backward]
    return {device for device, left in enumerate(foreign) if any(op not in left for op in users)}


def _gather(edits: Insertions, maker: Operator, gradient: str, devices: set[int]) -> None:
    """Sum a gradient for the one device that reads it, or for all."""
    inout = {"X": gradient}, {"Out": gradient}
    if len(devices) == 1:
        edits.after(maker, "c_reduce_sum", *inout, OpRole.Backward, ring_id=0, root_id=next(iter(devices)))
    else:
        edits.after(maker, "c_allreduce_sum", *inout, OpRole.Backward, ring_id=0)


def _give_back(edits: Insertions, updates: dict[str, Operator], owners: dict[str, int]) -> None:
    """Hand each parameter from its owner to the others: at the end, or after its update where a later op
    reads it.
    """
    ops = edits.block.ops
    position = {op: index for index, op in enumerate(ops)}
    for name, op in updates.items():
        read_later = any(name in reads(later) for later in ops[position[op] + 1 :])
        put = functools.partial(edits.after, op) if read_later else edits.last
        put("c_broadcast", {"X": name}, {"Out": name}, OpRole.Optimize, ring_id=0, root=owners[name])


# ---------------------------------------------------------------------- parameters in one memory
def _updated_together(program: Program, devices: int) -> Division | None:
    """Each device updates its share of the parameters, which all of them see; None where that cannot be told
    to be safe.

    It is safe when no op reads what an update writes, or writes what an update reads of its own parameter,
    between the first update and the end of the step: everything before is over when the devices meet in front
    of the first update.
    """
    block = program.global_block()
    owners = _owners(block, devices)
    # each device has its own part of such a parameter
    if any(is_distributed(block, name) for name in owners):
        return None
    foreign = [set(_foreign(block, owners, device)) for device in range(devices)]
    updates = [op for op in block.ops if any(op in left for left in foreign)]
    shared = _persistables(program, (name for op in updates for name in writes(op)))
    if (
        not updates
        or len(list(backward_passes(block))) != 1
        or not owners.keys() <= shared
        or not _is_safe(block, owners, updates, shared)
    ):
        return None
    left_out = list(_positions(block, foreign))
    programs = tuple(_of_device(program, left, updates[0], closing=False) for left in left_out)
    closing = tuple(_of_device(program, left, updates[0], closing=True) for left in left_out)
    return Division(programs, frozenset(shared), closing, made=_made_for_updates(block, owners, devices))


def _is_safe(block: Block, owners: dict[str, int], updates: Sequence[Operator], shared: set[str]) -> bool:
    """True if nobody else uses what updates write once they have begun, and no two devices write the same."""
    mine = set(updates)
    start = block.ops.index(updates[0])
    if any(shared & writes(op) for op in block.ops if op not in mine):
        return False
    if any(shared & reads(op) for op in block.ops[start:] if op not in mine):
        return False
    writers: dict[str, int] = {}
    for op in updates:
        owner = owners[_parameter_of(op)]
        if any(writers.setdefault(name, owner) != owner for name in shared & writes(op)):
            return False
    return all(writers[name] == owners[_parameter_of(op)] for op in updates for name in shared & reads(op))


def _positions(block: Block, foreign: Sequence[set[Operator]]) -> list[set[int]]:
    return [{index for index, op in enumerate(block.ops) if op in left} for left in foreign]


def _of_device(program: Program, foreign: set[int], first: Operator, closing: bool) -> Program:
    """The program without the updates of other devices; all meet before the first update, and at the end
    when it is `closing`.
    """
    new = program.clone()
    block = new.global_block()
    start = program.global_block().ops.index(first)
    left = {block.ops[index] for index in foreign}
    edits = Insertions(block)
    name = _something_small(block, start)
    edits.before(block.ops[start], "barrier", {"X": name}, {"Out": name}, OpRole.Backward, ring_id=0)
    if closing:
        edits.last("barrier", {"X": name}, {"Out": name}, OpRole.Optimize, ring_id=0)
    edits.apply()
    block.remove_ops(left)
    return new


def _something_small(block: Block, start: int) -> str:
    """A variable for a barrier: the gradient of the loss; for want of one that of a small parameter, for
    which it has to wait.
    """
    pairs = [
        pair for op in block.ops[:start] for pair in zip(op.role_vars[::2], op.role_vars[1::2], strict=True)
    ]
    found = loss_gradients(block.program)
    return found[0] if found else min(pairs, key=lambda pair: _bytes(block, pair[0]))[1]


# ---------------------------------------------------------------------- what is kept where
def _persistables(program: Program, names: Iterable[str]) -> set[str]:
    block = program.global_block()
    return {
        name for name in names if (var := block._find_var_recursive(name)) is not None and var.persistable
    }


def _used(program: Program) -> tuple[set[str], set[str]]:
    """The persistable variables that a program reads, and those that it writes."""
    ops = program.global_block().ops
    return (
        _persistables(program, (name for op in ops for name in reads(op))),
        _persistables(program, (name for op in ops for name in writes(op))),
    )


def _kept_apart(division: Division, one_memory: bool) -> tuple[tuple[str, ...], ...]:
    """For each device the persistable variables of which it has its own: those that it writes and another one
    uses too.

    Devices with memories of their own have all that they use.
    """
    used = [_used(program) for program in division.programs]
    if not one_memory:
        return tuple(tuple(sorted(read | written)) for read, written in used)
    found = []
    for device, (_, written) in enumerate(used):
        others = used[:device] + used[device + 1 :]
        elsewhere = {name for read, wrote in others for name in read | wrote}
        mine = written - division.shared
        found.append(tuple(sorted(mine & elsewhere if others else mine)))
    return tuple(found)


def _split_readers(program: Program) -> tuple[Program | None, Program]:
    """The part of a program that makes readers (None where it makes none), and the rest: the devices share
    the readers.
    """
    made = [op for op in program.global_block().ops if _makes_reader(program, op)]
    if not made:
        return None, program
    makers = program.clone()
    rest = program.clone()
    for new, keep in ((makers, True), (rest, False)):
        block = new.global_block()
        block.remove_ops([op for op in block.ops if _makes_reader(new, op) != keep])
    return makers, rest


def reading_first(program: Program) -> Program:
    """The program with the ops that make and use readers in front of all others; itself if they are."""

    def order(program: Program) -> list[Operator]:
        ops = program.global_block().ops
        return sorted(ops, key=lambda op: op.type != "read" and not _makes_reader(program, op))

    if order(program) == program.global_block().ops:
        return program
    ordered = program.clone()
    ordered.global_block().set_ops(order(ordered))
    return ordered


def _makes_reader(program: Program, op: Operator) -> bool:
    variables = [program.global_block()._find_var_recursive(name) for name in op.output_arg_names]
    return bool(variables) and all(var is not None and var.type == VarType.READER for var in variables)


def _readers_of(program: Program) -> tuple[str, ...]:
    """The variables that `read` ops of a program take batches from."""
    reads = [op for op in program.global_block().ops if op.type == "read"]
    return tuple(dict.fromkeys(name for op in reads for name in op.input("Reader")))


def _partial_readers_of(program: Program) -> frozenset[str]:
    """The variables whose `read` op does not drop the last batches."""
    reads = [op for op in program.global_block().ops if op.type == "read" and not op.attr("drop_last")]
    return frozenset(name for op in reads for name in op.input("Reader"))
