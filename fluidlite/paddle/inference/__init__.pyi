# written by tests/house/stubs.py
"""`paddle.inference`: saved models that are run by a predictor"""

from fluidlite.compat.inference.config import PrecisionType as PrecisionType
from fluidlite.paddle.inference import wrapper as wrapper
from fluidlite.paddle.inference.config import Config as Config
from fluidlite.paddle.inference.kinds import ElementType as _DataType
from fluidlite.paddle.inference.kinds import PlaceType as PlaceType
from fluidlite.paddle.inference.kinds import get_num_bytes_of_data_type as get_num_bytes_of_data_type
from fluidlite.paddle.inference.others import InternalUtils as InternalUtils
from fluidlite.paddle.inference.others import XpuConfig as XpuConfig
from fluidlite.paddle.inference.others import get_trt_compile_version as get_trt_compile_version
from fluidlite.paddle.inference.others import get_trt_runtime_version as get_trt_runtime_version
from fluidlite.paddle.inference.others import get_version as get_version
from fluidlite.paddle.inference.predictor import InferenceTensor as _Tensor
from fluidlite.paddle.inference.predictor import Predictor as Predictor
from fluidlite.paddle.inference.predictor import PredictorPool as PredictorPool
from fluidlite.paddle.inference.predictor import create_predictor as create_predictor
from fluidlite.paddle.inference.wrapper import convert_to_mixed_precision as convert_to_mixed_precision

DataType = _DataType
Tensor = _Tensor
