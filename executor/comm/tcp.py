"""Trainers and servers that are started one by one, at `ip:port`: ZeroMQ over TCP, for those who hold the job's key.

Why ZeroMQ: a frame goes out from the array's own memory, and 1 to 4 MB frames keep up with a bare socket (PERFORMANCE.md).
A new connection proves that it holds the key, and so does the server, by keyed hashes of numbers used once; the key itself
never travels. What is sent afterwards is not encrypted: use networks that you trust, as fluid's parameter servers did.
"""
from __future__ import annotations

import hashlib
import hmac
import os
import pathlib
import secrets
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from fluidlite.errors import CommunicatorError, FormatError, MissingExtraError
from fluidlite.executor.comm.messages import Error, Message
from fluidlite.executor.comm.session import Session
from fluidlite.executor.comm.wire import decode, encode
from fluidlite.serialize import replace_file

__all__ = ["TcpSession", "job_key"]

_HELLO, _PROOF = b"FLH1", b"FLP1"
_NONCE = 32
KEY_VARIABLE = "FLUIDLITE_JOB_KEY"


def job_key() -> bytes:
    """The key that the processes of a job share: FLUIDLITE_JOB_KEY, or one of this user on this machine, made when it is missing."""
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return hashlib.sha256(given.encode()).digest()
    path = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "fluidlite" / "job.key"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            target.write(secrets.token_bytes(32))
    except FileExistsError:
        pass                                       # made by another process of the job
    end = time.monotonic() + 5.0
    while len(key := path.read_bytes()) != 32:     # which may still be writing it
        if time.monotonic() > end:
            raise CommunicatorError(f"{path} should hold a key of 32 bytes; remove it, or set {KEY_VARIABLE}")
        time.sleep(0.01)
    return key


def _zmq() -> Any:
    try:
        import zmq
    except ImportError as error:
        raise MissingExtraError("parameter servers over TCP need pyzmq: pip install 'fluidlite[tcp]'") from error
    return zmq


def proof(key: bytes, who: bytes, *numbers: bytes) -> bytes:
    """That `who` holds the key, for these numbers only."""
    return hmac.digest(key, who + b"".join(numbers), "sha256")


class TcpSession(Session):
    """This process's connections: to servers as a trainer, or from trainers as a server. Every wait ends after `deadline` seconds."""

    def __init__(self, deadline: float = 180.0, key: bytes | None = None) -> None:
        self.tcp = TcpLink(deadline, job_key() if key is None else key)
        super().__init__(self.tcp)

    def leave(self) -> None:
        """Tell the servers, and close the connections once they have heard it."""
        super().leave()
        self.tcp.close()


class TcpLink:
    """The way between trainers and servers over TCP."""

    def __init__(self, deadline: float, key: bytes) -> None:
        self.zmq = _zmq()
        self.context = self.zmq.Context()
        self.deadline, self.key = deadline, key
        self.servers: dict[str, Any] = {}            # endpoint -> socket, as a trainer
        self.socket: Any = None                      # as a server
        self.known: dict[bytes, bytes] = {}          # connection -> the number that it has to answer; b"" once it has

    def close(self) -> None:
        """End all connections; what was sent is delivered first."""
        for socket in (*self.servers.values(), *([self.socket] if self.socket is not None else [])):
            socket.close(linger=int(self.deadline * 1000))
        self.servers.clear()
        self.socket = None
        self.context.term()

    # ------------------------------------------------------------------ a trainer
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to a server; the first one waits until the server is up and both have shown that they hold the key."""
        socket = self.servers.get(endpoint) or self.connect(endpoint)
        socket.send_multipart(encode(message), copy=False)

    def answer(self, endpoint: str) -> Any:
        """The next answer of a server; CommunicatorError with what the server says is wrong."""
        found = decode(self.frames(self.servers[endpoint], f"an answer of the server at {endpoint}"))
        if isinstance(found, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {found.text}")
        return found

    def frames(self, socket: Any, what: str) -> Sequence[Any]:
        if not socket.poll(int(self.deadline * 1000)):
            raise CommunicatorError(f"no sign of {what} for {self.deadline:g} s")
        return [frame.buffer for frame in socket.recv_multipart(copy=False)]

    def connect(self, endpoint: str) -> Any:
        """A connection to a server, with the key shown on both sides."""
        socket = self.context.socket(self.zmq.DEALER)
        socket.connect(f"tcp://{endpoint}")
        mine = secrets.token_bytes(_NONCE)
        try:
            socket.send(_HELLO + mine)
            reply = bytes(self.frames(socket, f"the server at {endpoint}: is it started?")[0])
            theirs, shown = reply[:_NONCE], reply[_NONCE:]
            if not hmac.compare_digest(shown, proof(self.key, b"server", mine, theirs)):
                raise CommunicatorError(f"what listens at {endpoint} does not hold this job's key (set the same {KEY_VARIABLE} everywhere)")
            socket.send(_PROOF + proof(self.key, b"trainer", theirs, mine))
            if bytes(self.frames(socket, f"the server at {endpoint}")[0]) != b"welcome":
                raise CommunicatorError(f"the server at {endpoint} refuses this job's key (set the same {KEY_VARIABLE} everywhere)")
        except CommunicatorError:
            socket.close(linger=0)
            raise
        self.servers[endpoint] = socket
        return socket

    # ------------------------------------------------------------------ a server
    def listen(self, endpoint: str, trainers: int = 0) -> None:
        """Bind to the address that was given, and to no other; CommunicatorError where the port is taken."""
        self.socket = self.context.socket(self.zmq.ROUTER)
        try:
            self.socket.bind(f"tcp://{endpoint}")
        except self.zmq.ZMQError as error:
            self.socket.close(linger=0)
            self.socket = None
            raise CommunicatorError(f"cannot listen at {endpoint}: {error}") from error
        self.say_where()

    def say_where(self) -> None:
        """Write the port that was bound where fluid's launchers look for it."""
        port = self.socket.getsockopt(self.zmq.LAST_ENDPOINT).rstrip(b"\0").decode().rpartition(":")[2]
        replace_file(os.path.join(tempfile.gettempdir(), f"paddle.{os.getpid()}.port"), [port.encode()])

    def next_message(self) -> tuple[Any, Message]:
        """The next message of somebody who holds the key; everybody else's are answered here, or dropped."""
        while True:
            if not self.socket.poll(int(self.deadline * 1000)):
                raise CommunicatorError(f"no trainer has said anything for {self.deadline:g} s")
            sender, *frames = self.socket.recv_multipart(copy=False)
            peer = bytes(sender.buffer)
            if self.known.get(peer) != b"":
                self.introduce(peer, bytes(frames[0].buffer) if frames else b"")
                continue
            try:
                message = decode([frame.buffer for frame in frames])
            except FormatError as error:
                self.reply(peer, Error(str(error)))
                continue
            if isinstance(message, Message):
                return peer, message

    def introduce(self, peer: bytes, said: bytes) -> None:
        """The two steps by which a new connection shows that it holds the key."""
        if said.startswith(_HELLO) and len(said) == len(_HELLO) + _NONCE:
            mine, theirs = secrets.token_bytes(_NONCE), said[len(_HELLO):]
            self.known[peer] = mine + theirs
            self.socket.send_multipart([peer, mine + proof(self.key, b"server", theirs, mine)])
        elif said.startswith(_PROOF) and self.known.get(peer):
            numbers = self.known.pop(peer)
            holds = hmac.compare_digest(said[len(_PROOF):], proof(self.key, b"trainer", numbers[:_NONCE], numbers[_NONCE:]))
            if holds:
                self.known[peer] = b""
            self.socket.send_multipart([peer, b"welcome" if holds else b"refused"])

    def reply(self, to: Any, value: Any) -> None:
        """Answer a message."""
        self.socket.send_multipart([to, *encode(value)], copy=True)
