"""Record which ops of PaddlePaddle 1.8.5 have a gradient, and which gradient ops have one of their own.

cd tests && python -m golden.record_gradient_makers
"""

from __future__ import annotations

import json
import os

from paddle.fluid import core
from paddle.fluid.op import get_all_op_protos

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gradient_makers.json")


def has_gradient(name: str) -> bool:
    """True if the op exists and makes a gradient; Paddle raises where it does not exist."""
    try:
        return bool(core.has_non_empty_grad_op_maker(name))
    except Exception:
        return False


def main() -> None:
    names = sorted(proto.type for proto in get_all_op_protos())
    found = {
        "first": [name for name in names if has_gradient(name)],
        "second": [name for name in names if has_gradient(name + "_grad")],
        "none": [name for name in names if not has_gradient(name)],
    }
    with open(PATH, "w") as out:
        json.dump(found, out, indent=0)
        out.write("\n")


if __name__ == "__main__":
    main()
