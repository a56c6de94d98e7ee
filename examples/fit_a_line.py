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
from rich.progress import track
from sklearn.datasets import load_diabetes

import fluidlite as fluid
from fluidlite.distributed import add_job_options, join_job

TRAIN = 354  # patients; the others are for the test


def load() -> tuple[np.ndarray, np.ndarray]:
    """Measurements [442, 10] and the disease's progression [442, 1], both standardised."""
    data = load_diabetes()
    x = (data.data - data.data.mean(0)) / data.data.std(0)
    y = (data.target - data.target.mean()) / data.target.std()
    order = np.random.RandomState(3).permutation(len(x))
    return x[order].astype("float32"), y[order, None].astype("float32")


def train(
    job: Any, exe: Any, loss: Any, inputs: np.ndarray, targets: np.ndarray, args: argparse.Namespace
) -> list[float]:
    """The mean loss of each epoch."""
    losses = []
    end = (
        TRAIN - args.batch + 1 if job.count > 1 or args.compare else TRAIN
    )  # whole batches only, where they are shared
    for _ in track(range(args.epochs), description="fit a line", disable=not job.reports):
        epoch = [
            exe.run(
                job.main,
                feed=job.share(
                    {
                        "x": inputs[i : min(i + args.batch, TRAIN)],
                        "y": targets[i : min(i + args.batch, TRAIN)],
                    }
                ),
                fetch_list=[loss],
            )[0][0]
            for i in range(0, end, args.batch)
        ]
        losses.append(float(np.mean(epoch)))
    return losses


def plot(losses: list[float], path: str) -> None:
    """Write the loss curve."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.plot(losses)
    pyplot.xlabel("epoch")
    pyplot.ylabel("mean squared error")
    pyplot.savefig(path)


def main() -> None:
    """Fit by SGD, compare with least squares, save the model, load it, and predict."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--plot", metavar="FILE")
    add_job_options(parser)
    args = parser.parse_args()

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

    exe = fluid.Executor(fluid.CPUPlace())
    with tempfile.TemporaryDirectory() as folder:
        fluid.io.save_inference_model(folder, ["x"], [prediction], exe)
        program, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        (found,) = exe.run(program, feed={feeds[0]: inputs[TRAIN:]}, fetch_list=fetches)
    error = float(np.mean((found - targets[TRAIN:]) ** 2))
    design = np.concatenate([inputs, np.ones_like(targets)], 1)
    best = np.linalg.lstsq(design[:TRAIN], targets[:TRAIN], rcond=None)[0]
    optimum = float(np.mean((design[TRAIN:] @ best - targets[TRAIN:]) ** 2))
    print(
        f"training error {losses[0]:.3f} -> {losses[-1]:.3f}; on {len(found)} unseen patients {error:.3f} "
        f"(least squares: {optimum:.3f}, always the mean: {float(np.mean(targets[TRAIN:] ** 2)):.3f})"
    )
    if args.compare:
        print(job.compare(lambda alone, exe: train(alone, exe, loss, inputs, targets, args)))
    if args.plot:
        plot(losses, args.plot)
    return None


if __name__ == "__main__":
    main()
