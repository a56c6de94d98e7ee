"""The workloads in PyTorch, eager or through torch.compile."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch_networks import NETWORKS, optimizers

DEVICE = os.environ.get("BENCH_DEVICE", "cpu")
# by default PyTorch's convolutions round float32 to TF32, and its products do not
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = bool(os.environ.get("BENCH_TF32"))


def _forward(kind: str, p: dict[str, Any], spec: Any) -> Callable[[dict[str, Any]], Any]:
    def mlp(b: dict[str, Any]) -> Any:
        h, count = b["x"], len(spec.sizes) - 1
        for i in range(1, count + 1):
            h = h @ p[f"W{i}"] + p[f"b{i}"]
            h = torch.tanh(h) if i < count else h
        return F.cross_entropy(h, b["y"][:, 0])

    def lenet(b: dict[str, Any]) -> Any:
        h = F.max_pool2d(F.relu(F.conv2d(b["x"], p["W1"], p["b1"])), 2)
        h = F.max_pool2d(F.relu(F.conv2d(h, p["W2"], p["b2"])), 2)
        return F.cross_entropy(h.flatten(1) @ p["W3"] + p["b3"], b["y"][:, 0])

    def word2vec(b: dict[str, Any]) -> Any:
        h = torch.sigmoid(F.embedding(b["x"], p["emb"], sparse=True).flatten(1) @ p["W1"] + p["b1"])
        return F.cross_entropy(h @ p["W2"] + p["b2"], b["y"][:, 0])

    def ctr(b: dict[str, Any]) -> Any:
        h = torch.cat([F.embedding(b["ids"], p["emb"], sparse=True).flatten(1), b["d"]], 1)
        for i in range(1, len(spec.hidden) + 1):
            h = torch.relu(h @ p[f"W{i}"] + p[f"b{i}"])
        return F.cross_entropy(
            h @ p[f"W{len(spec.hidden) + 1}"] + p[f"b{len(spec.hidden) + 1}"], b["y"][:, 0]
        )

    def chain(b: dict[str, Any]) -> Any:
        h = p["x"]
        for _ in range(spec.groups):
            h = torch.relu(torch.tanh((h + b["a"]) * b["b"])) * spec.scale
        return h.mean()

    if kind in NETWORKS:
        return lambda b: NETWORKS[kind](p, spec, b)
    return {"mlp": mlp, "lenet": lenet, "word2vec": word2vec, "ctr": ctr, "chain": chain, "loop": chain}[kind]


def build(kind: str, spec: Any, compiled: bool) -> Callable[[], float]:
    """One training step of a workload."""
    params = {
        name: torch.tensor(np.asarray(value), requires_grad=True, device=DEVICE)
        for name, value in spec.params.items()
    }
    forward = _forward(kind, params, spec)
    if compiled:
        # on a device with graphs, as FluidLite has them
        forward = torch.compile(forward, mode="reduce-overhead" if DEVICE == "cuda" else "default")
    found = optimizers(kind, params, spec)

    def step() -> float:
        batch = {name: torch.from_numpy(value).to(DEVICE) for name, value in spec.next().items()}
        for optimizer in found:
            optimizer.zero_grad(set_to_none=True)
        loss = forward(batch)
        loss.backward()
        for optimizer in found:
            optimizer.step()
        return float(loss.detach())

    def infer() -> float:
        with torch.inference_mode():
            logits = forward({"x": torch.from_numpy(spec.next()["x"]).to(DEVICE)})
        return float(logits.cpu().numpy().reshape(-1)[0])

    return step if found else infer
