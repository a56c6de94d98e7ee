"""Turning rows of Python data into what a program is fed, and the argument checks that layers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.dtypes import Array, DTypeLike, VarType, to_numpy
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import CPUPlace, cpu_places, cuda_places
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.values.tensor import LoDTensor, offsets_of

__all__ = [
    "DataFeeder",
    "DataToLoDTensorConverter",
    "check_dtype",
    "check_type",
    "check_variable_and_dtype",
    "convert_dtype",
]

_NAMES = {
    VarType.BOOL: "bool",
    VarType.FP16: "float16",
    VarType.FP32: "float32",
    VarType.FP64: "float64",
    VarType.INT8: "int8",
    VarType.INT16: "int16",
    VarType.INT32: "int32",
    VarType.INT64: "int64",
    VarType.UINT8: "uint8",
}


def convert_dtype(dtype: Any) -> str:
    """The name of a dtype: "float32" for a `VarType`, a NumPy dtype or type, or the name itself;
    ArgumentError otherwise.
    """
    if isinstance(dtype, VarType):
        name = _NAMES.get(dtype)
    elif isinstance(dtype, str):
        name = dtype
    else:
        name = getattr(dtype, "__name__", None) or getattr(dtype, "name", None)
    # NumPy 1 called its boolean type bool_, and old programs pass np.bool_
    name = "bool" if name == "bool_" else name
    if name not in _NAMES.values():
        raise ArgumentError(f"dtype must be any of [{', '.join(_NAMES.values())}], but received {dtype!r}")
    return str(name)


def check_variable_and_dtype(
    input: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = ""
) -> None:
    """ArgumentError unless `input` is a Variable whose dtype is one of the names in `expected_dtype`."""
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


def check_type(
    input: Any, input_name: str, expected_type: Any, op_name: str, extra_message: str = ""
) -> None:
    """ArgumentError unless `input` is an instance of `expected_type`, a type or a tuple of types.

    It is whatever 1.8.5 raises there: TypeError where it checks, too, AssertionError or EnforceNotMet where
    it fails later.
    """
    if not isinstance(input, expected_type):
        raise ArgumentError(
            f"The type of '{input_name}' in {op_name} must be {expected_type}, but received {type(input)}. "
            f"{extra_message}"
        )


def check_dtype(
    input_dtype: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = ""
) -> None:
    """ArgumentError unless `input_dtype` is one of the names in `expected_dtype`.

    Warns of float16, as 1.8.5 does on every machine: there it has kernels on a GPU only.
    """
    found = convert_dtype(input_dtype)
    if found == "float16":
        warn_user(
            f"The data type of '{input_name}' in {op_name} only support float16 in GPU now. {extra_message}",
            category=UserWarning,
        )
    if found not in expected_dtype:
        raise ArgumentError(
            f"The data type of '{input_name}' in {op_name} must be {expected_dtype}, but received {found}. "
            f"{extra_message}"
        )


class DataToLoDTensorConverter:
    """Collects one variable's values over the rows of a batch."""

    def __init__(
        self, place: Any, lod_level: int, shape: Sequence[int | None], dtype: DTypeLike, name: str = ""
    ) -> None:
        self.name, self.place, self.lod_level = name, place, lod_level
        self.shape = tuple(-1 if dim is None or dim < 0 else int(dim) for dim in shape)
        self.dtype = to_numpy(dtype)
        self._reset()

    def _reset(self) -> None:
        self.data: list[Any] = []
        self.lengths: list[list[int]] = [[] for _ in range(self.lod_level)]

    def feed(self, value: Any, level: int = 0) -> None:
        """Take one row's value: nested lists, `lod_level` deep, of what the tensor holds."""
        if level == self.lod_level:
            self.data.append(value)
            return
        self.lengths[level].append(len(value))
        for item in value:
            self.feed(item, level + 1)

    def done(self) -> LoDTensor:
        """The batch collected so far, after which collecting begins anew.

        ValueError where it cannot have the variable's shape.
        """
        try:
            array = np.array(self.data, dtype=self.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"variable {self.name!r}: the rows cannot be converted to a {self.dtype} array: {error}"
            ) from error
        tensor = LoDTensor(self._reshaped(array), offsets_of(self.lengths))
        self._reset()
        return tensor

    def _reshaped(self, array: Array) -> Array:
        """Rows of plain numbers as rows of one number, flat images as images, where the variable says so."""
        # with two unknown dimensions NumPy could not tell either
        if not self.shape or array.ndim == len(self.shape) or self.shape.count(-1) > 1:
            return array
        try:
            return array.reshape(self.shape)
        except ValueError:
            raise ValueError(
                f"Reshape error. What is defined in data layer is {self.shape}, but receive {array.shape} "
                f"(variable {self.name!r})"
            ) from None


class DataFeeder:
    """Makes the dict for `exe.run(feed=...)` from a batch: a list of rows with one value for each of
    `feed_list`.

    `feed_list` holds Variables, or names of variables of `program`'s global block.
    """

    def __init__(
        self, feed_list: Sequence[Variable | str], place: Any, program: Program | None = None
    ) -> None:
        program = default_main_program() if program is None else program
        variables = [
            program.global_block().var(item) if isinstance(item, str) else item for item in feed_list
        ]
        for var in variables:
            if not isinstance(var, Variable):
                raise TypeError(
                    f"Feed list should contain a list of variable, not {var!r} of type {type(var).__name__}"
                )
        self.variables = variables
        self.place = place

    @property
    def feed_names(self) -> list[str]:
        """Names of the variables, in the order of a row's values."""
        return [var.name for var in self.variables]

    @property
    def feed_lod_level(self) -> list[int]:
        """The depth of the level of detail of each variable."""
        return [var.lod_level for var in self.variables]

    @property
    def feed_dtypes(self) -> list[VarType]:
        """The element type of each variable."""
        return [var.dtype for var in self.variables]

    @property
    def feed_shapes(self) -> list[tuple[int, ...]]:
        """The shape of each variable."""
        return [var.shape for var in self.variables]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, LoDTensor]:
        """Variable name -> LoDTensor for a batch of rows."""
        columns = [
            DataToLoDTensorConverter(self.place, var.lod_level, var.shape, var.dtype, var.name)
            for var in self.variables
        ]
        for row in iterable:
            if len(row) != len(columns):
                raise AssertionError(
                    f"The number of fields in data ({len(row)}) does not match len(feed_list) "
                    f"({len(columns)})"
                )
            for column, value in zip(columns, row, strict=True):
                column.feed(value)
        return {column.name: column.done() for column in columns}

    def feed_parallel(
        self, iterable: Iterable[Iterable[Sequence[Any]]], num_places: int | None = None
    ) -> Iterator[dict[str, LoDTensor]]:
        """One dict a device for as many batches as there are devices; ValueError where the numbers differ."""
        count = self._get_number_of_places_(num_places)
        batches = list(iterable)
        if len(batches) != count:
            raise ValueError(
                "feed_parallel gives each device a mini-batch of its own, so their numbers must be the same: "
                f"{count} devices, {len(batches)} mini-batches"
            )
        for batch in batches:
            yield self.feed(batch)

    def _get_number_of_places_(self, num_places: int | None) -> int:
        if num_places is not None:
            return int(num_places)
        return len(cpu_places() if isinstance(self.place, CPUPlace) else cuda_places())

    def decorate_reader(
        self,
        reader: Callable[[], Iterable[Any]],
        multi_devices: bool,
        num_places: int | None = None,
        drop_last: bool = True,
    ) -> Callable[[], Iterator[Any]]:
        """A reader of feed dicts (lists of them, one a device, with `multi_devices`) from a reader of
        batches.

        Batches that do not make up a full round of devices are dropped; ValueError at the end when
        `drop_last` forbids that.
        """

        def singles() -> Iterator[Any]:
            for batch in reader():
                yield self.feed(batch)

        def rounds() -> Iterator[Any]:
            count = self._get_number_of_places_(num_places)
            waiting: list[Any] = []
            for batch in reader():
                waiting.append(batch)
                if len(waiting) == count:
                    yield list(self.feed_parallel(waiting, count))
                    waiting = []
            if waiting and not drop_last:
                raise ValueError(
                    f"the last {len(waiting)} batches are too few for {count} devices, and "
                    "drop_last=False does not allow dropping them"
                )

        return rounds if multi_devices else singles


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
