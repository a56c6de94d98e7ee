"""Global switches: `FLAGS_*` by name, from the environment or `set_flags`, and the version check of old
programs.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from fluidlite.base.errors import ArgumentError, FluidWarning, did_you_mean

__all__ = [
    "check_buffers",
    "check_nan_inf",
    "find_nan_inf",
    "get_flags",
    "kernels",
    "known_flags",
    "require_version",
    "set_flag_text",
    "set_flags",
    "shows_all_frames",
]

FLUID_VERSION = "1.8.5"
PROGRAM_VERSION = 1008005  # Paddle's number for it, which files of programs carry
FIRST_OF_2X = 2000000
VERSION_OF_2X = 2006002  # Paddle's number for 2.6.2
_DEFAULTS: dict[str, Any] = {
    # read by FluidLite
    "FLAGS_check_nan_inf": False,
    "FLAGS_find_nan_inf": False,  # FluidLite's own: a step that leaves a NaN is repeated with the check on
    "FLAGS_check_plans": False,  # FluidLite's own: verify plans between the passes that make them
    "FLAGS_check_buffers": False,  # FluidLite's own: look at what each step of a plan has written
    "FLAGS_call_stack_level": 1,  # of 2.x; 2: tracebacks show the library's frames, too
    "FLAGS_use_onednn": True,  # FluidLite's own: kernels of oneDNN, where it is installed
    # FluidLite's own: compile loops over arrays in the "background", "wait" for it, or "off"
    "FLAGS_fast_loops": "background",
    "FLAGS_selected_gpus": "",
    "FLAGS_rpc_deadline": 180000,
    "FLAGS_rpc_retry_times": 3,
    "FLAGS_rpc_server_wait": 0,
    "FLAGS_rpc_lost_trainer": "stop",
    "FLAGS_rpc_lost_trainer_wait": 10000,
    "FLAGS_communicator_max_merge_var_num": 20,
    "FLAGS_communicator_send_queue_size": 20,
    "FLAGS_communicator_send_wait_times": 5,
    "FLAGS_communicator_min_send_grad_num_before_recv": 20,
    "FLAGS_communicator_independent_recv_thread": True,
    "FLAGS_communicator_is_sgd_optimizer": True,
    "FLAGS_communicator_merge_sparse_grad": True,
    "FLAGS_communicator_fake_rpc": False,
    # products of float32 on a device may round their operands to TF32 (10 bits): set before the first of them
    "FLAGS_enable_cublas_tensor_op_math": False,
    "FLAGS_cpu_deterministic": False,  # here: choose kernels by rule, without measuring
    "FLAGS_cudnn_deterministic": False,  # here: the same, of convolutions on a device
    "FLAGS_use_cudnn": True,  # FluidLite's own: convolutions of cuDNN, where a device's machine has it
    "FLAGS_cudnn_exhaustive_search": False,
    "FLAGS_conv_workspace_size_limit": 512,  # megabytes of scratch memory for a convolution of cuDNN
    # kept so that programs can set and read them: they steer memory, threads and libraries that are not here
    "FLAGS_communicator_thread_pool_size": 5,
    "FLAGS_allocator_strategy": "auto_growth",
    "FLAGS_benchmark": False,
    "FLAGS_cudnn_batchnorm_spatial_persistent": False,
    "FLAGS_eager_delete_tensor_gb": 0.0,
    "FLAGS_enable_parallel_graph": False,
    "FLAGS_enable_rpc_profiler": False,
    "FLAGS_fast_eager_deletion_mode": True,
    "FLAGS_fraction_of_cpu_memory_to_use": 1.0,
    "FLAGS_fraction_of_gpu_memory_to_use": 0.92,
    "FLAGS_free_idle_chunk": False,
    "FLAGS_free_when_no_cache_hit": False,
    "FLAGS_fuse_parameter_groups_size": 1,
    "FLAGS_fuse_parameter_memory_size": -1.0,
    "FLAGS_gpu_memory_limit_mb": 0,
    "FLAGS_init_allocated_mem": False,
    "FLAGS_initial_cpu_memory_in_mb": 500,
    "FLAGS_initial_gpu_memory_in_mb": 0,
    "FLAGS_inner_op_parallelism": 0,
    "FLAGS_max_inplace_grad_add": 0,
    "FLAGS_memory_fraction_of_eager_deletion": 1.0,
    "FLAGS_multiple_of_cupti_buffer_size": 1,
    "FLAGS_paddle_num_threads": 1,
    "FLAGS_pe_profile_fname": "",
    "FLAGS_print_sub_graph_dir": "",
    "FLAGS_reader_queue_speed_test_mode": False,
    "FLAGS_reallocate_gpu_memory_in_mb": 0,
    "FLAGS_sort_sum_gradient": False,
    "FLAGS_sync_nccl_allreduce": True,
    "FLAGS_tracer_profile_fname": "xxgperf",
    "FLAGS_use_mkldnn": False,
    "FLAGS_use_ngraph": False,
    "FLAGS_use_pinned_memory": True,
    "FLAGS_use_system_allocator": False,
}


# of Paddle, and of nothing here: the environment may have them for other programs
_OF_PADDLE = frozenset(
    (
        "FLAGS_check_nan_inf_level",
        "FLAGS_fast_check_nan_inf",
        "FLAGS_fraction_of_cuda_pinned_memory_to_use",
        "FLAGS_gpu_allocator_retry_time",
        "FLAGS_nccl_nrings",
        "FLAGS_rpc_disable_reuse_port",
        "FLAGS_rpc_get_thread_num",
        "FLAGS_rpc_prefetch_thread_num",
        "FLAGS_rpc_retry_bind_port",
        "FLAGS_rpc_send_thread_num",
        "FLAGS_rpc_server_profile_path",
        "FLAGS_selected_mlus",
        "FLAGS_selected_npus",
        "FLAGS_selected_xpus",
        "FLAGS_sync_after_alloc",
        "FLAGS_use_cuda_managed_memory",
    )
)
_TRUE = frozenset(("1", "t", "true", "y", "yes", "on"))
_FALSE = frozenset(("0", "f", "false", "n", "no", "off"))


def _from_text(name: str, text: str) -> Any:
    """The value that a switch gets from a text; ArgumentError for one of another type."""
    default = _DEFAULTS[name]
    wanted = "boolean (true or false, 1 or 0)" if isinstance(default, bool) else type(default).__name__
    try:
        # bool("0") is True, so truth values are read by themselves
        if not isinstance(default, bool):
            return type(default)(text)
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
    except ValueError:
        pass
    raise ArgumentError(f"{name} is {text!r}, but its type must be {wanted}")


def _from_environment() -> dict[str, Any]:
    """Every switch, as the environment or its default has it; an empty text leaves the default."""
    for name in os.environ:
        if not name.startswith("FLAGS_") or name in _DEFAULTS or name in _OF_PADDLE:
            continue
        near = did_you_mean(name, _DEFAULTS, cutoff=0.85)
        if near:
            warnings.warn(
                f"the environment variable {name} has no effect: there is no such flag{near}",
                FluidWarning,
                stacklevel=2,
            )
    return {
        name: _from_text(name, os.environ[name]) if os.environ.get(name) else default
        for name, default in _DEFAULTS.items()
    }


# the environment is read once, at import, as fluid does
_values = _from_environment()


def known_flags() -> list[str]:
    """Names of all switches."""
    return list(_DEFAULTS)


def set_flag_text(name: str, text: str) -> None:
    """Set a switch from the text of a command line."""
    _values[name] = _from_text(name, text)


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set switches by name; ValueError for an unknown name, TypeError for a value of another type."""
    if not isinstance(flags, Mapping):
        raise TypeError("flags in set_flags should be a dict")
    for name, value in flags.items():
        if name not in _values:
            raise ValueError(
                f"Flag {name} cannot set its value through this function{did_you_mean(name, _values)}"
            )
        kind = type(_DEFAULTS[name])
        # a number for another kind of number is fine, as gflags converts them
        if not isinstance(value, str if kind is str else (bool, int, float)):
            raise TypeError(f"Flag {name} takes a value of type {kind.__name__}, not {value!r}")
        _values[name] = kind(value)


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """Switches by name, as name -> value; ValueError for an unknown name."""
    if not isinstance(flags, (str, list, tuple)):
        raise TypeError("Flags in get_flags should be a list, tuple or string.")
    names = [flags] if isinstance(flags, str) else list(flags)
    for name in names:
        if name not in _values:
            raise ValueError(
                f"Flag {name} cannot get its value through this function{did_you_mean(name, _values)}"
            )
    return {name: _values[name] for name in names}


_OF_KERNELS = (
    "FLAGS_check_buffers",
    "FLAGS_use_onednn",
    "FLAGS_cpu_deterministic",
    "FLAGS_cudnn_deterministic",
    "FLAGS_use_cudnn",
    "FLAGS_cudnn_exhaustive_search",
    "FLAGS_conv_workspace_size_limit",
    "FLAGS_enable_cublas_tensor_op_math",
)


def kernels() -> tuple[Any, ...]:
    """The switches that plans depend on: those that were made under others are not used."""
    return tuple([_values[name] for name in _OF_KERNELS])


def find_nan_inf() -> bool:
    """True if a step that leaves a NaN or an infinity is run again to find its op."""
    return bool(_values["FLAGS_find_nan_inf"])


def check_nan_inf() -> bool:
    """True if every result is searched for NaN and infinity."""
    return bool(_values["FLAGS_check_nan_inf"])


def check_buffers() -> bool:
    """True if a plan checks after each step that what it wrote has the form and the place promised."""
    return bool(_values["FLAGS_check_buffers"])


def shows_all_frames() -> bool:
    """True if tracebacks show the frames of the library beside the user's."""
    return bool(_values["FLAGS_call_stack_level"] > 1)


def is_deterministic() -> bool:
    """FLAGS_cpu_deterministic: results follow from what is run alone, whatever ran before."""
    return bool(_values["FLAGS_cpu_deterministic"])


def device_by_rule() -> bool:
    """True if kernels of a device are chosen without measuring."""
    return bool(_values["FLAGS_cpu_deterministic"] or _values["FLAGS_cudnn_deterministic"])


def fast_loops() -> str:
    """The way in which loops over arrays are compiled; ValueError for one that there is not."""
    ways = ["background", "wait", "off"]
    found = str(_values["FLAGS_fast_loops"])
    if found not in ways:
        raise ValueError(f"FLAGS_fast_loops is {found!r}, not one of {ways}{did_you_mean(found, ways)}")
    return found


def _parts(name: str, version: str) -> tuple[int, ...]:
    pieces = version.split(".")
    if not 1 <= len(pieces) <= 4 or not all(piece.isdecimal() for piece in pieces):
        raise ValueError(
            f"The value of '{name}' in require_version must be in format '\\d+(\\.\\d+){{0,3}}', like "
            f"'1.5.2.0', "
            f"but received {version}"
        )
    # 1.8 means 1.8.0.0
    return tuple(int(piece) for piece in pieces) + (0,) * (4 - len(pieces))


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Exception unless fluid 1.8.5, which this library stands for, lies between the two versions (both
    included).
    """
    if not isinstance(min_version, str):
        raise TypeError(
            f"The type of 'min_version' in require_version must be {str}, but received {type(min_version)}."
        )
    if not isinstance(max_version, (str, type(None))):
        raise TypeError(
            f"The type of 'max_version' in require_version must be {str} or {type(None)}, but received "
            f"{type(max_version)}."
        )
    low = _parts("min_version", min_version)
    mine = _parts("version", FLUID_VERSION)
    high = None if max_version is None else _parts("max_version", max_version)
    if mine < low or (high is not None and mine > high):
        wanted = (
            f"in [{min_version}, {max_version}]" if max_version is not None else f"{min_version} or higher"
        )
        raise Exception(
            f"VersionError: PaddlePaddle version {wanted} is required, and this library stands for "
            f"{FLUID_VERSION}."
        )
