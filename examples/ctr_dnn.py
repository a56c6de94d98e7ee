"""Click-through prediction: sparse embeddings and dense features into a deep network, judged by AUC.

The clicks are drawn from a hidden model over 26 categorical fields and 13 numbers, in the form of the Criteo
data, so that the best possible AUC is known.

    python examples/ctr_dnn.py --steps 600
    mpirun -n 4 python -m mpi4py examples/ctr_dnn.py --mode pserver --pservers 2
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from extras import add_plot_option, draw, track

import fluidlite as fluid
from fluidlite.distributed import add_job_options, join_job

FIELDS, DENSE = 26, 13


class Clicks:
    """Draws batches: ids [n, 26], numbers [n, 13], clicks [n, 1], and each sample's true probability."""

    def __init__(self, rows: int, seed: int = 0) -> None:
        self.rng = np.random.RandomState(seed)
        self.rows = rows
        self.weights = self.rng.randn(rows).astype("float32")
        self.direction = self.rng.randn(DENSE).astype("float32")

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """A batch; ids follow a power law, as real categories do."""
        per_field = self.rows // FIELDS
        within = per_field * self.rng.rand(count, FIELDS) ** 4
        ids = (np.arange(FIELDS) * per_field + within).astype("int64")
        dense = self.rng.rand(count, DENSE).astype("float32")
        logit = self.weights[ids].sum(1) * 0.4 + (dense - 0.5) @ self.direction * 0.5
        probability = 1 / (1 + np.exp(-logit))
        return ids, dense, (self.rng.rand(count) < probability).astype("int64")[:, None], probability


def build(rows: int, embedding: int) -> tuple[Any, Any, Any]:
    """The loss, the prediction and the running AUC."""
    ids = [fluid.data(f"C{i}", [None, 1], "int64") for i in range(FIELDS)]
    dense = fluid.data("dense", [None, DENSE], "float32")
    click = fluid.data("click", [None, 1], "int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.01, 0.01))
    vectors = [
        fluid.layers.embedding(field, size=[rows, embedding], is_sparse=True, param_attr=table)
        for field in ids
    ]
    layer = fluid.layers.concat([*vectors, dense], axis=1)
    for size in (128, 64):
        layer = fluid.layers.fc(layer, size=size, act="relu")
    prediction = fluid.layers.fc(layer, size=2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, click))
    auc, _, _ = fluid.layers.auc(prediction, click)
    return loss, prediction, auc


def feed_of(ids: np.ndarray, dense: np.ndarray, click: np.ndarray) -> dict[str, np.ndarray]:
    """A batch under the names that the program feeds."""
    return {f"C{i}": ids[:, i : i + 1] for i in range(FIELDS)} | {"dense": dense, "click": click}


def train(
    job: Any, exe: Any, loss: Any, auc: Any, clicks: Clicks, args: argparse.Namespace
) -> tuple[list[float], float]:
    """The loss of each step, and the AUC so far."""
    losses, running = [], np.zeros(1)
    for _ in track(range(args.steps), description="training", disable=not job.reports):
        ids, dense, click, _ = clicks.draw(args.batch)
        value, running = exe.run(job.main, feed=job.share(feed_of(ids, dense, click)), fetch_list=[loss, auc])
        losses.append(float(value[0]))
    return losses, float(running[0])


def rank_auc(score: np.ndarray, click: np.ndarray) -> float:
    """The probability that a click scores higher than a non-click."""
    order = np.argsort(np.argsort(score)) + 1
    ones = click.sum()
    return float((order[click == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(click) - ones)))


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rows", type=int, default=2600)
    add_plot_option(parser)
    add_job_options(parser)
    return parser.parse_args()


def main() -> None:
    """Train on a stream of clicks, then judge on unseen ones."""
    args = options()
    fluid.default_startup_program().random_seed = 1
    loss, prediction, auc = build(args.rows, 8)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.003, lazy_mode=True).minimize(loss)
    job = join_job(args.mode, args.pservers)
    if job.serves:
        return job.serve()
    exe, clicks = fluid.Executor(fluid.CPUPlace()), Clicks(args.rows)
    job.start(exe, keep=args.compare)
    losses, running = train(job, exe, loss, auc, clicks, args)
    job.finish(exe)
    if not job.reports:
        return None
    exe = fluid.Executor(fluid.CPUPlace())
    ids, dense, click, truth = clicks.draw(8192)
    (found,) = exe.run(test_program, feed=feed_of(ids, dense, click), fetch_list=[prediction])
    print(
        f"loss {losses[0]:.3f} -> {np.mean(losses[-50:]):.3f}; running AUC {running:.3f}; on 8192 unseen "
        f"impressions {rank_auc(found[:, 1], click[:, 0]):.3f} (the hidden model itself: "
        f"{rank_auc(truth, click[:, 0]):.3f})"
    )
    if args.compare:
        print(job.compare(lambda alone, exe: train(alone, exe, loss, auc, Clicks(args.rows), args)))
    if args.plot:
        draw(losses, args.plot)
    return None


if __name__ == "__main__":
    main()
