"""Global switches: `FLAGS_*` by name, from the environment or `set_flags`, and the version check of old programs."""
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from fluidlite.errors import did_you_mean

__all__ = ["check_nan_inf", "get_flags", "require_version", "set_flags"]

FLUID_VERSION = "1.8.5"
_DEFAULTS: dict[str, Any] = {
    "FLAGS_check_nan_inf": False, "FLAGS_eager_delete_tensor_gb": 0.0, "FLAGS_fast_eager_deletion_mode": True,
    "FLAGS_fraction_of_gpu_memory_to_use": 0.92, "FLAGS_cudnn_deterministic": False, "FLAGS_benchmark": False,
    "FLAGS_selected_gpus": "", "FLAGS_rpc_deadline": 180000, "FLAGS_sync_nccl_allreduce": True,
    "FLAGS_memory_fraction_of_eager_deletion": 1.0, "FLAGS_allocator_strategy": "auto_growth", "FLAGS_paddle_num_threads": 1,
    "FLAGS_use_ngraph": False, "FLAGS_use_mkldnn": False, "FLAGS_cpu_deterministic": False, "FLAGS_sort_sum_gradient": False,
    "FLAGS_communicator_max_merge_var_num": 20, "FLAGS_communicator_send_queue_size": 20, "FLAGS_rpc_retry_times": 3,
}


def _from_environment(name: str, default: Any) -> Any:
    text = os.environ.get(name)
    if text is None:
        return default
    if isinstance(default, bool):
        return text.lower() in ("1", "true", "yes", "on")
    return type(default)(text)


_values = {name: _from_environment(name, default) for name, default in _DEFAULTS.items()}


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set switches by name; ValueError for an unknown name."""
    if not isinstance(flags, Mapping):
        raise TypeError("flags in set_flags should be a dict")
    for name, value in flags.items():
        if name not in _values:
            raise ValueError(f"Flag {name} cannot set its value through this function{did_you_mean(name, _values)}")
        _values[name] = type(_DEFAULTS[name])(value)


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """Switches by name, as name -> value; ValueError for an unknown name."""
    if not isinstance(flags, (str, list, tuple)):
        raise TypeError("Flags in get_flags should be a list, tuple or string.")
    names = [flags] if isinstance(flags, str) else list(flags)
    for name in names:
        if name not in _values:
            raise ValueError(f"Flag {name} cannot get its value through this function{did_you_mean(name, _values)}")
    return {name: _values[name] for name in names}


def check_nan_inf() -> bool:
    """Whether every result is searched for NaN and infinity."""
    return bool(_values["FLAGS_check_nan_inf"])


def _parts(version: str) -> tuple[int, ...]:
    pieces = version.split(".")
    if not 1 <= len(pieces) <= 4 or not all(piece.isdigit() for piece in pieces):
        raise ValueError(f"The value of a version should be in format '\\d+(\\.\\d+){{0,3}}', like '1.5.2.0', but received {version}")
    return tuple(int(piece) for piece in pieces) + (0,) * (4 - len(pieces))


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Exception unless fluid 1.8.5, which this library stands for, lies between the two versions (inclusive)."""
    for name, version in (("min_version", min_version), ("max_version", max_version)):
        if not isinstance(version, str) and not (name == "max_version" and version is None):
            raise TypeError(f"The type of '{name}' in require_version must be str, but received {type(version)}.")
    low, mine = _parts(min_version), _parts(FLUID_VERSION)
    high = None if max_version is None else _parts(max_version)
    if mine < low or (high is not None and mine > high):
        wanted = f">= {min_version}" + ("" if max_version is None else f" and <= {max_version}")
        raise Exception(f"VersionError: PaddlePaddle version {wanted} is required, this is fluid {FLUID_VERSION}.")
