"""Pushing a gradient to a server and pulling a parameter back, as often as it fits into a moment, for values
of 1 to 16 MB.

Through FluidLite's executor (a program of one `send` and one `recv`, and a server that only keeps what
arrives), and through bare sockets, ZeroMQ and gRPC, which move the same bytes between two processes without
any program. Those that are not installed are left out. In interleaved rounds; MB/s of both directions
together, the best round.

The two processes are kept on two cores, as trainers and servers mostly are: on one core nothing leaves its
cache, and whether the system puts them there is chance.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from pserver import free_endpoints

SIZES = (1, 4, 16)  # MB
MOMENT = 0.6  # seconds a round
Peer = Callable[[str, int], None]


# ---------------------------------------------------------------------- FluidLite
def programs(endpoint: str, count: int) -> tuple[Any, Any]:
    """(trainer's programs, server's programs) of a job that moves a parameter of `count` numbers, and
    computes nothing.
    """
    import fluidlite as fluid
    from fluidlite.transpiler import make_job

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        weights = fluid.layers.create_parameter([count // 1000, 1000], "float32", "w")
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(weights))
    job = make_job(main, startup, "pserver", 1, [endpoint], False)
    trainer, server = job.programs(job.role("trainer0")), job.programs(job.role("pserver0"))
    block = trainer.main.global_block()
    for op in [op for op in block.ops if op.type not in ("send", "recv")]:
        block._remove_op(block.ops.index(op))
    block.var("w@GRAD").persistable = True
    listen = server.main.global_block().ops[-1]
    listen.attrs["grad_to_block_id"] = []  # no update: what arrives is kept
    listen.inputs["X"] = ["w@GRAD"]
    return trainer, server


def fluidlite_server(endpoint: str, count: int) -> None:
    """Serve until the trainer leaves."""
    import fluidlite as fluid

    exe, server = fluid.Executor(fluid.CPUPlace()), programs(endpoint, count)[1]
    exe.run(server.startup)
    exe.run(server.main)


def fluidlite_client(endpoint: str, count: int) -> Iterator[Any]:
    """Each step runs the program once."""
    import fluidlite as fluid

    exe, trainer = fluid.Executor(fluid.CPUPlace()), programs(endpoint, count)[0]
    fluid.global_scope().var("w@GRAD").get_tensor().set(
        np.ones((count // 1000, 1000), "float32"), fluid.CPUPlace()
    )
    exe.run(trainer.startup)
    program = trainer.main
    exe.run(program)
    try:
        while True:
            exe.run(program)
            yield
    finally:
        exe.close()


# ---------------------------------------------------------------------- bare sockets
def read(sock: socket.socket, target: memoryview) -> bool:
    """Fill `target`; False at the end."""
    while target:
        got = sock.recv_into(target)
        if not got:
            return False
        target = target[got:]
    return True


def socket_server(endpoint: str, count: int) -> None:
    """Read a value, send a value."""
    host, _, port = endpoint.rpartition(":")
    values, gradients = (memoryview(np.ones(count, "float32")).cast("B") for _ in range(2))
    with socket.create_server((host, int(port))) as listening:
        peer, _ = listening.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while read(peer, gradients):
                peer.sendall(values)


def socket_client(endpoint: str, count: int) -> Iterator[Any]:
    """Send a value, read a value."""
    host, _, port = endpoint.rpartition(":")
    values, gradients = (memoryview(np.ones(count, "float32")).cast("B") for _ in range(2))
    with patiently(lambda: socket.create_connection((host, int(port)))) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            sock.sendall(gradients)
            read(sock, values)
            yield


def patiently(connect: Callable[[], Any]) -> Any:
    """The connection that `connect` gives once the server is up."""
    for _ in range(200):
        try:
            return connect()
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise SystemExit("the server has not come up")


# ---------------------------------------------------------------------- ZeroMQ
def zmq_server(endpoint: str, count: int) -> None:
    """A ROUTER, as one would write it: frames from the array, into a new one."""
    import zmq

    values = np.ones(count, "float32")
    with zmq.Context() as context, context.socket(zmq.ROUTER) as sock:
        sock.bind(f"tcp://{endpoint}")
        while True:
            peer, frame = sock.recv_multipart(copy=False)
            if len(frame) < 8:
                return
            np.frombuffer(frame, "float32")
            sock.send_multipart([peer, values.data], copy=False)


def zmq_client(endpoint: str, count: int) -> Iterator[Any]:
    """A DEALER."""
    import zmq

    gradients = np.ones(count, "float32")
    with zmq.Context() as context, context.socket(zmq.DEALER) as sock:
        sock.connect(f"tcp://{endpoint}")
        try:
            while True:
                sock.send(gradients.data, copy=False)
                np.frombuffer(sock.recv(copy=False), "float32")
                yield
        finally:
            sock.send(b"end")


# ---------------------------------------------------------------------- gRPC
_OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def grpc_server(endpoint: str, count: int) -> None:
    """A unary method of bytes."""
    import threading
    from concurrent import futures

    import grpc

    values, over = np.ones(count, "float32").tobytes(), threading.Event()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(self.answer)

        @staticmethod
        def answer(request: bytes, context: Any) -> bytes:
            if len(request) < 8:
                over.set()
                return b""
            np.frombuffer(request, "float32")
            return values

    server = grpc.server(futures.ThreadPoolExecutor(2), options=_OPTIONS)
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(endpoint)
    server.start()
    over.wait()
    server.stop(0.2)


def grpc_client(endpoint: str, count: int) -> Iterator[Any]:
    """A call with the gradient, which answers with the parameter."""
    import grpc

    gradients = np.ones(count, "float32")
    with grpc.insecure_channel(endpoint, options=_OPTIONS) as channel:
        call = channel.unary_unary("/server/exchange")
        try:
            while True:
                np.frombuffer(call(gradients.tobytes(), wait_for_ready=True), "float32")
                yield
        finally:
            call(b"end")


PEERS: dict[str, tuple[str, Peer, Callable[[str, int], Iterator[Any]]]] = {
    "FluidLite": ("fluidlite", fluidlite_server, fluidlite_client),
    "bare sockets": ("socket", socket_server, socket_client),
    "ZeroMQ": ("zmq", zmq_server, zmq_client),
    "gRPC": ("grpc", grpc_server, grpc_client),
}


def keep_to(core: int) -> None:
    """Let this process run on one core only, where there are several and the system can."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})


def serve(name: str, endpoint: str, count: int) -> None:
    """The process of a server."""
    keep_to(1)
    PEERS[name][1](endpoint, count)


def measure(name: str, megabytes: int) -> float:
    """MB/s of one round."""
    client = PEERS[name][2]
    endpoint, count = free_endpoints(1), megabytes * 250_000
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(name, endpoint, count))
    process.start()
    keep_to(0)
    try:
        steps = client(endpoint, count)
        for _ in range(5):
            next(steps)
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < MOMENT:
            next(steps)
            done += 1
        found = 2 * megabytes * done / (time.perf_counter() - begin)
        steps.close()  # type: ignore[attr-defined]
        process.join(20)
        return found
    finally:
        process.kill()


def one(name: str, megabytes: int) -> float:
    """A round in a process of its own, so that peers do not disturb each other."""
    with multiprocessing.get_context("spawn").Pool(1, daemon_free) as pool:
        return float(pool.apply(measure, (name, megabytes)))


def daemon_free() -> None:
    """Let a process of a pool have children."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


def installed(module: str) -> bool:
    """True if a peer is there."""
    import importlib.util

    return importlib.util.find_spec(module) is not None


def main() -> None:
    """Run the rounds and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    names = [name for name, (module, _, _) in PEERS.items() if installed(module)]
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for size in SIZES:
            for name in names:
                found.setdefault((name, size), []).append(one(name, size))
    print(f"| MB/s | {' | '.join(f'{size} MB' for size in SIZES)} |\n|---|{'---|' * len(SIZES)}")
    for name in names:
        print(f"| {name} | {' | '.join(f'{max(found[name, size]):.0f}' for size in SIZES)} |")
    print(
        f"| FluidLite / bare sockets | "
        f"{' | '.join(f'{max(found[names[0], size]) / max(found[names[1], size]):.2f}' for size in SIZES)} |"
    )


if __name__ == "__main__":
    main()
