"""Word embeddings from the English text that ships with Python (pydoc_data.topics): four words predict the
fifth.

python examples/word2vec.py --epochs 3 --word list
mpirun -n 4 python -m mpi4py examples/word2vec.py --mode pserver --pservers 2
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pydoc_data import topics
from typing import Any

import numpy as np
from extras import add_plot_option, draw, track

import fluidlite as fluid
from fluidlite.distributed import add_job_options, join_job

WINDOW = 4


def corpus(min_count: int = 8) -> tuple[np.ndarray, list[str]]:
    """Every word of the text as a number, and the words by number; rare words are number 0."""
    words = re.findall(r"[a-z]+", " ".join(topics.topics.values()).lower())
    vocabulary = ["<rare>", *(word for word, count in Counter(words).most_common() if count >= min_count)]
    number = {word: i for i, word in enumerate(vocabulary)}
    return np.array([number.get(word, 0) for word in words], dtype="int64"), vocabulary


def build(size: int, embedding: int, hidden: int, sparse: bool) -> Any:
    """The loss of the N-gram model of the Paddle book: one shared embedding, a sigmoid layer, a softmax
    over all words.
    """
    words = [fluid.data(f"word{i}", [None, 1], "int64") for i in range(WINDOW)]
    target = fluid.data("target", [None, 1], "int64")
    vectors = [
        fluid.layers.embedding(word, size=[size, embedding], is_sparse=sparse, param_attr="shared_w")
        for word in words
    ]
    joined = fluid.layers.concat(vectors, axis=1)
    layer = fluid.layers.fc(joined, size=hidden, act="sigmoid")
    prediction = fluid.layers.fc(layer, size=size, act="softmax")
    return fluid.layers.mean(fluid.layers.cross_entropy(prediction, target))


def train(job: Any, exe: Any, loss: Any, text: np.ndarray, args: argparse.Namespace) -> list[float]:
    """The loss of each step."""
    rng, losses = np.random.RandomState(0), []
    for epoch in range(args.epochs):
        starts = rng.permutation(len(text) - WINDOW)
        steps = range(0, len(starts) - args.batch, args.batch)[: args.steps]
        title = f"epoch {epoch + 1} of {len(text)} words"
        for at in track(steps, description=title, disable=not job.reports):
            rows = starts[at : at + args.batch]
            feed = {f"word{i}": text[rows + i, None] for i in range(WINDOW)}
            feed["target"] = text[rows + WINDOW, None]
            (value,) = exe.run(job.main, feed=job.share(feed), fetch_list=[loss])
            losses.append(float(value[0]))
    return losses


def nearest(vectors: np.ndarray, vocabulary: list[str], word: str, count: int = 6) -> list[str]:
    """The words whose vectors point most nearly the same way."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    order = np.argsort(-(unit @ unit[vocabulary.index(word)]))
    return [vocabulary[i] for i in order[1 : count + 1]]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of an epoch (default: all)")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--word", default="list")
    parser.add_argument(
        "--dense", action="store_true", help="dense instead of row-sparse gradients of the embedding"
    )
    add_plot_option(parser)
    add_job_options(parser)
    return parser.parse_args()


def main() -> None:
    """Train and show a word's neighbours."""
    args = options()
    text, vocabulary = corpus()
    if args.word not in vocabulary:
        raise SystemExit(f"the text has no word {args.word!r}")
    fluid.default_startup_program().random_seed = 1
    loss = build(len(vocabulary), 32, 128, sparse=not args.dense)
    fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)
    job = join_job(args.mode, args.pservers)
    if job.serves:
        return job.serve()
    exe = fluid.Executor(fluid.CPUPlace())
    job.start(exe, keep=args.compare)
    losses = train(job, exe, loss, text, args)
    job.finish(exe)
    if not job.reports:
        return None
    vectors = np.array(fluid.global_scope().find_var("shared_w").get_tensor())
    print(
        f"loss {losses[0]:.3f} -> {np.mean(losses[-100:]):.3f} over {len(vocabulary)} words; "
        f"near {args.word!r}: {', '.join(nearest(vectors, vocabulary, args.word))}"
    )
    if args.compare:
        print(job.compare(lambda alone, exe: train(alone, exe, loss, text, args)))
    if args.plot:
        draw(losses, args.plot)
    return None


if __name__ == "__main__":
    main()
