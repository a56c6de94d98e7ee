"""Draws the boxes that a detector finds in two pictures of one batch."""

import argparse
import json

import numpy as np
from pictures import load, normalised, page, run
from PIL import ImageDraw


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("--picture", default="detect.png")
    options = parser.parse_args()
    images = [page(192, 128), page(192, 128).rotate(180)]
    size = (96, 64)
    batch = np.concatenate([normalised(image, size) for image in images])
    shape = np.array([size[::-1]] * 2, "float32")
    scale = np.full((2, 2), 0.5, "float32")
    boxes, counts = run(load(options.models, "yolo"), batch, shape, scale)
    draw = ImageDraw.Draw(images[0])
    for _, _, *corners in boxes[: counts[0]]:
        draw.rectangle([float(x) for x in corners], outline="red")
    images[0].save(options.picture)
    print(json.dumps({"counts": counts.tolist(), "boxes": boxes.tolist()}))


if __name__ == "__main__":
    main()
