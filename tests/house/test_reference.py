"""Docstrings with sections and examples: arguments are described, and examples print what they show."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from typing import Any

import numpy as np
import pytest
from modules import modules

import fluidlite as fluid

# the layers that most published programs use, the most frequent first
MOST_USED = (
    "fc concat reshape reduce_sum mean elementwise_add cast conv2d dropout pool2d batch_norm "
    "cross_entropy reduce_mean elementwise_mul transpose softmax sigmoid accuracy matmul auc "
    "fill_constant shape piecewise_decay relu softmax_with_cross_entropy squeeze create_parameter slice "
    "assign sigmoid_cross_entropy_with_logits log_loss unsqueeze expand square elementwise_sub data split "
    "sequence_pool scale log embedding tanh create_global_var dynamic_gru topk stack clip "
    "exponential_decay create_tensor flatten cos_sim sqrt fill_constant_batch_size_like sequence_unpad "
    "abs gather square_error_cost dynamic_lstm sequence_mask elementwise_div leaky_relu reduce_max "
    "gather_nd logical_and layer_norm equal l2_normalize elementwise_max less_than one_hot zeros "
    "sequence_pad uniform_random lod_reset conv2d_transpose argmax cond while_loop sums sequence_expand "
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def sections(text: str) -> dict[str, str]:
    """Title of a section -> its text, up to the next empty line."""
    return dict(re.findall(r"^(\w+)\n-+\n((?:.+\n?)+)", text, re.M))


@pytest.mark.parametrize("name", MOST_USED.split())
def test_every_argument_is_described(name: str) -> None:
    layer = getattr(fluid.layers, name)
    text = inspect.getdoc(layer) or ""
    found = sections(text)
    described = re.findall(r"^(\w+): \S", found["Parameters"], re.M)
    assert described == list(inspect.signature(layer).parameters)
    assert found["Returns"].strip() and ">>> " in text


def examples() -> list[Any]:
    """Docstrings of layers that have an example, each once."""
    finder = doctest.DocTestFinder(recurse=False)
    found = {}
    for home in sorted(name for name in modules() if name.startswith("fluidlite.layers")):
        for name, thing in sorted(vars(importlib.import_module(home)).items()):
            if callable(thing) and ">>> " in (getattr(thing, "__doc__", "") or ""):
                found[id(inspect.unwrap(thing))] = (name, finder.find(thing, name, module=False, globs={})[0])
    return [pytest.param(example, id=name) for name, example in found.values()]


@pytest.mark.parametrize("example", examples())
def test_examples_print_what_they_show(example: doctest.DocTest) -> None:
    fluid.reset_default_programs(scope=True)
    example.globs = {"fluid": fluid, "np": np, "exe": fluid.Executor(fluid.CPUPlace())}
    shown: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=shown.append)
    assert not shown, "".join(shown)
