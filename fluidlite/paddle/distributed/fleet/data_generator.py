"""`paddle.distributed.fleet.data_generator`: generators of the lines that data sets read."""

from __future__ import annotations

from fluidlite.incubate.data_generator import (
    DataGenerator,
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
