"""The 2.x door: write `import fluidlite.paddle as paddle` where a static-graph program said `import paddle`.

It builds the same ops as fluid's names do, those of PaddlePaddle 2.x where these differ: single numbers have
the shape [], `matmul` is the op matmul_v2. Programs are static from the start; imperative mode is refused.
"""

from __future__ import annotations

from fluidlite.base.dtypes import VarType
from fluidlite.base.lazy import LazyNames
from fluidlite.paddle.tensor.names import FUNCTIONS

__version__ = "2.6.2"  # the version whose static graph this is

_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.base.place": "CPUPlace CUDAPlace CUDAPinnedPlace",
        "fluidlite.base.flags": "get_flags set_flags",
        "fluidlite.paddle.device": "XPUPlace get_cuda_rng_state get_cudnn_version get_device "
        "is_compiled_with_cuda is_compiled_with_xpu set_cuda_rng_state set_device",
        "fluidlite.paddle.framework": "DataParallel disable_static enable_static get_default_dtype grad "
        "finfo iinfo in_dynamic_mode load save seed set_default_dtype",
        "fluidlite.paddle.switches": "disable_signal_handler enable_grad get_rng_state is_grad_enabled "
        "no_grad set_grad_enabled set_printoptions set_rng_state",
        "fluidlite.paddle.tensor.shapes": "check_shape",
        "fluidlite.paddle.attributes": "ParamAttr",
        "fluidlite.paddle.imperative": "LazyGuard as_strided cauchy_ geometric_ normal_ tolist unfold view "
        "view_as",
        "fluidlite.paddle.variable": "Tensor",
        "fluidlite.paddle.static": "create_parameter",
        "fluidlite.paddle.hapi": "Model flops summary",
        "fluidlite.reading.decorators": "batch",
        **FUNCTIONS,
    },
    "amp audio autograd callbacks compat cost_model dataset device distributed distribution fft framework "
    "geometric hapi hub incubate inference io jit linalg metric nn onnx optimizer profiler quantization "
    "reader regularizer signal sparse static sysconfig tensor text utils version vision",
    {
        "dtype": VarType,
        "bool": VarType.BOOL,
        "uint8": VarType.UINT8,
        "int8": VarType.INT8,
        "int16": VarType.INT16,
        "int32": VarType.INT32,
        "int64": VarType.INT64,
        "float16": VarType.FP16,
        "bfloat16": VarType.BF16,
        "float32": VarType.FP32,
        "float64": VarType.FP64,
        "complex64": VarType.COMPLEX64,
        "complex128": VarType.COMPLEX128,
    },
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
