"""Machine code from the text of loops: compiled behind the running program, kept on disk.

A thread of its own takes one text after the other, while plans go on with NumPy's calls. What it has made
comes into use at given runs of a plan (`executor/run/pending.py`). It is kept as an object file in a
folder of the user's (`$XDG_CACHE_HOME/fluidlite/loops`), under the hash of its text, of the processor and
of the compiler's version. Nothing is loaded from a folder or file that somebody else owns or may write
to, nor a file whose content does not match the hash it starts with.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import importlib.util
import os
import queue
import stat
import threading
from collections.abc import Callable, Hashable
from typing import Any

from fluidlite.base.forks import child_lock
from fluidlite.executor.run.engine import ENGINE, EnginePart
from fluidlite.executor.run.pending import expect

__all__ = [
    "LOOPS",
    "LoopCode",
    "LoopCompiler",
    "RunCount",
    "cpu_flags",
    "is_available",
    "known_loop",
    "loop_of",
    "widths",
]

_FORMAT = "1"
_MOST_BYTES = 64 << 20  # in the folder; the oldest files go first
_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@functools.cache
def is_available() -> bool:
    """True if LLVM can be imported; it is not, since that takes a tenth of a second."""
    return importlib.util.find_spec("llvmlite") is not None


@dataclasses.dataclass
class RunCount:
    """How often something of a plan has run, with all sizes of the feeds: its code is asked for at the second
    run, which would never come if each size had a count of its own and no batch were as long as another.
    """

    runs: int = 0

    def next(self) -> int:
        """The number of this run, counted from 1."""
        self.runs += 1
        return self.runs


class LoopCode:
    """The text of a loop, and its function once that is compiled and in use."""

    def __init__(self, digest: str, text: str) -> None:
        self.digest = digest
        self.text = text
        self.function: Any = None
        self.made: Any = None
        """The function before it is in use."""
        self.asked = False

    def ask(self) -> None:
        """Have it compiled in the background, and taken into use by `settle`."""
        if not self.asked:
            self.asked = True
            expect(self)
            LOOPS.put(self)

    def ready(self, run: int, wait: bool) -> bool:
        """True once it is compiled; asked for at the second run, when it is clear that there will be more."""
        if self.function is None and wait:
            self.compile()
        elif self.function is None and run == 2:
            self.ask()
        return self.function is not None

    def compile(self) -> None:
        """Compile it here and now, and take it into use."""
        self.asked = True
        self.make()
        self.function = self.made

    def make(self) -> None:
        """Compile it, if nobody has."""
        if self.made is None:
            self.made = LOOPS.llvm().function(self)


class _LaterCode(LoopCode):
    """A loop whose text is written when it is compiled, by the thread that does: writing those of a plan took
    an eighth of its first step.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__("", "")
        self.code: LoopCode | None = None
        # until it is written: it knows values of the plan that asked for it first
        self._write: Callable[[], str] | None = text

    def make(self) -> None:
        """Write the text and compile it, if nobody has."""
        # `settle` comes while the thread in the background is at it
        with LOOPS.writing:
            if self._write is not None:
                self.code, self._write = loop_of(self._write()), None
        assert self.code is not None
        self.code.make()
        self.made = self.code.made


@functools.cache
def widths() -> tuple[int, int]:
    """Lanes of the vectors in the loop, and in what is left at its end: registers of the processor at hand.

    Four registers at a time: one value waits for the one before it for four cycles.
    """
    flags = cpu_flags()
    lanes = next((lanes for flag, lanes in (("avx512f", 16), ("avx2", 8)) if flag in flags), 4)
    return 4 * lanes, lanes


def cpu_flags() -> frozenset[str]:
    """The processor's features, as Linux names them; none where it says nothing."""
    # known without LLVM, which must not be imported while a plan is made
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("flags"):
                return frozenset(line.split())
    return frozenset()


# ---------------------------------------------------------------------- in the background
class _Background:
    """The thread that compiles. At the end of the process it finishes the loop at hand: LLVM must not be
    torn down under it.
    """

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[LoopCode | None] = queue.SimpleQueue()
        self.is_over = False
        self.thread = threading.Thread(target=self._work, daemon=True, name="fluidlite-compile")
        self.thread.start()

    def put(self, loop: LoopCode) -> None:
        """Have a loop compiled."""
        self.inbox.put(loop)

    def _work(self) -> None:
        while True:
            loop = self.inbox.get()
            if loop is None or self.is_over:
                return
            with contextlib.suppress(Exception):
                loop.make()

    def end(self) -> None:
        """Stop, when the loop at hand is done."""
        self.is_over = True
        self.inbox.put(None)
        # one loop takes a second or two, on a machine that is busy with other work ten times as long
        self.thread.join(300)


# ---------------------------------------------------------------------- LLVM
class _Llvm:
    """LLVM for this processor."""

    def __init__(self) -> None:
        # only here: it takes a tenth of a second, and this is the background
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.llvm = llvm
        self.cpu = llvm.get_host_cpu_name()
        self.features = llvm.get_host_cpu_features().flatten()
        self.about = "\n".join((_FORMAT, llvmlite.__version__, self.cpu, self.features))
        self.lock = threading.Lock()

    def _machine(self) -> Any:
        target = self.llvm.Target.from_default_triple()
        return target.create_target_machine(
            cpu=self.cpu, features=_wide(self.features), opt=2, reloc="pic", codemodel="jitdefault", jit=True
        )

    def function(self, loop: LoopCode) -> Any:
        """The function of a loop, from the disk or compiled."""
        with self.lock:
            if loop.made is not None:
                return loop.made  # by another thread, in the meantime
            name = hashlib.sha256(f"{self.about}\n{loop.text}".encode()).hexdigest()
            code = _read(name)
            if code is None:
                code = self._compiled(loop.text)
                _write(name, code)
            return self._loaded(code, f"loop_{loop.digest}")

    def _compiled(self, text: str) -> bytes:
        module = self.llvm.parse_assembly(text)
        module.verify()
        code: bytes = self._machine().emit_object(module)
        return code

    def _loaded(self, code: bytes, name: str) -> Any:
        engine = self.llvm.create_mcjit_compiler(self.llvm.parse_assembly(""), self._machine())
        engine.add_object_file(self.llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(name)
        if not address:
            raise LookupError(name)
        # code must live as long as the process: plans hold addresses of it. For ever, since LLVM that was
        # imported while the process was ending complains of what Python takes down
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
        return _SIGNATURE(address)


def _wide(features: str) -> str:
    """LLVM takes half registers on some processors that have whole ones, unless it is told."""
    return features.replace("+prefer-256-bit", "-prefer-256-bit")


# ---------------------------------------------------------------------- the loops of the process
_MOST_KNOWN = 1024


class LoopCompiler(EnginePart):
    """All loops of the process, the thread that compiles them, and LLVM, each once for all threads."""

    def __init__(self) -> None:
        self.writing = child_lock()
        """Held while a text is written."""
        self._lock = child_lock()
        self._llvm_lock = child_lock()  # not the other one: importing LLVM would hold up the making of plans
        self._loops: dict[str, LoopCode] = {}
        self.known: dict[Hashable, LoopCode] = {}
        """The loops of texts that are written later, by what the texts are made of."""
        self._thread: _Background | None = None
        self._llvm: _Llvm | None = None

    def loop_of(self, text: str) -> LoopCode:
        """The loop of a text that calls its function `LOOP`; the same text has one loop in a process."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        with self._lock:
            if digest not in self._loops:
                self._loops[digest] = LoopCode(digest, text.replace("@LOOP(", f"@loop_{digest}("))
            return self._loops[digest]

    def known_loop(self, key: Hashable, text: Callable[[], str]) -> LoopCode:
        """The loop of the text that `key` stands for, which is written only once: the 150 updates of a
        network of 600 ops are one loop, whose text takes as long as that of a page of Python.
        """
        if key is None:
            return self.loop_of(text())
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            found = self.known[key] = _LaterCode(text)
        return found

    def put(self, loop: LoopCode) -> None:
        """Have a loop compiled in the background."""
        with self._lock:
            if self._thread is None:
                self._thread = _Background()
        self._thread.put(loop)

    def llvm(self) -> _Llvm:
        """LLVM, which is imported at first use."""
        with self._llvm_lock:
            if self._llvm is None:
                self._llvm = _Llvm()
            return self._llvm

    def forked(self) -> None:
        """Ask again for what the thread, which is gone, was asked for."""
        self._thread = None
        # another thread may have been in it
        self._llvm = None
        for loop in (*self._loops.values(), *self.known.values()):
            loop.asked = loop.function is not None

    def close(self) -> None:
        """Wait for the loop at hand."""
        if self._thread is not None:
            self._thread.end()


LOOPS = ENGINE.add(LoopCompiler())
loop_of, known_loop = LOOPS.loop_of, LOOPS.known_loop


# ---------------------------------------------------------------------- on disk
def _folder() -> str | None:
    """The folder of compiled loops, if it is this user's alone; None where there is none."""
    # other systems say in other ways who may write to a folder
    if os.name != "posix":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(home):
        return None
    folder = os.path.join(home, "fluidlite", "loops")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for part in (os.path.dirname(folder), folder):
            if not _is_ours(os.lstat(part), stat.S_ISDIR):
                return None
    except OSError:
        return None
    return folder


def _is_ours(found: os.stat_result, is_kind: Any) -> bool:
    """True for a file (or folder) of this user's that nobody else may write to."""
    return is_kind(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _read(name: str) -> bytes | None:
    folder = _folder()
    if folder is None:
        return None
    try:
        handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not _is_ours(os.fstat(file.fileno()), stat.S_ISREG):
            return None
        content = file.read(_MOST_BYTES)
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(name.encode() + code).digest() == digest else None


def _write(name: str, code: bytes) -> None:
    """Keep an object file; whole or not at all, and no matter if it fails."""
    import tempfile  # start-up time

    folder = _folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        _make_room(folder)
        handle, path = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(name.encode() + code).digest() + code)
            os.replace(path, os.path.join(folder, name))
        except OSError:
            os.unlink(path)


def _make_room(folder: str) -> None:
    """Drop the oldest files of a folder that is full."""
    files = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder)]
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _MOST_BYTES:
            return
        os.unlink(path)
        total -= size
