"""A small transformer that predicts the next character of the English text that ships with Python, and then writes some.

    python examples/transformer_lm.py --steps 400
"""
from __future__ import annotations

import argparse
import math
from pydoc_data import topics
from typing import Any

import numpy as np
from rich.progress import track

import fluidlite as fluid

layers = fluid.layers


def corpus() -> tuple[np.ndarray, str]:
    """The text as numbers, and the characters by number."""
    text = " ".join(" ".join(topics.topics.values()).split())
    letters = "".join(sorted(set(text)))
    number = {letter: i for i, letter in enumerate(letters)}
    return np.array([number[letter] for letter in text], dtype="int64"), letters


def heads_of(x: Any, heads: int, length: int, width: int) -> Any:
    """[batch, length, width] as [batch, heads, length, width / heads]."""
    return layers.transpose(layers.reshape(x, [-1, length, heads, width // heads]), [0, 2, 1, 3])


def attention(x: Any, mask: Any, heads: int, length: int, width: int) -> Any:
    """Self-attention; `mask` is added to the scores and hides the future."""
    query, key, value = (heads_of(layers.fc(x, width, num_flatten_dims=2, bias_attr=False), heads, length, width) for _ in range(3))
    scores = layers.matmul(query, key, transpose_y=True, alpha=(width // heads) ** -0.5)
    weights = layers.softmax(layers.elementwise_add(scores, mask))
    joined = layers.reshape(layers.transpose(layers.matmul(weights, value), [0, 2, 1, 3]), [-1, length, width])
    return layers.fc(joined, width, num_flatten_dims=2)


def block(x: Any, mask: Any, heads: int, length: int, width: int) -> Any:
    """Attention and a feed-forward layer, each around a residual, normalised in front."""
    x = x + attention(layers.layer_norm(x, begin_norm_axis=2), mask, heads, length, width)
    hidden = layers.fc(layers.layer_norm(x, begin_norm_axis=2), width * 4, num_flatten_dims=2, act="relu")
    return x + layers.fc(hidden, width, num_flatten_dims=2)


def build(letters: int, length: int, width: int, depth: int, heads: int) -> tuple[Any, Any]:
    """Loss and logits [batch, length, letters] of the model."""
    ids = fluid.data("ids", [None, length], "int64")
    target = fluid.data("target", [None, length, 1], "int64")
    places = layers.create_parameter([length, width], "float32", default_initializer=fluid.initializer.Normal(scale=0.02))
    hidden = np.triu(np.full((length, length), -1e9, "float32"), 1)
    mask = layers.assign(hidden)
    mask.stop_gradient = True
    embed = fluid.embedding(ids, [letters, width], param_attr=fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=0.02)))
    x = layers.elementwise_add(embed, places, axis=1)
    for _ in range(depth):
        x = block(x, mask, heads, length, width)
    logits = layers.fc(layers.layer_norm(x, begin_norm_axis=2), letters, num_flatten_dims=2)
    return layers.mean(layers.softmax_with_cross_entropy(logits, target)), logits


def write(exe: Any, program: Any, logits: Any, start: np.ndarray, count: int, length: int) -> list[int]:
    """Continue `start` by the most likely letters, drawn with a little chance."""
    rng, found = np.random.RandomState(2), list(start)
    for _ in range(count):
        window = found[-length:]
        feed = np.zeros((1, length), "int64")
        feed[0, :len(window)] = window
        value, = exe.run(program, feed={"ids": feed}, fetch_list=[logits])
        score = value[0, len(window) - 1] / 0.6
        weight = np.exp(score - score.max())
        found.append(int(rng.choice(len(weight), p=weight / weight.sum())))
    return found


def main() -> None:
    """Train, say the loss per letter, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--plot", metavar="FILE")
    args = parser.parse_args()

    text, letters = corpus()
    fluid.default_startup_program().random_seed = 1
    loss, logits = build(len(letters), args.length, args.width, depth=2, heads=4)
    infer = fluid.default_main_program().clone(for_test=True)._prune_with_input(["ids"], [logits])
    rate = layers.learning_rate_scheduler.noam_decay(args.width, 100)
    fluid.optimizer.Adam(learning_rate=rate, beta2=0.98).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rng, losses = np.random.RandomState(0), []
    for _ in track(range(args.steps), description=f"{len(text)} letters"):
        rows = rng.randint(len(text) - args.length - 1, size=(args.batch, 1)) + np.arange(args.length + 1)
        window = text[rows]
        value, = exe.run(feed={"ids": window[:, :-1], "target": window[:, 1:, None]}, fetch_list=[loss])
        losses.append(float(value[0]))
    written = write(exe, infer, logits, text[:12], 80, args.length)
    print(f"loss {losses[0]:.3f} -> {np.mean(losses[-20:]):.3f} per letter (guessing: {math.log(len(letters)):.3f}); it writes: "
          + repr("".join(letters[i] for i in written)))
    if args.plot:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
        pyplot.plot(losses)
        pyplot.savefig(args.plot)


if __name__ == "__main__":
    main()
