# written by tests/house/stubs.py
"""`paddle.hapi`: `Model`, which trains a layer with data in a call, and the size of models in numbers"""

from fluidlite.paddle.hapi import callbacks as callbacks
from fluidlite.paddle.hapi import model as model
from fluidlite.paddle.hapi import model_summary as model_summary
from fluidlite.paddle.hapi import progressbar as progressbar
from fluidlite.paddle.hapi.count import flops as flops
from fluidlite.paddle.hapi.model import Model as Model
from fluidlite.paddle.hapi.model_summary import summary as summary
