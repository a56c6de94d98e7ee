"""Linear regression on scikit-learn's diabetes data (442 patients, 10 measurements), the first chapter of the Paddle book.

    python examples/fit_a_line.py --epochs 60 --plot loss.png
"""
from __future__ import annotations

import argparse
import tempfile

import numpy as np
from rich.progress import track
from sklearn.datasets import load_diabetes

import fluidlite as fluid


def load() -> tuple[np.ndarray, np.ndarray]:
    """Measurements [442, 10] and the disease's progression [442, 1], both standardised."""
    data = load_diabetes()
    x = (data.data - data.data.mean(0)) / data.data.std(0)
    y = (data.target - data.target.mean()) / data.target.std()
    order = np.random.RandomState(3).permutation(len(x))
    return x[order].astype("float32"), y[order, None].astype("float32")


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--plot", metavar="FILE")
    args = parser.parse_args()

    x = fluid.data("x", [None, 10], "float32")
    y = fluid.data("y", [None, 1], "float32")
    prediction = fluid.layers.fc(x, size=1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=prediction, label=y))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    inputs, targets = load()
    train, losses = slice(0, 354), []
    for _ in track(range(args.epochs), description="fit a line"):
        epoch = [exe.run(feed={"x": inputs[i:i + args.batch], "y": targets[i:i + args.batch]}, fetch_list=[loss])[0][0]
                 for i in range(train.start, train.stop, args.batch)]
        losses.append(float(np.mean(epoch)))

    with tempfile.TemporaryDirectory() as folder:
        fluid.io.save_inference_model(folder, ["x"], [prediction], exe)
        program, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        found, = exe.run(program, feed={feeds[0]: inputs[train.stop:]}, fetch_list=fetches)
    error = float(np.mean((found - targets[train.stop:]) ** 2))
    design = np.concatenate([inputs, np.ones_like(targets)], 1)
    best = np.linalg.lstsq(design[train], targets[train], rcond=None)[0]
    optimum = float(np.mean((design[train.stop:] @ best - targets[train.stop:]) ** 2))
    print(f"training error {losses[0]:.3f} -> {losses[-1]:.3f}; on {len(found)} unseen patients {error:.3f} "
          f"(least squares: {optimum:.3f}, always the mean: {float(np.mean(targets[train.stop:] ** 2)):.3f})")
    if args.plot:
        plot(losses, args.plot)


if __name__ == "__main__":
    main()
