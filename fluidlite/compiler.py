"""`CompiledProgram`: how a program is compiled for one or more devices, and run on them."""

from __future__ import annotations

import copy
import functools
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from fluidlite.base.abstract import abstract
from fluidlite.base.errors import EnforceNotMet, did_you_mean
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import CUDAPlace, Place, cpu_places, cuda_places
from fluidlite.base.strategies import (
    BuildStrategy,
    ExecutionStrategy,
    GradientScaleStrategy,
    ReduceStrategy,
    ignored,
)
from fluidlite.compat.graph import ProgramGraph
from fluidlite.compat.inference.config import AnalysisConfig, NativeConfig
from fluidlite.compat.inference.predictor import create_paddle_predictor
from fluidlite.debugger import draw_block_graphviz
from fluidlite.executor.compiled import Compiled
from fluidlite.executor.devices.batches import fed_variable
from fluidlite.executor.devices.by_hand import DeviceSteps
from fluidlite.executor.devices.data_parallel import Runner, RunOptions
from fluidlite.executor.executor import merge_feed_list
from fluidlite.executor.fetching import split_fetches
from fluidlite.ir.block import Block
from fluidlite.ir.guarded import guarded
from fluidlite.ir.operator import ROLE_VAR_ATTR, OpRole
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.transpiler.devices.programs import (
    for_devices,
    has_backward,
    loss_gradients,
    needs_all,
    reading_first,
)

__all__ = ["BuildStrategy", "CompiledProgram", "ExecutionStrategy", "GradientScaleStrategy", "ReduceStrategy"]

_told: set[str] = set()  # the options of which the user knows that they change nothing


class CompiledProgram(Compiled):
    """A program with the options of its compiling; `Executor.run` takes it where it takes a Program."""

    def __init__(self, program_or_graph: Any, build_strategy: BuildStrategy | None = None) -> None:
        if isinstance(program_or_graph, ProgramGraph):
            program_or_graph = program_or_graph.to_program()
        if not isinstance(program_or_graph, Program):
            raise TypeError(
                "The type of program_to_graph parameter is wrong, expected Graph or Program, "
                f"but received {type(program_or_graph)}"
            )
        self._program = program_or_graph
        self._build_strategy = build_strategy
        self._exec_strategy: ExecutionStrategy | None = None
        self._is_data_parallel = False
        self._is_inference = False
        self._loss_name: str | None = None
        self._places: list[Any] | None = None
        self._share_vars_from: CompiledProgram | None = None
        self._scope: Any = None  # scope and place of the first run, to which it is bound
        self._place: Any = None
        self._known: tuple[Any, frozenset[str]] | None = None
        self._ordered: tuple[Any, Program] | None = None  # a version of the program, and how it runs
        self._runner: Runner | None = None  # what runs it on several devices
        self._infer_config: Any = None
        self._steps: Any = None  # what `_executor` gives

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: Any = None,
    ) -> CompiledProgram:
        """Split each batch over `places` (default: all CUDA devices, or CPU_NUM CPU devices) and average the
        gradients.

        AssertionError for a program compiled already, and for one that makes gradients when there is no
        `loss_name`.
        """
        assert not self._is_data_parallel, "Already compiled with parallel, cannot be recompiled."
        assert not self._is_inference, "Cannot compile with both data parallel and inference."
        self._is_data_parallel = True
        self._loss_name = loss_name.name if isinstance(loss_name, Variable) else loss_name
        self._build_strategy = build_strategy or self._build_strategy
        self._exec_strategy = exec_strategy
        self._share_vars_from = share_vars_from
        self._places = None
        if places is not None:
            self._places = list(places) if isinstance(places, (list, tuple)) else [places]
        assert self._loss_name is not None or not has_backward(self._program), (
            "The loss name of CompiledProgram is None. The loss name should be set if CompiledProgram "
            "contains backward part."
        )
        self._check_loss_name()
        return self

    def _check_loss_name(self) -> None:
        names = [var.name for var in self._program.list_vars()]
        if self._loss_name and self._loss_name not in names:
            warn_user(
                f"with_data_parallel: the program has no variable {self._loss_name!r} to be the loss"
                f"{did_you_mean(self._loss_name, names)}"
            )

    def with_inference_optimize(self, config: Any) -> CompiledProgram:
        """Mark the program as one that only infers: it runs its forward part, with nothing but what the
        fetches need. With the `config` of a predictor, a list of PaddleTensors that is fed goes to that.
        """
        assert not self._is_data_parallel, "Cannot compile with both data parallel and inference"
        assert not self._is_inference, "Already compiled with inference, cannot be recompiled."
        self._is_inference = True
        self._infer_config = config
        return self

    def _with_inference_optimize(self, config: Any) -> CompiledProgram:
        assert isinstance(config, (AnalysisConfig, NativeConfig)), (
            f"a predictor is configured by an AnalysisConfig or a NativeConfig, not by {config!r}"
        )
        return self.with_inference_optimize(config)

    def _with_distributed(self) -> NoReturn:
        abstract("Subclass of CompiledProgram should implement _with_distributed method.")

    def devices(self, place: Any) -> list[Any]:
        """The places that this program runs on when the executor's is `place`."""
        if not self._is_data_parallel:
            return [place]
        if self._places is not None:
            return self._places
        return list(cuda_places()) if isinstance(place, CUDAPlace) else list(cpu_places())

    def _run(
        self, executor: Any, feed: Any, fetch_list: Any, scope: Any, return_numpy: bool, return_merged: bool
    ) -> list[Any]:
        scope = self._bind(scope, executor.place)
        if self._is_alone(executor.place, feed):
            result = self._run_alone(executor, feed, fetch_list, scope, return_numpy)
            return result if return_merged else [[value] for value in result]
        if self._runner is None:
            self._runner = self._make_runner(self.devices(executor.place), scope)
        executor.companions.add(self._runner)
        return self._runner.run(executor, feed, fetch_list, return_numpy, return_merged)

    def _run_alone(
        self, executor: Any, feed: Any, fetch_list: Any, scope: Any, return_numpy: bool
    ) -> list[Any]:
        names, _ = split_fetches(fetch_list)
        feed = {} if feed is None else feed
        feed = feed if isinstance(feed, dict) else merge_feed_list(feed)
        # as on several devices, and as in 1.8.5: a plain program leaves such a feed out, with a warning
        for name in feed:
            fed_variable(self._program.global_block(), name)
        only_fetches = self._is_inference and bool(names)
        result: list[Any] = executor._run(
            self._reading_first(), feed, names, scope, return_numpy, only_fetches
        )
        return result

    def _reading_first(self) -> Program:
        """The program with its readers in front: where they have no more batch, nothing else has run, and no
        counter is one too far. A plain program runs in its own order, counters first.
        """
        version = (self._program.serial, self._program.version)
        if self._ordered is None or self._ordered[0] != version:
            self._ordered = version, reading_first(self._program)
        return self._ordered[1]

    def _is_alone(self, place: Any, feed: Any) -> bool:
        """True if nothing is asked for that a plain run on the executor's own place does not do."""
        if not self._is_data_parallel:
            return True
        if isinstance(feed, dict) and not self._persistables().isdisjoint(feed):
            return False
        devices, build = self.devices(place), self._build_strategy or BuildStrategy()
        execution = self._exec_strategy or ExecutionStrategy()
        return (
            devices == [place]
            and build.num_trainers == 1
            and not build.drawings()
            and self._share_vars_from is None
            and build.gradient_scale_strategy != GradientScaleStrategy.Customized
            and execution.num_iteration_per_run <= 1
            and not execution._dry_run
        )

    def _persistables(self) -> frozenset[str]:
        """Names of the program's persistable variables."""
        version = (self._program.serial, self._program.version)
        if self._known is None or self._known[0] != version:
            self._known = version, frozenset(var.name for var in self._program.list_vars() if var.persistable)
        return self._known[1]

    def _make_runner(self, places: Sequence[Any], scope: Any) -> Runner:
        build, execution = self._build_strategy or BuildStrategy(), self._exec_strategy or ExecutionStrategy()
        _check_places(places)
        tell(build, execution)
        for path in build.drawings():
            draw(self._program, path)
        return Runner(
            self._program,
            functools.partial(for_devices, self._program, build),
            _run_options(self._program, build, execution),
            places,
            scope,
            self._shared_runner(len(places)),
        )

    def _shared_runner(self, count: int) -> Runner | None:
        """The runner of the program with which this one shares its variables; None where that has none."""
        runner = self._share_vars_from._runner if self._share_vars_from is not None else None
        if runner is not None and len(runner.devices.places) != count:
            raise EnforceNotMet(
                f"a program on {count} devices cannot share the variables of one on "
                f"{len(runner.devices.places)}"
            )
        return runner

    # ------------------------------------------------------------------ fluid's steps of a run, by its names
    @property
    def _compiled(self) -> bool:
        """True once the program is bound to a scope and a place."""
        return self._scope is not None

    def _get_places(self, place: Any, place_list: Any) -> list[Any]:
        """The given places, which must be of the kind of `place`, or all of its kind."""
        for each in place_list or ():
            assert each._type() == place._type(), "Place type not match. You may set wrong type of places."
        found = cuda_places() if isinstance(place, CUDAPlace) else cpu_places()
        places = list(found) if place_list is None else place_list
        assert places, "No places for execution."
        return places

    def _compile(self, scope: Any, place: Any) -> CompiledProgram:
        """Bind the program to a scope and a place, as its first run does."""
        self._bind(scope, place)
        return self

    @property
    def _executor(self) -> Any:
        """A predictor or the devices, which run the program, once it is bound; None before."""
        if self._scope is None:
            return None
        if self._steps is None:
            self._steps = (
                self._compile_inference()
                if self._is_inference and self._infer_config is not None
                else self._compile_data_parallel(self.devices(self._place), scope=self._scope)
            )
        return self._steps

    def _compile_data_parallel(self, places: Any, use_cuda: bool = False, scope: Any = None) -> DeviceSteps:
        """The program on some devices, with its variables in `scope` or those of the program that it shares
        them with.
        """
        assert isinstance(places, (list, tuple)), (
            f"Currently , The places type can only be list or tuple, but the input type is {type(places)}."
        )
        shared = self._scope_of_shared()
        assert shared is not None or scope is not None, "there is no scope for the variables"
        if self._runner is None or self._runner.devices.places != list(places):
            self._runner = self._make_runner(places, scope if shared is None else shared)
        return DeviceSteps(self._runner)

    def _compile_inference(self) -> Any:
        """The predictor of the configuration that was given to `_with_inference_optimize`."""
        return create_paddle_predictor(self._infer_config)

    def _set_program(self, program: Program) -> None:
        """Run another program from now on, which is not compiled yet."""
        self._program = program
        self._scope = self._place = self._known = self._ordered = self._runner = self._steps = None

    def _sharing_with(self, first: CompiledProgram | None) -> CompiledProgram:
        made = copy.copy(self)
        made._set_program(self._program)
        # on one place the variables lie in the scope, which is the same anyway
        if first is not None and first._runner is not None:
            made._share_vars_from = first
        return made

    def _bind(self, scope: Any, place: Any) -> Any:
        """The scope to run in; ValueError unless this is the first run, or one with the scope and on the
        place of the first.
        """
        shared = self._scope_of_shared()
        scope = scope if shared is None else shared
        if self._scope is not None and scope is not self._scope:
            raise ValueError("Cannot compile program with different scope.")
        if self._place is not None and place != self._place:
            raise ValueError("Cannot compile program with different place.")
        if self._scope is None and len(self.devices(place)) > 1:
            _check_updates(self._program)
        self._scope, self._place = scope, place
        if self._places is None and not self._is_inference:
            self._places = self.devices(place)
        return scope

    def _scope_of_shared(self) -> Any:
        """The scope of the program with which this one shares its variables; None where it shares none."""
        shared = self._share_vars_from
        if shared is None:
            return None
        if not shared._is_data_parallel:
            raise ValueError("The shared Program is not data parallel, cannot share variables from it.")
        if shared._scope is None:
            raise ValueError(
                "The shared Program is not compiled and executed, so there is no variables to share."
            )
        return shared._scope


def _has_optimize_op(block: Block) -> bool:
    return any(op.role == OpRole.Optimize and bool(op.attrs.get(ROLE_VAR_ATTR)) for op in block.ops)


def _has_optimizer_in_control_flow(program: Program | None) -> bool:
    """True if a branch updates parameters by gradients of its own."""
    block = (default_main_program() if program is None else program).global_block()
    branches = [op for op in block.ops if op.type == "conditional_block_grad"]
    return any(_has_optimize_op(inner) for op in branches for inner in op.sub_blocks())


def _is_pserver_mode(main_program: Program | None) -> bool:
    block = (default_main_program() if main_program is None else main_program).global_block()
    return any(op.communicates is not None and op.communicates.is_of_trainer for op in block.ops)


def _has_backward_op(graph: ProgramGraph) -> bool:
    ops = [node.op() for node in graph.nodes() if node.is_op()]
    return any(op is not None and op.type().endswith("_grad") for op in ops)


def _prune_feed_ops(program: Program) -> None:
    block = program.global_block()
    for index in reversed([index for index, op in enumerate(block.ops) if op.type == "feed"]):
        block._remove_op(index)


def _place_obj(place: Place) -> Place:
    made = Place()
    made.set_place(place)
    return made


def _check_updates(program: Program) -> None:
    """Refuse what cannot be divided: the devices may take different branches, and gradients in branches
    that only some of them take cannot be averaged.
    """
    if _has_optimizer_in_control_flow(program):
        abstract("If optimizer is used in control flow, training on multi-places is not supported now.")


def _run_options(program: Program, build: BuildStrategy, execution: ExecutionStrategy) -> RunOptions:
    customized = build.gradient_scale_strategy == GradientScaleStrategy.Customized
    return RunOptions(
        steps=max(1, execution.num_iteration_per_run),
        dry=execution._dry_run,
        trains=needs_all(program, build),
        starts=tuple(loss_gradients(program)) if customized else (),
        trainer=build.trainer_id,
        trainers=build.num_trainers,
    )


def _check_places(places: Sequence[Any]) -> None:
    assert places, "No places for execution."
    for place in places:
        if not isinstance(place, Place):
            raise TypeError(f"a device is a place such as CPUPlace(), not {place!r}")
        assert type(place) is type(places[0]), (
            f"{place!r} and {places[0]!r} are devices of different kinds: a program runs on one kind"
        )


def tell(*strategies: BuildStrategy | ExecutionStrategy) -> None:
    """Warn of options that change nothing, of each once in a process."""
    for name, reason in [item for strategy in strategies for item in ignored(strategy).items()]:
        if name not in _told:
            _told.add(name)
            warn_user(f"{name} changes nothing: {reason}", category=UserWarning)


def draw(program: Program, path: str) -> None:
    """Write the program as a graph for Graphviz; who reads the file meanwhile finds the old one or the new
    one, whole.
    """
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".tmp")
    draw_block_graphviz(program.global_block(), path=str(unfinished))
    unfinished.replace(target)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
