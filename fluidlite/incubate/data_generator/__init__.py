"""`fluid.incubate.data_generator`: turns a job's raw lines into the text that data sets read
(`MultiSlotDataFeed`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fluidlite.base.abstract import abstract
from fluidlite.base.imported_names import imported_names

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]

_NO_FIELDS = (
    "the output of process() must be in list or tuple type, such as "
    "[('words', [1926, 8, 17]), ('label', [1])], not {!r}"
)


class DataGenerator:
    """Base of the generators: define `generate_sample`, and where samples of a batch depend on each other
    `generate_batch`.

        class Clicks(MultiSlotDataGenerator):
            def generate_sample(self, line):
                def samples():
                    yield [("words", [int(word) for word in line.split()]), ("label", [1])]
                return samples

        Clicks().run_from_stdin()

    A data set runs such a script for each file: `dataset.set_pipe_command("python clicks.py")`.
    """

    def __init__(self) -> None:
        self._proto_info: Any = None
        self.batch_size_ = 32

    def _set_line_limit(self, line_limit: int) -> None:
        if not isinstance(line_limit, int):
            raise ValueError(f"line_limit{type(line_limit)} must be in int type")
        if line_limit < 1:
            raise ValueError("line_limit can not less than 1")
        self._line_limit = line_limit

    def set_batch(self, batch_size: int) -> None:
        """Give `generate_batch` so many samples at a time (32 by default)."""
        self.batch_size_ = batch_size

    def run_from_memory(self) -> None:
        """Write what `generate_sample(None)` generates to the standard output."""
        self._write(self._samples([None]))

    def run_from_stdin(self) -> None:
        """Write what `generate_sample` makes of each line of the standard input to the standard output."""
        self._write(self._samples(sys.stdin))

    def _samples(self, lines: Iterable[str | None]) -> Iterator[Any]:
        for line in lines:
            for sample in self.generate_sample(line)():
                if sample is not None:
                    yield sample

    def _write(self, samples: Iterator[Any]) -> None:
        batch: list[Any] = []
        for sample in samples:
            batch.append(sample)
            if len(batch) == self.batch_size_:
                self._write_batch(batch)
                batch = []
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch: list[Any]) -> None:
        for sample in self.generate_batch(batch)():
            sys.stdout.write(self._gen_str(sample))

    def _gen_str(self, line: Any) -> str:
        """A sample as a line of text."""
        abstract(
            "the format of a sample is defined by MultiSlotDataGenerator or another subclass of DataGenerator"
        )

    def generate_sample(self, line: str | None) -> Callable[[], Iterable[Any]]:
        """A function that generates the samples of a line, each a list of (name, list of values); None is
        passed by.
        """
        abstract("define generate_sample: it returns a function that generates lists of (name, [value, ...])")

    def generate_batch(self, samples: list[Any]) -> Callable[[], Iterable[Any]]:
        """A function that generates what is written for a batch of samples: by default just these."""

        def same() -> Iterator[Any]:
            yield from samples

        return same


class MultiSlotStringDataGenerator(DataGenerator):
    """Writes values that are text already: `2 a b 1 1` for [("words", ["a", "b"]), ("label", ["1"])].
    Checks little, and is fast.
    """

    def _gen_str(self, line: Any) -> str:
        if not isinstance(line, (list, tuple)):
            raise ValueError(_NO_FIELDS.format(line))
        return " ".join(" ".join([str(len(values)), *values]) for _, values in line) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """Writes numbers: `2 1926 8 1 1` for [("words", [1926, 8]), ("label", [1])].

    All samples have the same fields in the same order. A field is of integers ("uint64") until a sample
    has a float there. ValueError for samples that do not fit.
    """

    def _gen_str(self, line: Any) -> str:
        if not isinstance(line, (list, tuple)):
            raise ValueError(_NO_FIELDS.format(line))
        if self._proto_info is None:
            self._proto_info = []
            for name, values in line:
                _check_field(name, values)
                self._proto_info.append((name, "uint64"))
                self._note_type(len(self._proto_info) - 1, values)
        else:
            self._check_fields(line)
        return " ".join(" ".join([str(len(values)), *map(str, values)]) for _, values in line) + "\n"

    def _check_fields(self, line: Any) -> None:
        if len(line) != len(self._proto_info):
            raise ValueError("the complete field set of two given line are inconsistent.")
        for number, (name, values) in enumerate(line):
            _check_field(name, values)
            if name != self._proto_info[number][0]:
                raise ValueError(
                    f"the field name of two given line are not match: "
                    f"require<{self._proto_info[number][0]}>, get<{name}>."
                )
            self._note_type(number, values)

    def _note_type(self, number: int, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, float):
                self._proto_info[number] = (self._proto_info[number][0], "float")
            elif not isinstance(value, int):
                raise ValueError(f"the type of element must be in int or float, not {type(value)}")


def _check_field(name: Any, values: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"name{type(name)} must be in str type")
    if not isinstance(values, list):
        raise ValueError(f"elements{type(values)} must be in list type")
    if not values:
        raise ValueError("the elements of each field can not be empty, you need padding it in process().")


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
