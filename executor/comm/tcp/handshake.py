"""The handshake of two processes of a job: both show that they hold the job's key before anything else is
read.

    trainer   hello: version, a number used once
    server    challenge: version, its own number, proof
    trainer   proof
    server    welcome: a number of this run of it, its terms

A proof is a keyed hash of both numbers; the key itself never travels. What is sent afterwards is encrypted
only where certificates are given (`tls`): else use networks that you trust, as fluid's parameter servers did.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pathlib
import secrets
import socket
import ssl
import stat
import struct
import time
from typing import NamedTuple

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.tcp.stream import ConnectionLost, address_of, read_exactly, reason
from fluidlite.executor.comm.tcp.tls import VARIABLES

__all__ = ["KEY_VARIABLE", "VERSION", "PendingHandshake", "Welcome", "encrypted", "introduce", "job_key"]

VERSION = 3
KEY_VARIABLE = "FLUIDLITE_JOB_KEY"
_NONCE, _PROOF_BYTES = 32, 32
_HELLO = struct.Struct(f"<4sH{_NONCE}s")
_CHALLENGE = struct.Struct(f"<4sH{_NONCE}s{_PROOF_BYTES}s")
_PROOF = struct.Struct(f"<4s{_PROOF_BYTES}s")
_VERDICT = struct.Struct("<4s8sI")
_HELLO_MAGIC = b"FLTH"
_CHALLENGE_MAGIC = b"FLTC"
_PROOF_MAGIC = b"FLTP"
_WELCOME_MAGIC, _REFUSED_MAGIC = b"FLTW", b"FLTR"
_TLS_ALERT = b"\x15\x03"  # what a server that speaks TLS answers to other words with
_PROTOCOL_ALERT = _TLS_ALERT + b"\x01\x00\x02\x02\x46"  # fatal: protocol_version
_MOST_TERMS = 1 << 26  # bytes
_KEY_BYTES = 32
_KEY_SECONDS = 5.0  # in which another process of the job writes the key's file
_SEND_SECONDS = 2.0


def job_key() -> bytes:
    """The key that the processes of a job share: FLUIDLITE_JOB_KEY, or one of this user on this machine,
    made when it is missing.
    """
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return hashlib.sha256(given.encode()).digest()
    path = _key_file()
    end = time.monotonic() + _KEY_SECONDS
    while len(key := path.read_bytes()) != _KEY_BYTES:  # that process may still be writing it
        if time.monotonic() > end:
            raise CommunicatorError(
                f"{path} should hold a key of {_KEY_BYTES} bytes; remove it, or set {KEY_VARIABLE}"
            )
        time.sleep(0.01)
    return key


def _key_file() -> pathlib.Path:
    """The file of this user's key, made by the first process of the job; CommunicatorError where it cannot
    be kept, or is not this user's alone.
    """
    try:
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        path = cache / "fluidlite" / "job.key"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as target:
                target.write(secrets.token_bytes(_KEY_BYTES))
        found = path.lstat()
    # a RuntimeError where nobody knows the home folder of this user
    except (OSError, RuntimeError) as error:
        raise CommunicatorError(
            f"the job's key cannot be stored in the user's cache ({error}): set {KEY_VARIABLE} or "
            "XDG_CACHE_HOME"
        ) from None
    # other systems say in other ways who may read a file
    is_alone = found.st_uid == os.getuid() and not found.st_mode & 0o077 if os.name == "posix" else True
    if not stat.S_ISREG(found.st_mode) or not is_alone:
        raise CommunicatorError(
            f"{path} is not private to this user: mode {stat.S_IMODE(found.st_mode):o}, owner "
            f"{found.st_uid}; remove it, or set {KEY_VARIABLE}"
        )
    return path


def proof(key: bytes, who: bytes, *numbers: bytes) -> bytes:
    """The proof that `who` holds the key, for these numbers only."""
    return hmac.digest(key, who + b"".join(numbers), "sha256")


class Welcome(NamedTuple):
    """A server's words to a trainer that has shown the key: a number of this run of it, and its terms."""

    run: bytes
    terms: bytes


def encrypted(sock: socket.socket, context: ssl.SSLContext, endpoint: str) -> socket.socket:
    """A connected socket with TLS; CommunicatorError where the server's certificate is not to be trusted,
    ConnectionLost where it ends the connection.
    """
    try:
        return context.wrap_socket(sock, server_hostname=address_of(endpoint)[0])
    except ssl.SSLCertVerificationError as error:
        raise CommunicatorError(
            f"the certificate of the server at {endpoint} is not trusted: {error.verify_message}"
        ) from error
    except OSError as error:
        raise ConnectionLost(
            f"{reason(error)} during the TLS handshake: the server may not use TLS; set "
            f"{', '.join(VARIABLES)} everywhere"
        ) from error


def introduce(sock: socket.socket, endpoint: str, key: bytes, limit: float) -> Welcome:
    """A trainer's side of the handshake; CommunicatorError with what is wrong, ConnectionLost or TimedOut
    where nobody answers.
    """
    mine = secrets.token_bytes(_NONCE)
    sock.sendall(_HELLO.pack(_HELLO_MAGIC, VERSION, mine))
    start = read_exactly(sock, len(_CHALLENGE_MAGIC), limit)
    if start[:2] == _TLS_ALERT:
        raise CommunicatorError(f"the server at {endpoint} uses TLS: set {', '.join(VARIABLES)} here too")
    if start != _CHALLENGE_MAGIC:
        raise CommunicatorError(
            f"the process that listens at {endpoint} is not a server of a job: it answers {start!r}..."
        )
    rest = read_exactly(sock, _CHALLENGE.size - len(start), limit)
    _, version, theirs, shown = _CHALLENGE.unpack(start + rest)
    if version != VERSION:
        raise CommunicatorError(
            f"the server at {endpoint} uses version {version} of the protocol, but this process "
            f"uses version {VERSION}: install the same FluidLite everywhere"
        )
    if not hmac.compare_digest(shown, proof(key, b"server", mine, theirs)):
        raise CommunicatorError(
            f"the process that listens at {endpoint} does not have this job's key (set the same "
            f"{KEY_VARIABLE} everywhere)"
        )
    sock.sendall(_PROOF.pack(_PROOF_MAGIC, proof(key, b"trainer", theirs, mine)))
    verdict, run, length = _VERDICT.unpack(read_exactly(sock, _VERDICT.size, limit))
    if verdict != _WELCOME_MAGIC or length > _MOST_TERMS:
        raise CommunicatorError(
            f"the server at {endpoint} refuses this job's key (set the same {KEY_VARIABLE} everywhere)"
        )
    return Welcome(run, read_exactly(sock, length, limit))


class PendingHandshake:
    """A server's side of the handshake with one new connection. It never waits, and reads no byte more than
    the next step has: whoever does not hold the key can make the server read 38 bytes.
    """

    def __init__(self, sock: socket.socket, key: bytes, welcome: Welcome) -> None:
        self.sock = sock
        self.key = key
        self.welcome = welcome
        self.since = time.monotonic()
        self._read = b""  # of the step that comes
        self._theirs = self._mine = b""  # the numbers; no number of ours: nothing has been said
        self._is_plain = isinstance(sock, ssl.SSLSocket)  # until TLS's own handshake is done

    def advance(self) -> bool:
        """Read what has come, and answer; True once the key has been shown, ConnectionLost for everybody who
        does not show it.
        """
        wanted = _PROOF.size if self._mine else _HELLO.size
        try:
            if isinstance(self.sock, ssl.SSLSocket) and self._is_plain:
                self._encrypt(self.sock)
            piece = self.sock.recv(wanted - len(self._read))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        self._read += piece
        magic = _PROOF_MAGIC if self._mine else _HELLO_MAGIC
        if not piece or self._read[:4] != magic[: len(self._read)]:
            raise ConnectionLost("not a trainer of this job")
        if len(self._read) < wanted:
            return False
        step = self._read
        self._read = b""
        return self._verify(step) if self._mine else self._challenge(step)

    def _encrypt(self, sock: ssl.SSLSocket) -> None:
        try:
            sock.do_handshake()
        except ssl.SSLError as error:
            if not isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError)):
                # a connection that is closed with words unread is reset, and TLS's alert with it; to words
                # that are no TLS at all OpenSSL gives no alert
                with contextlib.suppress(OSError):
                    socket.socket.recv(sock, 1 << 14)
                    if error.reason == "WRONG_VERSION_NUMBER":
                        socket.socket.send(sock, _PROTOCOL_ALERT)
            raise
        self._is_plain = False

    def _challenge(self, hello: bytes) -> bool:
        _, _, self._theirs = _HELLO.unpack(hello)
        self._mine = secrets.token_bytes(_NONCE)
        self._send(
            _CHALLENGE.pack(
                _CHALLENGE_MAGIC, VERSION, self._mine, proof(self.key, b"server", self._theirs, self._mine)
            )
        )
        return False

    def _verify(self, step: bytes) -> bool:
        _, shown = _PROOF.unpack(step)
        if not hmac.compare_digest(shown, proof(self.key, b"trainer", self._mine, self._theirs)):
            self._send(_VERDICT.pack(_REFUSED_MAGIC, b"", 0))
            raise ConnectionLost("the job's key was not presented")
        self._send(
            _VERDICT.pack(_WELCOME_MAGIC, self.welcome.run, len(self.welcome.terms)) + self.welcome.terms
        )
        return True

    def _send(self, data: bytes) -> None:
        """Send a few bytes: an empty socket takes them at once."""
        try:
            self.sock.setblocking(True)
            self.sock.settimeout(_SEND_SECONDS)
            self.sock.sendall(data)
            self.sock.setblocking(False)
        except OSError as error:
            raise ConnectionLost(str(error)) from error
