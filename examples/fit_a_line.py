"""Linear regression on scikit-learn's diabetes data (442 patients, 10 measurements), the first chapter of the
Paddle book.

python examples/fit_a_line.py --epochs 60 --plot loss.png
mpirun -n 4 python -m mpi4py examples/fit_a_line.py --mode pserver --pservers 2
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import numpy as np
from extras import add_plot_option, datasets, draw, track

import fluidlite as fluid
from fluidlite.distributed import add_job_options, join_job

TRAIN = 354  # patients; the others are for the test


def load() -> tuple[np.ndarray, np.ndarray]:
    """Measurements [442, 10] and the disease's progression [442, 1], both standardised."""
    data = datasets().load_diabetes()
    x = (data.data - data.data.mean(0)) / data.data.std(0)
    y = (data.target - data.target.mean()) / data.target.std()
    order = np.random.RandomState(3).permutation(len(x))
    return x[order].astype("float32"), y[order, None].astype("float32")


def train(
    job: Any, exe: Any, loss: Any, inputs: np.ndarray, targets: np.ndarray, args: argparse.Namespace
) -> list[float]:
    """The mean loss of each epoch."""
    # a batch is shared among the trainers in equal parts: the rest that fills none is left out there
    shared = job.count > 1 or args.compare
    end = TRAIN - TRAIN % args.batch if shared else TRAIN
    losses = []
    for _ in track(range(args.epochs), description="fit a line", disable=not job.reports):
        epoch = []
        for start in range(0, end, args.batch):
            rows = slice(start, min(start + args.batch, end))
            feed = job.share({"x": inputs[rows], "y": targets[rows]})
            (value,) = exe.run(job.main, feed=feed, fetch_list=[loss])
            epoch.append(value[0])
        losses.append(float(np.mean(epoch)))
    return losses


def predict(prediction: Any, inputs: np.ndarray) -> np.ndarray:
    """Save the model, load it as a program of its own, and run that."""
    exe = fluid.Executor(fluid.CPUPlace())
    with tempfile.TemporaryDirectory() as folder:
        fluid.io.save_inference_model(folder, ["x"], [prediction], exe)
        program, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        (found,) = exe.run(program, feed={feeds[0]: inputs}, fetch_list=fetches)
    return found


def least_squares(inputs: np.ndarray, targets: np.ndarray) -> float:
    """The error on unseen patients of the line that is best on those of the training."""
    design = np.concatenate([inputs, np.ones_like(targets)], 1)
    best = np.linalg.lstsq(design[:TRAIN], targets[:TRAIN], rcond=None)[0]
    return float(np.mean((design[TRAIN:] @ best - targets[TRAIN:]) ** 2))


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=20)
    add_plot_option(parser)
    add_job_options(parser)
    return parser.parse_args()


def main() -> None:
    """Fit by SGD, save the model, load it, predict, and compare with least squares."""
    args = options()
    fluid.default_startup_program().random_seed = 1
    x, y = fluid.data("x", [None, 10], "float32"), fluid.data("y", [None, 1], "float32")
    prediction = fluid.layers.fc(x, size=1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=prediction, label=y))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)

    job = join_job(args.mode, args.pservers)
    if job.serves:
        return job.serve()
    exe = fluid.Executor(fluid.CPUPlace())
    job.start(exe, keep=args.compare)
    inputs, targets = load()
    losses = train(job, exe, loss, inputs, targets, args)
    job.finish(exe)
    if not job.reports:
        return None

    unseen = targets[TRAIN:]
    error = np.mean((predict(prediction, inputs[TRAIN:]) - unseen) ** 2)
    optimum = least_squares(inputs, targets)
    print(
        f"training error {losses[0]:.3f} -> {losses[-1]:.3f}; on {len(unseen)} unseen patients {error:.3f} "
        f"(least squares: {optimum:.3f}, always the mean: {np.mean(unseen**2):.3f})"
    )
    if args.compare:
        print(job.compare(lambda alone, exe: train(alone, exe, loss, inputs, targets, args)))
    if args.plot:
        draw(losses, args.plot, "epoch", "mean squared error")
    return None


if __name__ == "__main__":
    main()
