"""Tags and classifies sentences of different lengths in one batch, and ranks items for a user."""

import argparse
import json

import numpy as np
from pictures import load, run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    options = parser.parse_args()
    source = np.random.RandomState(1)
    lengths = np.array([9, 5, 2], "int64")
    ids = np.zeros((3, 9), "int64")
    for row, length in enumerate(lengths):
        ids[row, :length] = source.randint(1, 100, length)
    scores, path = run(load(options.models, "tag"), ids, lengths)
    (kinds,) = run(load(options.models, "text"), ids, np.zeros_like(ids))
    items = source.randint(0, 50, (20, 3)).astype("int64")
    dense = source.rand(20, 2).astype("float32")
    (clicks,) = run(load(options.models, "ctr"), *(items[:, i : i + 1] for i in range(3)), dense)
    found = {"tags": path.tolist(), "scores": scores.tolist(), "kinds": kinds.tolist()}
    print(json.dumps({**found, "best": np.argsort(-clicks[:, 0]).tolist()[:5], "clicks": clicks.tolist()}))


if __name__ == "__main__":
    main()
