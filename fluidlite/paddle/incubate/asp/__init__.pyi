# written by tests/house/stubs.py
"""`paddle.incubate.asp`: weights with zeros among every few neighbours, and training that keeps them."""

from fluidlite.paddle.incubate.asp.pruning import add_supported_layer as add_supported_layer
from fluidlite.paddle.incubate.asp.pruning import calculate_density as calculate_density
from fluidlite.paddle.incubate.asp.pruning import decorate as decorate
from fluidlite.paddle.incubate.asp.pruning import prune_model as prune_model
from fluidlite.paddle.incubate.asp.pruning import reset_excluded_layers as reset_excluded_layers
from fluidlite.paddle.incubate.asp.pruning import set_excluded_layers as set_excluded_layers
