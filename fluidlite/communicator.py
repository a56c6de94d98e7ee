"""`fluid.communicator`: what sends gradients and fetches parameters beside an asynchronous trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fluidlite.base.errors import CommunicatorError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.strategies import DistributedMode
from fluidlite.executor.comm.background.communicator import (
    AsyncCommunicator,
    BarrierCommunicator,
    CommunicatorSettings,
)
from fluidlite.executor.comm.background.geo import GeoCommunicator, Pushed
from fluidlite.executor.comm.transports import find_session
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program

__all__ = ["Communicator"]


class Communicator:
    """Runs beside a trainer: `send` hands it gradients and goes on, and parameters come in as they change.

    Parameters
    ----------
    program: the trainer's program, transpiled; its `recv` ops are told not to run (`do_not_run`): they show
        what has come.
    mode: a `DistributedMode`; asynchronous where none is given, as before 1.8.
    kwargs: for GEO `push_vars` (the transpiler's `vars_info`), `trainers` and `push_nums` (steps between
        pushes); for SYNC `pserver_endpoints` and `trainer_id`, which the program's barrier knows too.
    envs: `communicator_*` settings as fluid's FLAGS_communicator_* have them, in place of the flags of the
        process.

    Start it before the first step (geo-SGD: before or after the startup program). `stop` sends everything
    that is left, and so does `exe.close()`. What goes wrong in between is raised by the next step.
    """

    def __init__(
        self,
        program: Program,
        mode: int | None = DistributedMode.ASYNC,
        kwargs: Mapping[str, Any] | None = None,
        envs: Mapping[str, Any] = {},
    ) -> None:
        assert isinstance(program, Program)
        self.program = program
        self._receive_by_itself(False)
        self.communicator_: Any = _make(program, mode, kwargs or {}, envs)

    def _receive_by_itself(self, yes: bool) -> None:
        for op in self.program.block(0).ops:
            if op.type == "recv" and bool(op.attr("do_not_run")) == yes:
                op._set_attr("do_not_run", not yes)

    def start(self) -> None:
        """Take over from now on; CommunicatorError where another communicator of this process runs."""
        session = find_session(needs_servers=True)
        if session is None:
            raise CommunicatorError(
                "a communicator needs servers to talk to, and this process is connected to none"
            )
        self._receive_by_itself(False)
        self.communicator_.start(session)

    def stop(self) -> None:
        """Send what is left, and let `send` and `recv` act by themselves again; raises what has gone wrong
        meanwhile.
        """
        self.communicator_.stop()
        self._receive_by_itself(True)

    def is_running(self) -> bool:
        """True if it has been started and not stopped."""
        return bool(self.communicator_.running)


def _make(program: Program, mode: int | None, kwargs: Mapping[str, Any], envs: Mapping[str, Any]) -> Any:
    settings = CommunicatorSettings.read(envs)
    if mode == DistributedMode.GEO:
        pushed = [Pushed.read(name, facts) for name, facts in kwargs["push_vars"].items()]
        return GeoCommunicator(program, settings, pushed, int(kwargs["trainers"]), int(kwargs["push_nums"]))
    if mode == DistributedMode.SYNC:
        given = {**_known_to_barrier(program), **kwargs}
        return BarrierCommunicator(program, settings, given["pserver_endpoints"], int(given["trainer_id"]))
    if mode == DistributedMode.HALF_ASYNC:
        return BarrierCommunicator(program, settings)
    if mode == DistributedMode.ASYNC:
        return AsyncCommunicator(program, settings)
    raise ValueError(
        f"a communicator's mode is one of DistributedMode's SYNC, ASYNC, HALF_ASYNC and GEO, not {mode!r}"
    )


def _known_to_barrier(program: Program) -> dict[str, Any]:
    """The servers and the trainer's number by the program's `send_barrier`; none and 0 without one."""
    for op in program.global_block().ops:
        if op.type == "send_barrier":
            return {"pserver_endpoints": op.attr("endpoints"), "trainer_id": op.attr("trainer_id")}
    return {"pserver_endpoints": [], "trainer_id": 0}


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
