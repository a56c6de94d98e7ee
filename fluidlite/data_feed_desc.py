"""`fluid.DataFeedDesc`: which fields the lines of a job's files have, as a text of the message
`paddle.framework.DataFeedDesc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from fluidlite.base.errors import FormatError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.messages import declare_messages, text_format

__all__ = ["DataFeedDesc", "feed_message", "feed_messages", "feed_text"]

# message -> its fields: number, name, type, label and default, as 1.8.5 declares them
_FIELDS = {
    "Slot": "1 name STRING ! , 2 type STRING ! , 3 is_dense BOOL ? false, 4 is_used BOOL ? false, 5 shape "
    "INT32 * ",
    "MultiSlotDesc": "1 slots Slot * ",
    "DataFeedDesc": "1 name STRING ? , 2 batch_size INT32 ? 32, 3 multi_slot_desc MultiSlotDesc ? , 4 "
    "pipe_command STRING ? , "
    "5 thread_num INT32 ? , 6 rank_offset STRING ? , 7 pv_batch_size INT32 ? 32",
}


@cache
def feed_messages() -> dict[str, Any]:
    """Message name -> class: `Slot`, `MultiSlotDesc`, `DataFeedDesc`."""
    return declare_messages("paddle.framework", _FIELDS)


def feed_message(**fields: Any) -> Any:
    """A new message `DataFeedDesc`, whose files go through `cat`."""
    return feed_messages()["DataFeedDesc"](pipe_command="cat", **fields)


def feed_text(message: Any) -> str:
    """A message `DataFeedDesc` in protobuf's text format."""
    text: str = text_format().MessageToString(message)
    return text


class DataFeedDesc:
    """A description read from the file `proto_file`, in protobuf's text format.

        name: "MultiSlotDataFeed"
        batch_size: 2
        multi_slot_desc {
          slots { name: "words" type: "uint64" is_dense: false is_used: true }
          slots { name: "label" type: "float" is_dense: true is_used: true }
        }

    FormatError, which names the file and the line in it, where the file says something else.
    """

    def __init__(self, proto_file: str) -> None:
        self.proto_desc = feed_message()
        try:
            with open(proto_file, encoding="utf8") as source:
                text_format().Parse(source.read(), self.proto_desc)
        except (text_format().ParseError, UnicodeDecodeError) as error:
            raise FormatError(f"{proto_file} describes no fields of a data set: {error}") from None
        self.__name_to_index = {
            slot.name: index for index, slot in enumerate(self.proto_desc.multi_slot_desc.slots)
        }

    def set_batch_size(self, batch_size: int) -> None:
        """Set how many lines make a batch."""
        self.proto_desc.batch_size = batch_size

    def set_dense_slots(self, dense_slots_name: Iterable[str]) -> None:
        """Let fields have as many values in each line as in any other; KeyError for an unknown one."""
        self._flag("is_dense", dense_slots_name)

    def set_use_slots(self, use_slots_name: Iterable[str]) -> None:
        """Use fields; KeyError for an unknown one."""
        self._flag("is_used", use_slots_name)

    def _flag(self, flag: str, names: Iterable[str]) -> None:
        self._check_multi_slot(flag)
        for name in names:
            setattr(self.proto_desc.multi_slot_desc.slots[self.__name_to_index[name]], flag, True)

    def _check_multi_slot(self, flag: str) -> None:
        if self.proto_desc.name != "MultiSlotDataFeed":
            raise ValueError(
                f"only a MultiSlotDataFeed has fields to set {flag} of, and the file describes a "
                f"{self.proto_desc.name!r}"
            )

    def desc(self) -> str:
        """The description, in protobuf's text format."""
        return feed_text(self.proto_desc)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
