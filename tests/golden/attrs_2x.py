"""The attributes that the ops of PaddlePaddle 2.6.2 declare, recorded by op type.

cd tests && python -m golden.attrs_2x        (with the Python that has 2.6.2)
"""

from __future__ import annotations

import gzip
import json
import os

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attrs_2x.json.gz")


def record() -> None:
    from paddle.base.framework import OpProtoHolder

    protos = OpProtoHolder.instance().op_proto_map
    found = {type: sorted(attr.name for attr in proto.attrs) for type, proto in sorted(protos.items())}
    with gzip.GzipFile(PATH, "wb", mtime=0) as out:
        out.write(json.dumps(found).encode())


if __name__ == "__main__":
    record()
