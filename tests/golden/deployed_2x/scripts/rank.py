"""Ranks items for users by two towers, and finds what is odd in the readings of three sensors."""

import argparse
import json

import numpy as np
import paddle


def ranked(exe, prefix):
    """The five best items of three users whose histories have different lengths."""
    program, feeds, fetches = paddle.static.load_inference_model(prefix, exe)
    lengths = [3, 1, 5]
    source = np.random.RandomState(2)
    ids = source.randint(1, 80, (sum(lengths), 1)).astype("int64")
    history = paddle.base.create_lod_tensor(ids, [lengths], paddle.CPUPlace())
    found, users = [], None
    for item in range(1, 21):
        feed = dict(zip(feeds, (history, np.full((3, 1), 0.4, "float32"), np.full((3, 1), item, "int64"))))
        score, users, _ = exe.run(program, feed=feed, fetch_list=fetches)
        found.append(score[:, 0])
    scores = np.stack(found, 1)
    return {"scores": scores.tolist(), "users": users.tolist()}


def odd(exe, prefix):
    """The windows whose error lies three deviations above the median."""
    program, feeds, fetches = paddle.static.load_inference_model(prefix, exe)
    turns = np.arange(240).reshape(240, 1) / 4 + np.arange(3)
    readings = np.sin(turns).astype("float32")
    readings[100:106, 1] += 1.5
    readings[180, 2] = -3
    windows = np.stack([readings[start : start + 24] for start in range(0, 216, 8)])
    again, error = exe.run(program, feed={feeds[0]: windows}, fetch_list=fetches)
    limit = np.median(error) + 3 * np.std(np.sort(error)[: len(error) // 2])
    where = np.nonzero(error > limit)[0] * 8
    return {"errors": error.tolist(), "odd": where.tolist(), "again": again[0, 0].tolist()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    options = parser.parse_args()
    paddle.enable_static()
    exe = paddle.static.Executor(paddle.CPUPlace())
    found = {"users": ranked(exe, f"{options.models}/towers/inference")}
    found["sensors"] = odd(exe, f"{options.models}/series/inference")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
