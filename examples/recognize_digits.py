"""Recognise handwritten digits: scikit-learn's 1797 real ones (8 x 8 pixels), by a perceptron or by a small
LeNet.

python examples/recognize_digits.py --net conv --epochs 20 --plot loss.png
mpirun -n 4 python -m mpi4py examples/recognize_digits.py --mode pserver --pservers 2
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import numpy as np
from extras import add_plot_option, datasets, draw, track

import fluidlite as fluid
from fluidlite.distributed import add_job_options, join_job


def mlp(image: Any) -> Any:
    """Two hidden layers."""
    hidden = fluid.layers.fc(image, size=128, act="relu")
    hidden = fluid.layers.fc(hidden, size=64, act="relu")
    return fluid.layers.fc(hidden, size=10, act="softmax")


def conv(image: Any) -> Any:
    """Two convolutions with pooling, as LeNet has them, for small images."""
    first = fluid.nets.simple_img_conv_pool(
        image, num_filters=20, filter_size=3, pool_size=2, pool_stride=2, conv_padding=1, act="relu"
    )
    second = fluid.nets.simple_img_conv_pool(
        first, num_filters=50, filter_size=3, pool_size=2, pool_stride=2, conv_padding=1, act="relu"
    )
    return fluid.layers.fc(second, size=10, act="softmax")


def load(test_share: float = 0.2) -> tuple[list[Any], list[Any]]:
    """Training and test samples as (image [1, 8, 8] in [-1, 1], label) pairs."""
    digits = datasets().load_digits()
    images = (digits.images[:, None] / 8.0 - 1.0).astype("float32")
    samples = list(zip(images, digits.target.astype("int64"), strict=True))
    np.random.RandomState(7).shuffle(samples)
    cut = int(len(samples) * (1 - test_share))
    return samples[:cut], samples[cut:]


def train(
    job: Any, exe: Any, feeder: Any, loss: Any, samples: list[Any], args: argparse.Namespace
) -> list[float]:
    """The loss of each step, over batches of samples in a new order each epoch."""
    random.seed(1)  # the order of the digits
    shuffled = fluid.io.shuffle(lambda: iter(samples), buf_size=len(samples))
    # a batch is shared among the trainers in equal parts: the rest that fills none is left out there
    shared = job.count > 1 or args.compare
    reader = fluid.io.batch(shuffled, batch_size=args.batch, drop_last=shared)
    losses = []
    title = f"{args.net}, {len(samples)} digits"
    for _ in track(range(args.epochs), description=title, disable=not job.reports):
        for batch in reader():
            (value,) = exe.run(job.main, feed=feeder.feed(job.share(batch)), fetch_list=[loss])
            losses.append(float(value[0]))
    return losses


def build(net: str) -> tuple[Any, Any, Any, Any]:
    """The feeds, loss and accuracy of the training program, and its clone for testing."""
    image = fluid.data("image", [None, 1, 8, 8], "float32")
    label = fluid.data("label", [None, 1], "int64")
    prediction = {"mlp": mlp, "conv": conv}[net](image)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, label))
    accuracy = fluid.layers.accuracy(prediction, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(loss)
    return [image, label], loss, accuracy, test_program


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--net", choices=("mlp", "conv"), default="conv")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--gpu", action="store_true")
    add_plot_option(parser)
    add_job_options(parser)
    return parser.parse_args()


def main() -> None:
    """Train, then say how many unseen digits are recognised."""
    args = options()
    fluid.default_startup_program().random_seed = 1
    feeds, loss, accuracy, test_program = build(args.net)
    job = join_job(args.mode, args.pservers)
    if job.serves:
        return job.serve()
    place = fluid.CUDAPlace(0) if args.gpu else fluid.CPUPlace()
    exe, feeder = fluid.Executor(place), fluid.DataFeeder(feeds, place)
    job.start(exe, keep=args.compare)
    samples, test = load()
    start = time.perf_counter()
    losses = train(job, exe, feeder, loss, samples, args)
    seconds = time.perf_counter() - start
    job.finish(exe)
    if not job.reports:
        return None
    (share,) = fluid.Executor(place).run(test_program, feed=feeder.feed(test), fetch_list=[accuracy])
    print(
        f"loss {losses[0]:.3f} -> {np.mean(losses[-20:]):.3f} in {len(losses)} steps, {seconds:.1f} s; "
        f"test accuracy {float(share[0]):.2%} on {len(test)} digits that training never saw"
    )
    if args.compare:
        print(job.compare(lambda alone, exe: train(alone, exe, feeder, loss, samples, args)))
    if args.plot:
        draw(losses, args.plot)
    return None


if __name__ == "__main__":
    main()
