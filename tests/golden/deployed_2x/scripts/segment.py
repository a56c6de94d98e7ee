"""Colours each pixel of a picture by its class."""

import argparse
import json

import numpy as np
from pictures import load, normalised, page, run
from PIL import Image

COLOURS = np.array([[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128]], "uint8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("--picture", default="segment.png")
    options = parser.parse_args()
    (classes,) = run(load(options.models, "seg"), normalised(page()))
    Image.fromarray(COLOURS[classes[0]]).save(options.picture)
    print(json.dumps({"pixels": np.bincount(classes.ravel(), minlength=5).tolist()}))


if __name__ == "__main__":
    main()
