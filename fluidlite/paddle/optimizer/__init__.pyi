# written by tests/house/stubs.py
"""`paddle.optimizer`: optimizers under the names and defaults of 2.x"""

from fluidlite.paddle.optimizer import lr as lr
from fluidlite.paddle.optimizer.optimizers import Adadelta as Adadelta
from fluidlite.paddle.optimizer.optimizers import Adagrad as Adagrad
from fluidlite.paddle.optimizer.optimizers import Adam as Adam
from fluidlite.paddle.optimizer.optimizers import AdamW as AdamW
from fluidlite.paddle.optimizer.optimizers import Adamax as Adamax
from fluidlite.paddle.optimizer.optimizers import Lamb as Lamb
from fluidlite.paddle.optimizer.optimizers import Momentum as Momentum
from fluidlite.paddle.optimizer.optimizers import Optimizer as Optimizer
from fluidlite.paddle.optimizer.optimizers import RMSProp as RMSProp
from fluidlite.paddle.optimizer.optimizers import SGD as SGD
from typing import Any as _Any

LBFGS: _Any
