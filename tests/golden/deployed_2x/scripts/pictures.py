"""Pictures to try a deployment with, and the steps that all deployments share."""

import numpy as np
import paddle.inference as paddle_infer
from PIL import Image, ImageDraw


def load(folder, name):
    """A predictor of the model `folder`/`name`."""
    prefix = f"{folder}/{name}/inference"
    config = paddle_infer.Config(prefix + ".pdmodel", prefix + ".pdiparams")
    config.disable_gpu()
    config.set_cpu_math_library_num_threads(2)
    config.disable_glog_info()
    config.enable_memory_optim()
    config.switch_use_feed_fetch_ops(False)
    config.switch_ir_optim(True)
    return paddle_infer.create_predictor(config)


def run(predictor, *values):
    """The outputs of a predictor for inputs in order."""
    for name, value in zip(predictor.get_input_names(), values):
        handle = predictor.get_input_handle(name)
        handle.reshape(value.shape)
        handle.copy_from_cpu(np.ascontiguousarray(value))
    predictor.run()
    return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]


def page(width=192, height=128):
    """A white page with lines of black bars, the same each time."""
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    source = np.random.RandomState(7)
    for top in range(10, height - 20, 36):
        left = 8
        while left < width - 24:
            wide = int(source.randint(3, 9))
            draw.rectangle(
                [left, top, left + wide, top + 16], fill=tuple(int(x) for x in source.randint(0, 120, 3))
            )
            left += wide + int(source.randint(3, 12))
    return image


def normalised(image, size=None, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
    """Pixels as float32 [1, 3, height, width]."""
    if size is not None:
        image = image.resize(size, Image.BILINEAR)
    array = np.asarray(image, "float32") / 255.0
    array = (array - np.array(mean, "float32")) / np.array(std, "float32")
    return array.transpose(2, 0, 1)[None].astype("float32")
