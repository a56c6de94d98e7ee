"""`paddle.static.nn`: layers as functions, with parameters in the program"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.layers": (
            "batch_norm bilinear_tensor_product case continuous_value_model conv2d conv3d conv3d_transpose "
            "data_norm group_norm layer_norm nce py_func row_conv spectral_norm "
            "switch_case while_loop "
            "sequence_concat sequence_conv sequence_enumerate sequence_expand sequence_expand_as "
            "sequence_first_step sequence_last_step sequence_pad sequence_pool sequence_reshape "
            "sequence_reverse sequence_scatter sequence_slice sequence_softmax sequence_unpad"
        ),
        "fluidlite.paddle.static.nn.common": (
            "cond conv2d_transpose deform_conv2d embedding fc instance_norm prelu sparse_embedding"
        ),
        "fluidlite.paddle.static.nn.py_layer": "static_pylayer",
        "fluidlite.paddle.static.variables": "create_parameter",
    },
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
