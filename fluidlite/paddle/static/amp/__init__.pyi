# written by tests/house/stubs.py
"""`paddle.static.amp`: programs that train in half precision"""

from fluidlite.paddle.static.amp import bf16 as bf16
from fluidlite.paddle.static.amp import debugging as debugging
from fluidlite.paddle.static.amp import decorator as decorator
from fluidlite.paddle.static.amp import fp16_lists as fp16_lists
from fluidlite.paddle.static.amp import fp16_utils as fp16_utils
from fluidlite.paddle.static.amp.decorator import decorate as decorate
from fluidlite.paddle.static.amp.fp16_lists import AutoMixedPrecisionLists as AutoMixedPrecisionLists
from fluidlite.paddle.static.amp.fp16_lists import AutoMixedPrecisionLists as _CustomOpLists
from fluidlite.paddle.static.amp.fp16_utils import cast_model_to_fp16 as cast_model_to_fp16
from fluidlite.paddle.static.amp.fp16_utils import cast_parameters_to_fp16 as cast_parameters_to_fp16
from fluidlite.paddle.static.amp.fp16_utils import fp16_guard as fp16_guard

CustomOpLists = _CustomOpLists
