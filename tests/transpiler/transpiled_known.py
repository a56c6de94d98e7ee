"""Reasons why our programs differ from 1.8.5's, and what we do where 1.8.5 raises: docs/TRANSPILERS.md
says it in words, and `transpiled_differences.txt` line by line.
"""

from __future__ import annotations

import functools
import pathlib
import re

RECORD = pathlib.Path(__file__).parent / "transpiled_differences.txt"

# case/source (a regular expression) -> the row of the document
DIFFERENT = {
    r"(sync|async)_(lars|dpsgd)/.*": "an update that takes the norm of its parameter is not cut up",
    r"(sync|async)_adadelta/.*": "1.8.5's servers leave adadelta out",
    r"(sync|async)_whole_clip_(value|norm|norm_l2)/.*": "1.8.5 sends gradients that nothing computes",
    r"(sync|async)_whole_clip_global_norm/.*": "refused: a norm over all parameters on servers",
    r"place_one_trainer(_adam)?/.*": "with one trainer, 1.8.5's server waits for a name that nobody sends",
    r"step_never_async/.*": "1.8.5's servers wait for barriers that asynchronous trainers do not send",
    r"odd_(forward|backward)/.*": "refused: no optimizer",
    r"odd_large_id/.*": "refused: no such trainer",
    r"odd_same_servers/.*": "refused: one endpoint twice",
    r"(grad_allreduce|local_sgd|single_process_multi_thread)_forward/.*": "refused: nothing to reduce",
    r"(grad_allreduce|single_process_multi_thread)_two_optimizers/.*": "1.8.5 updates before gradients have "
    "arrived",
    r"(sync|async)_frozen/.*": "every trainer of 1.8.5 draws its own numbers for what nobody updates",
    r"(async|step)_(?!decayed_|dc_asgd_decay).*decay.*/.*": "1.8.5's asynchronous servers begin to count at "
    "the number of trainers",
    r".*_scoped/built": "the name scope of the loss's gradient",
}
# sources that differ although they are built alike
SOURCES_DIFFER = {
    r"(?!.*_decay).*distributed.*": "1.8.5's minimize gives the rows of a distributed table an `sgd` of "
    "their own",
    r".*_scoped": "the name scope of the loss's gradient",
}
# where 1.8.5 raises: None where we make programs, or what our error says
REFUSED = {
    r"(sync|async)_clip_global_norm": "parameter servers process one parameter at a time",
    r"(grad_allreduce|local_sgd)_alone": "the number of endpoints must > 1",
    r"local_sgd_forward": "updates no parameter",
    r"(sync|async)_(clip_value|clip_norm|clip_norm_l2|error_clip|whole_error_clip|averaged|lamb|nce)": None,
    r"(sync|async)_decay_warmup(_noam|_piecewise)?": None,
    r"(sync|async)_(two_)?distributed(_\w+)?|place_by_pairs_distributed|odd_distributed_hash": None,
    r"place_(hash|small_blocks)": None,
    r"step_dc_asgd_(sync|table)": None,
}


@functools.cache
def differences() -> dict[str, list[str]]:
    """case/source -> every line in which our programs differ from the recorded ones, or our error."""
    found: dict[str, list[str]] = {}
    keys: list[str] = []
    for line in RECORD.read_text(encoding="utf8").splitlines():
        if line.startswith("  "):
            for key in keys:
                found.setdefault(key, []).append(line.strip())
        elif line and not line.startswith("#"):
            keys = line.split()
    return found


def reason_of(key: str) -> str | None:
    """The row of the document for a case/source; None where the programs are to be the same."""
    case, _, source = key.rpartition("/")
    return lookup(SOURCES_DIFFER, case) if source == "source" else lookup(DIFFERENT, key)


def lookup(table: dict[str, str] | dict[str, str | None], name: str) -> str | None:
    """The first entry whose expression fits all of the name; None where none does."""
    return next((value for pattern, value in table.items() if re.fullmatch(pattern, name)), None)


def knows(table: dict[str, str | None], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in table)
