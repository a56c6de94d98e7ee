# written by tests/house/stubs.py
"""`paddle.distributed.communication`: groups of ranks, and what they exchange"""

from fluidlite.paddle.distributed.communication import calls as calls
from fluidlite.paddle.distributed.communication import group as group
from fluidlite.paddle.distributed.communication import objects as objects
from fluidlite.paddle.distributed.communication import stream as stream
from fluidlite.paddle.distributed.communication import tensors as tensors
from fluidlite.paddle.distributed.communication.calls import P2POp as P2POp
from fluidlite.paddle.distributed.communication.calls import all_gather as all_gather
from fluidlite.paddle.distributed.communication.calls import all_reduce as all_reduce
from fluidlite.paddle.distributed.communication.calls import alltoall as alltoall
from fluidlite.paddle.distributed.communication.calls import alltoall_single as alltoall_single
from fluidlite.paddle.distributed.communication.calls import barrier as barrier
from fluidlite.paddle.distributed.communication.calls import batch_isend_irecv as batch_isend_irecv
from fluidlite.paddle.distributed.communication.calls import broadcast as broadcast
from fluidlite.paddle.distributed.communication.calls import gather as gather
from fluidlite.paddle.distributed.communication.calls import irecv as irecv
from fluidlite.paddle.distributed.communication.calls import isend as isend
from fluidlite.paddle.distributed.communication.calls import recv as recv
from fluidlite.paddle.distributed.communication.calls import reduce as reduce
from fluidlite.paddle.distributed.communication.calls import reduce_scatter as reduce_scatter
from fluidlite.paddle.distributed.communication.calls import scatter as scatter
from fluidlite.paddle.distributed.communication.calls import send as send
from fluidlite.paddle.distributed.communication.calls import wait as wait
from fluidlite.paddle.distributed.communication.group import destroy_process_group as destroy_process_group
from fluidlite.paddle.distributed.communication.group import get_backend as get_backend
from fluidlite.paddle.distributed.communication.group import get_group as get_group
from fluidlite.paddle.distributed.communication.objects import all_gather_object as all_gather_object
from fluidlite.paddle.distributed.communication.objects import broadcast_object_list as broadcast_object_list
from fluidlite.paddle.distributed.communication.objects import scatter_object_list as scatter_object_list
from fluidlite.paddle.distributed.communication.tensors import ReduceOp as ReduceOp
from fluidlite.paddle.distributed.parallel import is_initialized as is_initialized
