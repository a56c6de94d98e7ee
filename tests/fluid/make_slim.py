"""Record `slim_cases.py` under PaddlePaddle 1.8.5, into `slim_expected.json.gz`.

cd tests/fluid && python make_slim.py
"""

import gzip
import json
import logging
import os

import paddle.fluid as fluid
import slim_cases
from paddle.fluid.contrib.quantize import QuantizeTranspiler
from paddle.fluid.contrib.slim import quantization

HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    results = slim_cases.all_results(fluid, quantization, QuantizeTranspiler)
    with gzip.GzipFile(os.path.join(HERE, "slim_expected.json.gz"), "wb", mtime=0) as target:
        target.write(json.dumps(results, sort_keys=True).encode())
