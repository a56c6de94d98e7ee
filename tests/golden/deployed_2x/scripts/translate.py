"""Translates sentences in two threads, a clone of the predictor each, and cuts lines at their ends."""

import argparse
import json
import threading

import numpy as np
from paddle import inference

WORDS = ["<pad>", "<s>", "<e>", *(f"w{i}" for i in range(3, 40))]


class Worker(threading.Thread):
    def __init__(self, predictor, batches):
        super().__init__()
        self.predictor, self.batches, self.found = predictor, batches, []

    def run(self):
        handle = self.predictor.get_input_handle("src_word")
        for batch in self.batches:
            handle.copy_from_cpu(batch)
            self.predictor.run()
            name = self.predictor.get_output_names()[0]
            self.found += self.predictor.get_output_handle(name).copy_to_cpu().tolist()


def ended(row):
    """The words of a line between the signs of its start and its end."""
    row = row[1:]
    return " ".join(WORDS[i] for i in (row[: row.index(2)] if 2 in row else row))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    options = parser.parse_args()
    prefix = f"{options.models}/translate/inference"
    config = inference.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams")
    config.disable_gpu()
    config.disable_glog_info()
    first = inference.create_predictor(config)
    source = np.random.RandomState(9)
    batches = [
        source.randint(3, 60, (rows, width)).astype("int64") for rows, width in ((2, 5), (1, 9), (3, 3))
    ]
    workers = [Worker(first, batches[:2]), Worker(first.clone(), batches[2:])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = [ended(row) for worker in workers for row in worker.found]
    print(json.dumps({"lines": lines, "raw": [row for worker in workers for row in worker.found]}))


if __name__ == "__main__":
    main()
