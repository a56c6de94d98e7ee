# written by tests/house/stubs.py
"""Program -> results: plans, arrays, devices, communicators. Also `fluid.executor`, under the names that
programs use."""

from fluidlite.executor.datasets import FetchHandler as FetchHandler
from fluidlite.executor.executor import Executor as Executor
from fluidlite.values.scope import global_scope as global_scope
from fluidlite.values.scope import scope_guard as scope_guard
