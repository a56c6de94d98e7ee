"""A parameter server: it merges the trainers' gradients of its slices, updates them, and keeps the
learning-rate schedule.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.base.process import without_collector
from fluidlite.base.registry import AttrType
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program, copy_operator, copy_variable
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from fluidlite.transpiler.parts.edits import append_op, declare_copies, declare_like, mapped_copy
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.transpiler.pserver.placement import Placement, distributed_tables, in_step_at_run_time
from fluidlite.transpiler.pserver.trainer import count_at_start
from fluidlite.transpiler.pserver.training import ParameterUpdate

__all__ = ["declare_shared", "distributed_mode", "make_server", "make_server_startup"]

TRAINER_ID = "@TRAINER_ID@"  # the loop writes it before it runs a block: whose gradient this is


def distributed_mode(config: DistributeTranspilerConfig) -> DistributedMode:
    """The number that stands for a configuration's way to keep in step; like 1.8.5's, it does not depend
    on `half_async`.
    """
    if config.sync_mode or in_step_at_run_time(config):
        return DistributedMode.SYNC
    return DistributedMode.ASYNC if config.runtime_split_send_recv else DistributedMode.HALF_ASYNC


@without_collector()
def make_server(
    placement: Placement, endpoint: str, trainer: int = 0, threads: ServerRuntimeConfig | None = None
) -> Program:
    """The main program of the server at `endpoint`: `listen_and_serv`, and a block for each slice that it
    holds.

    `trainer` is the number of the trainer whose name of a gradient the role variables give.
    """
    return _Server(placement, endpoint, trainer).build(threads or ServerRuntimeConfig())


def declare_shared(placement: Placement, endpoint: str, block: Block) -> None:
    """Declare what the server at `endpoint` draws for all trainers, and never updates."""
    for name, place in placement.shared:
        if place == endpoint:
            declare_like(block, placement.training.program.global_block().vars[name])


class _Server:
    """Builds one server's main program."""

    def __init__(self, placement: Placement, endpoint: str, trainer: int) -> None:
        self.placement = placement
        self.endpoint = endpoint
        self.held = placement.by_endpoint[endpoint]
        self.roles = placement.renames(trainer)
        self.origin = placement.training.program
        self.program = Program()
        self.program._seed = self.origin._seed
        self.block = self.program.global_block()
        self.corrected = itertools.count()

    def build(self, threads: ServerRuntimeConfig) -> Program:
        """The program."""
        received = [
            name
            for param in self.placement.placed
            if param in self.held
            for name in self.declare(self.held[param])
        ]
        declare_shared(self.placement, self.endpoint, self.block)
        blocks = [self.schedule_block()] if self.placement.training.schedule else []
        # the block made last, as in 1.8.5: where there is a schedule, updates see its variables
        parent = len(self.program.blocks) - 1
        of_grad: list[str] = []
        for rate in self.placement.training.rates:
            received += self.placement.rate_names(rate)
            of_grad.append(self.rate_block(rate, parent))
            blocks.append(self.program.blocks[-1])
        for update in self.placement.training.by_step:
            if update.param in self.held:
                blocks.append(self.update_block(update, parent))
                of_grad.append(f"{self.held[update.param].grad_name}:{blocks[-1].idx}")
        # one empty block, as in 1.8.5: a server without parameters still takes part in the barriers
        blocks = blocks or [self.new_block(parent)]
        self.listen(received, blocks, of_grad, self.saving_block(), threads)
        return self.program

    def new_block(self, parent: int) -> Block:
        block = self.program._create_block(parent)
        # layers append to the current block, and a caller goes on with the outermost
        self.program.current_block_idx = 0
        return block

    def declare(self, piece: Slice) -> list[str]:
        """Declare a slice and the gradients that arrive for it; gives the names of these."""
        variables = self.origin.global_block()
        declare_like(self.block, variables._var_recursive(piece.param), piece.param_name, piece.shape)
        gradient = variables._var_recursive(piece.grad)
        declare_like(self.block, gradient, piece.grad_name, piece.shape)
        arriving = self.placement.arriving_names(piece)
        if self.placement.suffixed:
            first = declare_like(self.block, gradient, arriving[0], piece.shape, persistable=False)
            declare_copies(self.block, first, arriving[1:])
        return arriving

    # ------------------------------------------------------------------ the learning rate
    def schedule_block(self) -> Block:
        """The ops of the learning-rate schedule, with their sub-blocks."""
        block = self.new_block(0)
        for op in self.placement.training.schedule:
            if self.placement.counter is not None and self.placement.counter.name in op.output_arg_names:
                self.add_up_steps(block, self.placement.counter, op)
            else:
                self.copy_schedule_op(op, block)
        return block

    def add_up_steps(self, block: Block, counter: Variable, like: Operator) -> None:
        names = self.placement.counter_names()
        declare_copies(self.block, declare_like(self.block, counter), names)
        append_op(
            block, "sum", {"X": names}, {"Out": [counter.name]}, like, **{ROLE_ATTR: int(OpRole.LRSched)}
        )

    def rate_block(self, rate: str, parent: int) -> str:
        """Take over the learning rate that the trainers have sent; gives `name:block`, which asks for it."""
        block = self.new_block(parent)
        var = declare_like(self.block, self.origin.global_block()._var_recursive(rate))
        names = self.placement.rate_names(rate)
        new = [f"{rate}.new"]
        for name in dict.fromkeys([*names, *new]):
            declare_like(self.block, var, name, persistable=False)
        if self.placement.suffixed:
            share = {"scale": 1.0 / self.placement.trainers}
            block.append_op("sum", {"X": names}, {"Out": new})
            block.append_op("scale", {"X": new}, {"Out": new}, share)
        block.append_op("assign", {"X": new}, {"Out": [rate]})
        return f"{rate}.new:{block.idx}"

    def copy_schedule_op(self, op: Operator, block: Block) -> None:
        source = op.block
        for name in (*op.input_arg_names, *op.output_arg_names):
            var = source._var_recursive(name)
            declare_like(
                self.block if name in self.origin.global_block().vars else block,
                var,
                persistable=var.type != VarType.STEP_SCOPES,
            )
        copy = mapped_copy(_without_blocks(op), block, {}, {})
        for name, inner in op.attrs.items():
            if isinstance(inner, Block):
                copy._set_attr(name, self.copy_schedule_block(inner, block))

    def copy_schedule_block(self, inner: Block, parent: Block) -> Block:
        block = self.new_block(parent.idx)
        for op in inner.ops:
            self.copy_schedule_op(op, block)
        return block

    # ------------------------------------------------------------------ one slice
    def update_block(self, update: ParameterUpdate, parent: int) -> Block:
        """Merge the trainers' gradients, then update."""
        block = self.new_block(parent)
        piece = self.held[update.param]
        # asynchronous gradients are applied one by one, as they come
        if self.placement.sync_mode or self.placement.suffixed:
            self.merge(block, piece, update)
        # the ops keep their own names for everything else: accumulators are called as in the whole program
        names = {piece.param: piece.param_name, piece.grad: piece.grad_name}
        delayed = self.placement.config.enable_dc_asgd and not self.placement.sync_mode
        for op in update.ops:
            self.declare_for(op, piece)
            step_names = names
            # what the step reads is corrected: penalties are part of it, as in fluid
            if delayed and op is update.step:
                step_names = {**names, **self.correct_delay(block, piece, op, names)}
            mapped_copy(op, block, step_names, self.roles)
        return block

    def merge(self, block: Block, piece: Slice, update: ParameterUpdate) -> None:
        """The mean over the trainers."""
        merged = [piece.grad_name]
        append_op(block, "sum", {"X": self.placement.arriving_names(piece)}, {"Out": merged}, update.step)
        share = 1.0 / self.placement.trainers
        append_op(block, "scale", {"X": merged}, {"Out": merged}, update.step, scale=share)

    def declare_for(self, op: Operator, piece: Slice) -> None:
        """Declare what an op of the update reads and writes; what has the parameter's shape has the
        slice's here.
        """
        variables = self.origin.global_block()
        whole = variables._var_recursive(piece.param).shape
        for name in (*op.input_arg_names, *op.output_arg_names):
            if name in (piece.param, piece.grad):
                continue
            var = variables._var_recursive(name)
            # an accumulator of the parameter's shape is cut with it; one number goes with every slice
            is_cut = var.shape == whole and not _is_unread(op, name)
            declare_like(self.block, var, shape=piece.shape if is_cut else var.shape)

    def correct_delay(
        self, block: Block, piece: Slice, step: Operator, names: Mapping[str, str]
    ) -> dict[str, str]:
        """DC-ASGD (Zheng et al., 2017): g + g * g * (w - w as this trainer knew it), lambda being 1; gives
        the gradient that the step reads with the name of the corrected one.
        """
        param = self.block.var(piece.param_name)
        kept = self.placement.backup_names(piece)
        for name in kept:
            declare_like(self.block, param, name, persistable=False)
        if TRAINER_ID not in block.vars:
            block.create_var(name=TRAINER_ID, shape=[1], dtype="int64")
        known = declare_like(block, param, f"{piece.param_name}.local_bak", persistable=False).name
        read = (step.inputs.get("Grad") or [piece.grad])[0]
        append_op(block, "ref_by_trainer_id", {"X": kept, "TrainerId": [TRAINER_ID]}, {"Out": [known]}, step)
        if self.reads_rows(step):
            rows = self.origin.global_block()._var_recursive(read)
            new = declare_like(block, rows, self.next_output(), param.shape, persistable=False).name
            inputs = {"X": [names.get(read, read)], "Table": [piece.param_name], "Known": [known]}
            append_op(block, "correct_delayed_rows", inputs, {"Out": [new]}, step)
            return {read: new}
        return {read: self.correct_elements(block, param, known, names.get(read, read), step)}

    def correct_elements(self, block: Block, param: Variable, known: str, grad: str, step: Operator) -> str:
        """The same for a dense gradient, with 1.8.5's ops; gives the name of the corrected one."""
        new = [declare_like(block, param, self.next_output(), persistable=False).name for _ in range(4)]
        for type, x, y, out in (
            ("sub", param.name, known, new[0]),
            ("mul", new[0], grad, new[1]),
            ("mul", new[1], grad, new[2]),
            ("add", grad, new[2], new[3]),
        ):
            append_op(block, f"elementwise_{type}", {"X": [x], "Y": [y]}, {"Out": [out]}, step)
        return new[3]

    def next_output(self) -> str:
        """The name of another variable of a correction."""
        return f"tmp_dc_output_{next(self.corrected)}"

    def reads_rows(self, op: Operator) -> bool:
        """True if an op of an update reads a gradient of which only some rows are there."""
        block = self.origin.global_block()
        return any(
            block._var_recursive(name).type == VarType.SELECTED_ROWS for name in op.inputs.get("Grad", ())
        )

    # ------------------------------------------------------------------ the loop
    def saving_block(self) -> int:
        """The block that runs when a trainer's `checkpoint_notify` asks for the tables; -1 where the
        server holds none.
        """
        tables = [self.held[name] for name in distributed_tables(self.origin) if name in self.held]
        if not tables:
            return -1
        self.block.create_var(name="kLookupTablePath", type=VarType.RAW, persistable=True)
        block = self.new_block(len(self.program.blocks) - 1)
        for piece in tables:
            block.append_op("save", {"X": piece.param_name}, {}, {"file_path": "none"})
        return block.idx

    def listen(
        self,
        received: list[str],
        blocks: Sequence[Block],
        of_grad: list[str],
        saving: int,
        threads: ServerRuntimeConfig,
    ) -> None:
        placement = self.placement
        self.block.append_op(
            "listen_and_serv",
            {"X": received},
            {},
            {
                "optimize_blocks": list(blocks),
                "endpoint": self.endpoint,
                "pserver_id": placement.endpoints.index(self.endpoint),
                "Fanin": placement.trainers,
                "distributed_mode": int(distributed_mode(placement.config)),
                "grad_to_block_id": of_grad,
                "sparse_grad_to_param": self.sparse_gradients(),
                "dc_asgd": bool(placement.config.enable_dc_asgd),
                "checkpint_block_id": saving,
                "lr_decay_block_id": blocks[0].idx if placement.training.schedule else -1,
                **threads.attributes(),
            },
        )

    def sparse_gradients(self) -> list[str]:
        """`gradient:parameter` for the slices whose updates read rows, in the order of the updates: a penalty
        makes a dense gradient of them.
        """
        pieces = [
            self.held[update.param]
            for update in self.placement.training.by_step
            if update.param in self.held and any(self.reads_rows(op) for op in update.ops)
        ]
        return [f"{piece.grad_name}:{piece.param_name}" for piece in pieces]


def _without_blocks(op: Operator) -> Operator:
    """The op, in its own program, without the attributes that are blocks: the copy gets those of its own
    program.
    """
    copy = copy_operator(op, op.block)
    copy.attrs = {name: value for name, value in copy.attrs.items() if not isinstance(value, Block)}
    copy.attr_types = {name: kind for name, kind in copy.attr_types.items() if kind != AttrType.BLOCK}
    return copy


def _is_unread(op: Operator, name: str) -> bool:
    """True if the op names a variable that it does not look at: rmsprop's mean gradient where it is not
    centred stays whole, as in fluid.
    """
    return op.type == "rmsprop" and not op.attrs.get("centered") and name in op.inputs.get("MeanGrad", ())


# ---------------------------------------------------------------------- the startup program
@without_collector()
def make_server_startup(placement: Placement, endpoint: str, main: Program, startup: Program) -> Program:
    """The startup program of the server at `endpoint`: those ops of the whole job's that fill what it
    holds.
    """
    program = Program()
    program._seed = startup._seed
    program._is_start_up_program_ = True
    block = program.global_block()
    held = placement.by_endpoint[endpoint]
    source = startup
    if placement.counter is not None:
        source = startup.clone()
        count_at_start(placement, source, placement.first_counts(startup))
    for var in main.global_block().vars.values():
        copy = block.vars[var.name] = copy_variable(var, block)
        copy.persistable = var.type not in (VarType.STEP_SCOPES, VarType.RAW)
    names = {param: piece.param_name for param, piece in held.items()}
    for op in source.global_block().ops:
        if any(names.get(name, name) in block.vars for name in op.output_arg_names):
            _fill(op, block, held, names)
    # before the first step every trainer knows the parameter as it was filled
    if placement.config.enable_dc_asgd and not placement.sync_mode:
        for piece in held.values():
            for name in placement.backup_names(piece):
                block.append_op("assign", {"X": piece.param_name}, {"Out": name})
    return program


def _fill(op: Operator, block: Block, held: Mapping[str, Slice], names: Mapping[str, str]) -> None:
    """Copy an op that fills a variable; where the variable is cut here, it fills the slice."""
    for name in op.input_arg_names:
        declare_like(block, op.block._var_recursive(name))
    copy = mapped_copy(op, block, names, {})
    shape = block.var(copy.output_arg_names[0]).shape
    # random slices are filled by an op of the slice's shape: not the numbers of the whole, as in fluid
    if copy.has_attr("shape") and tuple(copy.attrs["shape"]) != shape:
        copy.attrs["shape"] = [int(dim) for dim in shape]
        piece = held.get(op.output_arg_names[0])
        if op.type == "assign_value" and piece is not None:
            _keep_rows(copy, piece)


def _keep_rows(op: Operator, piece: Slice) -> None:
    """Leave in an `assign_value` only the values of a slice's rows."""
    width = 1
    for dim in piece.shape[1:]:
        width *= dim
    first = piece.first_row * width
    last = (piece.first_row + piece.shape[0]) * width
    for name in ("fp32_values", "int32_values", "int64_values", "bool_values"):
        if op.attrs.get(name):
            op.attrs[name] = op.attrs[name][first:last]
