"""`DistributedStrategy`: how the processes of a job train together, under the names and defaults of 2.x."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.errors import UnsupportedError, did_you_mean
from fluidlite.base.strategies import ExecutionStrategy
from fluidlite.paddle.distributed.fleet.base.messages import is_repeated, plain_value, strategy_message
from fluidlite.paddle.distributed.fleet.base.overview import overview
from fluidlite.paddle.static.build_strategy import BuildStrategy

__all__ = ["DistributedStrategy"]

_log = logging.getLogger(__name__)

_SWITCHES = (
    "_calc_comm_same_stream=calc_comm_same_stream adaptive_localsgd amp asp auto auto_search "
    "cudnn_batchnorm_spatial_persistent cudnn_exhaustive_search dgc elastic find_unused_parameters "
    "fuse_all_reduce_ops fuse_grad_merge gradient_merge heter_ccl_mode is_fl_ps_mode "
    "is_with_coordinator=with_coordinator lamb lars localsgd pipeline qat recompute semi_auto sharding "
    "split_data sync_batch_norm sync_nccl_allreduce tensor_parallel use_hierarchical_allreduce "
    "without_graph_optimization"
)
_NUMBERS = (
    "conv_workspace_size_limit fuse_grad_size_in_MB fuse_grad_size_in_num "
    "hierarchical_allreduce_inter_nranks nccl_comm_num"
)
_CONFIGS = (
    "a_sync_configs adaptive_localsgd_configs amp_configs dgc_configs gradient_merge_configs "
    "gradient_scale_configs hybrid_configs lamb_configs lars_configs localsgd_configs pipeline_configs "
    "qat_configs recompute_configs sharding_configs tensor_parallel_configs trainer_desc_configs"
)


class _Field:
    """One attribute of a strategy, kept in the field of its message that has the name `field`."""

    def __init__(self, names: str) -> None:
        self.name, _, field = names.partition("=")
        self.field = field or self.name

    def __get__(self, strategy: DistributedStrategy | None, owner: type) -> Any:
        return self if strategy is None else getattr(strategy.strategy, self.field)

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        setattr(strategy.strategy, self.field, value)


class _Typed(_Field):
    """An attribute that takes values of one type; others are reported, and change nothing, as in 2.6.2."""

    def __init__(self, names: str, kind: type) -> None:
        super().__init__(names)
        self.kind = kind

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        if isinstance(value, self.kind):
            super().__set__(strategy, self.kind(value))
        else:
            _log.warning("%s should have value of %s type", self.name, self.kind.__name__)


class _Strict(_Field):
    """A switch that refuses other values than True and False."""

    def __init__(self, names: str, error: type[Exception]) -> None:
        super().__init__(names)
        self.error = error

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        if not isinstance(value, bool):
            raise self.error(f"strategy.{self.name} takes True or False, not {value!r}")
        super().__set__(strategy, value)


class _Asynchronous(_Strict):
    """`a_sync`: setting it also says that no number of steps was chosen yet."""

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        super().__set__(strategy, value)
        strategy.a_sync_configs = {"k_steps": 0}


class _Configs(_Field):
    """The options of a part: read as a dict of all of them, set by a dict of some."""

    def __get__(self, strategy: DistributedStrategy | None, owner: type) -> Any:
        if strategy is None:
            return self
        message = getattr(strategy.strategy, self.field)
        return {field.name: plain_value(message, field) for field in message.DESCRIPTOR.fields}

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        _assign(getattr(strategy.strategy, self.field), value, self.name)


def _assign(message: Any, values: Mapping[str, Any], name: str) -> None:
    """Set fields of a message; AssertionError for one that it does not have, TypeError for a value of another
    type.
    """
    known = {field.name: field for field in message.DESCRIPTOR.fields}
    for key in values:
        assert key in known, f"key:{key} not in {name}{did_you_mean(str(key), known)}"
    for key, value in values.items():
        if known[key].message_type is not None and isinstance(value, Mapping):
            _assign(getattr(message, key), value, f"{name}[{key!r}]")
        elif is_repeated(getattr(message, key)):
            _replace(message, key, value, name)
        else:
            # newer protobufs take no truth value for a number
            is_number = isinstance(value, (bool, np.bool_)) and known[key].cpp_type != known[key].CPPTYPE_BOOL
            setattr(message, key, int(value) if is_number else value)


def _replace(message: Any, key: str, values: Any, name: str) -> None:
    """Set a repeated field; None empties it."""
    if values and not isinstance(values, (list, tuple, set)):
        raise TypeError(f"{name}[{key!r}] takes a list, not {values!r}")
    message.ClearField(key)
    getattr(message, key).extend(values or ())


class _Size(_Field):
    """A positive number of megabytes."""

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        if not value > 0:
            raise ValueError(f"{self.name} should be greater than 0, not {value!r}")
        super().__set__(strategy, float(value))


class _Options(_Field):
    """A BuildStrategy or ExecutionStrategy, of which the message keeps the fields that it has."""

    def __init__(self, name: str, kind: type) -> None:
        super().__init__(name)
        self.kind = kind

    def __get__(self, strategy: DistributedStrategy | None, owner: type) -> Any:
        if strategy is None:
            return self
        found = self.kind()
        message = getattr(strategy.strategy, self.field)
        for field in message.DESCRIPTOR.fields:
            if field.name in self.kind._DEFAULTS:  # type: ignore[attr-defined]
                kept = getattr(message, field.name)
                is_rule = field.name == "reduce_strategy"
                value = BuildStrategy.ReduceStrategy(kept) if is_rule else kept
                if kept == field.default_value:
                    found.set_unasked(**{field.name: value})
                else:
                    setattr(found, field.name, value)
        return found

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        if not isinstance(value, self.kind):
            raise AttributeError(f"strategy.{self.name} takes a {self.kind.__name__}, not {value!r}")
        message = getattr(strategy.strategy, self.field)
        for field in message.DESCRIPTOR.fields:
            if field.name in self.kind._DEFAULTS:  # type: ignore[attr-defined]
                given = getattr(value, field.name)
                setattr(message, field.name, int(given) if field.name == "reduce_strategy" else given)


class _Client(_Configs):
    """How servers would reach a file system of their own; read as the message itself."""

    def __get__(self, strategy: DistributedStrategy | None, owner: type) -> Any:
        return _Field.__get__(self, strategy, owner)


class _Tables(_Field):
    """Accessors of sparse tables, which only the closed servers of 2.x have: none can be set."""

    def __get__(self, strategy: DistributedStrategy | None, owner: type) -> Any:
        return self if strategy is None else list(strategy.strategy.downpour_table_param)

    def __set__(self, strategy: DistributedStrategy, value: Any) -> None:
        for name in value or ():
            raise UnsupportedError(
                f"strategy.{self.name}: table {name!r}: a table of these servers is updated by the "
                "ops of its optimizer and has no accessor; configure its update in the optimizer"
            )


class DistributedStrategy:
    """How the processes of a job train together; `fleet.distributed_optimizer(optimizer, strategy)` reads it.

    Attributes
    ----------
    strategy: the protobuf message that keeps all of it, with field numbers and defaults of 2.6.2.

    Every other attribute is one of its fields. TypeError for a name that is none, which in 2.6.2 too is
    refused when it is set.
    """

    a_sync = _Asynchronous("a_sync", ValueError)
    adam_d2sum = _Strict("adam_d2sum", ValueError)
    fp16_allreduce = _Strict("fp16_allreduce", TypeError)
    last_comm_group_size_MB = _Size("last_comm_group_size_MB")
    sparse_table_configs = _Tables("sparse_table_configs")
    fleet_desc_configs = _Tables("fleet_desc_configs")
    fs_client_param = _Client("fs_client_param")
    _fuse_grad_size_in_TFLOPS = _Typed("_fuse_grad_size_in_TFLOPS=fuse_grad_size_in_TFLOPS", float)
    build_strategy = _Options("build_strategy", BuildStrategy)
    execution_strategy = _Options("execution_strategy", ExecutionStrategy)

    def __init__(self) -> None:
        self.__dict__["strategy"] = strategy_message()()

    def __setattr__(self, key: str, value: Any) -> None:
        if not isinstance(vars(DistributedStrategy).get(key), _Field):
            known = [name for name, value in vars(DistributedStrategy).items() if isinstance(value, _Field)]
            raise TypeError(f"{key} is not a attribute of DistributedStrategy{did_you_mean(key, known)}")
        object.__setattr__(self, key, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedStrategy:
        new = DistributedStrategy()
        new.strategy.CopyFrom(self.strategy)
        return new

    def __copy__(self) -> DistributedStrategy:
        return self.__deepcopy__({})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistributedStrategy) and bool(self.strategy == other.strategy)

    def __hash__(self) -> int:
        return id(self)

    # ------------------------------------------------------------------ files
    def save_to_prototxt(self, output: str) -> None:
        """Write what was chosen into a file, in protobuf's text format."""
        with open(output, "w", encoding="utf8") as target:
            target.write(str(self.strategy))

    def load_from_prototxt(self, pb_file: str) -> None:
        """Take what a file chooses; ParseError of `google.protobuf.text_format` for unknown fields."""
        from google.protobuf import text_format

        with open(pb_file, encoding="utf8") as source:
            text_format.Merge(source.read(), self.strategy)

    def __repr__(self) -> str:
        """A table: the parts that are on with their options, and all other fields."""
        return overview(self.strategy)

    if TYPE_CHECKING:  # the fields that are declared below

        def __getattr__(self, name: str) -> Any: ...


for _names in _SWITCHES.split():
    setattr(DistributedStrategy, _names.partition("=")[0], _Typed(_names, bool))
for _names in _NUMBERS.split():
    setattr(DistributedStrategy, _names, _Typed(_names, int))
for _names in _CONFIGS.split():
    setattr(DistributedStrategy, _names, _Configs(_names))
