"""`fluid.DataFeedDesc`: which fields the lines of a job's files have, as a text of the message
`paddle.framework.DataFeedDesc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

__all__ = ["DataFeedDesc", "feed_message", "feed_text"]

# message -> its fields: number, name, type, label and default, as 1.8.5 declares them
_FIELDS = {
    "Slot": "1 name STRING ! , 2 type STRING ! , 3 is_dense BOOL ? false, 4 is_used BOOL ? false, 5 shape "
    "INT32 * ",
    "MultiSlotDesc": "1 slots Slot * ",
    "DataFeedDesc": "1 name STRING ? , 2 batch_size INT32 ? 32, 3 multi_slot_desc MultiSlotDesc ? , 4 "
    "pipe_command STRING ? , "
    "5 thread_num INT32 ? , 6 rank_offset STRING ? , 7 pv_batch_size INT32 ? 32",
}
_LABELS = {"!": "LABEL_REQUIRED", "?": "LABEL_OPTIONAL", "*": "LABEL_REPEATED"}


@cache
def _message_class() -> Any:
    # most programs read no such files, and protobuf takes longer to import than any module here
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="fluidlite/data_feed.proto", package="paddle.framework", syntax="proto2"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for text in fields.split(","):
            number, field_name, kind, label, *default = text.split()
            field = message.field.add(
                name=field_name,
                number=int(number),
                label=getattr(descriptor_pb2.FieldDescriptorProto, _LABELS[label]),
            )
            if kind in _FIELDS:
                field.type, field.type_name = field.TYPE_MESSAGE, f".paddle.framework.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind}")
            if default:
                field.default_value = default[0]
    pool = descriptor_pool.DescriptorPool()  # of its own: Paddle declares messages of these names too
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("paddle.framework.DataFeedDesc"))


def _text_format() -> Any:
    from google.protobuf import text_format  # see `_message_class`

    return text_format


def feed_message(**fields: Any) -> Any:
    """A new message `DataFeedDesc`, whose files go through `cat`."""
    return _message_class()(pipe_command="cat", **fields)


def feed_text(message: Any) -> str:
    """A message `DataFeedDesc` in protobuf's text format."""
    text: str = _text_format().MessageToString(message)
    return text


class DataFeedDesc:
    """A description read from the file `proto_file`, in protobuf's text format.

        name: "MultiSlotDataFeed"
        batch_size: 2
        multi_slot_desc {
          slots { name: "words" type: "uint64" is_dense: false is_used: true }
          slots { name: "label" type: "float" is_dense: true is_used: true }
        }

    text_format.ParseError where the file says something else.
    """

    def __init__(self, proto_file: str) -> None:
        self.proto_desc = feed_message()
        with open(proto_file, encoding="utf8") as source:
            _text_format().Parse(source.read(), self.proto_desc)
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
