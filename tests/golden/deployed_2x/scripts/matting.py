"""Puts people before another background: three frames of a film, alpha smoothed over time."""

import argparse
import json

import numpy as np
import paddle
import paddle.inference
from pictures import page
from PIL import Image


class Predictor:
    def __init__(self, folder):
        with open(f"{folder}/inference.pdmodel", "rb") as program, open(
            f"{folder}/inference.pdiparams", "rb"
        ) as weights:
            program, weights = program.read(), weights.read()
        config = paddle.inference.Config()
        config.set_model_buffer(program, len(program), weights, len(weights))
        config.disable_gpu()
        config.switch_ir_debug(False)
        self.predictor = paddle.inference.create_predictor(config)
        self.last = None

    def alpha(self, frame):
        width, height = frame.size
        padded = Image.new("RGB", (-(-width // 32) * 32, -(-height // 32) * 32))
        padded.paste(frame, (0, 0))
        array = (np.asarray(padded, "float32") / 255 - 0.5) / 0.5
        handle = self.predictor.get_input_handle("img")
        handle.reshape([1, 3, padded.height, padded.width])
        handle.copy_from_cpu(array.transpose(2, 0, 1)[None].copy())
        self.predictor.run()
        out = self.predictor.get_output_handle(self.predictor.get_output_names()[0])
        assert out.shape() == [1, 1, padded.height, padded.width], out.shape()
        alpha = out.copy_to_cpu()[0, 0, :height, :width]
        self.last = alpha if self.last is None else 0.7 * alpha + 0.3 * self.last
        return self.last


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("--picture", default="matting.png")
    options = parser.parse_args()
    predictor = Predictor(f"{options.models}/matting")
    film = [page(150, 100).rotate(turn) for turn in (0, 4, 8)]
    behind = np.zeros((100, 150, 3), "float32") + np.array([64, 177, 0], "float32")
    means = []
    for frame in film:
        alpha = predictor.alpha(frame)
        mixed = alpha[..., None] * np.asarray(frame, "float32") + (1 - alpha[..., None]) * behind
        means.append([float(alpha.mean()), float(alpha.max()), *mixed.mean((0, 1)).tolist()])
    Image.fromarray(mixed.clip(0, 255).astype("uint8")).resize((192, 128)).save(options.picture)
    sure = int((predictor.last > 0.5).sum())
    print(json.dumps({"means": means, "front": sure, "version": bool(paddle.__version__)}))


if __name__ == "__main__":
    main()
