"""`--verify`: batches for a job, its proof, and the proof as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fluidlite.base.errors import CommunicatorError, FluidError
from fluidlite.cli.errors import UsageError, one_line
from fluidlite.distributed.cluster import verify_job
from fluidlite.distributed.feeds import random_feeds
from fluidlite.distributed.proof import Proof
from fluidlite.transpiler.modes import Job

__all__ = ["proof_json", "prove"]

_MOST_ROLES = 64  # each is a thread with a copy of the parameters


def prove(
    job: Job, feeds: Sequence[Mapping[str, Any]], batch: int, steps: int, sequence: int, seed: int | None
) -> Proof:
    """The proof of a job on the batches given, or on random ones of `batch` samples a trainer.

    UsageError where the program does not run on them: by itself, or as a job.
    """
    if len(job.roles) > _MOST_ROLES:
        raise UsageError(
            f"--verify runs every role in this process, and this job has {len(job.roles)} roles, "
            f"but at most {_MOST_ROLES} are allowed (a proof with fewer trainers and servers "
            "proves as much)"
        )
    chosen = feeds or random_feeds(job.main, batch * job.trainers, steps, max(sequence, 2), seed or 0)
    try:
        return verify_job(job, chosen, seed=seed)
    except CommunicatorError:
        raise
    except (FluidError, ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
        kind = "its own batches" if feeds else "random batches (try --feeds script)"
        raise UsageError(f"the program does not run on {kind}: {one_line(error)}") from None


def proof_json(proof: Proof) -> str:
    """All that a proof says, as JSON."""
    said = {
        "ok": proof.ok,
        "equal": proof.equal,
        "as_planned": proof.as_planned,
        "mode": proof.mode,
        "steps": proof.steps,
        "trainers": proof.trainers,
        "servers": proof.servers,
        "reference": proof.reference,
        "allowed": proof.allowed,
        "rounding": proof.rounding,
        "differences": dict(proof.differences),
        "links": [{**link._asdict(), "ok": link.ok} for link in proof.links],
    }
    return json.dumps(said, indent=2) + "\n"
