"""`train_from_dataset` and `infer_from_dataset`: steps fed from files, with what shall be looked at
meanwhile.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from fluidlite.base.errors import ArgumentError
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
            f"{len(self.vars)} variables in fetch_list, but {len(self.info)} texts in fetch_info"
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
    """Run `program` once for each batch of `dataset`.

    Files are read by threads, steps run one after the other: the result does not depend on how many threads
    there are.
    """
    if dataset is None:
        raise RuntimeError("dataset is need and should be initialized")
    if not isinstance(program, Program):
        raise ArgumentError("train_from_dataset and infer_from_dataset run a Program", program)
    if thread > 0:
        dataset.set_thread(thread)
    dataset._prepare_to_run()
    monitor = _FetchMonitor(*monitored)
    for step, feed in enumerate(dataset.batches()):
        monitor.show(
            executor.run(
                program,
                feed=feed,
                fetch_list=monitor.fetches(step),
                scope=scope,
                return_numpy=monitor.handler is not None,
            )
        )
