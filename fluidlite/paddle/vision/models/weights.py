"""Files of trained weights for `paddle.vision.models`."""

from __future__ import annotations

from typing import TypeVar

from fluidlite.paddle.framework import load
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.utils.download import get_weights_path_from_url

__all__ = ["with_weights"]

_NEWER = "https://paddle-hapi.bj.bcebos.com/models"
_OLDER = "https://paddle-imagenet-models-name.bj.bcebos.com/dygraph"
# where the name of the file is not that of the model
_FILES = {
    "alexnet": "AlexNet_pretrained",
    **{f"densenet{size}": f"DenseNet{size}_pretrained" for size in (121, 161, 169, 201, 264)},
    "googlenet": "GoogLeNet_pretrained",
    "squeezenet1_0": "SqueezeNet1_0_pretrained",
    "squeezenet1_1": "SqueezeNet1_1_pretrained",
    "mobilenetv2_1.0": "mobilenet_v2_x1.0",
}
_UNTRAINED = {"vgg11", "vgg13"}

Model = TypeVar("Model", bound=Layer)


def with_weights(model: Model, name: str, pretrained: bool, trained: bool = True) -> Model:
    """The model, with the weights of the file that PaddlePaddle publishes as `name`, if `pretrained`: the
    file is read from the folder where 2.6.2 keeps it. ValueError where none was published.
    """
    if not pretrained:
        return model
    if not trained or name in _UNTRAINED:
        raise ValueError(f"{name} model do not have a pretrained model now, you should set pretrained=False")
    file = _FILES.get(name, name)
    home = _OLDER if file.endswith("_pretrained") else _NEWER
    model.set_state_dict(load(get_weights_path_from_url(f"{home}/{file}.pdparams")))
    return model
