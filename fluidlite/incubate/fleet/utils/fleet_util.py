"""`fluid.incubate.fleet.utils.fleet_util`: what jobs of many workers print, count together and look into."""

from __future__ import annotations

import logging
import math
import os
import re
import sys
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, to_numpy
from fluidlite.base.errors import ArgumentError, UnsupportedError
from fluidlite.base.place import CPUPlace, Place
from fluidlite.executor.executor import global_scope
from fluidlite.incubate.fleet.base.role_maker import GeneralRoleMaker, MPISymetricRoleMaker
from fluidlite.incubate.fleet.parameter_server import distribute_transpiler, pslib
from fluidlite.incubate.fleet.utils import utils
from fluidlite.log_helper import get_logger

__all__ = ["FleetUtil"]

_log = get_logger(__name__, logging.INFO, fmt="%(asctime)s-%(levelname)s: %(message)s")

_OF_PSLIB = frozenset(
    [
        "load_fleet_model_one_table",
        "load_fleet_model",
        "save_fleet_model",
        "write_model_donefile",
        "write_xbox_donefile",
        "write_cache_donefile",
        "load_model",
        "save_model",
        "save_batch_model",
        "save_delta_model",
        "save_xbox_base_model",
        "save_cache_model",
        "save_cache_base_model",
        "pull_all_dense_params",
        "save_paddle_inference_model",
        "save_paddle_params",
        "get_last_save_xbox_base",
        "get_last_save_xbox",
        "get_last_save_model",
    ]
)
# a group of buckets counts in the bucket error once the standard error of its rate is below this share of it
_ERROR_BOUND = 0.05
# the widest range of predictions that one group may span
_SPAN = 0.01
_METRICS = ["sqrerr", "abserr", "prob", "q", "pos", "total"]


class FleetUtil:
    """Tools of a fleet's workers; `mode` is "transpiler", or "pslib", whose fleet is refused when used."""

    def __init__(self, mode: str = "pslib") -> None:
        if mode not in ("pslib", "transpiler"):
            raise ArgumentError('Please choose one mode from ["pslib", "transpiler"]')
        self._fleet: Any = pslib.fleet if mode == "pslib" else distribute_transpiler.fleet

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_PSLIB:
            raise AttributeError(f"FleetUtil has no attribute {name!r}")

        def refuse(*unused: Any, **options: Any) -> Any:
            raise UnsupportedError(
                f"FleetUtil.{name} serves models of Paddle's closed parameter server (pslib), which is not "
                "here; fluid.io saves and loads what the servers of fluid.DistributeTranspiler hold"
            )

        return refuse

    # ------------------------------------------------------------------ words of one worker for all
    def rank0_print(self, s: str) -> None:
        """Print in the first worker only."""
        if self._fleet.worker_index() == 0:
            sys.stdout.write(f"{s}\n")
            sys.stdout.flush()

    def rank0_info(self, s: str) -> None:
        """Log in the first worker only."""
        if self._fleet.worker_index() == 0:
            _log.info(s)

    def rank0_error(self, s: str) -> None:
        """Log an error in the first worker only."""
        if self._fleet.worker_index() == 0:
            _log.error(s)

    # ------------------------------------------------------------------ metrics of all workers
    def set_zero(
        self, var_name: str, scope: Any = None, place: Place | None = None, param_type: str = "int64"
    ) -> None:
        """Fill a variable with zeros of that type, such as a metric's counts before the next pass."""
        tensor = (scope or global_scope()).var(var_name).get_tensor()
        tensor.set(np.zeros(tensor._get_dims(), to_numpy(param_type)), place or CPUPlace())

    def print_global_auc(
        self,
        scope: Any = None,
        stat_pos: str = "_generated_var_2",
        stat_neg: str = "_generated_var_3",
        print_prefix: str = "",
    ) -> None:
        """Print in the first worker what `get_global_auc` gives."""
        self.rank0_print(f"{print_prefix} global auc = {self.get_global_auc(scope, stat_pos, stat_neg)}")

    def get_global_auc(
        self, scope: Any = None, stat_pos: str = "_generated_var_2", stat_neg: str = "_generated_var_3"
    ) -> float | None:
        """The area under the ROC curve over the samples of all workers, from the counts of the layer `auc`;
        0.5 without samples of both kinds, None where a variable is missing.
        """
        scope = scope or global_scope()
        if scope.find_var(stat_pos) is None or scope.find_var(stat_neg) is None:
            self.rank0_print("not found auc bucket")
            return None
        return _area(self._summed(scope, stat_pos), self._summed(scope, stat_neg))

    def _summed(self, scope: Any, name: str) -> Array:
        """The sum of a variable over the workers, flat; UnsupportedError where they exchange no values."""
        mine = np.array(scope.find_var(name).get_tensor()).reshape(-1).astype("float64")
        if self._fleet.worker_num() == 1:
            return mine
        role = self._fleet._role_maker
        if not isinstance(role, GeneralRoleMaker | MPISymetricRoleMaker):
            raise UnsupportedError(
                f"{type(role).__name__} does not let workers exchange values, which sums over them "
                "need: use GeneralRoleMaker"
            )
        total = np.zeros_like(mine)
        role._all_reduce(mine, total)
        return total

    def get_global_metrics(
        self,
        scope: Any = None,
        stat_pos_name: str = "_generated_var_2",
        stat_neg_name: str = "_generated_var_3",
        sqrerr_name: str = "sqrerr",
        abserr_name: str = "abserr",
        prob_name: str = "prob",
        q_name: str = "q",
        pos_ins_num_name: str = "pos",
        total_ins_num_name: str = "total",
    ) -> list[Any]:
        """Metrics of click-through models over all workers: AUC, bucket error, mean absolute error, root of
        the mean square error, actual and predicted rate, their quotient, mean q, samples; nine times None
        where a variable is missing.
        """
        scope = scope or global_scope()
        if scope.find_var(stat_pos_name) is None or scope.find_var(stat_neg_name) is None:
            self.rank0_print("not found auc bucket")
            return [None] * 9
        names = (sqrerr_name, abserr_name, prob_name, q_name, pos_ins_num_name, total_ins_num_name)
        for kind, name in zip(_METRICS, names, strict=True):
            if scope.find_var(name) is None:
                self.rank0_print(f"not found {kind}_name={name}")
                return [None] * 9
        square, absolute, predicted, q, clicked, total = (
            float(self._summed(scope, name)[0]) for name in names
        )
        pos, neg = self._summed(scope, stat_pos_name), self._summed(scope, stat_neg_name)
        actual, expected = clicked / total, predicted / total
        quotient = actual / expected if abs(expected) > 1e-6 else 0.0
        errors = [absolute / total, math.sqrt(square / total)]
        return [
            _area(pos, neg),
            _bucket_error(pos, neg),
            *errors,
            actual,
            expected,
            quotient,
            q / total,
            int(total),
        ]

    def print_global_metrics(
        self,
        scope: Any = None,
        stat_pos_name: str = "_generated_var_2",
        stat_neg_name: str = "_generated_var_3",
        sqrerr_name: str = "sqrerr",
        abserr_name: str = "abserr",
        prob_name: str = "prob",
        q_name: str = "q",
        pos_ins_num_name: str = "pos",
        total_ins_num_name: str = "total",
        print_prefix: str = "",
    ) -> None:
        """Print in the first worker what `get_global_metrics` gives; nothing where a variable is missing."""
        names = (sqrerr_name, abserr_name, prob_name, q_name, pos_ins_num_name, total_ins_num_name)
        found = self.get_global_metrics(scope, stat_pos_name, stat_neg_name, *names)
        if found[0] is None:
            return
        auc, bucket, mae, rmse, actual, predicted, copc, q, total = found
        # the words that scripts look for in logs, "Actural" too
        self.rank0_print(
            f"{print_prefix} global AUC={auc:.6f} BUCKET_ERROR={bucket:.6f} MAE={mae:.6f} RMSE={rmse:.6f} "
            f"Actural_CTR={actual:.6f} Predicted_CTR={predicted:.6f} COPC={copc:.6f} "
            f"MEAN Q_VALUE={q:.6f} Ins number={total}"
        )

    # ------------------------------------------------------------------ data that comes day by day
    def get_online_pass_interval(
        self,
        days: str,
        hours: str,
        split_interval: int | str,
        split_per_pass: int | str,
        is_data_hourly_placed: bool,
    ) -> list[list[str]]:
        """The pieces of a day that each pass over the data trains on: a piece begins every `split_interval`
        minutes of the `hours` ("{0..23}", or "0 1 2"), and is called by its hour, or by hour and minute.

        `days` are checked alone. Pieces at the end that fill no pass are left out.
        """
        _expanded(days, "days")
        allowed = _expanded(hours, "hours")
        step, each = int(split_interval), int(split_per_pass)
        if step < 1 or each < 1:
            raise ArgumentError(
                f"split_interval is {step} and split_per_pass {each}: a split lasts at least a "
                "minute, and a pass has at least one split"
            )
        first, last = int(allowed[0]), int(allowed[-1])
        clock = [divmod(number * step, 60) for number in range(24 * 60 // step)]
        pieces = [
            f"{hour:02d}" if is_data_hourly_placed else f"{hour:02d}{minute:02d}"
            for hour, minute in clock
            if first <= hour <= last
        ]
        return [pieces[start : start + each] for start in range(0, len(pieces) - each + 1, each)]

    # ------------------------------------------------------------------ programs in files
    def program_type_trans(self, prog_dir: str, prog_fn: str, is_text: bool) -> str:
        """Write a file's program in the other format beside it, and give the new file's name."""
        return utils.program_type_trans(prog_dir, prog_fn, is_text)

    def draw_from_program_file(
        self, model_filename: str, is_text: bool, output_dir: str, output_filename: str
    ) -> None:
        """Draw the first block of a file's program as `output_filename.dot`."""
        self.draw_from_program(utils.load_program(model_filename, is_text), output_dir, output_filename)

    def draw_from_program(self, program: Any, output_dir: str, output_name: str) -> None:
        """Draw the first block of a program as `output_name.dot`."""
        utils.graphviz(program.global_block(), output_dir, output_name)

    def check_two_programs(self, config: Any) -> bool:
        """True if the program of the file `pruned_prog_path` has the persistable variables of that of
        `train_prog_path` in their shapes and types; with `draw`, the pruned one is drawn beside its file.
        """
        train = utils.load_program(config.train_prog_path, config.is_text_train_program)
        pruned = utils.load_program(config.pruned_prog_path, config.is_text_pruned_program)
        if config.draw:
            folder = os.path.dirname(config.pruned_prog_path)
            self.draw_from_program(pruned, folder, config.draw_out_name)
        same = utils.check_pruned_program_vars(train, pruned)
        verdict = "succeed" if same else "failed. pruned program and train program not match!"
        self.rank0_info(f"check_programs {verdict}")
        return same

    def check_vars_and_dump(self, config: Any) -> list[Array]:
        """Run a saved model once (`utils.check_saved_vars_try_dump`), and give what it computes."""
        self.rank0_info("start check_vars_and_dump.")
        found = utils.check_saved_vars_try_dump(
            config.dump_model_dir,
            config.dump_program_filename,
            config.is_text_dump_program,
            config.feed_config,
            config.fetch_config,
            config.batch_size,
            config.save_params_filename,
        )
        self.rank0_info("check_vars_and_dump succeed.")
        return found

    def parse_program_proto(self, prog_path: str, is_text: bool, output_dir: str) -> None:
        """Write what is in a file's program into a folder: variables, persistable variables, ops."""
        utils.parse_program(utils.load_program(prog_path, is_text), output_dir)


def _expanded(text: str, what: str) -> list[str]:
    """The numbers that a shell would make of "{1..3}", or of numbers with spaces between them."""
    found: list[str] = []
    for word in text.split():
        span = re.fullmatch(r"\{(\d+)\.\.(\d+)\}", word)
        if span is None and not word.isdecimal():
            raise ArgumentError(f"{what} are numbers or {{first..last}}, not {text!r}")
        numbers = [int(word)] * 2 if span is None else [int(number) for number in span.groups()]
        found += map(str, range(numbers[0], numbers[1] + 1))
    if not found:
        raise ArgumentError(f"{what} are numbers or {{first..last}}, not {text!r}")
    return found


def _area(pos: Array, neg: Array) -> float:
    """The area under the ROC curve by trapezoids; `pos` and `neg` count samples by their prediction."""
    hits, alarms = np.cumsum(pos[::-1]), np.cumsum(neg[::-1])
    if hits[-1] * alarms[-1] == 0:
        return 0.5
    before = np.concatenate([[0.0], hits[:-1]])
    return float((neg[::-1] * (before + hits)).sum() / 2 / (hits[-1] * alarms[-1]))


def _bucket_error(pos: Array, neg: Array) -> float:
    """How far predicted rates are from actual ones, as a share, averaged over groups of neighbouring buckets.

    A group closes once it has samples enough for its rate to be known within `_ERROR_BOUND`.
    """
    start, shown, expected, clicked, wrong, counted = -1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    # a group's end depends on all of it: no vectorised form, and as a rule there are 4096 buckets
    for rate, click, show in zip((np.arange(len(pos)) / len(pos)).tolist(), pos, pos + neg, strict=True):
        if abs(rate - start) > _SPAN:
            start, shown, expected, clicked = rate, 0.0, 0.0, 0.0
        shown, expected, clicked = shown + show, expected + rate * show, clicked + click
        if shown == 0 or expected == 0:
            continue
        mean = expected / shown
        if math.sqrt((1 - mean) / (mean * shown)) < _ERROR_BOUND:
            wrong += abs(clicked / expected - 1) * shown
            counted += shown
            start = -1.0
    return float(wrong / counted) if counted else 0.0
