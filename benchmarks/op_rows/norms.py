"""Normalisations."""

from __future__ import annotations

from typing import Any

from op_rows.made import layers, normal, sized, uniform


def norm(name: str, grad: bool = True, **options: Any) -> Any:
    return lambda *shape: layers(
        lambda fluid, x: getattr(fluid.layers, name)(x, **options), grad=grad, x=normal(*shape)
    )


PLANES = (2, 4, 8, 8), (8, 16, 28, 28), (16, 64, 56, 56)
MATRICES = (4, 6), (128, 256), (1024, 1024)
ROWS = {
    "batch_norm": sized(norm("batch_norm"), *PLANES),
    "batch_norm NHWC": sized(norm("batch_norm", data_layout="NHWC"), *PLANES),
    "batch_norm of rows": sized(norm("batch_norm"), *MATRICES),
    "batch_norm is_test": sized(norm("batch_norm", grad=False, is_test=True), *PLANES),
    "layer_norm": sized(norm("layer_norm"), *MATRICES),
    "group_norm": sized(norm("group_norm", groups=2), *PLANES),
    "instance_norm": sized(norm("instance_norm"), *PLANES),
    "data_norm": sized(norm("data_norm"), *MATRICES),
    "lrn": sized(norm("lrn"), *PLANES),
    "spectral_norm": sized(norm("spectral_norm", dim=0, power_iters=1), *MATRICES),
    "affine_channel": sized(
        lambda *shape: layers(
            lambda fluid, x, scale, bias: fluid.layers.affine_channel(x, scale, bias),
            x=normal(*shape),
            scale=uniform(shape[1]),
            bias=uniform(shape[1]),
        ),
        *PLANES,
    ),
    "dropout": sized(norm("dropout", dropout_prob=0.3), *MATRICES),
    "dropout upscale_in_train": sized(
        norm("dropout", dropout_prob=0.3, dropout_implementation="upscale_in_train"), *MATRICES
    ),
    "softmax": sized(norm("softmax"), (4, 6), (128, 256), (1024, 1024)),
    "softmax axis 1": sized(norm("softmax", axis=1), (2, 4, 6), (16, 32, 64), (32, 128, 256)),
    "log_softmax": sized(norm("log_softmax"), (4, 6), (128, 256), (1024, 1024)),
}
