"""`fluid.contrib.slim.quantization.post_training_quantization`: saved models, quantised without training."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite import io
from fluidlite.compat.graph import ProgramGraph
from fluidlite.contrib.slim.quantization.edits import check_supported, data_slots, load, store
from fluidlite.contrib.slim.quantization.freeze import QuantizationFreezePass
from fluidlite.contrib.slim.quantization.out_scale import OBSERVED
from fluidlite.contrib.slim.quantization.thresholds import entropy_threshold
from fluidlite.contrib.slim.quantization.transform import (
    AddQuantDequantPass,
    QuantizationTransformPass,
    activation_kinds,
)
from fluidlite.contrib.slim.quantization.weight_quantization import WeightQuantization
from fluidlite.executor.executor import global_scope, scope_guard
from fluidlite.framework import IrGraph, Operator, Program

__all__ = ["PostTrainingQuantization", "WeightQuantization"]

Arrays = dict[str, Any]


class PostTrainingQuantization:
    """Quantises a saved model by the values that it computes for samples.

    Parameters
    ----------
    executor, scope: what runs the model, and holds its values (by default the scope of the `with`).
    model_dir, model_filename, params_filename: the model, as `fluid.io.save_inference_model` left it.
    batch_generator, sample_generator: functions that give batches or single samples, one of the two;
        `batch_size` samples make a batch, and `batch_nums` batches are run (all, by default).
    algo: where the scale of a value comes from: `KL` (what changes the distribution of its magnitudes least),
        `abs_max` (the largest); or `min_max`, which leaves the program as it is and writes the smallest and
        largest values into attributes of the ops that read them.
    quantizable_op_type: the types of the ops, all that there are with `is_full_quantize`.
    activation_bits, weight_bits, activation_quantize_type, weight_quantize_type: as of the passes that train.
    is_use_cache_file, cache_dir: whether the values of samples wait in files.
    """

    def __init__(
        self,
        executor: Any = None,
        scope: Any = None,
        model_dir: Any = None,
        model_filename: str | None = None,
        params_filename: str | None = None,
        batch_generator: Callable[[], Iterator[Any]] | None = None,
        sample_generator: Callable[[], Iterator[Any]] | None = None,
        batch_size: int = 10,
        batch_nums: int | None = None,
        algo: str = "KL",
        quantizable_op_type: Sequence[str] = ("conv2d", "depthwise_conv2d", "mul"),
        is_full_quantize: bool = False,
        activation_bits: int = 8,
        weight_bits: int = 8,
        activation_quantize_type: str = "range_abs_max",
        weight_quantize_type: str = "channel_wise_abs_max",
        is_use_cache_file: bool = False,
        cache_dir: str = "./temp_post_training",
    ) -> None:
        _check_given(executor, model_dir, batch_generator or sample_generator, batch_size)
        _check_kinds(algo, activation_quantize_type, weight_quantize_type)
        supported = _supported_types()
        check_supported(quantizable_op_type, supported)
        self._executor, self._place = executor, executor.place
        self._scope = global_scope() if scope is None else scope
        self._model = (model_dir, model_filename, params_filename)
        self._batch_generator, self._sample_generator = batch_generator, sample_generator
        self._batch_size, self._batch_nums, self._algo = batch_size, batch_nums, algo
        self._quantizable_op_type = supported if is_full_quantize else list(quantizable_op_type)
        self._bits = (activation_bits, weight_bits)
        self._kinds = (activation_quantize_type, weight_quantize_type)
        self._cache = pathlib.Path(cache_dir) if is_use_cache_file else None
        self._program: Any = None
        self._feed_list: list[str] = []
        self._fetch_list: list[Any] = []
        self._weights, self._values = list[str](), list[str]()

    # ------------------------------------------------------------------ steps
    def quantize(self) -> Program:
        """Run the samples, and return the quantised program; its values are in the scope."""
        with scope_guard(self._scope):
            self._load_model()
            self._collect_names()
            statistics = _STATISTICS[self._algo](self)
            if self._algo == "min_max":
                self._write_ranges(statistics)
            else:
                self._rewrite(statistics)
                self._write_output_thresholds(statistics)
        program: Program = self._program
        return program

    def save_quantized_model(
        self, save_model_path: str, model_filename: str | None = None, params_filename: str | None = None
    ) -> None:
        """Save the quantised model, as `fluid.io.save_inference_model` does."""
        with scope_guard(self._scope):
            io.save_inference_model(
                dirname=save_model_path,
                model_filename=model_filename,
                params_filename=params_filename,
                feeded_var_names=self._feed_list,
                target_vars=self._fetch_list,
                executor=self._executor,
                main_program=self._program,
            )

    def _load_model(self) -> None:
        folder, model, params = self._model
        self._program, self._feed_list, self._fetch_list = io.load_inference_model(
            dirname=folder, executor=self._executor, model_filename=model, params_filename=params
        )

    def _collect_names(self) -> None:
        """Find the weights, and the other values that samples are taken of."""
        block = self._program.global_block()
        found: list[str] = []
        for op in block.ops:
            inputs, outputs = _data_names(op)
            if op.type in self._quantizable_op_type:
                found += [*inputs, *outputs]
            elif op.type in OBSERVED:
                found += outputs
        names = dict.fromkeys(found)
        self._weights = [name for name in names if block.var(name).persistable]
        self._values = [name for name in names if name not in self._weights]

    def _batches(self) -> Iterator[Any]:
        """The feeds of the batches to run."""
        feeds = [self._program.global_block().var(name) for name in self._feed_list]
        loader = io.DataLoader.from_generator(feed_list=feeds, capacity=3 * self._batch_size, iterable=True)
        if self._sample_generator is not None:
            loader.set_sample_generator(
                self._sample_generator, batch_size=self._batch_size, drop_last=True, places=self._place
            )
        elif self._batch_generator is not None:
            loader.set_batch_generator(self._batch_generator, places=self._place)
        for index, batch in enumerate(loader()):
            if index == self._batch_nums:
                return
            yield batch

    def _samples(self) -> Iterator[Arrays]:
        """The values of each batch, by name."""
        for batch in self._batches():
            found = self._executor.run(self._program, feed=batch, fetch_list=self._values)
            yield dict(zip(self._values, found, strict=True))

    # ------------------------------------------------------------------ what samples tell
    def largest(self) -> Arrays:
        """The largest magnitude of each value."""
        found: Arrays = {}
        for sample in self._samples():
            for name, value in sample.items():
                found[name] = max(found.get(name, 0.0), float(np.abs(value).max()))
        return found

    def ranges(self) -> Arrays:
        """The smallest and largest value of each variable, of weights along the first dimension."""
        found: Arrays = {}
        for name in self._weights:
            value = load(self._scope, name)
            rows = value.reshape(len(value), -1)
            found[name] = rows.min(1).tolist(), rows.max(1).tolist()
        for sample in self._samples():
            for name, value in sample.items():
                least, most = found.get(name, (np.inf, -np.inf))
                found[name] = min(least, float(value.min())), max(most, float(value.max()))
        return found

    def entropies(self) -> Arrays:
        """For each value the threshold that changes the distribution of its magnitudes least."""
        kept: dict[str, list[Any]] = {name: [] for name in self._values}
        for index, sample in enumerate(self._samples()):
            for name, value in sample.items():
                kept[name].append(self._keep(name, index, np.abs(value).ravel()))
        return {name: entropy_threshold(np.concatenate([_kept(one) for one in kept[name]])) for name in kept}

    def _keep(self, name: str, index: int, values: Any) -> Any:
        """The values, or the file where they wait."""
        if self._cache is None:
            return values
        self._cache.mkdir(parents=True, exist_ok=True)
        path = self._cache / f"{name.replace('/', '.')}_{index}.npy"
        np.save(path, values)
        return path

    # ------------------------------------------------------------------ the program
    def _rewrite(self, thresholds: Arrays) -> None:
        """Quantise the program by the thresholds."""
        graph = IrGraph(ProgramGraph(self._program.desc), for_test=True)
        weighted = QuantizationTransformPass._supported_quantizable_op_type
        QuantizationTransformPass(
            scope=self._scope,
            place=self._place,
            activation_bits=self._bits[0],
            weight_bits=self._bits[1],
            activation_quantize_type=self._kinds[0],
            weight_quantize_type=self._kinds[1],
            quantizable_op_type=[kind for kind in self._quantizable_op_type if kind in weighted],
        ).apply(graph)
        unweighted = AddQuantDequantPass._supported_quantizable_op_type
        AddQuantDequantPass(
            scope=self._scope,
            place=self._place,
            quantizable_op_type=[kind for kind in self._quantizable_op_type if kind in unweighted],
        ).apply(graph)
        for name, threshold in thresholds.items():
            for scale in (f"{name}.scale", f"{name}.quant_dequant.scale"):
                store(self._scope, self._place, scale, np.array([threshold], "float32"))
        QuantizationFreezePass(self._scope, self._place, self._bits[1], self._bits[0], self._kinds[1]).apply(
            graph
        )
        self._program = graph.to_program()

    def _write_ranges(self, ranges: Arrays) -> None:
        for op in self._program.global_block().ops:
            if op.type in self._quantizable_op_type:
                for name in _data_names(op)[0]:
                    least, most = ranges[name]
                    op._set_attr(f"{name}.min", least)
                    op._set_attr(f"{name}.max", most)
                    op._set_attr("quantization_type", "post_min_max")

    def _write_output_thresholds(self, thresholds: Arrays) -> None:
        for op in self._program.global_block().ops:
            if op.type in self._quantizable_op_type or op.type in OBSERVED:
                for name in _data_names(op)[1]:
                    if name in thresholds:
                        op._set_attr("out_threshold", float(thresholds[name]))
                if op.type in self._quantizable_op_type:
                    op._set_attr("quantization_type", f"post_{self._algo.lower()}")

    def _get_kl_scaling_factor(self, activation_blob: Any, num_quantized_bins: int = 255) -> float:
        return entropy_threshold(activation_blob, num_quantized_bins)


_STATISTICS: dict[str, Callable[[PostTrainingQuantization], Arrays]] = {
    "KL": PostTrainingQuantization.entropies,
    "abs_max": PostTrainingQuantization.largest,
    "min_max": PostTrainingQuantization.ranges,
}


def _check_given(executor: Any, model_dir: Any, generator: Any, batch_size: int) -> None:
    """AssertionError where something is not given that has to be."""
    assert executor is not None, "The executor cannot be None."
    assert model_dir is not None, "The model_dir cannot be None."
    assert generator is not None, "The batch_generator and sample_generator cannot be None in the same time."
    assert batch_size > 0, "The batch_size should be greater than 0."


def _check_kinds(algo: str, activation: str, weight: str) -> None:
    """AssertionError for a way of quantising that there is not."""
    assert algo in _STATISTICS, "The algo should be KL, abs_max or min_max."
    assert activation in activation_kinds, (
        f"The activation_quantize_type ({activation}) should in ({activation_kinds})."
    )
    weight_kinds = ("abs_max", "channel_wise_abs_max")
    assert weight in weight_kinds, f"The weight_quantize_type ({weight}) shoud in ({weight_kinds})."


def _supported_types() -> list[str]:
    """The op types that can be quantised, with a weight or without."""
    weighted = QuantizationTransformPass._supported_quantizable_op_type
    return list(dict.fromkeys((*weighted, *AddQuantDequantPass._supported_quantizable_op_type)))


def _kept(values: Any) -> Any:
    """Values that waited, in memory or in a file, which is removed."""
    if not isinstance(values, pathlib.Path):
        return values
    found = np.load(values, allow_pickle=False)
    values.unlink()
    return found


def _data_names(op: Operator) -> tuple[list[str], list[str]]:
    """The names that an op computes with, and those of what it computes."""
    inputs, outputs = data_slots(op.type)
    return (
        [name for slot in inputs for name in op.inputs.get(slot, ())],
        [name for slot in outputs for name in op.outputs.get(slot, ())],
    )
