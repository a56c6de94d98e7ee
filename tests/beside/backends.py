"""Back ends as processes: asked for the facts of a case, started again when one crashes or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

from beside.language import Case
from beside.observe import PARTS

__all__ = ["ENGINES", "Backend", "Facts", "MissingOracle", "engine", "oracle"]

Facts = dict[str, Any]
ROOT = pathlib.Path(__file__).parents[2]
ORACLES = {
    "185": ("PADDLE_PYTHON", ".venv/oracles/paddle18/bin/python", "PaddlePaddle 1.8.5"),
    "262": ("PADDLE2_PYTHON", ".venv/oracles/paddle26/bin/python", "PaddlePaddle 2.6.2"),
}
FAST = {"FLAGS_fast_loops": "wait"}
ENGINES: dict[str, tuple[str, dict[str, str]]] = {
    "plan": ("plan", {"FLAGS_check_buffers": "1"}),
    "naive": ("naive", {}),
    "numpy": ("plan", {"FLAGS_fast_loops": "off", "FLAGS_use_onednn": "0"}),
    "fast": ("plan", FAST),
    "threads": ("plan", {**FAST, "OMP_NUM_THREADS": "2"}),
    "stand-in": ("stand-in", {}),
}
"""Our own engines: what the worker is told, and its environment."""


class MissingOracle(Exception):
    """An environment of PaddlePaddle that is not there."""


@dataclass
class Backend:
    """A worker process; `crashes` and `hangs` count the times that it was started again."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    limit: float = 60.0
    crashes: int = 0
    hangs: int = 0

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def ask(self, case: Case, parts: tuple[str, ...] = PARTS, loaded: Facts | None = None) -> Facts:
        """The facts of a case; {"fault": reason} where the process ended or went past its time limit.

        `loaded`: programs that another system wrote, in place of the case's calls.
        """
        return self.send({"case": case, "parts": parts, "loaded": loaded})

    def send(self, request: Facts) -> Facts:
        """The answer to a request of any kind (`beside.worker.answer`)."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=self.limit)
        except queue.Empty:
            self.hangs += 1
            self.close()
            return {"fault": f"hangs: no answer in {self.limit:.0f} s"}
        except OSError:
            line = None
        if line is None:
            self.crashes += 1
            self.close()
            return {"fault": "crashes: the process ended"}
        found: Facts = json.loads(line)
        return found

    def _start(self) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "FLAGS_check_plans": "1",
            "PYTHONPATH": str(ROOT / "tests"),
            "GLOG_minloglevel": "3",
            **self.environment,
        }
        self._lines = queue.Queue()
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=ROOT / "tests",
        )
        self._reader = threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True)
        self._reader.start()
        # the first line says that the modules are imported, which takes minutes beside many other processes
        self._lines.get(timeout=20 * self.limit)

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                with contextlib.suppress(BrokenPipeError):  # what the process has not read any more
                    stream.close()
            self._process = None


def engine(name: str = "plan") -> Backend:
    """One of our own engines."""
    kind, environment = ENGINES[name]
    return Backend(name, [sys.executable, "-m", "beside.worker", "ours", kind], environment)


def oracle(name: str) -> Backend:
    """PaddlePaddle "185" or "262"; MissingOracle says how to get it."""
    variable, place, title = ORACLES[name]
    python = pathlib.Path(os.environ.get(variable) or ROOT / place)
    if not python.exists():
        raise MissingOracle(f"{title} is not there: `make oracles` makes it, or {variable} names its Python")
    return Backend(name, [str(python), "-m", "beside.worker", name])
