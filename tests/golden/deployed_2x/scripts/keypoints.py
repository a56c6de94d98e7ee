"""Finds joints of two people, top down: a crop for each, the mirrored crop averaged in, a skeleton drawn."""

import argparse
import json
import math

import numpy as np
import paddle.inference as paddle_infer
from pictures import normalised, page
from PIL import Image, ImageDraw

MIRROR = [0, 2, 1, 4, 3]
BONES = [(0, 1), (0, 2), (1, 3), (2, 4)]


class KeyPointDetector:
    def __init__(self, model_dir):
        self.config = paddle_infer.Config()
        self.config.set_model(model_dir + "/inference.pdmodel", model_dir + "/inference.pdiparams")
        self.config.disable_gpu()
        self.config.set_cpu_math_library_num_threads(1)
        self.pool = paddle_infer.PredictorPool(self.config, 2)

    def predict(self, images, worker=0):
        predictor = self.pool.retrive(worker)
        predictor.get_input_handle("image").copy_from_cpu(np.concatenate(images))
        predictor.run()
        names = predictor.get_output_names()
        heat, hottest = (predictor.get_output_handle(name).copy_to_cpu() for name in names)
        return heat, hottest


def refined(heat):
    """The hottest pixel of each joint, moved a quarter towards its hotter neighbours."""
    joints = []
    for one in heat:
        row, column = np.unravel_index(one.argmax(), one.shape)
        x, y = float(column), float(row)
        if 0 < row < one.shape[0] - 1 and 0 < column < one.shape[1] - 1:
            x += 0.25 * float(np.sign(one[row, column + 1] - one[row, column - 1]))
            y += 0.25 * float(np.sign(one[row + 1, column] - one[row - 1, column]))
        joints.append((x, y, float(one.max())))
    return joints


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("--picture", default="keypoints.png")
    options = parser.parse_args()
    image = page()
    people = [(10, 4, 82, 100), (90, 10, 180, 128)]
    detector = KeyPointDetector(options.models + "/points")
    crops = [normalised(image.crop(box), (48, 64)) for box in people]
    heat, hottest = detector.predict(crops)
    mirrored, _ = detector.predict([crop[:, :, :, ::-1] for crop in crops], worker=1)
    mirrored = mirrored[:, MIRROR, :, ::-1]
    heat = (heat + mirrored) * 0.5
    draw, found = ImageDraw.Draw(image), []
    for (left, top, right, bottom), maps in zip(people, heat):
        joints = refined(maps)
        across, down = (right - left) / maps.shape[2], (bottom - top) / maps.shape[1]
        places = [(left + x * across, top + y * down) for x, y, _ in joints]
        for one, other in BONES:
            draw.line([places[one], places[other]], fill="blue", width=2)
        for x, y in places:
            draw.ellipse([x - 2, y - 2, x + 2, y + 2], fill="red")
        spans = [math.hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]) for a, b in BONES]
        found.append({"joints": places, "sure": [one[2] for one in joints], "bones": spans})
    image.resize((192, 128), Image.NEAREST).save(options.picture)
    print(json.dumps({"people": found, "hottest": hottest.tolist()}))


if __name__ == "__main__":
    main()
