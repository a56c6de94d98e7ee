"""`fluid.transpiler.collective`: fluid's classes for modes whose programs reduce over rings.

| class | startup program | main program |
|---|---|---|
| `GradAllReduce` | a communicator a ring, parameters from rank 0 | gradients are averaged over the ranks |
| `LocalSGD` | the same, and a snapshot of each parameter | after each step the mean change is applied |
| `SingleProcessMultiThread` | one communicator of all devices of the process | as `GradAllReduce` |
| `MultiThread` | a communicator a ring | as `GradAllReduce`, or all gradients in one buffer |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.imported_names import imported_names
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.transpiler.modes.grad_allreduce import GradAllReduceMode
from fluidlite.transpiler.modes.local_sgd import LocalSgdMode
from fluidlite.transpiler.modes.multi_thread import MultiThreadMode
from fluidlite.transpiler.modes.rings import RingMode, check_ring_count
from fluidlite.transpiler.modes.single_process_multi_thread import SingleProcessMultiThreadMode
from fluidlite.transpiler.parts.endpoints import RankClaim
from fluidlite.transpiler.rings.snapshots import SNAPSHOT, snapshot_name

__all__ = ["Collective", "GradAllReduce", "LocalSGD", "MultiThread", "SingleProcessMultiThread"]

_EVERYTHING = 1 << 62  # bytes of a bucket that holds all gradients
_TRANS_MODES = ("all_reduce", "fuse_all_reduce")


class Collective:
    """The front door of a collective mode: `transpile` rewrites the two programs in place, or raises and
    leaves them untouched.

    `nrings` communicators are used in turn. Nothing here waits for a port, whatever `wait_port` says: the
    communicator does.
    """

    implementation: ClassVar[RingMode]
    mode: ClassVar[str]

    def __init__(self, nrings: int) -> None:
        self.nrings = check_ring_count(nrings)
        self.bucket_bytes = 0
        self.endpoints: list[str] = []
        self.current_endpoint = ""
        self.nranks = 0
        self.rank = 0
        self.startup_program: Program | None = None
        self.main_program: Program | None = None
        self.wait_port = False

    def transpile(
        self,
        startup_program: Program | None,
        main_program: Program | None,
        rank: int,
        endpoints: str | Sequence[str],
        current_endpoint: str,
        wait_port: bool,
    ) -> None:
        """Make the programs those of `rank`, whose endpoint is `current_endpoint` (`endpoints`:
        "ip:port,ip:port" or a list).

        TranspilerError for endpoints that are malformed, repeated or too few, a rank that is not that of
        `current_endpoint`, and programs that make no gradients, are transpiled already, or have ops without a
        role.
        """
        # the claim is checked before a program is touched: a refused call leaves both as they were
        member = self.implementation.member(RankClaim(rank, endpoints, current_endpoint))
        startup = default_startup_program() if startup_program is None else startup_program
        main = default_main_program() if main_program is None else main_program
        self.implementation.rewrite_in_place(startup, main, member, self.nrings, self.bucket_bytes)
        # fluid's fields, kept only once the rewrite has succeeded
        self.endpoints = list(member.endpoints)
        self.current_endpoint = current_endpoint
        self.rank = member.index
        self.nranks = member.count
        self.startup_program = startup
        self.main_program = main
        self.wait_port = wait_port


class GradAllReduce(Collective):
    """Each step all ranks have the mean gradient; `bucket_bytes` > 0 lets gradients travel together
    (beyond fluid).
    """

    implementation: ClassVar[RingMode] = GradAllReduceMode()
    mode = GradAllReduceMode.name

    def __init__(self, nrings: int = 2, bucket_bytes: int = 0) -> None:
        super().__init__(nrings)
        self.bucket_bytes = bucket_bytes


class LocalSGD(Collective):
    """Ranks train alone, and after the step take the mean of their changes."""

    implementation = LocalSgdMode()
    mode = LocalSgdMode.name
    snapshot_key = SNAPSHOT

    def __init__(self, nrings: int = 2) -> None:
        super().__init__(nrings)

    def snapshot_name(self, param_name: str) -> str:
        """The variable that keeps the parameter as it was when the ranks last agreed."""
        return snapshot_name(param_name)


class SingleProcessMultiThread(GradAllReduce):
    """One process with a thread for each of its devices; `endpoints` only count the ranks."""

    implementation = SingleProcessMultiThreadMode()
    mode = SingleProcessMultiThreadMode.name

    def __init__(self, bucket_bytes: int = 0) -> None:
        super().__init__(1, bucket_bytes)


class MultiThread(GradAllReduce):
    """PaddlePaddle 2's mode: the devices of one process, or one rank of several; "fuse_all_reduce" makes
    one buffer of all gradients.
    """

    implementation = MultiThreadMode()
    mode = MultiThreadMode.name

    def __init__(self, nrings: int = 1, trans_mode: str = "all_reduce", bucket_bytes: int = 0) -> None:
        if trans_mode not in _TRANS_MODES:
            raise TranspilerError(
                f"trans_mode is {trans_mode!r}, but must be 'all_reduce' or 'fuse_all_reduce' (no optimizer "
                f"op reads gradients that are gathered){did_you_mean(str(trans_mode), _TRANS_MODES)}"
            )
        together = _EVERYTHING if trans_mode == "fuse_all_reduce" else 0
        super().__init__(nrings, bucket_bytes or together)
        self.trans_mode = trans_mode


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
