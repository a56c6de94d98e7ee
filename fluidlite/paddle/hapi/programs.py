"""The programs of a `paddle.Model`: one each for training, evaluation and prediction, over one set of
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.ir import program as ir
from fluidlite.ir.variable import Variable
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.programs import Program, default_main_program, default_startup_program
from fluidlite.paddle.static.amp.decorator import decorate
from fluidlite.paddle.static.amp.fp16_lists import AutoMixedPrecisionLists
from fluidlite.paddle.static.executor import Executor
from fluidlite.paddle.static.inputs import InputSpec, data
from fluidlite.paddle.tensor.math import add_n
from fluidlite.saving.variables import get_program_persistable_vars
from fluidlite.values.scope import global_scope

__all__ = ["ModeProgram", "Training", "build", "flat", "initialise"]

_SCALING = frozenset(
    [
        "init_loss_scaling",
        "incr_ratio",
        "decr_ratio",
        "incr_every_n_steps",
        "decr_every_n_nan_or_inf",
        "use_dynamic_loss_scaling",
    ]
)
_LISTS = frozenset(["custom_white_list", "custom_black_list", "custom_black_varnames"])


@dataclass(frozen=True)
class Training:
    """The arguments of `Model.prepare`."""

    optimizer: Any = None
    loss: Any = None
    metrics: tuple[Any, ...] = ()
    amp: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModeProgram:
    """A program and what is fetched of it: the outputs of the network, losses, and for each metric what its
    `update` takes.
    """

    program: ir.Program
    inputs: list[Variable]
    outputs: list[Variable]
    losses: list[Variable]
    metrics: list[list[Variable]]


def flat(values: Any) -> list[Any]:
    """The values in nested lists, tuples and dicts, in order."""
    if values is None:
        return []
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, (list, tuple)):
        return [inner for value in values for inner in flat(value)]
    return [values]


def build(
    mode: str, network: Layer, inputs: Sequence[InputSpec], labels: Sequence[InputSpec], training: Training
) -> ModeProgram:
    """The program of a mode: "train", "eval" or "test". Its initialisers go to the startup program at hand,
    and the network's parameters are those of the program that was at hand before, again.
    """
    program = Program()
    program.random_seed = default_main_program().random_seed
    with ir.program_guard(program, default_startup_program()):
        fed = [data(str(spec.name), spec.shape, spec.dtype) for spec in inputs]
        network._set_training(mode == "train")
        outputs = flat(network(*fed))
        losses: list[Variable] = []
        metrics: list[list[Variable]] = []
        if mode != "test":
            known = [data(str(spec.name), spec.shape, spec.dtype) for spec in labels]
            if training.loss is not None:
                losses = flat(training.loss(*outputs, *known))
            metrics = [flat(metric.compute(*outputs, *known)) for metric in training.metrics]
            if mode == "train":
                _optimizer(training).minimize(add_n(losses))
    network._declare()
    return ModeProgram(program, fed, outputs, losses, metrics)


def _optimizer(training: Training) -> Any:
    """The optimizer, made to train in half precision where `amp` says so."""
    amp = dict(training.amp)
    level = amp.pop("level", "O0")
    if level == "O0":
        return training.optimizer
    lists = AutoMixedPrecisionLists(**{name: amp.pop(name) for name in _LISTS & set(amp)})
    guard = amp.pop("use_fp16_guard", False)
    scaling = {name: amp.pop(name) for name in _SCALING & set(amp)}
    return decorate(
        training.optimizer, lists, **scaling, use_pure_fp16=level == "O2", use_fp16_guard=bool(guard)
    )


def amp_settings(given: Any) -> dict[str, Any]:
    """`amp_configs` of `Model.prepare` as a dict with a level. ValueError for anything else."""
    settings = {"level": given} if isinstance(given, str) else dict(given or {})
    if not settings:
        return {}
    level = settings.setdefault("level", "O1")
    if level not in ("O0", "O1", "O2"):
        raise ValueError(f"The level of amp_configs should be 'O0', 'O1' or 'O2', but received {level!r}.")
    unknown = set(settings) - _SCALING - _LISTS - {"level", "use_fp16_guard"}
    if unknown:
        raise ValueError(f"amp_configs has no settings named {sorted(unknown)}")
    return settings


def initialise(executor: Executor, startup: ir.Program, programs: Sequence[ir.Program]) -> None:
    """Run the initialisers of those variables that have no value yet: what was trained or loaded stays."""
    scope = global_scope()
    there = set()
    for program in programs:
        for var in get_program_persistable_vars(program):
            held = scope.find_var(var.name)
            if held is not None and held.is_initialized():
                there.add(var.name)
    missing = startup.clone()
    block = missing.global_block()
    for op in list(block.ops):
        if there.issuperset(op.output_arg_names):
            block._remove_op(block.ops.index(op))
    executor.run(missing)
