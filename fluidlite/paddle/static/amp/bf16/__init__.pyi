# written by tests/house/stubs.py
"""`paddle.static.amp.bf16`: programs that train in bfloat16"""

from fluidlite.paddle.static.amp.bf16 import amp_lists as amp_lists
from fluidlite.paddle.static.amp.bf16 import amp_utils as amp_utils
from fluidlite.paddle.static.amp.bf16 import decorator as decorator
from fluidlite.paddle.static.amp.bf16.amp_lists import AutoMixedPrecisionListsBF16 as AutoMixedPrecisionListsBF16
from fluidlite.paddle.static.amp.bf16.amp_utils import bf16_guard as bf16_guard
from fluidlite.paddle.static.amp.bf16.amp_utils import cast_model_to_bf16 as cast_model_to_bf16
from fluidlite.paddle.static.amp.bf16.amp_utils import cast_parameters_to_bf16 as cast_parameters_to_bf16
from fluidlite.paddle.static.amp.bf16.amp_utils import convert_float_to_uint16 as convert_float_to_uint16
from fluidlite.paddle.static.amp.bf16.amp_utils import rewrite_program_bf16 as rewrite_program_bf16
from fluidlite.paddle.static.amp.bf16.decorator import decorate_bf16 as decorate_bf16
