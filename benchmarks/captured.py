"""Which of the benchmarks' networks train in steps that a device launches as one graph, and what keeps the
others from it; plans alone are made, so no device is needed.

    PYTHONPATH=benchmarks:tests python benchmarks/captured.py [NETWORK ...]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from networks.definitions import NETWORKS, batches
from networks.in_fluid import Functions, _loss, _optimizer

import fluidlite as fluid
from fluidlite.contrib import mixed_precision

PRECISIONS = ("float32", "mixed")


def explained(name: str, precision: str) -> str:
    """The plan of a training step, as a device has it."""
    network = NETWORKS[name]
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [-1, *network.shape], "int64" if network.vocabulary else "float32")
        loss = _loss(fluid, network, network.build(Functions(fluid, network.batch), x))
        optimizer = _optimizer(fluid, network.optimizer)
        if precision == "mixed":
            optimizer = mixed_precision.decorate(optimizer)
        optimizer.minimize(loss)
    fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
    batch = batches(network, network.batch, 1)[0]
    feed = batch if network.classes else {"x": batch["x"]}
    exe = fluid.Executor(fluid.CUDAPlace(0))
    return str(exe.explain(main, feed=feed, fetch_list=[loss], scope=scope, full=True))


def verdict(text: str) -> str:
    """The part of a plan's explanation that tells of its graph, and the number of its steps."""
    lines = text.splitlines()
    count = lines[0].split()[1]
    found = next(line for line in lines if line.startswith(("graph: ", "no graph: ")))
    return f"whole, {count} steps" if found.startswith("graph") else found.removeprefix("no graph: ")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition(";")[0] if __doc__ else "")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    try:
        import cupy  # noqa: F401
    except ImportError:
        import gpu_sim.plugin  # noqa: F401
    print(f"| network | {' | '.join(PRECISIONS)} |\n|---|{'---|' * len(PRECISIONS)}")
    for name in parser.parse_args().networks:
        cells: list[Any] = [verdict(explained(name, precision)) for precision in PRECISIONS]
        print(f"| {name} | {' | '.join(cells)} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
