"""Names that fluid's modules had only imported, and that programs read off them all the same, such as
`fluid.layers.Variable`, `fluid.layers.nn.concat` and `fluid.framework.core`.

A door that had such names ends in

    if not TYPE_CHECKING:
        __getattr__, __dir__ = imported_names(__name__)

so that they cost nothing before they are read, `dir` shows the public names alone, and type checkers do
not take every name for one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from fluidlite.base.errors import did_you_mean

__all__ = ["imported_names"]

# name -> the module that it stands for, where that is not called `fluidlite.<name>`
_MODULES = {
    "collections": "collections",
    "collective": "fluidlite.transpiler.collective",
    "contextlib": "contextlib",
    "control_flow": "fluidlite.layers.control_flow",
    "copy": "copy",
    "data_feed_pb2": "fluidlite.proto.data_feed_pb2",
    "detection": "fluidlite.layers.detection",
    "dist_transpiler": "fluidlite.transpiler.distribute_transpiler",
    "errno": "errno",
    "fluid": "fluidlite",
    "framework_pb2": "fluidlite.proto.framework_pb2",
    "functools": "functools",
    "inspect": "inspect",
    "logging": "logging",
    "math": "math",
    "mode": "fluidlite.incubate.fleet.base.mode",
    "multiprocessing": "multiprocessing",
    "nn": "fluidlite.layers.nn",
    "np": "numpy",
    "numbers": "numbers",
    "numpy": "numpy",
    "ops": "fluidlite.layers.ops",
    "os": "os",
    "pickle": "pickle",
    "platform": "platform",
    "queue": "queue",
    "random": "random",
    "re": "re",
    "sequence_lod": "fluidlite.layers.sequence_lod",
    "shutil": "shutil",
    "signal": "signal",
    "socket": "socket",
    "subprocess": "subprocess",
    "sys": "sys",
    "tensor": "fluidlite.layers.tensor",
    "threading": "threading",
    "time": "time",
    "traceback": "traceback",
    "utils": "fluidlite.layers.utils",
    "warnings": "warnings",
}
# module -> what was imported from it; "a=b": under the name a
_HOMES = {
    "collections": "OrderedDict defaultdict",
    "collections.abc": "Iterable",
    "contextlib": "closing",
    "fluidlite.annotations": "deprecated",
    "fluidlite.backward": "append_backward",
    "fluidlite.clip": "GradientClipBase GradientClipByNorm append_gradient_clip_ops error_clip_callback",
    "fluidlite.compiler": "CompiledProgram",
    "fluidlite.contrib.mixed_precision.decorator": "OptimizerWithMixedPrecision",
    "fluidlite.core": "InferAnalysisConfig=AnalysisConfig InferNativeConfig=NativeConfig VarDesc",
    "fluidlite.data_feeder": (
        "DataFeeder DataToLoDTensorConverter check_dtype check_type check_variable_and_dtype convert_dtype"
    ),
    "fluidlite.dataloader.dataset": "Dataset",
    "fluidlite.dataset": "InMemoryDataset",
    "fluidlite.distribute_lookup_table": "find_distributed_lookup_table",
    "fluidlite.evaluator": "Evaluator",
    "fluidlite.executor": "Executor global_scope",
    "fluidlite.framework": (
        "Block OpProtoHolder Operator Parameter Program Variable convert_np_dtype_to_dtype_ "
        "cpu_places cuda_places default_main_program default_startup_program device_guard "
        "dtype_is_floating grad_var_name in_dygraph_mode name_scope program_guard"
    ),
    "fluidlite.graphviz": "Graph GraphPreviewGenerator",
    "fluidlite.incubate.fleet.base.role_maker": "MPISymetricRoleMaker UserDefinedRoleMaker",
    "fluidlite.initializer": (
        "Constant=ConstantInitializer Initializer Normal=NormalInitializer NumpyArrayInitializer "
        "Xavier=XavierInitializer"
    ),
    "fluidlite.layer_helper": "LayerHelper",
    "fluidlite.layers.control_flow": "BlockGuard",
    "fluidlite.layers.io": "double_buffer",
    "fluidlite.layers.loss": "softmax_with_cross_entropy",
    "fluidlite.layers.math_op_patch": "monkey_patch_variable",
    "fluidlite.layers.nn": "logical_and logical_not logical_or",
    "fluidlite.layers.tensor": "assign cast concat fill_constant tensor_array_to_tensor zeros",
    "fluidlite.layers.utils": (
        "assert_same_structure convert_to_list copy_mutable_vars flatten hold_mutable_vars "
        "is_sequence map_structure pack_sequence_as"
    ),
    "fluidlite.log_helper": "get_logger",
    "fluidlite.optimizer": "SGD=SGDOptimizer",
    "fluidlite.parallel_executor": "ParallelExecutor",
    "fluidlite.param_attr": "ParamAttr",
    "fluidlite.regularizer": "append_regularization_ops",
    "fluidlite.trainer_factory": "FetchHandlerMonitor TrainerFactory",
    "fluidlite.transpiler.details.checkport": "wait_server_ready",
    "fluidlite.transpiler.details.program_utils": "delete_ops find_op_by_output_arg get_indent_space",
    "fluidlite.transpiler.details.ufind": "UnionFind",
    "fluidlite.transpiler.details.vars_distributed": "VarStruct",
    "fluidlite.transpiler.distribute_transpiler": (
        "DistributedMode OriginTranspiler=DistributeTranspiler ServerRuntimeConfig same_or_split_var "
        "slice_variable"
    ),
    "fluidlite.transpiler.ps_dispatcher": "PSDispatcher RoundRobin",
    "fluidlite.unique_name": "UniqueNameGenerator",
    "fluidlite.wrapped_decorator": "wrap_decorator",
    "functools": "partial reduce",
}
# door -> the names that fluid's module of that name had imported
_READ_OFF = {
    "fluidlite.annotations": "functools sys",
    "fluidlite.average": "np warnings",
    "fluidlite.backward": (
        "check_type collections copy core framework framework_pb2 log_helper logging unique_name"
    ),
    "fluidlite.clip": "copy core framework functools layers warnings",
    "fluidlite.communicator": "core global_scope",
    "fluidlite.compiler": "InferAnalysisConfig InferNativeConfig core framework multiprocessing os sys",
    "fluidlite.core": "os platform sys warnings",
    "fluidlite.data_feed_desc": "data_feed_pb2",
    "fluidlite.data_feeder": "core in_dygraph_mode multiprocessing np os warnings",
    "fluidlite.dataloader.batch_sampler": "Dataset np",
    "fluidlite.dataloader.dataloader_iter": (
        "core in_dygraph_mode logging multiprocessing np os queue signal sys threading time"
    ),
    "fluidlite.dataset": "core data_feed_pb2",
    "fluidlite.debugger": (
        "GraphPreviewGenerator LayerHelper Variable core default_main_program framework_pb2 io os "
        "random re sys unique_name"
    ),
    "fluidlite.default_scope_funcs": "threading",
    "fluidlite.evaluator": "detection layers np warnings",
    "fluidlite.executor": (
        "FetchHandlerMonitor InferAnalysisConfig InferNativeConfig Operator Program TrainerFactory "
        "Variable compiler convert_dtype convert_np_dtype_to_dtype_ copy core default_main_program "
        "logging multiprocessing np os sys warnings"
    ),
    "fluidlite.framework": (
        "Iterable collections contextlib core defaultdict framework_pb2 logging multiprocessing np os "
        "re subprocess sys traceback warnings wrap_decorator"
    ),
    "fluidlite.graphviz": "functools logging os random subprocess",
    "fluidlite.incubate.data_generator": "os sys",
    "fluidlite.incubate.fleet.base.fleet_base": (
        "MPISymetricRoleMaker OptimizerWithMixedPrecision SGD UserDefinedRoleMaker fluid mode"
    ),
    "fluidlite.incubate.fleet.base.role_maker": "fluid multiprocessing os sys time",
    "fluidlite.incubate.fleet.collective": (
        "ParallelExecutor compiler dist_transpiler fluid logging os re shutil sys"
    ),
    "fluidlite.incubate.fleet.parameter_server.distribute_transpiler": "OriginTranspiler os warnings",
    "fluidlite.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy": "fluid os",
    "fluidlite.incubate.fleet.utils.hdfs": "copy errno logging multiprocessing os re subprocess sys time",
    "fluidlite.incubate.fleet.utils.utils": (
        "OrderedDict core debugger fluid get_logger logging np os subprocess sys"
    ),
    "fluidlite.initializer": "VarDesc check_dtype check_type core framework in_dygraph_mode np",
    "fluidlite.input": "LayerHelper Variable check_dtype check_variable_and_dtype in_dygraph_mode warnings",
    "fluidlite.install_check": (
        "Constant ParamAttr backward compiler core cpu_places cuda_places executor layers logging np os"
    ),
    "fluidlite.io": (
        "CompiledProgram Evaluator Executor Parameter Program Variable contextlib core dataloader "
        "default_main_program default_startup_program errno get_logger global_scope layers logging np "
        "os pickle program_guard reader reduce unique_name warnings"
    ),
    "fluidlite.layer_helper": "Constant OpProtoHolder Xavier copy core dtype_is_floating in_dygraph_mode",
    "fluidlite.layer_helper_base": "copy core in_dygraph_mode np",
    "fluidlite.layers": "LayerHelper OpProtoHolder Variable core monkey_patch_variable unique_name",
    "fluidlite.layers.control_flow": (
        "LayerHelper Operator Program Variable assert_same_structure assign cast check_dtype "
        "check_type check_variable_and_dtype convert_dtype copy_mutable_vars core fill_constant "
        "hold_mutable_vars in_dygraph_mode logical_and logical_not logical_or map_structure numpy "
        "partial reduce unique_name warnings"
    ),
    "fluidlite.layers.detection": (
        "LayerHelper Variable check_dtype check_type check_variable_and_dtype convert_dtype math nn "
        "np ops reduce softmax_with_cross_entropy tensor"
    ),
    "fluidlite.layers.device": "deprecated",
    "fluidlite.layers.distributions": (
        "check_dtype check_variable_and_dtype control_flow convert_dtype math nn np ops tensor warnings"
    ),
    "fluidlite.layers.io": (
        "BlockGuard DataFeeder DistributedMode check_dtype check_type convert_np_dtype_to_dtype_ core "
        "global_scope logging multiprocessing os program_guard sys threading"
    ),
    "fluidlite.layers.layer_function_generator": (
        "check_variable_and_dtype convert_np_dtype_to_dtype_ core framework_pb2 functools in_dygraph_mode"
    ),
    "fluidlite.layers.learning_rate_scheduler": (
        "Parameter check_variable_and_dtype control_flow in_dygraph_mode math name_scope nn numbers "
        "ops tensor unique_name"
    ),
    "fluidlite.layers.loss": "NumpyArrayInitializer ParamAttr core in_dygraph_mode nn np partial reduce",
    "fluidlite.layers.math_op_patch": "OpProtoHolder core",
    "fluidlite.layers.metric_op": "Normal ParamAttr core in_dygraph_mode nn warnings",
    "fluidlite.layers.nn": (
        "Constant LayerHelper Normal NumpyArrayInitializer OpProtoHolder ParamAttr Variable assign "
        "cast check_dtype check_type check_variable_and_dtype concat convert_dtype "
        "convert_np_dtype_to_dtype_ core default_main_program device_guard fill_constant "
        "in_dygraph_mode inspect np os reduce sys tensor_array_to_tensor unique_name utils warnings "
        "zeros"
    ),
    "fluidlite.layers.ops": (
        "check_dtype check_variable_and_dtype convert_dtype convert_np_dtype_to_dtype_ core os"
    ),
    "fluidlite.layers.rnn": (
        "LayerHelper ParamAttr Variable assert_same_structure check_dtype check_type "
        "check_variable_and_dtype collections control_flow convert_dtype convert_to_list copy "
        "copy_mutable_vars core default_main_program flatten hold_mutable_vars in_dygraph_mode "
        "is_sequence map_structure nn np pack_sequence_as partial reduce sequence_lod sys tensor "
        "utils"
    ),
    "fluidlite.layers.sequence_lod": "VarDesc check_dtype in_dygraph_mode",
    "fluidlite.layers.tensor": (
        "Constant Initializer OpProtoHolder ParamAttr VarDesc convert_dtype "
        "convert_np_dtype_to_dtype_ core in_dygraph_mode numpy reduce utils warnings"
    ),
    "fluidlite.layers.utils": "LayerHelper check_type check_variable_and_dtype collections copy np",
    "fluidlite.lod_tensor": "DataToLoDTensorConverter core np",
    "fluidlite.log_helper": "logging",
    "fluidlite.metrics": "copy detection layers np warnings",
    "fluidlite.net_drawer": "Graph core defaultdict framework_pb2 get_logger logging",
    "fluidlite.nets": "convert_dtype layers",
    "fluidlite.op": "core framework_pb2 np",
    "fluidlite.optimizer": (
        "Constant GradientClipBase GradientClipByNorm LayerHelper Program Variable append_backward "
        "append_gradient_clip_ops append_regularization_ops core default_main_program "
        "default_startup_program defaultdict device_guard error_clip_callback "
        "find_distributed_lookup_table framework layers logging name_scope np ops program_guard "
        "reduce tensor unique_name"
    ),
    "fluidlite.parallel_executor": "check_type compiler core executor framework sys",
    "fluidlite.param_attr": "sys warnings",
    "fluidlite.profiler": "core os",
    "fluidlite.proto.data_feed_pb2": "sys",
    "fluidlite.proto.framework_pb2": "sys",
    "fluidlite.proto.profiler.profiler_pb2": "sys",
    "fluidlite.reader": (
        "InMemoryDataset Program UniqueNameGenerator core cpu_places default_startup_program "
        "double_buffer global_scope in_dygraph_mode logging multiprocessing np os program_guard queue "
        "signal sys threading"
    ),
    "fluidlite.regularizer": "core framework in_dygraph_mode logging",
    "fluidlite.transpiler.collective": (
        "collections core logging math np reduce sys unique_name wait_server_ready"
    ),
    "fluidlite.transpiler.details": "Variable closing core get_indent_space socket sys time",
    "fluidlite.transpiler.details.checkport": "closing socket sys time",
    "fluidlite.transpiler.details.program_utils": "core",
    "fluidlite.transpiler.details.vars_distributed": "Variable",
    "fluidlite.transpiler.distribute_transpiler": (
        "Block Parameter UnionFind VarStruct collections collective core delete_ops "
        "find_distributed_lookup_table find_op_by_output_arg framework grad_var_name initializer "
        "logging math np os reduce sys unique_name"
    ),
    "fluidlite.transpiler.geo_sgd_transpiler": (
        "Block DistributedMode PSDispatcher Parameter RoundRobin ServerRuntimeConfig collections core "
        "delete_ops find_distributed_lookup_table framework np same_or_split_var slice_variable sys "
        "wait_server_ready"
    ),
    "fluidlite.transpiler.memory_optimization_transpiler": "logging",
    "fluidlite.unique_name": "collections sys",
    "fluidlite.wrapped_decorator": "contextlib",
}
_HOME_OF = {
    word.partition("=")[0]: (module, word.rpartition("=")[2])
    for module, words in _HOMES.items()
    for word in words.split()
}


def imported_names(
    door: str, modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` of a door, which reads what fluid's module had imported or raises AttributeError; and
    its `__dir__`, which lists `__all__` and the given modules.
    """
    names = frozenset(_READ_OFF[door].split())
    shown = frozenset(modules)

    def read(name: str) -> Any:
        if name not in names:
            # `__path__` and its kin are asked for by imports, which read no message
            near = "" if name.startswith("__") else did_you_mean(name, names)
            raise AttributeError(f"module {door!r} has no attribute {name!r}{near}")
        if name in _HOME_OF:
            module, attribute = _HOME_OF[name]
            return getattr(importlib.import_module(module), attribute)
        return importlib.import_module(_MODULES.get(name, f"fluidlite.{name}"))

    def public() -> list[str]:
        own = vars(sys.modules[door])
        return sorted({*own["__all__"], *shown, *(name for name in own if name.startswith("__"))})

    return read, public
