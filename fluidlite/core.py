"""`fluid.core`: the names that programs took from Paddle's compiled module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.backward.rules import GradientContext
from fluidlite.base import flags, registry
from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import EnforceNotMet, EOFException, NotFoundError, UnsupportedError, did_you_mean
from fluidlite.base.imported_names import imported_names
from fluidlite.base.kept_attrs import kept_attrs
from fluidlite.base.place import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    Place,
    get_cuda_device_count,
    is_compiled_with_cuda,
)
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX, AttrType
from fluidlite.compat import machine
from fluidlite.compat.core_dataset import CoreDataset as Dataset
from fluidlite.compat.core_steps import CoreExecutor as Executor
from fluidlite.compat.core_steps import (
    EventSortingKey,
    ProfilerState,
    TracerOption,
    disable_profiler,
    enable_profiler,
    get_fetch_variable,
    get_variable_tensor,
    init_lod_tensor_blocking_queue,
    is_profiler_enabled,
    prune,
    prune_backward,
    set_feed_variable,
    set_tracer_option,
)
from fluidlite.compat.desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from fluidlite.compat.graph import GraphNode as Node
from fluidlite.compat.graph import ProgramGraph as Graph
from fluidlite.compat.inference.config import AnalysisConfig, NativeConfig
from fluidlite.compat.inference.passes import PaddlePassBuilder
from fluidlite.compat.inference.predictor import (
    AnalysisPredictor,
    NativePaddlePredictor,
    PaddlePredictor,
    create_paddle_predictor,
)
from fluidlite.compat.inference.tensors import (
    PaddleBuf,
    PaddleDType,
    PaddlePlace,
    PaddleTensor,
    ZeroCopyTensor,
    paddle_dtype_size,
)
from fluidlite.compat.machine import (
    COMPILED,
    avx_supported,
    from_dlpack,
    get_glibc_ver,
    less_than_ver,
    load_dso,
    run_shell_command,
)
from fluidlite.compat.op_facts import _get_all_register_op_kernels as _get_all_register_op_kernels
from fluidlite.compat.op_facts import has_infer_inplace, infer_no_need_buffer_slots
from fluidlite.compat.op_protos import all_op_protos
from fluidlite.ir.attributes import STAMPS
from fluidlite.ir.operator import (
    CALLSTACK_ATTR,
    DEVICE_ATTR,
    NAMESCOPE_ATTR,
    ROLE_ATTR,
    ROLE_VAR_ATTR,
    OpRole,
)
from fluidlite.op import ScopeOperator as Operator
from fluidlite.profiler import reset_profiler
from fluidlite.reading.queues import BlockingQueue as LoDTensorBlockingQueue
from fluidlite.values.rank_table import RankTable as LodRankTable
from fluidlite.values.scope import Scope
from fluidlite.values.scope import ScopeVariable as Variable
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows

__all__ = [
    "AnalysisConfig",
    "AnalysisPredictor",
    "AttrType",
    "BlockDesc",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "Dataset",
    "EOFException",
    "EnforceNotMet",
    "EventSortingKey",
    "Executor",
    "Graph",
    "LoDTensor",
    "LoDTensorArray",
    "LoDTensorBlockingQueue",
    "LodRankTable",
    "NativeConfig",
    "NativePaddlePredictor",
    "Node",
    "OpDesc",
    "Operator",
    "PaddleBuf",
    "PaddleDType",
    "PaddlePassBuilder",
    "PaddlePlace",
    "PaddlePredictor",
    "PaddleTensor",
    "Place",
    "ProfilerState",
    "ProgramDesc",
    "Scope",
    "SelectedRows",
    "Tensor",
    "TracerOption",
    "VarDesc",
    "VarType",
    "Variable",
    "ZeroCopyTensor",
    "avx_supported",
    "create_paddle_predictor",
    "disable_profiler",
    "empty_var_name",
    "enable_profiler",
    "from_dlpack",
    "get_all_op_names",
    "get_all_op_protos",
    "get_cuda_device_count",
    "get_dso_path",
    "get_fetch_variable",
    "get_glibc_ver",
    "get_grad_op_desc",
    "get_op_attrs_default_value",
    "get_variable_tensor",
    "globals",
    "grad_var_suffix",
    "has_grad_op_maker",
    "has_infer_inplace",
    "infer_no_need_buffer_slots",
    "init_devices",
    "init_gflags",
    "init_glog",
    "init_lod_tensor_blocking_queue",
    "is_compiled_with_brpc",
    "is_compiled_with_cuda",
    "is_compiled_with_dist",
    "is_compiled_with_cinn",
    "is_compiled_with_ipu",
    "is_compiled_with_mkldnn",
    "is_compiled_with_npu",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "is_profiler_enabled",
    "less_than_ver",
    "load_dso",
    "load_op_library",
    "op_proto_and_checker_maker",
    "op_support_gpu",
    "paddle_dtype_size",
    "pre_load",
    "prune",
    "prune_backward",
    "reset_profiler",
    "run_shell_command",
    "save_op_compatible_info",
    "set_feed_variable",
    "set_tracer_option",
    "size_of_dtype",
]

Tensor = LoDTensor
_Scope = Scope


class op_proto_and_checker_maker:
    """The roles of ops, and the names of the attributes that every op carries."""

    OpRole = OpRole

    @staticmethod
    def kOpRoleAttrName() -> str:
        """`op_role`."""
        return ROLE_ATTR

    @staticmethod
    def kOpRoleVarAttrName() -> str:
        """`op_role_var`."""
        return ROLE_VAR_ATTR

    @staticmethod
    def kOpNameScopeAttrName() -> str:
        """`op_namescope`."""
        return NAMESCOPE_ATTR

    @staticmethod
    def kOpCreationCallstackAttrName() -> str:
        """`op_callstack`."""
        return CALLSTACK_ATTR

    @staticmethod
    def kOpDeviceAttrName() -> str:
        """`op_device`."""
        return DEVICE_ATTR


_set_eager_deletion_mode = machine.set_eager_deletion_mode
_set_fuse_parameter_group_size = machine.set_fuse_parameter_group_size
_set_fuse_parameter_memory_size = machine.set_fuse_parameter_memory_size
get_dso_path, pre_load = COMPILED.get("get_dso_path"), COMPILED.get("pre_load")


# ------------------------------------------------------------------------------------------------ names
def empty_var_name() -> str:
    """The name in a slot that stands for no variable."""
    return EMPTY_VAR


kEmptyVarName = empty_var_name


def grad_var_suffix() -> str:
    """The end of a gradient's name."""
    return GRAD_SUFFIX


kGradVarSuffix = grad_var_suffix


def kTempVarName() -> str:
    """The name of a variable without a name."""
    return "@TEMP@"


def kControlDepVarName() -> str:
    """The start of the names of variables that only put ops in order."""
    return "__control_var"


def kNewGradSuffix() -> str:
    """The suffix of a gradient that replaces another."""
    return "@NEWGRAD@"


def kZeroVarSuffix() -> str:
    """The suffix of a variable that stands for zeros."""
    return "@ZERO"


def loaded_var_suffix() -> str:
    """The suffix of a variable that a loaded model brings."""
    return "@LOADED"


kDisabled, kCPU, kCUDA, kAll = ProfilerState
kDefault, kCalls, kTotal, kMin, kMax, kAve = EventSortingKey
kOpDetail, kAllOpDetail = TracerOption.kOpDetail, TracerOption.kAllOpDetail


# ------------------------------------------------------------------------------------------------ ops
def get_all_op_names() -> list[str]:
    """All op types."""
    return registry.known_types()


def get_all_op_protos() -> list[bytes]:
    """The declarations of all op types, as the bytes of OpProto messages."""
    return [proto.SerializeToString() for proto in all_op_protos()]


def get_op_attrs_default_value(op_type: str | bytes) -> dict[str, Any]:
    """Attribute -> default value of an op type; nothing for a type that is not registered."""
    op = registry.find(op_type.decode() if isinstance(op_type, bytes) else op_type)
    if op is None:
        return {}
    defaults = {
        name: attr.default
        for name, attr in {**op.attr_defs, **kept_attrs(op.type)}.items()
        if not attr.later
        if not attr.required
    }
    return {**defaults, **STAMPS, ROLE_ATTR: int(OpRole.NotSpecified), NAMESCOPE_ATTR: "", CALLSTACK_ATTR: []}


def has_grad_op_maker(op_type: str) -> bool:
    """True if a gradient flows through ops of that type."""
    return registry.get(op_type).differentiable


has_non_empty_grad_op_maker = has_grad_op_maker


def op_support_gpu(op_type: str) -> bool:
    """True if ops of that type have a kernel, which here runs on every place."""
    return registry.get(op_type).compute is not None


def get_grad_op_desc(
    op: OpDesc, no_grad_set: Any, grad_sub_blocks: Sequence[BlockDesc] = ()
) -> tuple[list[OpDesc], dict[str, str]]:
    """The gradient ops of an op, and gradient -> variable for what they make."""
    context = GradientContext(
        op.target, set(no_grad_set), grad_sub_blocks[0].target if grad_sub_blocks else None
    )
    return [OpDesc(made) for made in context.ops], dict(context.grad_of)


def size_of_dtype(dtype: VarType) -> int:
    """Bytes of an element."""
    return to_numpy(dtype).itemsize


# ------------------------------------------------------------------------------------------------ the build
class _Globals:
    """Flags under the interface of a dict."""

    def keys(self) -> set[str]:
        """Names of all flags."""
        return set(flags.known_flags())

    def __iter__(self) -> Iterator[str]:
        return iter(flags.known_flags())

    def __contains__(self, name: object) -> bool:
        return name in flags.known_flags()

    def _check(self, name: str) -> None:
        if name not in self:
            raise NotFoundError(f"there is no global variable {name!r}{did_you_mean(name, self)}")

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        return flags.get_flags(name)[name]

    def is_public(self, name: str) -> bool:
        """True if programs may read and set the flag."""
        return name in self

    def __setitem__(self, name: str, value: Any) -> None:
        self._check(name)
        flags.set_flags({name: value})

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a flag, or `default` where there is none."""
        return flags.get_flags(name)[name] if name in flags.known_flags() else default


def globals() -> _Globals:
    """The flags, name -> value."""
    return _Globals()


def is_compiled_with_dist() -> bool:
    """True: parameter servers and collectives are part of FluidLite."""
    return True


def is_compiled_with_brpc() -> bool:
    """False: parameter servers talk over FluidLite's own TCP transport."""
    return False


def is_compiled_with_rocm() -> bool:
    """False: devices are CUDA's."""
    return False


def is_compiled_with_xpu() -> bool:
    """False: devices are CUDA's."""
    return False


def is_compiled_with_npu() -> bool:
    """False: devices are CUDA's."""
    return False


def is_compiled_with_ipu() -> bool:
    """False: devices are CUDA's."""
    return False


def is_compiled_with_cinn() -> bool:
    """False: FluidLite compiles loops by itself."""
    return False


def is_compiled_with_mkldnn() -> bool:
    """False: `use_mkldnn` attributes are kept and change nothing."""
    return False


def init_glog(program: str) -> None:
    """Paddle's log needs a name to start; FluidLite keeps no log."""


def init_gflags(arguments: Sequence[str]) -> bool:
    """Set flags given as `--name=value` (without FLAGS_) or `--tryfromenv=...`; returns True."""
    for argument in arguments:
        name, _, value = argument.lstrip("-").partition("=")
        if f"FLAGS_{name}" in flags.known_flags():
            flags.set_flag_text(f"FLAGS_{name}", value)
    return True


def save_op_compatible_info(desc: ProgramDesc) -> None:
    """Do nothing but check that it is a program: Paddle then adds the versions that its ops need, which no
    reader of the bytes asks for.
    """
    if not isinstance(desc, ProgramDesc):
        raise TypeError(f"save_op_compatible_info takes a ProgramDesc, not {desc!r}")


def load_op_library(lib_filename: str) -> None:
    """UnsupportedError: compiled libraries hold Paddle's C++."""
    raise UnsupportedError(
        f"{lib_filename!r} cannot be loaded: ops are declared in Python here, with fluidlite.base.registry.Op"
    )


def init_devices(*unused: Any) -> None:
    """Devices are found when a place is first used."""


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
