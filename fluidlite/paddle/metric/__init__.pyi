# written by tests/house/stubs.py
"""`paddle.metric`: figures that are kept over the batches of an epoch"""

from fluidlite.paddle.metric.metrics import Accuracy as Accuracy
from fluidlite.paddle.metric.metrics import Auc as Auc
from fluidlite.paddle.metric.metrics import Metric as Metric
from fluidlite.paddle.metric.metrics import Precision as Precision
from fluidlite.paddle.metric.metrics import Recall as Recall
from fluidlite.paddle.metric.metrics import accuracy as accuracy
