"""Record the public names of PaddlePaddle 2.6.2 in `names.json.gz`, under `door`: module -> its `__all__`.

cd tests && python -m golden.dump_names_2x        (with the Python that has 2.6.2)
"""

from __future__ import annotations

import gzip
import importlib
import json
import pathlib

PATH = pathlib.Path(__file__).parent / "names.json.gz"
MODULES = (
    "paddle",
    "paddle.distribution",
    "paddle.fft",
    "paddle.inference",
    "paddle.io",
    "paddle.jit",
    "paddle.linalg",
    "paddle.metric",
    "paddle.nn",
    "paddle.nn.functional",
    "paddle.nn.initializer",
    "paddle.optimizer",
    "paddle.optimizer.lr",
    "paddle.signal",
    "paddle.static",
    "paddle.static.nn",
)


def main() -> None:
    found = json.loads(gzip.decompress(PATH.read_bytes()))
    found["door"] = {module: sorted(importlib.import_module(module).__all__) for module in MODULES}
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    PATH.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
