"""The larger workloads in PyTorch: functions of parameters, sizes and a batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def lstm(p: dict[str, Any], spec: Any, b: dict[str, Any]) -> Any:
    """One LSTM layer over padded sequences, the maximum over time."""
    words = F.embedding(b["x"], p["emb"], sparse=True)
    zeros = torch.zeros(1, spec.batch, spec.hidden, device=b["x"].device)
    weights = [p[name] for name in ("wih", "whh", "bih", "bhh")]
    hidden, _, _ = torch._VF.lstm(words, (zeros, zeros), weights, True, 1, 0.0, True, False, True)
    return F.cross_entropy(hidden.amax(1) @ p["W"] + p["b"], b["y"][:, 0])


def transformer(p: dict[str, Any], spec: Any, b: dict[str, Any]) -> Any:
    """Post-norm encoder layers, the mean over the words."""
    x = b["x"]
    batch, seq, d = x.shape
    for number in range(spec.layers):
        w = {name[3:]: value for name, value in p.items() if name.startswith(f"l{number}_")}
        qkv = (x @ w["wqkv"] + w["bqkv"]).view(batch, seq, 3, spec.heads, d // spec.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, d)
        x = F.layer_norm(mixed @ w["wo"] + w["bo"] + x, (d,), w["g1"], w["c1"])
        wide = F.gelu(x @ w["w1"] + w["b1"])
        x = F.layer_norm(wide @ w["w2"] + w["b2"] + x, (d,), w["g2"], w["c2"])
    return F.cross_entropy(x.mean(1) @ p["W"] + p["b"], b["y"][:, 0])


def resnet(p: dict[str, Any], spec: Any, b: dict[str, Any]) -> Any:
    """Convolutions with batch_norm in residual blocks; the logits where `spec` infers."""

    def conv(x: Any, shape: tuple[Any, ...]) -> Any:
        name, _, channels, k, stride = shape
        mean = torch.zeros(channels, device=x.device)
        variance = torch.ones(channels, device=x.device)
        h = F.conv2d(x, p[name + "_w"], None, stride, k // 2)
        return F.batch_norm(h, mean, variance, p[name + "_g"], p[name + "_b"], training=not spec.infer)

    convs, blocks = spec.layout()
    x = F.relu(conv(b["x"], convs[0]))
    if spec.pool:
        x = F.max_pool2d(x, 3, 2, 1)
    for *main, shortcut in blocks:
        h = x
        for number, shape in enumerate(main, 1):
            h = conv(h, shape)
            h = F.relu(h) if number < len(main) else h
        x = F.relu(h + (x if shortcut is None else conv(x, shortcut)))
    logits = x.mean((2, 3)) @ p["fc_w"] + p["fc_b"]
    return logits if spec.infer else F.cross_entropy(logits, b["y"][:, 0])


NETWORKS = {
    "lstm": lstm,
    "lstm_layer": lstm,
    "transformer": transformer,
    "resnet": resnet,
    "resnet50": resnet,
}


def optimizers(kind: str, params: dict[str, Any], spec: Any) -> list[Any]:
    """The optimizers of a workload; none where it infers."""
    if spec.cfg.get("infer"):
        return []
    if kind in ("lstm", "lstm_layer"):
        return [torch.optim.Adagrad(params.values(), lr=spec.lr, eps=spec.eps)]
    if kind in ("resnet", "resnet50"):
        return [torch.optim.SGD(params.values(), lr=spec.lr, momentum=spec.mu, weight_decay=spec.wd)]
    if kind in ("lenet", "transformer"):
        return [torch.optim.Adam(params.values(), lr=spec.lr)]
    return [torch.optim.SGD(params.values(), lr=spec.lr)]
