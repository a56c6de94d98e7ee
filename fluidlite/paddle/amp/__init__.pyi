# written by tests/house/stubs.py
"""`paddle.amp`: half precision in programs"""

from fluidlite.paddle.amp import debugging as debugging
from fluidlite.paddle.amp.support import GradScaler as GradScaler
from fluidlite.paddle.amp.support import auto_cast as auto_cast
from fluidlite.paddle.amp.support import decorate as decorate
from fluidlite.paddle.amp.support import is_bfloat16_supported as is_bfloat16_supported
from fluidlite.paddle.amp.support import is_float16_supported as is_float16_supported
