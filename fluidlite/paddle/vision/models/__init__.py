"""`paddle.vision.models`: classifiers of images, as layers with the parameters that PaddlePaddle 2.6.2 gives
them.
"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.vision.models"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HOME}.alex_net": "AlexNet alexnet",
        f"{_HOME}.densenet": "DenseNet densenet121 densenet161 densenet169 densenet201 densenet264",
        f"{_HOME}.goog_le_net": "GoogLeNet googlenet",
        f"{_HOME}.inceptionv3": "InceptionV3 inception_v3",
        f"{_HOME}.lenet": "LeNet",
        f"{_HOME}.mobilenetv1": "MobileNetV1 mobilenet_v1",
        f"{_HOME}.mobilenetv2": "MobileNetV2 mobilenet_v2",
        f"{_HOME}.mobilenetv3": "MobileNetV3Large MobileNetV3Small mobilenet_v3_large mobilenet_v3_small",
        f"{_HOME}.resnet": "ResNet resnet101 resnet152 resnet18 resnet34 resnet50 resnext101_32x4d "
        "resnext101_64x4d resnext152_32x4d resnext152_64x4d resnext50_32x4d resnext50_64x4d "
        "wide_resnet101_2 wide_resnet50_2",
        f"{_HOME}.shufflenetv2": "ShuffleNetV2 shufflenet_v2_swish shufflenet_v2_x0_25 shufflenet_v2_x0_33 "
        "shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0",
        f"{_HOME}.squeezenet": "SqueezeNet squeezenet1_0 squeezenet1_1",
        f"{_HOME}.vgg": "VGG vgg11 vgg13 vgg16 vgg19",
    },
    "densenet mobilenetv1 mobilenetv2 mobilenetv3 resnet shufflenetv2 vgg",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
