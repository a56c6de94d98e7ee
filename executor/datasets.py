"""`train_from_dataset` and `infer_from_dataset`: steps fed from files, with what shall be looked at
meanwhile.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.base.process import blas_switch
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.values.tensor import LoDTensor

__all__ = ["FetchHandler", "run_from_dataset"]


class FetchHandler:
    """Looks at variables every `period_secs` seconds of a training: override `handler`.

    var_dict: name -> Variable.
    """

    def __init__(self, var_dict: Mapping[str, Any] | None = None, period_secs: float = 60) -> None:
        assert var_dict is not None, "var_dict should be a dict of name to Variable"
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict: dict[str, Any]) -> None:
        """Get the values of the variables, by the names that `var_dict` gives them: by default, write them
        to the standard output.
        """
        for name, value in res_dict.items():
            sys.stdout.write(f"{name}: {value}\n")

    @staticmethod
    def help() -> None:
        """Write to the standard output how a handler of one's own looks."""
        sys.stdout.write(
            "class FetchHandlerExample(FetchHandler):\n"
            "    def handler(self, res_dict):\n"
            '        print(res_dict["auc"])\n'
            "\n"
            'handler = FetchHandlerExample(var_dict={"auc": auc}, period_secs=10)\n'
            "executor.train_from_dataset(program, dataset, fetch_handler=handler)\n"
        )


class _FetchMonitor:
    """The values that are fetched, and shown now and then."""

    def __init__(
        self, fetch_list: Any, fetch_info: Any, print_period: int, handler: FetchHandler | None
    ) -> None:
        self.vars = list(fetch_list or [])
        self.info = list(fetch_info or [])
        assert len(self.vars) == len(self.info), (
            f"fetch_list has {len(self.vars)} variables, but fetch_info has {len(self.info)} texts"
        )
        self.period = max(1, print_period)
        self.handler = handler
        self.shown = time.monotonic()

    def fetches(self, step: int) -> list[Any]:
        """The variables that the step fetches."""
        if self.handler is not None:
            return list(self.handler.var_dict.values()) if self._is_time() else []
        return self.vars if self.vars and (step + 1) % self.period == 0 else []

    def show(self, values: list[Any]) -> None:
        """Show what was fetched."""
        if not values:
            return
        if self.handler is not None:
            self.shown = time.monotonic()
            self.handler.handler(dict(zip(self.handler.var_dict, values, strict=True)))
            return
        for var, text, value in zip(self.vars, self.info, values, strict=True):
            shown = value if isinstance(value, LoDTensor) else LoDTensor(value)
            sys.stdout.write(f"{text}\t{var.name if isinstance(var, Variable) else var}\t{shown}\t\n")
        sys.stdout.flush()

    def _is_time(self) -> bool:
        assert self.handler is not None
        return time.monotonic() - self.shown >= self.handler.period_secs


def run_from_dataset(
    executor: Any, program: Any, dataset: Any, scope: Any, thread: int, monitored: tuple[Any, Any, int, Any]
) -> None:
    """Run `program` once for each batch of `dataset`, by `thread` threads, or by as many as the data set
    has.

    Threads share the scope, and do not wait for each other (`Hogwild!`, Recht et al. 2011): each has batches
    of its own, and updates parameters while others read them. One thread gives the same result in every run.
    Only the first thread shows what is fetched, counting its own steps.
    """
    if dataset is None:
        raise RuntimeError("dataset is need and should be initialized")
    if not isinstance(program, Program):
        raise ArgumentError("train_from_dataset and infer_from_dataset run a Program", program)
    dataset._prepare_to_run()
    wanted = thread if thread > 0 else dataset.thread_num
    # the naive interpreter is there to be the same in every run
    count = 1 if executor.naive or _goes_in_step(program) else wanted
    monitor = _FetchMonitor(*monitored)
    streams = dataset.streams(count)
    if len(streams) == 1:
        _StreamRunner(executor, program, scope, monitor).work(streams[0], threading.Event())
        return
    runner = executor._of_one_thread()
    workers = [
        _StreamRunner(runner, program, scope, None if number else monitor) for number in range(len(streams))
    ]
    with blas_switch() or contextlib.nullcontext():
        _work_together(workers, streams)


def _goes_in_step(program: Program) -> bool:
    """True for a program that waits for other processes in each step: its steps run one after another,
    because rings and synchronous servers count one step of each rank at a time.
    """
    if program._pipeline_opt:
        return True
    return any(
        (op.communicates is not None and not op.communicates.is_served)
        or (op.type == "send_barrier" and not op.attrs["half_async"])
        for block in program.blocks
        for op in block.ops
    )


class _StreamRunner:
    """Runs a program on the batches of one stream; `monitor` is None where nothing is shown."""

    def __init__(self, executor: Any, program: Program, scope: Any, monitor: _FetchMonitor | None) -> None:
        self.executor = executor
        self.program = program
        self.scope = scope
        self.monitor = monitor

    def work(self, stream: Iterable[Any], stopped: threading.Event) -> None:
        """Run to the end of the stream, or until the training is stopped."""
        for step, feed in enumerate(stream):
            if stopped.is_set():
                return
            self._run(step, feed)

    def _run(self, step: int, feed: Any) -> None:
        monitor = self.monitor
        if monitor is None:
            self.executor.run(self.program, feed=feed, scope=self.scope)
            return
        monitor.show(
            self.executor.run(
                self.program,
                feed=feed,
                fetch_list=monitor.fetches(step),
                scope=self.scope,
                return_numpy=monitor.handler is not None,
            )
        )


def _work_together(workers: Sequence[_StreamRunner], streams: Sequence[Iterable[Any]]) -> None:
    """Each worker in a thread with its stream; the first error stops all, and is raised."""
    stopped = threading.Event()
    errors: list[BaseException] = []

    def body(worker: _StreamRunner, stream: Iterable[Any]) -> None:
        try:
            worker.work(stream, stopped)
        except BaseException as error:  # raised below, in the caller's thread
            errors.append(error)
            stopped.set()

    threads = []
    for number, (worker, stream) in enumerate(zip(workers, streams, strict=True)):
        # the session of this thread, if it has one of its own, is that of its workers too
        context = contextvars.copy_context()
        run = functools.partial(context.run, body, worker, stream)
        threads.append(threading.Thread(target=run, name=f"hogwild-{number}", daemon=True))
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        stopped.set()  # also where the user interrupts the wait
    if errors:
        raise errors[0]
