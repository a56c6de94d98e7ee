"""`Executor`: runs programs on a place, by plans that are made once and kept."""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base import flags
from fluidlite.base.place import CPUPlace, CUDAPlace, Place, array_module, is_compiled_with_cuda
from fluidlite.base.tracebacks import short_tracebacks, shorten
from fluidlite.base.tracing import tracer
from fluidlite.executor.by_desc import DescRunner, PreparedBlock
from fluidlite.executor.comm import before_run, leave
from fluidlite.executor.comm.alone import hint_if_alone
from fluidlite.executor.comm.ops import actions_in
from fluidlite.executor.compile.pipeline import compile_plan, lower
from fluidlite.executor.compiled import Compiled
from fluidlite.executor.datasets import run_from_dataset
from fluidlite.executor.explain import explain, explain_briefly
from fluidlite.executor.fast.loops.compiler import is_available
from fluidlite.executor.fetching import fetch, present, split_fetches
from fluidlite.executor.memory import MemoryUse, memory_of
from fluidlite.executor.nan_search import repeatable, run_and_search
from fluidlite.executor.plan.plan import CompiledPlan, Plan, Target
from fluidlite.executor.plan.sizes import SizeTable
from fluidlite.executor.plan_cache import PlanCache
from fluidlite.executor.run import feeding
from fluidlite.executor.run.bound import BoundPlan
from fluidlite.executor.run.feeding import _get_strong_program_cache_key
from fluidlite.executor.run.finite import FiniteCheck
from fluidlite.executor.run.interpreter import Frame, Interpreter
from fluidlite.executor.steps import RunSteps
from fluidlite.executor.timeline import start_trace
from fluidlite.ir.buffer_order import ops_to_run
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.prune import needed_ops
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.profiler import RUN, recorder
from fluidlite.values.scope import Scope, _switch_scope, global_scope, scope_guard
from fluidlite.values.tensor import on, rebinds

actions_in("fluidlite.executor.serving")
# set by `fluidlite-launch --trace`
if "FLUIDLITE_TRACE" in os.environ:
    start_trace(os.environ.pop("FLUIDLITE_TRACE"), os.environ.pop("FLUIDLITE_TRACE_ROLE", "process"))

__all__ = ["Executor", "_switch_scope", "global_scope", "scope_guard"]


Feed = Mapping[str, Any]
MAX_SIGNATURES = 64  # lists of feeds and fetches of one program


class _Request(NamedTuple):
    """A run of a plain program, as it was asked for."""

    program: Program
    feed: dict[str, Any]
    names: Sequence[str]
    """The variables that are fetched."""
    scope: Scope
    return_numpy: bool
    only_fetches: bool
    """True to run only what the fetches need."""


class Executor(RunSteps):
    """Runs programs on `place` (default: the first CUDA device if there is one, else the CPU).

    A program that runs for the first time with nothing fed and nothing fetched, such as a startup program,
    goes through the naive interpreter; everything else through a plan: generated Python, made once for each
    version of the program, form of the feeds, list of fetches and scope.
    """

    def __init__(self, place: Place | None = None) -> None:
        if place is not None and not isinstance(place, Place):
            raise TypeError(f"an Executor runs on a place such as CPUPlace(), not on {place!r}")
        super().__init__()
        self.place: Place = _default_place() if place is None else place
        self.xp = array_module(self.place)
        self._plans = PlanCache(general=self.xp is np)
        # plans and what they stand on hold each other: an executor that nobody has any more takes them along
        weakref.finalize(self, self._plans.clear).atexit = False
        self._reference = weakref.ref(self)
        self._seen: set[tuple[int, int]] = set()
        self._closed = False
        self.naive = False  # run op by op in the interpreter: slow, and what a plan is held against
        # what ends with this executor: the devices of data parallel programs
        self.companions: weakref.WeakSet[Any] = weakref.WeakSet()
        # of a plan; None: as many as BLAS has, which then keeps to one while a plan runs
        self.threads: int | None = None
        # False: plans of this executor run side by side, and leave BLAS's threads as they are
        self.switches_blas = True
        self._single: Executor | None = None  # of `_of_one_thread`

    @staticmethod
    def _of_threads(
        place: Place, threads: int | None, random: Any = None, switches_blas: bool = True
    ) -> Executor:
        """An executor whose plans take so many threads."""
        made = Executor(place)
        made.threads, made.switches_blas = threads, switches_blas
        if random is not None:
            made.random = random
        return made

    @functools.cached_property
    def random(self) -> np.random.Generator:
        """The generator of ops without a seed, made when the first of them runs: start-up time."""
        return np.random.default_rng()

    def close(self) -> None:
        """End the job: parameter servers are told, and this executor runs nothing any more."""
        self._closed = True
        self._plans.clear()
        for companion in list(self.companions):
            companion.close()
        leave()

    def release_buffers(self) -> int:
        """Let go of the memory of intermediate results, and give the number of bytes; the next run of a
        program takes it anew.
        """
        return self._plans.release()

    def run(
        self,
        program: Any = None,
        feed: Feed | Sequence[Feed] | None = None,
        fetch_list: Sequence[Variable | str] | Variable | str | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run `program` once and return the values in `fetch_list`.

        Parameters
        ----------
        program: a Program or CompiledProgram; the default main program when None.
        feed: name -> array, LoDTensor, or list of numbers. All ops run, not only those that the fetches need.
            A name that the program does not have is skipped with a warning.
        fetch_list: Variables, names, lists of them, or what `minimize` returned: of all optimizer ops only
            its own are run then, with what they and the fetches need, as `use_prune` does.
        scope: where persistable variables live; the global scope when None.
        return_numpy: arrays, or LoDTensors when False; either way they keep their values in later runs.
        use_prune: run only what the fetches need, and the optimizer ops in the list, or all where there are
            none.
        """
        # a decorator would cost a call at each step, and this costs nothing
        try:
            return recorder.timed(RUN, self._run_impl)(
                program,
                feed,
                fetch_list,
                feed_var_name,
                fetch_var_name,
                scope,
                return_numpy,
                use_program_cache,
                return_merged,
                use_prune,
            )
        except Exception as error:
            shorten(error)
            raise

    # ------------------------------------------------------------------ fluid's steps of a run, by its names
    @property
    def _default_executor(self) -> DescRunner:
        return DescRunner(self)

    def _run_impl(
        self,
        program: Any,
        feed: Any,
        fetch_list: Any,
        feed_var_name: str,
        fetch_var_name: str,
        scope: Scope | None,
        return_numpy: bool,
        use_program_cache: bool,
        return_merged: bool,
        use_prune: bool,
    ) -> list[Any]:
        """`run`: the program is pruned where that is asked for, and one of the next three runs it."""
        if self._closed:
            raise RuntimeError("Attempted to use a closed Executor")
        program = _default_program(fetch_list) if program is None else program
        scope = scope if scope is not None else global_scope()
        if not isinstance(program, (Program, Compiled)):
            raise TypeError(
                f"Executor.run takes a Program or a CompiledProgram, not {type(program).__name__}"
            )
        names, targets = split_fetches(fetch_list)
        if targets or (use_prune and _has_targets(program, names)):
            program = self._pruned(program, feed, _listed(fetch_list))
            feed = self._update_feed(program, feed)
        if isinstance(program, Program):
            return self._run_program(
                program, feed, names, feed_var_name, fetch_var_name, scope, return_numpy, use_program_cache
            )
        program._compile(scope, self.place)
        if program._is_inference and _is_for_predictor(feed):
            return self._run_inference(program._executor, feed)
        return self._run_parallel(program, scope, feed, names, fetch_var_name, return_numpy, return_merged)

    def _run_program(
        self,
        program: Any,
        feed: Any,
        fetch_list: Any,
        feed_var_name: str,
        fetch_var_name: str,
        scope: Scope,
        return_numpy: bool,
        use_program_cache: bool,
    ) -> list[Any]:
        """Run a plain program."""
        assert program is not None, "The program should not be Empty"
        if not isinstance(program, Program):
            raise TypeError(f"Executor requires Program as its Parameter. But you passed in {type(program)}")
        feed = {} if feed is None else feed
        feed = feed if isinstance(feed, dict) else merge_feed_list(feed)
        names, _ = split_fetches(fetch_list)
        if use_program_cache:
            self._keep_for_later(program, feed, names, feed_var_name, fetch_var_name, scope)
        return self._run(program, feed, names, scope, return_numpy)

    def _keep_for_later(
        self,
        program: Program,
        feed: Mapping[str, Any],
        names: Sequence[str],
        feed_var_name: str,
        fetch_var_name: str,
        scope: Scope,
    ) -> None:
        """Fill the caches that programs read. Plans are kept for every run, whether it asks for it or not."""
        # the key takes a third of a small step, and runs in a loop ask for the same
        request = program.serial, program.version, *feed, "", *names, feed_var_name, fetch_var_name
        if request == self._last_kept[0] and scope is self._last_kept[1]():
            return
        self._last_kept = request, weakref.ref(scope)
        key = _get_strong_program_cache_key(program, feed, names)
        if not self._is_current(self.program_caches, key, program):
            made = self._add_feed_fetch_ops(program, feed, names, feed_var_name, fetch_var_name)
            self._add_program_cache(key, made)
            self._add_ctx_cache(key, PreparedBlock(made, 0))
        self._add_scope_cache(key, scope)

    def _run_inference(self, exe: Any, feed: Any) -> Any:
        """Run a predictor."""
        return exe.run(feed)

    def _run_parallel(
        self,
        program: Any,
        scope: Scope,
        feed: Any,
        fetch_list: Any,
        fetch_var_name: str,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        """Run a compiled program."""
        return program._run(
            self,
            feed=feed,
            fetch_list=fetch_list,
            scope=scope,
            return_numpy=return_numpy,
            return_merged=return_merged,
        )

    # ------------------------------------------------------------------ one run of a plain program
    def _run(
        self,
        program: Program,
        feed: Any,
        names: Sequence[str],
        scope: Scope,
        return_numpy: bool,
        only_fetches: bool = False,
    ) -> list[Any]:
        scope.runs += 1
        before_run(scope)
        # a startup program runs once: making a plan would cost more than running op by op
        if not names and not feed and self._first_run(program):
            self._interpret(_Request(program, feed, names, scope, return_numpy, False))
            return []
        signature = self._signature(program, feed, names)
        if signature.kept:
            feed = signature.keep(feed, scope)
            signature = self._signature(program, feed, names)
        request = _Request(program, feed, names, scope, return_numpy, only_fetches)
        if self.naive or flags.check_nan_inf():
            return recorder.timed("fetch", _presented)(self._interpret(request), return_numpy)
        searched = repeatable(ops_to_run(program.global_block())) if flags.find_nan_inf() else []
        if searched:
            return run_and_search(
                program,
                scope,
                self.random,
                lambda: self._run_plan(request, signature),
                lambda: self._interpret(request._replace(names=()), searched),
            )
        return self._run_plan(request, signature)

    def _first_run(self, program: Program) -> bool:
        key = (program.serial, program.version)
        if key in self._seen:
            return False
        if len(self._seen) > 4096:
            # a program that is forgotten is interpreted once more, which costs time and nothing else
            self._seen.clear()
        self._seen.add(key)
        return True

    def _run_plan(self, request: _Request, signature: feeding.Signature) -> list[Any]:
        program, _, _, scope, return_numpy, only_fetches = request
        arguments, form = recorder.timed("feed", signature.arguments)(request.feed)
        key = (
            program.version,
            signature,
            # may be that of a scope which is gone: the cache looks at the scope itself
            id(scope),
            only_fetches,
            # a profiled plan has the calls of the clock in its source
            recorder.active,
            flags.kernels(),
        )
        while True:
            bound = self._acquire(key, request, signature, form)
            try:
                if bound.current():
                    self._plans.trim(bound)
                    with np.errstate(all="ignore"):
                        start = time.perf_counter()
                        fetched = bound.run(arguments)
                        if tracer.active:
                            tracer.span(f"step {scope.runs}", "step", start)
                        # copied under the lock: the next run, of another thread perhaps, writes over it
                        return recorder.timed("fetch", _presented)(fetched, return_numpy)
            finally:
                bound.lock.release()
            # the scope holds arrays of other shapes than when the plan was made
            self._plans.forget(program, key)

    def _signature(
        self, program: Program, feed: Mapping[str, Any], names: Sequence[str]
    ) -> feeding.Signature:
        key = (program.version, tuple(feed), tuple(names))
        signatures: dict[Any, feeding.Signature] = program.belongings.of(self._reference)
        found = signatures.get(key)
        if found is None:
            if len(signatures) > MAX_SIGNATURES:
                signatures.clear()
            found = signatures[key] = feeding.Signature(program.global_block(), list(feed), names, self.xp)
        return found

    def _acquire(
        self, key: tuple[Any, ...], request: _Request, signature: feeding.Signature, form: feeding.Form
    ) -> BoundPlan:
        """A bound plan that no other thread is running, its lock taken."""
        scope = request.scope

        def make(form: feeding.Form, sizes: SizeTable | None) -> CompiledPlan:
            block = request.program.global_block()
            ops = ops_to_run(block)
            if request.only_fetches:
                ops = needed_ops(ops, signature.fetches, signature.names)
            signature.doubt_shapes(form)
            hint_if_alone(ops)
            target = self._target(self.threads or feeding.blas_threads(), recorder.active)
            return compile_plan(block, ops, signature.specs(form), signature.fetches, scope, target, sizes)

        with self._plans.lock:
            make_plan = recorder.timed("planning", make)
            entry = self._plans.find(request.program, key, form, signature.free, scope, make_plan)
            for bound in entry.bounds:
                if bound.lock.acquire(blocking=False):
                    break
            else:
                # new, or run by another thread: the source is shared, only its buffers are made once more
                bind = recorder.timed("planning", BoundPlan)
                bound = bind(entry.plan, scope, self.place, self.random, switches=self.switches_blas)
                bound.lock.acquire()
                entry.bounds.append(bound)
        bound.fit(entry.values)
        return bound

    def _interpret(
        self, request: _Request, searched: Sequence[Operator] | None = None
    ) -> list[tuple[Any, Any]]:
        """Run op by op: startup programs, every program while FLAGS_check_nan_inf is on, and ops that are
        `searched` for a NaN.
        """
        program, feed, names, scope, *_ = request
        block = program.global_block()
        signature = self._signature(program, feed, names)
        arguments, form = recorder.timed("feed", signature.arguments)(feed)
        frame = Frame(block, scope)
        rest = iter(arguments)
        for name, (_, _, has_lod) in zip(signature.names, form, strict=True):
            frame.values[name] = on(self.xp, next(rest))
            frame.lods[name] = next(rest) if has_lod else ()
        interpreter = Interpreter(self.place, scope, self.random)
        if searched is not None or flags.check_nan_inf():
            interpreter.check = FiniteCheck.from_environment()
        rebinds.writes += 1
        with np.errstate(all="ignore"):
            interpreter.run_block(block, frame, searched)
        return [(fetch(frame, name), frame.lod(name)) for name in names]

    # ------------------------------------------------------------------ data sets
    @short_tracebacks
    def train_from_dataset(
        self,
        program: Any = None,
        dataset: Any = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Any = None,
        fetch_info: Any = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> None:
        """Run `program` once for each batch of `dataset` (`fluid.DatasetFactory`).

        Every `print_period` steps the variables of `fetch_list` are written to the standard output, behind
        the texts of `fetch_info`; or a `fetch_handler` (FetchHandler) gets them. `thread` threads (0: as many
        as the data set has) run the program on the same scope, each on batches of its own, without waiting
        for each other; programs of synchronous jobs run in one.
        """
        run_from_dataset(
            self, program, dataset, scope, thread, (fetch_list, fetch_info, print_period, fetch_handler)
        )

    infer_from_dataset = train_from_dataset

    def _of_one_thread(self) -> Executor:
        """An executor on the same place whose plans keep to one thread, for steps that run side by side."""
        if self._single is None:
            self._single = self._of_threads(self.place, 1, self.random, switches_blas=False)
            self.companions.add(self._single)
        self._single.naive = self.naive
        return self._single

    def _target(self, threads: int, timed: bool = False) -> Target:
        """The machine that plans are made for."""
        loops = flags.fast_loops()
        # from the first step on, so that no step differs from the same one in another run
        if loops == "background" and flags.is_deterministic():
            loops = "wait"
        is_on_host = self.xp is np
        loops = loops if is_on_host and is_available() else "off"
        return Target(threads, is_on_host, timed, loops, flags.check_buffers())

    # ------------------------------------------------------------------ looking inside
    @short_tracebacks
    def explain(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Any = None,
        scope: Scope | None = None,
        after: str = "",
        full: bool = False,
    ) -> str:
        """The plan for such a run as a table: ops, the kernels that compute them, their multiplications and
        additions, and the bytes that they read and write. Runs nothing.

        full: the generated source instead, with buffers and bytes, and what was fused or dropped and why.
        after: a pass of `fluidlite.executor.passes.PASSES`: the full plan as that pass leaves it; "lower"
        shows it before the first. NotFoundError for an unknown name.
        """
        lowering = self._lowering(program, feed, fetch_list, scope)
        return explain(lowering, after) if full or after else explain_briefly(lowering)

    @short_tracebacks
    def memory(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Any = None,
        scope: Scope | None = None,
        top: int = 10,
    ) -> MemoryUse:
        """The memory of such a run: the op at which most of it is in use, the largest arrays there and among
        persistable variables, with the user's lines. Runs nothing. Printed, it lists `top` arrays of each.
        """
        return memory_of(self._lowering(program, feed, fetch_list, scope), top)

    def _lowering(
        self, program: Program | None, feed: Mapping[str, Any] | None, fetch_list: Any, scope: Scope | None
    ) -> Callable[[], Plan]:
        """A function that gives the plan for such a run before its first pass."""
        program = program or default_main_program()
        if not isinstance(program, Program):
            raise TypeError(
                f"explain() takes a Program, not a {type(program).__name__}, whose devices have "
                "one plan each: give the program that it was made from"
            )
        held = scope if scope is not None else global_scope()
        names, _ = split_fetches(fetch_list)
        signature = self._signature(program, dict(feed or {}), names)
        _, form = signature.arguments(dict(feed or {}))
        block = program.global_block()
        target = self._target(feeding.blas_threads())
        ops = ops_to_run(block)
        return lambda: lower(block, ops, signature.specs(form), names, held, target)


def _default_program(fetch_list: Any) -> Program:
    """The default main program; a FluidWarning where it is empty, as 1.8.5 warns, and nothing of the scope
    is asked for.
    """
    program = default_main_program()
    if not fetch_list and not program.global_block().ops:
        warn_user(
            "There are no operators in the program to be executed: the default main program is empty. Pass "
            "the program, or build it in the default one"
        )
    return program


def _presented(fetched: Iterable[tuple[Any, Any]], return_numpy: bool) -> list[Any]:
    return [present(value, lod, return_numpy) for value, lod in fetched]


def _listed(fetch_list: Any) -> Any:
    return [fetch_list] if isinstance(fetch_list, (Variable, str)) else fetch_list or []


def _has_targets(program: Any, names: Sequence[str]) -> bool:
    """True if there is something to prune to: a fetch, or the op of an optimizer."""
    plain = program if isinstance(program, Program) else program._program
    return bool(names) or any(op._is_optimize_op() for block in plain.blocks for op in block.ops)


def _is_for_predictor(feed: Any) -> bool:
    """True for a list of tensors; a list of dicts has one for each device."""
    return isinstance(feed, (list, tuple)) and not any(isinstance(part, Mapping) for part in feed)


def _default_place() -> Place:
    """The first CUDA device where there is one."""
    return CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()


def merge_feed_list(feed: Any) -> dict[str, Any]:
    """The one dict of a list feed on one device."""
    if not isinstance(feed, (list, tuple)):
        raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
    if len(feed) != 1:
        raise AssertionError(
            "Not compiled with data parallel: a feed list has one dict for each device, but there "
            f"are {len(feed)} dicts for one device"
        )
    if not isinstance(feed[0], dict):
        raise TypeError(f"Each element of feed list should be a dict, not {type(feed[0])}")
    return feed[0]
