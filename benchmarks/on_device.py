"""The tests and measurements of a machine with a device, by whatever Python it has, within a time limit.

    python benchmarks/on_device.py test
    python benchmarks/on_device.py bench

Nothing is fetched or installed: where this checkout is not installed, a folder of links (build/device) makes
it importable. It says which packages and libraries are missing, leaves out what needs them, and ends by
itself after SECONDS_AT_MOST (540 without that variable). A summary is printed; reports and figures go to the
folder that the variable OUT names, or build/device/out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINKS = ROOT / "build" / "device"
PACKAGES = ("numpy", "scipy", "networkx", "google.protobuf", "cupy")
OF_TESTS = ("pytest", "xdist", "hypothesis", "mpi4py", "yaml", "onnx", "llvmlite")
PEERS = ("torch", "triton")
WORKLOADS = (
    ("mlp_small",),
    ("mlp_large",),
    ("transformer",),
    ("resnet50",),
    ("resnet50", "--tf32"),
    ("transformer", "--tf32"),
)
ROOMS = ("tests/executor", "tests/comm")
MOST_WORKERS = 8  # processes that share one device
# said by newer versions of libraries than those that the project's own runs have
LENIENT = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
_LIBRARIES = """
import cupy
from fluidlite.executor.cuda import cudnn, libraries
device = cupy.cuda.Device(0)
name = cupy.cuda.runtime.getDeviceProperties(0)["name"]
cuda = cupy.cuda.runtime.runtimeGetVersion() // 1000
cupy.cuda.get_cublas_handle()
found = cudnn.find()
print(name, "compute capability", device.compute_capability, "CUDA", cuda, "CuPy", cupy.__version__)
print("cuBLAS", "found" if libraries.load(f"libcublas.so.{cuda}", "cublas") else "NOT found")
print("cuDNN", found.version if found else "NOT found")
print("NCCL", "found" if getattr(cupy.cuda, "nccl", None) else "NOT found")
"""


class Clock:
    """The time that is left."""

    def __init__(self, seconds: float) -> None:
        self.end = time.time() + seconds

    def left(self, at_most: float = 1e9) -> float:
        """Seconds, at least one."""
        return max(1.0, min(at_most, self.end - time.time()))


def has(module: str) -> bool:
    """True if a module can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def make_links() -> pathlib.Path:
    """A folder in which this checkout is the package `fluidlite`, whose parts lie in three folders here."""
    package = LINKS / "fluidlite"
    package.mkdir(parents=True, exist_ok=True)
    parts = {path.name: path for path in (ROOT / "fluidlite").iterdir() if path.name != "__pycache__"}
    for name, target in {**parts, "executor": ROOT / "executor", "transpiler": ROOT / "transpiler"}.items():
        link = package / name
        if link.is_symlink():
            link.unlink()
        link.symlink_to(target)
    return LINKS


def environment(out: pathlib.Path, clock: Clock, stand_in: bool) -> dict[str, str]:
    """The variables of all processes."""
    paths = [str(ROOT / "benchmarks"), *([str(ROOT / "tests")] if stand_in else [])]
    asked = [sys.executable, "-c", "import fluidlite; print(fluidlite.__file__)"]
    installed = subprocess.run(asked, cwd="/", capture_output=True, text=True, check=False)
    # another version may be installed
    if str(ROOT) not in installed.stdout:
        paths.insert(0, str(make_links()))
    before = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, *([before] if before else [])]),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TORCH_PYTHON": os.environ.get("TORCH_PYTHON") or (sys.executable if has("torch") else ""),
        "DEVICE_REPORT": str(out),
        "DEVICE_END": str(clock.end),
    }


def run(command: list[str], env: dict[str, str], seconds: float, log: pathlib.Path) -> int:
    """The exit code of a command, 124 where it took too long; its output is shown and kept."""
    with log.open("a", encoding="utf8") as kept:
        process = subprocess.Popen(
            ["timeout", "--kill-after=5", str(int(seconds)), *command],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            print(line, end="", flush=True)
        return process.wait()


def say_what_is_there(env: dict[str, str], clock: Clock, log: pathlib.Path, prefix: list[str]) -> None:
    """Lines about Python, packages and libraries."""
    print(f"Python {sys.version.split()[0]} at {sys.executable}")
    missing = [name for name in (*PACKAGES, *OF_TESTS, *PEERS) if not has(name)]
    print(f"missing packages: {', '.join(missing) or 'none'}", flush=True)
    run([*prefix, "-c", _LIBRARIES], env, clock.left(60), log)


def test(env: dict[str, str], clock: Clock, out: pathlib.Path, args: argparse.Namespace) -> int:
    """The tests of devices; what is not begun when the time is up is skipped."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu and (slow or not slow)", "--tb=short"]
    command += ["-p", "device_report"]
    command += ["-p", "gpu_sim.plugin"] if args.stand_in else []
    command += [f"-Wdefault::{kind}" for kind in LENIENT]
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)) // 2)
    if has("xdist") and workers > 1:
        command += ["-n", str(workers), "--dist", "worksteal"]
    # a test that hangs must not take the summary with it
    return run([*command, *(args.rest or ROOMS)], env, clock.left() + 15, out / "test.log")


def bench(env: dict[str, str], clock: Clock, out: pathlib.Path, args: argparse.Namespace) -> int:
    """The kernels, then whole steps beside `torch.compile`, one workload after the other."""
    log, failed = out / "bench.md", 0
    python = [sys.executable, *(["-m", "device_report"] if args.stand_in else [])]
    sizes = ["--images", "1"] if args.stand_in else []
    convolutions = [*python, str(ROOT / "benchmarks" / "gpu_convolutions.py"), *sizes]
    failed += bool(run(convolutions, env, clock.left(90), log))
    kernels = [*python, str(ROOT / "benchmarks" / "gpu_kernels.py"), *args.rest]
    failed += bool(run(kernels, env, clock.left(200), log))
    for workload, *options in () if args.stand_in else WORKLOADS:
        command = [
            sys.executable,
            str(ROOT / "benchmarks" / "run.py"),
            workload,
            "--device",
            "cuda",
            *options,
        ]
        command += ["--rounds", "5", "--peers", "fluidlite,torch,compile"]
        print(f"\n{' '.join([workload, *options])}", flush=True)
        code = run(command, env, clock.left(150), log)
        failed += bool(code)
        if code:
            worker = [sys.executable, str(ROOT / "benchmarks" / "worker.py"), "fluidlite", workload]
            print(f"{workload}: exit code {code}; FluidLite alone:", flush=True)
            run(worker, {**env, "BENCH_DEVICE": "cuda"}, clock.left(40), out / f"{workload}.log")
    return failed


def main() -> None:
    """Run one of the two, and say where its report lies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("test", "bench"))
    parser.add_argument("--stand-in", action="store_true", help="a dry run on tests/gpu_sim")
    args, args.rest = parser.parse_known_args()
    out = pathlib.Path(os.environ.get("OUT") or LINKS / "out")
    out.mkdir(parents=True, exist_ok=True)
    clock = Clock(float(os.environ.get("SECONDS_AT_MOST") or 540))
    env = environment(out, clock, args.stand_in)
    prefix = [sys.executable, *(["-m", "device_report"] if args.stand_in else [])]
    say_what_is_there(env, clock, out / "machine.txt", prefix)
    begin = time.time()
    code = test(env, clock, out, args) if args.what == "test" else bench(env, clock, out, args)
    print(f"{args.what}: exit code {code} after {time.time() - begin:.0f} s; reports in {out}")
    sys.exit(1 if code else 0)


if __name__ == "__main__":
    main()
