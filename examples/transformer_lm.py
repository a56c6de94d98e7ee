"""A small transformer that predicts the next character of the English text that ships with Python, and then
writes some.

python examples/transformer_lm.py --steps 400
mpirun -n 4 python -m mpi4py examples/transformer_lm.py --mode grad_allreduce
"""

from __future__ import annotations

import argparse
from pydoc_data import topics
from typing import Any

import numpy as np
from extras import add_plot_option, draw, track

import fluidlite as fluid
from fluidlite import layers
from fluidlite.distributed import add_job_options, join_job


def corpus() -> tuple[np.ndarray, str]:
    """The text as numbers, and the characters by number."""
    text = " ".join(" ".join(topics.topics.values()).split())
    letters = "".join(sorted(set(text)))
    return np.array([letters.index(letter) for letter in text], dtype="int64"), letters


def heads_of(x: Any, heads: int, length: int, width: int) -> Any:
    """[batch, length, width] as [batch, heads, length, width / heads]."""
    return layers.transpose(layers.reshape(x, [-1, length, heads, width // heads]), [0, 2, 1, 3])


def attention(x: Any, mask: Any, heads: int, length: int, width: int) -> Any:
    """Self-attention; `mask` is added to the scores and hides the future."""
    query, key, value = (
        heads_of(layers.fc(x, width, num_flatten_dims=2, bias_attr=False), heads, length, width)
        for _ in range(3)
    )
    scores = layers.matmul(query, key, transpose_y=True, alpha=(width // heads) ** -0.5)
    found = layers.matmul(layers.softmax(scores + mask), value)
    joined = layers.reshape(layers.transpose(found, [0, 2, 1, 3]), [-1, length, width])
    return layers.fc(joined, width, num_flatten_dims=2)


def block(x: Any, mask: Any, heads: int, length: int, width: int) -> Any:
    """Attention and a feed-forward layer, each around a residual, normalised in front."""
    x = x + attention(layers.layer_norm(x, begin_norm_axis=2), mask, heads, length, width)
    hidden = layers.fc(layers.layer_norm(x, begin_norm_axis=2), width * 4, num_flatten_dims=2, act="relu")
    return x + layers.fc(hidden, width, num_flatten_dims=2)


def build(letters: int, length: int, width: int, depth: int, heads: int) -> tuple[Any, Any]:
    """Loss and logits [batch, length, letters] of the model."""
    normal = fluid.initializer.Normal(scale=0.02)
    ids = fluid.data("ids", [None, length], "int64")
    target = fluid.data("target", [None, length, 1], "int64")
    places = layers.create_parameter([length, width], "float32", default_initializer=normal)
    mask = layers.assign(np.triu(np.full((length, length), -1e9, "float32"), 1))
    mask.stop_gradient = True
    vectors = fluid.embedding(ids, [letters, width], param_attr=fluid.ParamAttr(initializer=normal))
    x = layers.elementwise_add(vectors, places, axis=1)
    for _ in range(depth):
        x = block(x, mask, heads, length, width)
    logits = layers.fc(layers.layer_norm(x, begin_norm_axis=2), letters, num_flatten_dims=2)
    return layers.mean(layers.softmax_with_cross_entropy(logits, target)), logits


def train(job: Any, exe: Any, loss: Any, text: np.ndarray, args: argparse.Namespace) -> list[float]:
    """The loss of each step."""
    rng, losses = np.random.RandomState(0), []
    for _ in track(range(args.steps), description=f"{len(text)} letters", disable=not job.reports):
        starts = rng.randint(len(text) - args.length - 1, size=(args.batch, 1))
        window = text[starts + np.arange(args.length + 1)]
        feed = job.share({"ids": window[:, :-1], "target": window[:, 1:, None]})
        (value,) = exe.run(job.main, feed=feed, fetch_list=[loss])
        losses.append(float(value[0]))
    return losses


def write(exe: Any, program: Any, logits: Any, start: np.ndarray, count: int, length: int) -> list[int]:
    """Continue `start` by the most likely letters, drawn with a little chance."""
    rng, found, feed = np.random.RandomState(2), list(start), np.zeros((1, length), "int64")
    for _ in range(count):
        window = found[-length:]
        feed[0, : len(window)] = window
        (value,) = exe.run(program, feed={"ids": feed}, fetch_list=[logits])
        weight = np.exp((value[0, len(window) - 1] - value.max()) / 0.6)
        found.append(int(rng.choice(len(weight), p=weight / weight.sum())))
    return found


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("steps", 400), ("batch", 16), ("length", 48), ("width", 96)):
        parser.add_argument(f"--{name}", type=int, default=default)
    add_plot_option(parser)
    add_job_options(parser)
    return parser.parse_args()


def main() -> None:
    """Train, say the loss per letter, and write."""
    args = options()
    text, letters = corpus()
    fluid.default_startup_program().random_seed = 1
    loss, logits = build(len(letters), args.length, args.width, depth=2, heads=4)
    infer = fluid.default_main_program().clone(for_test=True)._prune_with_input(["ids"], [logits])
    rate = layers.learning_rate_scheduler.noam_decay(args.width, 100)
    fluid.optimizer.Adam(rate, beta2=0.98).minimize(loss)
    job = join_job(args.mode, args.pservers)
    if job.serves:
        return job.serve()
    exe = fluid.Executor(fluid.CPUPlace())
    job.start(exe, keep=args.compare)
    losses = train(job, exe, loss, text, args)
    job.finish(exe)
    if not job.reports:
        return None
    written = write(fluid.Executor(fluid.CPUPlace()), infer, logits, text[:12], 80, args.length)
    print(
        f"loss {losses[0]:.3f} -> {np.mean(losses[-20:]):.3f} per letter (guessing: "
        f"{np.log(len(letters)):.3f}); it writes: {''.join(letters[i] for i in written)!r}"
    )
    if args.compare:
        print(job.compare(lambda alone, exe: train(alone, exe, loss, text, args)))
    if args.plot:
        draw(losses, args.plot)
    return None


if __name__ == "__main__":
    main()
