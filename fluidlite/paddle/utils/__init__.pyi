# written by tests/house/stubs.py
"""`paddle.utils`: what surrounds training"""

from fluidlite import unique_name as unique_name
from fluidlite.base.flags import require_version as require_version
from fluidlite.install_check import run_check as run_check
from fluidlite.paddle.utils import dlpack as dlpack
from fluidlite.paddle.utils import download as download
from fluidlite.paddle.utils import plot as plot
from fluidlite.paddle.utils.deprecation import deprecated as deprecated
from fluidlite.paddle.utils.deprecation import try_import as try_import
from fluidlite.paddle.utils.plot import Ploter as Ploter
from types import ModuleType as _ModuleType

cpp_extension: _ModuleType
