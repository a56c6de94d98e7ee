# written by tests/house/stubs.py
"""Program -> Programs, one for each role of a cluster. Also `fluid.transpiler`, under the names that
programs use."""

from fluidlite.transpiler import collective as collective
from fluidlite.transpiler import details as details
from fluidlite.transpiler import distribute_transpiler as distribute_transpiler
from fluidlite.transpiler import geo_sgd_transpiler as geo_sgd_transpiler
from fluidlite.transpiler import memory_optimization_transpiler as memory_optimization_transpiler
from fluidlite.transpiler import ps_dispatcher as ps_dispatcher
from fluidlite.transpiler.config import DistributeTranspilerConfig as DistributeTranspilerConfig
from fluidlite.transpiler.cost.estimate import estimate as estimate
from fluidlite.transpiler.distribute_transpiler import DistributeTranspiler as DistributeTranspiler
from fluidlite.transpiler.geo_sgd_transpiler import GeoSgdTranspiler as GeoSgdTranspiler
from fluidlite.transpiler.memory_optimization_transpiler import memory_optimize as memory_optimize
from fluidlite.transpiler.memory_optimization_transpiler import release_memory as release_memory
from fluidlite.transpiler.modes import make_job as make_job
from fluidlite.transpiler.modes import mode_names as mode_names
from fluidlite.transpiler.modes.job import Job as Job
from fluidlite.transpiler.modes.job import TrainingMode as TrainingMode
from fluidlite.transpiler.parts.roles import JobRole as JobRole
from fluidlite.transpiler.parts.roles import Programs as Programs
from fluidlite.transpiler.parts.roles import Slice as Slice
from fluidlite.transpiler.ps_dispatcher import HashName as HashName
from fluidlite.transpiler.ps_dispatcher import RoundRobin as RoundRobin
