"""`fluidlite doctor`: what is installed, which kernels and threads are used, and whether they work."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import math
import os
import pathlib
import platform
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

import numpy as np

import fluidlite
from fluidlite.cli.entry import run_command
from fluidlite.cli.parsing import Parser
from fluidlite.cli.show import main as show
from fluidlite.distributed.tables import table
from fluidlite.executor.comm.tcp.tls import VARIABLES, Encryption
from fluidlite.executor.fast.onednn.library import available, has_avx512
from fluidlite.launching.engines import find_mpiexec
from fluidlite.ops.kernels.gemm import blas_cores

__all__ = ["main", "parser"]

_EXAMPLES = """\
examples:
  fluidlite doctor               on this machine
  fluidlite doctor > report.txt  to attach to a bug report
  fluidlite doctor && make demo  go on only if all that is installed works

exit code: 0; 1 where something that is installed does not work.
"""

# package -> the extra that brings it, and what it is for
_PACKAGES = {
    "numpy": ("", "kernels"),
    "protobuf": ("", "files of programs"),
    "llvmlite": ("fast", "compiled loops"),
    "onednn-cpu-gomp": ("fast", "convolutions and products"),
    "scipy": ("", "products with sparse matrices"),
    "mpi4py": ("mpi", "jobs under mpiexec"),
    "cupy-cuda12x": ("cuda12", "CUDA devices"),
    "onnx": ("onnx", "export to ONNX"),
    "onnxruntime": ("onnx", "comparison with ONNX files"),
    "Pillow": ("vision", "image transforms"),
}
_LIMIT = 60  # seconds for a job under mpiexec


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 1 where something that is installed does not work."""
    return run_command("fluidlite doctor", _report, argv)


def parser() -> Parser:
    """The parser of `fluidlite doctor`."""
    return Parser(
        prog="fluidlite doctor",
        description="Report what is installed, which kernels are used, and try a training step, compiled "
        "loops, MPI and the page.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _report(argv: Sequence[str]) -> int:
    parser().parse_args(list(argv))
    sys.stdout.write(table(["installed", "version", "for"], _installed(), left=3) + "\n")
    sys.stdout.write(table(["used", ""], _used(), left=2) + "\n")
    failed = False
    rows = []
    for name, attempt in _ATTEMPTS.items():
        try:
            said = attempt()
        except Exception as error:
            said, failed = f"FAILED: {type(error).__name__}: {str(error).splitlines()[0][:200]}", True
        rows.append([name, said])
    sys.stdout.write(table(["tried", "result"], rows, left=2))
    return int(failed)


def _installed() -> list[list[str]]:
    rows = [
        ["fluidlite", fluidlite.__version__, str(pathlib.Path(fluidlite.__file__).parent)],
        ["Python", platform.python_version(), sys.executable],
    ]
    for name, (extra, purpose) in _PACKAGES.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = f"no (pip install 'fluidlite[{extra}]')" if extra else "no"
        rows.append([name, version, purpose])
    rows.append(["mpiexec", find_mpiexec(os.environ) or "no", "jobs under MPI"])
    rows.append(["OpenSSL", ssl.OPENSSL_VERSION, "jobs over TLS"])
    return rows


def _used() -> list[list[str]]:
    return [
        [
            "processor",
            f"{platform.machine()}, {os.cpu_count()} cores, AVX-512: {'yes' if has_avx512() else 'no'}",
        ],
        ["BLAS", str(blas_cores() or "unknown kernels")],
        ["oneDNN", "yes" if available() else "no: NumPy computes convolutions and products"],
        ["CUDA devices", str(fluidlite.core.get_cuda_device_count())],
    ]


# ---------------------------------------------------------------------- attempts
def _program() -> str:
    """A training step by the interpreter and by a plan."""
    losses = []
    for naive in (True, False):
        main, startup = fluidlite.Program(), fluidlite.Program()
        main.random_seed = startup.random_seed = 1
        with fluidlite.program_guard(main, startup), fluidlite.unique_name.guard():
            x = fluidlite.data("x", [None, 8])
            loss = fluidlite.layers.mean(fluidlite.layers.square(fluidlite.layers.fc(x, 4, act="tanh")))
            fluidlite.optimizer.SGD(0.1).minimize(loss)
        exe, scope = fluidlite.Executor(fluidlite.CPUPlace()), fluidlite.Scope()
        exe.naive = naive
        exe.run(startup, scope=scope)
        feed = {"x": np.linspace(-1, 1, 64, dtype="float32").reshape(8, 8)}
        for _ in range(3):
            (value,) = exe.run(main, feed=feed, fetch_list=[loss], scope=scope)
        losses.append(float(value[0]))
    interpreted, planned = losses
    if not math.isclose(interpreted, planned, rel_tol=1e-5):
        raise ArithmeticError(f"the interpreter's loss is {interpreted}, the plan's {planned}")
    return "interpreter and plan agree"


def _loops() -> str:
    """A compiled loop beside NumPy."""
    before = fluidlite.get_flags("FLAGS_fast_loops")
    fluidlite.set_flags({"FLAGS_fast_loops": "wait"})
    try:
        return _program()
    finally:
        fluidlite.set_flags(before)


def _mpi() -> str:
    """Two ranks under mpiexec add their numbers."""
    mpiexec = find_mpiexec(os.environ)
    if mpiexec is None:
        return "not tried: there is no mpiexec"
    code = "from mpi4py import MPI; c = MPI.COMM_WORLD; print('sum', c.allreduce(c.rank + 1), c.size)"
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, "-c", code], capture_output=True, text=True, timeout=_LIMIT
    )
    if "sum 3 2" not in done.stdout:
        raise RuntimeError((done.stderr or done.stdout).strip() or f"exit code {done.returncode}")
    return "two ranks add their numbers"


def _tls() -> str:
    """The certificates that the environment names, at both ends of one connection."""
    encryption = Encryption.of_environment()
    if encryption is None:
        return f"not tried: {', '.join(VARIABLES)} name no certificates"
    client, server = encryption.client_context(), encryption.server_context()
    client.check_hostname = False  # there is no host between the two ends
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    for _ in range(2):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    for end in ends:
        end.do_handshake()
    return f"{ends[0].version()}, each end accepts the other's certificate"


def _page() -> str:
    """The page of a program, as a file."""
    with tempfile.TemporaryDirectory(prefix="fluidlite_doctor_") as folder:
        script, page = pathlib.Path(folder, "net.py"), pathlib.Path(folder, "net.html")
        script.write_text("import fluidlite as fluid\nfluid.layers.fc(fluid.data('x', [None, 2]), 2)\n")
        with contextlib.redirect_stdout(io.StringIO()):
            code = show([str(script), "--output", str(page)])
        if code or not page.stat().st_size:
            raise RuntimeError(f"fluidlite-show ended with exit code {code}")
        return f"a page of {page.stat().st_size // 1000} kB"


_ATTEMPTS: dict[str, Callable[[], str]] = {
    "a training step": _program,
    "compiled loops": _loops,
    "MPI": _mpi,
    "TLS": _tls,
    "the page": _page,
}


if __name__ == "__main__":
    sys.exit(main())
