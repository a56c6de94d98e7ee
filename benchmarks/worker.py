"""One peer in one process: says what its first steps gave, then reads lines `<seconds>` from stdin, trains
that long, and answers with the median milliseconds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
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


# networks in the manner of published ones, in training and for one sample
PUBLISHED = (
    "resnet18",
    "vgg11",
    "mobilenet_v2",
    "darknet53",
    "unet",
    "yolov3",
    "transformer_base",
    "bert_small",
    "stacked_lstm",
    "crnn",
    "deepfm",
    "din",
)
INFER = "_infer"
NETWORKS = (*PUBLISHED, *(name + INFER for name in PUBLISHED))
VARIANT = "variant_"  # and a seed: a network of `networks.variants`


def unknown_workloads(names: Sequence[str]) -> str:
    """The complaint about the first name that is no workload's, or nothing."""
    for name in names:
        is_variant = name.startswith(VARIANT) and name[len(VARIANT) :].split(INFER)[0].isdecimal()
        if not is_variant and name not in (*WORKLOADS, *NETWORKS):
            known = ", ".join((*WORKLOADS, *NETWORKS))
            return f"no workload {name!r}; there are {known} and {VARIANT}N"
    return ""


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
    if workload not in WORKLOADS:
        return network_step(peer, workload.split(INFER)[0], workload.endswith(INFER))
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

    return fluid_peer.build(fluid_of(peer), kind, spec)


def fluid_of(peer: str) -> Any:
    """The module `fluid` of a peer."""
    if peer == "fluidlite":
        import fluidlite

        return fluidlite
    if peer == "paddle2":
        import paddle2

        return paddle2.fluid
    import paddle.fluid  # PaddlePaddle 1.8.5, the last with all of fluid

    return paddle.fluid


def network_step(peer: str, name: str, infer: bool) -> Callable[[], float]:
    """The training step, or the inference, of a published network by a peer."""
    if peer in ("torch", "compile"):
        from networks import in_torch

        return in_torch.step_of(name, infer, peer == "compile")
    if peer == "jax":
        from networks import in_jax

        return in_jax.step_of(name, infer)
    if peer in ("numpy", "naive"):
        raise LookupError(f"nobody wrote {name} by hand")
    from networks import in_fluid

    return in_fluid.step_of(fluid_of(peer), name, infer)


def version_of(peer: str) -> str:
    """The version of the library that a peer runs on; FluidLite and the floors run on NumPy."""
    module = {"torch": "torch", "compile": "torch", "jax": "jax", "paddle": "paddle", "paddle2": "paddle"}
    name = module.get(peer, "numpy")
    version = str(sys.modules[name].__version__)
    return f"(NumPy {version})" if name == "numpy" else version


def main() -> None:
    """Train on demand."""
    peer, workload = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not answer for us
    step = step_of(peer, workload)
    begin = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - begin
    losses += [step() for _ in range(3)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begun = {"losses": losses, "first_s": first, "peak_mb": peak, "version": version_of(peer)}
    answers.write(json.dumps(begun) + "\n")
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
