"""How two processes of a job recognise each other: both show that they hold the job's key before anything
else is read.

    trainer: hello, version, a number used once          server: challenge, version, its own number, proof
    trainer: proof                                       server: welcome, which run of it this is, what it expects (`terms`)

A proof is a keyed hash of both numbers; the key itself never travels. What is sent afterwards is not
encrypted: use networks that you trust, as fluid's parameter servers did.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pathlib
import secrets
import socket
import struct
import time
from typing import NamedTuple

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.tcp.stream import Gone, read_exactly

__all__ = ["KEY_VARIABLE", "VERSION", "Guard", "Welcome", "introduce", "job_key"]

VERSION = 2
KEY_VARIABLE = "FLUIDLITE_JOB_KEY"
_NONCE, _PROOF_BYTES = 32, 32
_HELLO = struct.Struct(f"<4sH{_NONCE}s")
_CHALLENGE = struct.Struct(f"<4sH{_NONCE}s{_PROOF_BYTES}s")
_PROOF = struct.Struct(f"<4s{_PROOF_BYTES}s")
_VERDICT = struct.Struct("<4s8sI")
_HELLO_MAGIC, _CHALLENGE_MAGIC, _PROOF_MAGIC, _WELCOME_MAGIC, _REFUSED_MAGIC = (
    b"FLTH",
    b"FLTC",
    b"FLTP",
    b"FLTW",
    b"FLTR",
)
_MOST_TERMS = 1 << 26


def job_key() -> bytes:
    """The key that the processes of a job share: FLUIDLITE_JOB_KEY, or one of this user on this machine,
    made when it is missing.
    """
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return hashlib.sha256(given.encode()).digest()
    path = (
        pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        / "fluidlite"
        / "job.key"
    )
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            target.write(secrets.token_bytes(32))
    except FileExistsError:
        pass  # made by another process of the job
    end = time.monotonic() + 5.0
    while len(key := path.read_bytes()) != 32:  # which may still be writing it
        if time.monotonic() > end:
            raise CommunicatorError(f"{path} should hold a key of 32 bytes; remove it, or set {KEY_VARIABLE}")
        time.sleep(0.01)
    return key


def proof(key: bytes, who: bytes, *numbers: bytes) -> bytes:
    """That `who` holds the key, for these numbers only."""
    return hmac.digest(key, who + b"".join(numbers), "sha256")


class Welcome(NamedTuple):
    """What a server says once it knows who calls: a number of this run of it, and its terms."""

    run: bytes
    terms: bytes


def introduce(sock: socket.socket, endpoint: str, key: bytes, limit: float) -> Welcome:
    """A trainer's side; CommunicatorError with what is wrong, Gone or Late where nobody answers."""
    mine = secrets.token_bytes(_NONCE)
    sock.sendall(_HELLO.pack(_HELLO_MAGIC, VERSION, mine))
    magic, version, theirs, shown = _CHALLENGE.unpack(read_exactly(sock, _CHALLENGE.size, limit))
    if magic != _CHALLENGE_MAGIC:
        raise CommunicatorError(f"what listens at {endpoint} is no server of a job")
    if version != VERSION:
        raise CommunicatorError(
            f"the server at {endpoint} speaks version {version} of the protocol, and this process version "
            f"{VERSION}: "
            "install the same FluidLite everywhere"
        )
    if not hmac.compare_digest(shown, proof(key, b"server", mine, theirs)):
        raise CommunicatorError(
            f"what listens at {endpoint} does not hold this job's key (set the same {KEY_VARIABLE} "
            f"everywhere)"
        )
    sock.sendall(_PROOF.pack(_PROOF_MAGIC, proof(key, b"trainer", theirs, mine)))
    verdict, run, length = _VERDICT.unpack(read_exactly(sock, _VERDICT.size, limit))
    if verdict != _WELCOME_MAGIC or length > _MOST_TERMS:
        raise CommunicatorError(
            f"the server at {endpoint} refuses this job's key (set the same {KEY_VARIABLE} everywhere)"
        )
    return Welcome(run, read_exactly(sock, length, limit))


class Guard:
    """A server's side for one new connection: never waits, and reads no byte more than the next step has."""

    def __init__(self, sock: socket.socket, key: bytes, welcome: Welcome) -> None:
        self.sock, self.key, self.welcome = sock, key, welcome
        self.born = time.monotonic()
        self.have = b""
        self.theirs = self.mine = b""

    def advance(self) -> bool:
        """Read what has come, and answer; True once the key has been shown. Gone for everybody who does
        not.
        """
        wanted = _PROOF.size if self.mine else _HELLO.size
        try:
            piece = self.sock.recv(wanted - len(self.have))
        except BlockingIOError:
            return False
        except OSError as error:
            raise Gone(str(error)) from error
        self.have += piece
        magic = _PROOF_MAGIC if self.mine else _HELLO_MAGIC
        if not piece or self.have[:4] != magic[: len(self.have)]:
            raise Gone("no trainer of this job")
        if len(self.have) < wanted:
            return False
        said, self.have = self.have, b""
        return self._judge(said) if self.mine else self._challenge(said)

    def _challenge(self, said: bytes) -> bool:
        _, _, self.theirs = _HELLO.unpack(said)
        self.mine = secrets.token_bytes(_NONCE)
        self._say(
            _CHALLENGE.pack(
                _CHALLENGE_MAGIC, VERSION, self.mine, proof(self.key, b"server", self.theirs, self.mine)
            )
        )
        return False

    def _judge(self, said: bytes) -> bool:
        _, shown = _PROOF.unpack(said)
        if not hmac.compare_digest(shown, proof(self.key, b"trainer", self.mine, self.theirs)):
            self._say(_VERDICT.pack(_REFUSED_MAGIC, b"", 0))
            raise Gone("the job's key was not shown")
        self._say(
            _VERDICT.pack(_WELCOME_MAGIC, self.welcome.run, len(self.welcome.terms)) + self.welcome.terms
        )
        return True

    def _say(self, text: bytes) -> None:
        """Send a few bytes: an empty socket takes them at once."""
        try:
            self.sock.setblocking(True)
            self.sock.settimeout(2.0)
            self.sock.sendall(text)
            self.sock.setblocking(False)
        except OSError as error:
            raise Gone(str(error)) from error
