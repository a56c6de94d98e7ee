"""Compares a face with a gallery of faces: points of a sphere, their cosines, and a threshold."""

import argparse
import json
import os
import pickle

import numpy as np
from paddle.inference import Config, PrecisionType, create_predictor
from PIL import Image, ImageDraw


class Recognizer:
    def __init__(self, folder, threshold=0.45, batch_size=3):
        config = Config(
            os.path.join(folder, "inference.pdmodel"), os.path.join(folder, "inference.pdiparams")
        )
        if config.use_gpu():
            config.enable_tensorrt_engine(
                workspace_size=1 << 25, max_batch_size=4, precision_mode=PrecisionType.Half
            )
        config.enable_mkldnn()
        config.set_mkldnn_cache_capacity(10)
        config.delete_pass("conv_elementwise_add_act_fuse_pass")
        config.enable_memory_optim()
        config.switch_specify_input_names(True)
        self.predictor = create_predictor(config)
        self.input = self.predictor.get_input_handle(self.predictor.get_input_names()[0])
        self.output = self.predictor.get_output_handle(self.predictor.get_output_names()[0])
        self.threshold, self.batch_size = threshold, batch_size

    def features(self, images):
        found = []
        for start in range(0, len(images), self.batch_size):
            batch = [self.prepared(image) for image in images[start : start + self.batch_size]]
            self.input.copy_from_cpu(np.stack(batch))
            self.predictor.run()
            found.append(self.output.copy_to_cpu())
            self.predictor.clear_intermediate_tensor()
            self.predictor.try_shrink_memory()
        return np.concatenate(found)

    @staticmethod
    def prepared(image):
        array = np.array(image.resize((32, 32), Image.BICUBIC))[:, :, ::-1]
        return ((array.astype("float32") - 127.5) / 127.5).transpose(2, 0, 1)


def face(seed):
    source = np.random.RandomState(seed)
    image = Image.fromarray(source.randint(0, 256, (64, 64, 3)).astype("uint8"))
    draw = ImageDraw.Draw(image)
    skin = tuple(int(x) for x in source.randint(80, 255, 3))
    draw.ellipse([8, 6, 56, 60], fill=skin)
    for left in (20, 36):
        draw.ellipse([left, 22, left + 8, 22 + int(source.randint(3, 9))], fill="black")
    draw.arc([20, 34, 44, 52], 10, 170, fill="red", width=3)
    return image


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("--index", default="index.pkl")
    options = parser.parse_args()
    recognizer = Recognizer(os.path.join(options.models, "face"))
    names = ["ann", "bob", "cid", "dan", "eve"]
    with open(options.index, "wb") as file:
        pickle.dump((names, recognizer.features([face(i) for i in range(5)])), file)
    with open(options.index, "rb") as file:
        names, gallery = pickle.load(file)
    asked = recognizer.features([face(3).rotate(5), face(1), face(40)])
    cosines = asked @ gallery.T
    best = cosines.argmax(1)
    found = [names[i] if row[i] > recognizer.threshold else "unknown" for i, row in zip(best, cosines)]
    print(json.dumps({"found": found, "cosines": cosines.tolist(), "length": (asked**2).sum(1).tolist()}))


if __name__ == "__main__":
    main()
