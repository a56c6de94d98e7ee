"""A detector without boxes in its graph: settings from a file, boxes and their suppression in NumPy."""

import argparse
import glob
import json
import os

import numpy as np
import yaml
from paddle.inference import Config, create_predictor
from pictures import page
from PIL import Image, ImageDraw


class Resize:
    def __init__(self, target_size, keep_ratio=True, interp=2):
        self.size, self.keep_ratio, self.interp = target_size, keep_ratio, interp

    def __call__(self, im, info):
        height, width = self.size
        info["scale_factor"] = np.array([height / im.shape[0], width / im.shape[1]], "float32")
        return np.asarray(Image.fromarray(im).resize((width, height), self.interp)), info


class NormalizeImage:
    def __init__(self, mean, std, is_scale=True):
        self.mean, self.std, self.is_scale = mean, std, is_scale

    def __call__(self, im, info):
        im = im.astype(np.float32, copy=False)
        if self.is_scale:
            im = im / 255.0
        return (im - np.array(self.mean, "float32")) / np.array(self.std, "float32"), info


class Permute:
    def __call__(self, im, info):
        return im.transpose((2, 0, 1)).copy(), info


class Detector:
    def __init__(self, folder):
        with open(glob.glob(os.path.join(folder, "infer_cfg*"))[0]) as file:
            self.settings = yaml.safe_load(file)
        self.steps = []
        for step in self.settings["Preprocess"]:
            options = dict(step)
            self.steps.append(globals()[options.pop("type")](**options))
        config = Config(os.path.join(folder, "model.pdmodel"), os.path.join(folder, "model.pdiparams"))
        config.disable_gpu()
        config.set_cpu_math_library_num_threads(1)
        config.disable_glog_info()
        config.enable_memory_optim()
        config.switch_use_feed_fetch_ops(False)
        self.predictor = create_predictor(config)

    def predict(self, im):
        info = {"im_shape": np.array(im.shape[:2], "float32")}
        for step in self.steps:
            im, info = step(im, info)
        inputs = {"image": im[None]}
        for name in self.predictor.get_input_names():
            self.predictor.get_input_handle(name).copy_from_cpu(inputs[name])
        self.predictor.run()
        names = self.predictor.get_output_names()
        found = [self.predictor.get_output_handle(name).copy_to_cpu() for name in names]
        levels = len(found) // 2
        boxes = [self.decoded(found[i + levels][0], i) for i in range(levels)]
        return self.suppressed(np.concatenate([x[0] for x in found[:levels]]), np.concatenate(boxes), info)

    def decoded(self, sides, level):
        stride = self.settings["fpn_stride"][level]
        bins = sides.reshape(-1, 4, 8)
        chances = np.exp(bins - bins.max(-1, keepdims=True))
        distances = (chances / chances.sum(-1, keepdims=True)) @ np.arange(8, dtype="float32") * stride
        cells = 64 // stride
        rows, columns = np.mgrid[:cells, :cells]
        centres = (np.stack([columns, rows], -1).reshape(-1, 2) + 0.5) * stride
        return np.concatenate([centres - distances[:, :2], centres + distances[:, 2:]], 1)

    def suppressed(self, scores, boxes, info):
        limits, kept = self.settings["NMS"], []
        scale = info["scale_factor"][::-1]
        for kind in range(scores.shape[1]):
            order = np.argsort(-scores[:, kind], kind="stable")
            order = [i for i in order if scores[i, kind] > limits["score_threshold"]]
            while order:
                best = order.pop(0)
                kept.append([kind, scores[best, kind], *(boxes[best] / np.tile(scale, 2))])
                order = [i for i in order if overlap(boxes[best], boxes[i]) <= limits["nms_threshold"]]
        kept.sort(key=lambda row: -row[1])
        return np.array(kept[: limits["keep_top_k"]], "float32")


def overlap(one, other):
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    shared = np.prod(np.clip(high - low, 0, None))
    return shared / (np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - shared + 1e-9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("--picture", default="pico.png")
    options = parser.parse_args()
    detector = Detector(os.path.join(options.models, "pico"))
    image = page()
    found = detector.predict(np.asarray(image))
    draw = ImageDraw.Draw(image)
    threshold, labels = detector.settings["draw_threshold"], detector.settings["label_list"]
    shown = [row for row in found if row[1] > threshold]
    for kind, score, *corners in shown:
        draw.rectangle([float(x) for x in corners], outline=("red", "green", "blue")[int(kind)])
        draw.text(tuple(float(x) for x in corners[:2]), f"{labels[int(kind)]} {score:.2f}", fill="black")
    image.save(options.picture)
    print(json.dumps({"boxes": found.tolist(), "labels": [labels[int(row[0])] for row in shown]}))


if __name__ == "__main__":
    main()
