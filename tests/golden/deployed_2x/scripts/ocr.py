"""Finds lines of text in a picture, turns those that stand on their heads, and reads them: three models."""

import argparse
import json

import numpy as np
from pictures import load, normalised, page, run
from PIL import ImageDraw

CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def regions(chances, threshold):
    """The boxes (left, top, right, bottom) of connected pixels above a threshold, from top to bottom."""
    sure = chances > threshold
    label = np.zeros(sure.shape, "int32")
    boxes = []
    for start in zip(*np.nonzero(sure)):
        if label[start]:
            continue
        label[start] = len(boxes) + 1
        waiting, seen = [start], []
        while waiting:
            row, column = waiting.pop()
            seen.append((row, column))
            for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                inside = 0 <= near[0] < sure.shape[0] and 0 <= near[1] < sure.shape[1]
                if inside and sure[near] and not label[near]:
                    label[near] = len(boxes) + 1
                    waiting.append(near)
        rows, columns = zip(*seen)
        boxes.append((min(columns), min(rows), max(columns) + 1, max(rows) + 1))
    large = [box for box in boxes if box[2] - box[0] > 8 and box[3] - box[1] > 4]
    return sorted(int_box(box) for box in large)[:6]


def int_box(box):
    return tuple(int(number) for number in box)


def decoded(chances):
    """Characters without repeats and blanks, and the mean chance of those that are left."""
    best, sure = chances.argmax(1), chances.max(1)
    kept = [i for i, one in enumerate(best) if one and (i == 0 or one != best[i - 1])]
    text = "".join(CHARACTERS[best[i] - 1] for i in kept)
    return text, float(sure[kept].mean()) if kept else 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("--picture", default="ocr.png")
    options = parser.parse_args()
    image = page()
    (chances,) = run(load(options.models, "det"), normalised(image))
    boxes = regions(chances[0, 0, : image.height, : image.width], float(np.median(chances)))
    turner, reader = load(options.models, "cls"), load(options.models, "rec")
    draw, lines = ImageDraw.Draw(image), []
    for box in boxes:
        line = image.crop(box)
        (upright,) = run(turner, normalised(line, (192, 48), (0.5,) * 3, (0.5,) * 3))
        if upright[0].argmax() == 1:
            line = line.rotate(180)
        (characters,) = run(reader, normalised(line, (100, 32), (0.5,) * 3, (0.5,) * 3))
        text, sure = decoded(characters[0])
        lines.append({"box": box, "upright": upright[0].tolist(), "text": text, "score": sure})
    for box in boxes:
        draw.rectangle(box, outline="red")
    image.save(options.picture)
    print(json.dumps({"lines": lines}))


if __name__ == "__main__":
    main()
