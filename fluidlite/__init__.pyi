# written by tests/house/stubs.py
"""FluidLite: write `import fluidlite as fluid` where a program said `import paddle.fluid as fluid`."""

from fluidlite import annotations as annotations
from fluidlite import average as average
from fluidlite import backward as backward
from fluidlite import clip as clip
from fluidlite import communicator as communicator
from fluidlite import compiler as compiler
from fluidlite import contrib as contrib
from fluidlite import core as core
from fluidlite import data_feed_desc as data_feed_desc
from fluidlite import data_feeder as data_feeder
from fluidlite import dataloader as dataloader
from fluidlite import dataset as dataset
from fluidlite import debugger as debugger
from fluidlite import default_scope_funcs as default_scope_funcs
from fluidlite import distribute_lookup_table as distribute_lookup_table
from fluidlite import distributed as distributed
from fluidlite import dygraph as dygraph
from fluidlite import errors as errors
from fluidlite import evaluator as evaluator
from fluidlite import executor as executor
from fluidlite import framework as framework
from fluidlite import graphviz as graphviz
from fluidlite import incubate as incubate
from fluidlite import initializer as initializer
from fluidlite import input as input
from fluidlite import install_check as install_check
from fluidlite import io as io
from fluidlite import layer_helper as layer_helper
from fluidlite import layer_helper_base as layer_helper_base
from fluidlite import layers as layers
from fluidlite import lod_tensor as lod_tensor
from fluidlite import log_helper as log_helper
from fluidlite import metrics as metrics
from fluidlite import net_drawer as net_drawer
from fluidlite import nets as nets
from fluidlite import op as op
from fluidlite import optimizer as optimizer
from fluidlite import parallel_executor as parallel_executor
from fluidlite import param_attr as param_attr
from fluidlite import profiler as profiler
from fluidlite import proto as proto
from fluidlite import reader as reader
from fluidlite import regularizer as regularizer
from fluidlite import trainer_factory as trainer_factory
from fluidlite import transpiler as transpiler
from fluidlite import unique_name as unique_name
from fluidlite import wrapped_decorator as wrapped_decorator
from fluidlite.backward.append import append_backward as append_backward
from fluidlite.backward.append import gradients as gradients
from fluidlite.base.errors import FluidWarning as FluidWarning
from fluidlite.base.flags import get_flags as get_flags
from fluidlite.base.flags import require_version as require_version
from fluidlite.base.flags import set_flags as set_flags
from fluidlite.base.place import CPUPlace as CPUPlace
from fluidlite.base.place import CUDAPinnedPlace as CUDAPinnedPlace
from fluidlite.base.place import CUDAPlace as CUDAPlace
from fluidlite.base.place import cpu_places as cpu_places
from fluidlite.base.place import cuda_pinned_places as cuda_pinned_places
from fluidlite.base.place import cuda_places as cuda_places
from fluidlite.base.place import is_compiled_with_cuda as is_compiled_with_cuda
from fluidlite.base.strategies import BuildStrategy as BuildStrategy
from fluidlite.base.strategies import ExecutionStrategy as ExecutionStrategy
from fluidlite.cli.scripts.names import install_as_paddle as install_as_paddle
from fluidlite.compiler import CompiledProgram as CompiledProgram
from fluidlite.data_feed_desc import DataFeedDesc as DataFeedDesc
from fluidlite.data_feeder import DataFeeder as DataFeeder
from fluidlite.dataset import DatasetFactory as DatasetFactory
from fluidlite.dataset import InMemoryDataset as InMemoryDataset
from fluidlite.dataset import QueueDataset as QueueDataset
from fluidlite.dygraph.base import disable_dygraph as _disable_imperative
from fluidlite.dygraph.base import disable_dygraph as disable_dygraph
from fluidlite.executor.executor import Executor as Executor
from fluidlite.framework import in_dygraph_mode as in_dygraph_mode
from fluidlite.framework import load_op_library as load_op_library
from fluidlite.framework import reset_default_programs as reset_default_programs
from fluidlite.ir.block import Block as Block
from fluidlite.ir.operator import Operator as Operator
from fluidlite.ir.program import Program as Program
from fluidlite.ir.program import default_main_program as default_main_program
from fluidlite.ir.program import default_startup_program as default_startup_program
from fluidlite.ir.program import device_guard as device_guard
from fluidlite.ir.program import name_scope as name_scope
from fluidlite.ir.program import program_guard as program_guard
from fluidlite.ir.variable import Parameter as Parameter
from fluidlite.ir.variable import Variable as Variable
from fluidlite.layers.tensors.strict import data as data
from fluidlite.layers.tensors.strict import embedding as embedding
from fluidlite.layers.tensors.strict import one_hot as one_hot
from fluidlite.lod_tensor import create_lod_tensor as create_lod_tensor
from fluidlite.lod_tensor import create_random_int_lodtensor as create_random_int_lodtensor
from fluidlite.parallel_executor import ParallelExecutor as ParallelExecutor
from fluidlite.param_attr import ParamAttr as ParamAttr
from fluidlite.param_attr import WeightNormParamAttr as WeightNormParamAttr
from fluidlite.saving.state import load as load
from fluidlite.saving.state import load_program_state as load_program_state
from fluidlite.saving.state import save as save
from fluidlite.saving.state import set_program_state as set_program_state
from fluidlite.transpiler.config import DistributeTranspilerConfig as DistributeTranspilerConfig
from fluidlite.transpiler.distribute_transpiler import DistributeTranspiler as DistributeTranspiler
from fluidlite.transpiler.memory_optimization_transpiler import memory_optimize as memory_optimize
from fluidlite.transpiler.memory_optimization_transpiler import release_memory as release_memory
from fluidlite.transpiler.ps_dispatcher import HashName as HashName
from fluidlite.transpiler.ps_dispatcher import RoundRobin as RoundRobin
from fluidlite.values.scope import Scope as Scope
from fluidlite.values.scope import global_scope as global_scope
from fluidlite.values.scope import scope_guard as scope_guard
from fluidlite.values.tensor import LoDTensor as LoDTensor
from fluidlite.values.tensor import LoDTensor as _Tensor
from fluidlite.values.tensor import LoDTensorArray as LoDTensorArray
from fluidlite.values.tensor import SelectedRows as SelectedRows
from types import ModuleType as _ModuleType
from typing import Any as _Any

BCELoss: _Any
BatchNorm: _Any
BilinearTensorProduct: _Any
Conv2D: _Any
Conv2DTranspose: _Any
Conv3D: _Any
Conv3DTranspose: _Any
DistMultiTrainer: _Any
Dropout: _Any
Embedding: _Any
GRUUnit: _Any
GroupNorm: _Any
InstanceNorm: _Any
L1Loss: _Any
Layer: _Any
LayerNorm: _Any
Linear: _Any
MSELoss: _Any
MultiTrainer: _Any
NCE: _Any
NLLLoss: _Any
PRelu: _Any
PipelineTrainer: _Any
Pool2D: _Any
SpectralNorm: _Any
TrainerDesc: _Any
TreeConv: _Any
__version__: str
device_worker: _ModuleType
enable_dygraph: _Any
enable_imperative: _Any
load_dygraph: _Any
save_dygraph: _Any
trainer_desc: _ModuleType
Tensor = _Tensor
disable_imperative = _disable_imperative
