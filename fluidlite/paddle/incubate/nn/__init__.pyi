# written by tests/house/stubs.py
"""`paddle.incubate.nn`: several functions of networks in one."""

from fluidlite.paddle.incubate.nn import functional as functional
