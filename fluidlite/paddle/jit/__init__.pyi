# written by tests/house/stubs.py
"""`paddle.jit`: saved models as layers; what traces imperative code is refused"""

from fluidlite.paddle.jit import translated_layer as translated_layer
from fluidlite.paddle.jit.translated_layer import TranslatedLayer as TranslatedLayer
from fluidlite.paddle.jit.translated_layer import load as load
from typing import Any as _Any

enable_to_static: _Any
ignore_module: _Any
not_to_static: _Any
save: _Any
set_code_level: _Any
set_verbosity: _Any
to_static: _Any
