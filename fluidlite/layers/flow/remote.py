"""A parameter server written by hand, and the layers of those who send to it and receive from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from fluidlite.base.errors import ProgramEditError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import OpRole
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.flow.while_loop import BlockGuard

__all__ = ["BlockGuardServ", "ListenAndServ", "Recv", "Send"]


class BlockGuardServ(BlockGuard):
    """Inside the `with`, layers append to the block that a server runs in each step."""

    def __init__(self, server: ListenAndServ) -> None:
        if not isinstance(server, ListenAndServ):
            raise TypeError("BlockGuardServ takes a ListenAndServ")
        super().__init__(server.helper.main_program)
        self.server = server

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is not None:
            return False
        self.server.complete_op()
        return super().__exit__(kind, error, trace)


class ListenAndServ:
    """A server at `endpoint` that takes the variables named `inputs` from `fan_in` trainers.

    When all of them have ended a step, it runs the block that is built inside `do()`; then they get the
    variables that they ask for. Port 0 takes a free one, which stands in `/tmp/paddle.<process id>.port`.
    `optimizer_mode` tells that the block updates parameters; it changes nothing.
    """

    def __init__(
        self, endpoint: str, inputs: Sequence[str], fan_in: int = 1, optimizer_mode: bool = True
    ) -> None:
        self.helper = LayerHelper("listen_and_serv")
        self.inputs = inputs
        self.outputs: list[Variable] = []
        self.endpoint = endpoint
        self.fan_in = fan_in
        self.optimizer_mode = optimizer_mode

    def do(self) -> AbstractContextManager[None]:
        """Inside the `with`, layers append to the block that the server runs."""
        return BlockGuardServ(self)

    def get_params_and_grads(self) -> tuple[list[Variable], list[Variable]]:
        """Parameters that the current block updates, and their gradients."""
        block = self.helper.main_program.current_block()
        updates = [op for op in block.ops if {"Param", "Grad"} <= set(op.input_names)]
        return (
            [block._var_recursive(op.input("Param")[0]) for op in updates],
            [block._var_recursive(op.input("Grad")[0]) for op in updates],
        )

    def parent_block(self) -> Block:
        """The block around the server's."""
        program = self.helper.main_program
        parent = program.current_block().parent_idx
        if parent < 0:
            raise ProgramEditError("a ListenAndServ is completed inside the `with` of its do()")
        return program.block(parent)

    def complete_op(self) -> None:
        """Append the op of the server to the parent of the current block."""
        self.parent_block().append_op(
            "listen_and_serv",
            {"X": list(self.inputs)},
            {},
            {
                "endpoint": self.endpoint,
                "Fanin": self.fan_in,
                "optimize_blocks": [self.helper.main_program.current_block()],
                "distributed_mode": 0,
                "grad_to_block_id": [""],
            },
        )


def Send(
    endpoints: str,
    send_vars: Sequence[Variable],
    dummy_output: Variable | Sequence[Variable] | None = None,
    sync: bool = True,
) -> None:
    """Send each variable to its server of `endpoints` ("host:port,host:port"), and with `sync` tell the
    servers that the step is over.
    """
    block = LayerHelper("Send").main_program.current_block()
    servers = _servers(endpoints, send_vars, "Send")
    behind = _list(dummy_output)
    block.append_op("send", {"X": send_vars}, {"Out": behind}, {"epmap": servers, "op_role": OpRole.RPC})
    if sync:
        block.append_op("send_barrier", {"X": behind}, {"Out": []}, {"endpoints": sorted(set(servers))})


def Recv(
    endpoints: str,
    get_vars: Sequence[Variable],
    dummy_input: Variable | Sequence[Variable] | None = None,
    sync: bool = True,
) -> Sequence[Variable]:
    """Get each variable from its server of `endpoints`, and with `sync` wait until all are there; they are
    given back.
    """
    block = LayerHelper("Recv").main_program.current_block()
    servers = _servers(endpoints, get_vars, "Recv")
    block.append_op("recv", {"X": _list(dummy_input)}, {"Out": get_vars}, {"epmap": servers})
    if sync:
        block.append_op("fetch_barrier", {}, {"Out": get_vars}, {"endpoints": sorted(set(servers))})
    return get_vars


def _list(value: Variable | Sequence[Variable] | None) -> list[Variable]:
    if value is None:
        return []
    return [value] if isinstance(value, Variable) else list(value)


def _servers(endpoints: str, variables: Sequence[Variable], caller: str) -> list[str]:
    """The server of each variable; AssertionError, as 1.8.5 raises it, where `variables` is no list."""
    assert isinstance(variables, list), f"{caller} takes a list of Variables, not {type(variables).__name__}"
    servers = list(dict.fromkeys(endpoints.split(",")))
    if len(servers) == 1:
        return servers * len(variables)
    return endpoints.split(",")
