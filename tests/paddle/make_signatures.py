"""Records signatures of PaddlePaddle 2.6.2: `cd tests/paddle && python make_signatures.py`, with 2.6.2."""

from __future__ import annotations

import gzip
import json
import pathlib

import numpy as np  # noqa: F401  # before paddle, which crashes otherwise
from signatures import signatures


def main() -> None:
    target = pathlib.Path(__file__).with_name("signatures_2x.json.gz")
    target.write_bytes(gzip.compress(json.dumps(signatures("paddle"), sort_keys=True).encode(), mtime=0))


if __name__ == "__main__":
    main()
