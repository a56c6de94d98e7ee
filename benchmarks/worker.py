"""One peer in one process: reads lines `<seconds>` from stdin, trains that long, answers with the median
milliseconds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
WORKLOADS = {
    "mlp_small": ("mlp", "small"),
    "mlp_large": ("mlp", "large"),
    "lenet": ("lenet", "base"),
    "word2vec": ("word2vec", "base"),
    "ctr_dnn": ("ctr", "base"),
    "chain_64": ("chain", "n64"),
    "chain_2048": ("chain", "n2048"),
    "loop_64": ("loop", "n64"),
    "lstm": ("lstm", "base"),
    "lstm_layer": ("lstm_layer", "base"),
    "transformer": ("transformer", "base"),
    "resnet20": ("resnet", "n3"),
    "resnet50": ("resnet50", "train"),
    "resnet50_infer": ("resnet50", "infer"),
}


def load(name: str) -> Any:
    """A module of benchmarks/floors, by path: their names (numpy, mlp) must not shadow packages."""
    spec = importlib.util.spec_from_file_location("floor_" + name, os.path.join(HERE, "floors", name + ".py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def step_of(peer: str, workload: str) -> Callable[[], float]:
    """The training step of a workload by a peer."""
    sys.path[:0] = [HERE, os.path.join(HERE, "floors")]
    kind, config = WORKLOADS[workload]
    spec = load(kind + "_spec").make(config)
    if peer in ("numpy", "naive"):
        return load(kind).build(spec, "floor" if peer == "numpy" else "naive")
    if peer in ("torch", "compile"):
        import torch_peer

        return torch_peer.build(kind, spec, peer == "compile")
    if peer == "jax":
        import jax_peer

        return jax_peer.build(kind, spec)
    import fluid_peer

    if peer == "fluidlite":
        import fluidlite as fluid
    else:
        import paddle.fluid as fluid  # PaddlePaddle 1.8.5, the last with all of fluid
    return fluid_peer.build(fluid, kind, spec)


def main() -> None:
    """Train on demand."""
    peer, workload = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not answer for us
    step = step_of(peer, workload)
    losses = [step() for _ in range(4)]
    answers.write(json.dumps(losses) + "\n")
    answers.flush()
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        answers.write(json.dumps(sorted(times)[len(times) // 2] * 1e3) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
