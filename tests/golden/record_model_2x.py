"""Save a small trained model with PaddlePaddle 2.6.2, as `paddle.static.save_inference_model` writes it.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2:

    python -m golden.record_model_2x

`models_2x/classifier.pdmodel|pdiparams` are the model: pictures and word ids to the shares of three classes,
and the best class; `classifier.npz` is one input, and what 2.6.2 makes of it.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import paddle

F = paddle.nn.functional
PREFIX = pathlib.Path(__file__).parent / "models_2x" / "classifier"


def classifier() -> tuple[list[Any], list[Any]]:
    """The feeds and fetches of the model."""
    img = paddle.static.data("img", [None, 1, 8, 8])
    ids = paddle.static.data("ids", [None, 3], "int64")
    hidden = paddle.static.nn.batch_norm(paddle.static.nn.conv2d(img, 4, 3, padding=1), act="relu")
    words = paddle.mean(paddle.static.nn.embedding(ids, [11, 5]), axis=1)
    hidden = paddle.concat([paddle.flatten(F.max_pool2d(hidden, 2, 2), 1), words], axis=1)
    hidden = F.layer_norm(paddle.static.nn.fc(hidden, 6, activation="tanh"), [6])
    shares = F.softmax(paddle.static.nn.fc(F.dropout(hidden, 0.3), 3))
    return [img, ids], [shares, paddle.argmax(shares, axis=1)]


def main() -> None:
    """Train for five steps, and save."""
    paddle.enable_static()
    paddle.seed(7)
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup):
        fed, fetched = classifier()
        loss = paddle.mean(-paddle.log(fetched[0][:, 0]))
        paddle.optimizer.SGD(0.1).minimize(loss)
    rng = np.random.RandomState(0)
    feed = {"img": rng.rand(4, 1, 8, 8).astype("float32"), "ids": rng.randint(0, 11, (4, 3)).astype("int64")}
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    for _ in range(5):
        exe.run(program, feed=feed, fetch_list=[loss])
    paddle.static.save_inference_model(str(PREFIX), fed, fetched, exe, program=program)
    model, _, targets = paddle.static.load_inference_model(str(PREFIX), exe)
    shares, best = exe.run(model, feed=feed, fetch_list=targets)
    np.savez_compressed(PREFIX.with_suffix(".npz"), shares=shares, best=best, **feed)


if __name__ == "__main__":
    main()
