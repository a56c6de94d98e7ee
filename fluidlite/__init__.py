"""FluidLite: write `import fluidlite as fluid` where a program said `import paddle.fluid as fluid`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if not os.path.isdir(os.path.join(__path__[0], "executor")):
    # a checkout keeps two rooms beside this folder, and hides the installed package from a script in its root
    __path__.append(os.path.dirname(__path__[0]))

from fluidlite.base import left_out as _left_out
from fluidlite.base import mpi_start as _mpi_start  # noqa: F401  (under mpirun an error of one process ends all)
from fluidlite.base import uncaught as _uncaught
from fluidlite.base.lazy import LazyNames
from fluidlite.ir import views as _views

__version__ = "0.1.0"

# imported at first use, so that `import fluidlite` stays fast
_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.dygraph": "disable_dygraph disable_imperative enable_dygraph enable_imperative "
        "load_dygraph save_dygraph BCELoss BatchNorm BilinearTensorProduct Conv2D Conv2DTranspose Conv3D "
        "Conv3DTranspose Dropout Embedding GRUUnit GroupNorm InstanceNorm L1Loss Layer LayerNorm Linear "
        "MSELoss NCE NLLLoss PRelu Pool2D SpectralNorm TreeConv",
        "fluidlite.framework": "Block Operator Parameter Program Variable default_main_program "
        "default_startup_program device_guard reset_default_programs "
        "name_scope program_guard in_dygraph_mode load_op_library",
        "fluidlite.base.place": "CPUPlace CUDAPlace CUDAPinnedPlace cpu_places cuda_places "
        "cuda_pinned_places is_compiled_with_cuda",
        "fluidlite.values.scope": "Scope global_scope scope_guard",
        "fluidlite.values.tensor": "LoDTensor LoDTensorArray SelectedRows Tensor=LoDTensor",
        "fluidlite.executor.executor": "Executor",
        "fluidlite.param_attr": "ParamAttr WeightNormParamAttr",
        "fluidlite.compiler": "BuildStrategy CompiledProgram ExecutionStrategy",
        "fluidlite.parallel_executor": "ParallelExecutor",
        "fluidlite.backward": "append_backward gradients",
        "fluidlite.data_feeder": "DataFeeder",
        "fluidlite.data_feed_desc": "DataFeedDesc",
        "fluidlite.dataset": "DatasetFactory InMemoryDataset QueueDataset",
        "fluidlite.io": "save load load_program_state set_program_state",
        "fluidlite.layers.tensors.strict": "data embedding one_hot",
        "fluidlite.lod_tensor": "create_lod_tensor create_random_int_lodtensor",
        "fluidlite.base.errors": "FluidWarning",
        "fluidlite.base.flags": "get_flags set_flags require_version",
        "fluidlite.cli.scripts.names": "install_as_paddle",
        "fluidlite.trainer_desc": "DistMultiTrainer MultiTrainer PipelineTrainer TrainerDesc",
        "fluidlite.transpiler": "DistributeTranspiler DistributeTranspilerConfig HashName RoundRobin "
        "memory_optimize release_memory",
    },
    # the modules that fluid had, and `distributed` and `errors`
    "annotations average backward clip communicator compiler contrib core data_feed_desc data_feeder "
    "dataloader dataset debugger default_scope_funcs device_worker distribute_lookup_table distributed "
    "dygraph errors evaluator executor framework graphviz incubate initializer input install_check io "
    "layer_helper layer_helper_base layers lod_tensor log_helper metrics net_drawer nets op optimizer "
    "parallel_executor param_attr profiler proto reader regularizer trainer_desc trainer_factory "
    "transpiler unique_name wrapped_decorator",
)
# what a star brings besides, as in fluid: the other modules have names that are words of every script
# (`input`, `op`), and the classes of imperative mode are refused
_STARRED = (
    "backward clip contrib dygraph initializer install_check io layers nets optimizer profiler regularizer "
    "transpiler unique_name disable_dygraph disable_imperative enable_dygraph enable_imperative"
)
__all__ = [name for name, (home, _) in _NAMES.homes.items() if home != "fluidlite.dygraph"]
__all__ += _STARRED.split()

if not TYPE_CHECKING:
    __getattr__, __dir__ = _NAMES.load, _NAMES.names


def _describe(target: Any) -> Any:
    from fluidlite.compat.desc import describe

    return describe(target)


def _notebook_html(program: Any) -> str:
    from fluidlite.show.notebook import program_cell

    return program_cell(program)


_uncaught.show_short()
_left_out.offer()
# programs get their views from these two, which import at first use: most programs ask for neither
_views.provide(desc=_describe, html=_notebook_html)


del annotations  # the name of __future__: fluid has a module that is called so
