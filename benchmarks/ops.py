"""Ops beside PaddlePaddle 1.8.5: each row of `op_rows` at three sizes, both frameworks in turn, round after
round.

    PADDLE185_PYTHON=/path/to/python3.7 python benchmarks/ops.py detection
    python benchmarks/ops.py detection --only nms --rounds 5

Without the variable (the interpreter of an environment with paddlepaddle 1.8.5) only FluidLite is timed. A
row is an op with its inputs in the scope, its outputs fetched, and its gradient where it has one, on one
thread; a time is the least of the rounds' medians, in milliseconds. Above a ratio of 1 FluidLite is slower.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

HERE = pathlib.Path(__file__).parent
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


PAGE = """# Speed of ops

`PADDLE185_PYTHON=... python benchmarks/ops.py --page docs/OPS.md` times each op, with its gradient where it
has one, at three sizes beside PaddlePaddle 1.8.5, and writes this page: the processor time of a run of
FluidLite in that of PaddlePaddle, each on one thread, medians of interleaved rounds. Below 1 FluidLite is
faster; - stands where PaddlePaddle does not run the row on the CPU. The rows, with their sizes, stand in
`benchmarks/op_rows`. Detection, regions, sampled, sequences, targets, draws, pools of maxima and auc were
timed on 2026-11-28."""
OVERHEAD = "a run's and its calls' overhead: NumPy takes 1 to 5 us a call, whatever the size"
HALF = "no kernels in 1.8.5, so its column is float32: NumPy converts at 3 ns an element and op"
REASONS = {
    "elementwise": {
        "elementwise_floordiv int64": "NumPy's division of integers, which looks for 0 and signs"
    },
    "sampled": {"chunk_eval": "twenty calls on the tags of all sequences, 0.06 ms for 5120 tags"},
    "regions": {"psroi_pool": "products of all pixels, of which 1.8.5 adds up the few that a bin reads"},
    "precision": {
        "half: add": HALF,
        "half: 8 functions": HALF,
        "half: matmul, relu": HALF,
        "half: softmax": HALF,
        "half: conv2d": HALF,
    },
    "detection": {"generate_mask_labels": "polygons are drawn one by one"},
}


class Framework:
    """A process that times rows."""

    def __init__(self, name: str, python: str) -> None:
        self.name, self.python = name, python
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        """A process that waits for rows."""
        return subprocess.Popen(
            [self.python, str(HERE / "op_worker.py"), self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )

    def time(self, file: str, name: str, size: int, seconds: float) -> float | str:
        """Milliseconds, or why there are none."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([file, name, size, seconds]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        self.process = self.start()
        return f"the process of {self.name} has ended"

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def compare(frameworks: list[Framework], row: tuple[str, str, int], rounds: int, seconds: float) -> list[Any]:
    """The least of each framework's medians, or its error."""
    found: list[list[Any]] = [[] for _ in frameworks]
    for number in range(rounds):
        order = list(zip(frameworks, found, strict=True))
        for framework, times in order if number % 2 == 0 else reversed(order):
            times.append(framework.time(*row, seconds))
    return [min(times) if all(isinstance(one, float) for one in times) else times[-1] for times in found]


def text_of(times: list[Any]) -> str:
    """Times and ratio as columns."""
    cells = [f"{one:10.3f}" if isinstance(one, float) else "         -" for one in times]
    ratio = ratio_of(times)
    reasons = [one for one in times if isinstance(one, str)]
    return (
        "".join(cells)
        + ("" if ratio is None else f"{ratio:8.2f}")
        + "".join(f"  {one[:80]}" for one in reasons)
    )


def ratio_of(times: list[Any]) -> float | None:
    """The first framework's time in the second's; None where one has none."""
    return times[0] / times[1] if len(times) > 1 and all(isinstance(one, float) for one in times) else None


def rows_on(page: pathlib.Path) -> dict[str, dict[str, str]]:
    """The lines of a page's rows, by file and row."""
    found: dict[str, dict[str, str]] = {}
    rows: dict[str, str] = {}
    for line in page.read_text().splitlines() if page.exists() else ():
        if line.startswith("## "):
            rows = found[line[3:].lower()] = {}
        elif line.startswith("| ") and not line.startswith("| row "):
            rows[line[2:].partition(" | ")[0]] = line
    return found


def line_of(file: str, name: str, sizes: list[list[Any]]) -> str:
    """A row of the page: ratios, and the reason where one of them is above 3."""
    ratios = [ratio_of(times) for times in sizes]
    cells = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
    slow = [place for place, ratio in enumerate(ratios) if ratio is not None and ratio > 3]
    # what is slow only where there is little to do is so because of its calls
    otherwise = "" if 2 in slow else OVERHEAD
    reason = REASONS.get(file, {}).get(name, otherwise) * bool(slow)
    return f"| {name} | {' | '.join(cells)} | {reason} |"


def page_of(found: dict[str, dict[str, list[list[Any]]]], before: dict[str, dict[str, str]]) -> str:
    """The ratios as a page: a table for each file of rows. Rows that were not timed stay as they were."""
    lines = [PAGE]
    for file in sorted({*found, *before}):
        module = importlib.import_module(f"op_rows.{file}")
        assert module.__doc__ is not None
        lines += ["", f"## {file.capitalize()}", "", " ".join(module.__doc__.split()), ""]
        lines += ["| row | small | medium | large | above 3, because |", "|---|---|---|---|---|"]
        new, old = found.get(file, {}), before.get(file, {})
        for name in module.ROWS:
            if name in new:
                lines.append(line_of(file, name, new[name]))
            elif name in old:
                lines.append(old[name])
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print a line a row and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    files = sorted(path.stem for path in (HERE / "op_rows").glob("*.py") if path.stem != "made")
    parser.add_argument("files", nargs="*", default=files, help=f"of {', '.join(files)}")
    parser.add_argument("--only", nargs="*", default=[""], help="rows with one of these in their names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", help="a page to write the ratios to; other rows stay")
    parser.add_argument("--seconds", type=float, default=0.3, help="of a round")
    args = parser.parse_args()

    sys.path.insert(0, str(HERE))
    frameworks = [Framework("fluidlite", sys.executable)]
    if python := os.environ.get("PADDLE185_PYTHON"):
        frameworks.append(Framework("paddle", python))
    print(
        "row".ljust(28)
        + "size".rjust(6)
        + "fluidlite".rjust(10)
        + " paddle 1.8.5   ratio"[: 22 * (len(frameworks) > 1)]
    )
    found: dict[str, dict[str, list[list[Any]]]] = {}
    for file in args.files:
        for name, sizes in importlib.import_module(f"op_rows.{file}").ROWS.items():
            for size in range(len(sizes) if any(text in name for text in args.only) else 0):
                times = compare(frameworks, (file, name, size), args.rounds, args.seconds)
                found.setdefault(file, {}).setdefault(name, []).append(times)
                print(
                    name.ljust(28) + ("small", "medium", "large")[size].rjust(6) + text_of(times), flush=True
                )
    for framework in frameworks:
        framework.close()
    if args.page:
        page = pathlib.Path(args.page)
        page.write_text(page_of(found, rows_on(page)))


if __name__ == "__main__":
    main()
