"""The cells of all recurrent ops: gates, states, and what is kept for gradients."""

from __future__ import annotations

import functools

from fluidlite.ops.kernels.cells import CellForm, Layout, StepCell

__all__ = ["GRU", "LSTM", "RESET_AFTER", "SIMPLE", "gru_form", "lstm_form", "simple_form"]

LSTM = StepCell(
    "x_candidate x_entry x_forget x_output | before=0 of_entry=0 of_forget=0 of_output=0 clip -> "
    "candidate entry forget output cell shown hidden",
    """
    candidate = candidate_activation(x_candidate)
    entry = gate_activation(x_entry + before * of_entry)
    forget = gate_activation(x_forget + before * of_forget)
    cell = bounded(candidate * entry + forget * before, clip)
    output = gate_activation(x_output + cell * of_output)
    shown = cell_activation(cell)
    hidden = output * shown
    """,
    Layout(
        products={"hidden": (0, 4)},
        entries=4,
        saved=("candidate", "entry", "forget", "output"),
        alone={"cells": "cell", "active": "shown"},
        before="cell",
        sources=("hidden", "cell"),
    ),
)
"""A long short-term memory; `of_...` are peephole weights."""
GRU = StepCell(
    "x_update x_reset x_candidate | before=0 origin_mode -> update reset kept candidate hidden",
    """
    update = gate_activation(x_update)
    reset = gate_activation(x_reset)
    kept = reset * before
    candidate = activation(x_candidate)
    opened = where(origin_mode, before, candidate)
    closed = where(origin_mode, candidate, before)
    hidden = (opened - closed) * update + closed
    """,
    Layout(
        products={"hidden": (0, 2), "kept": (2, 3)},
        entries=3,
        saved=("update", "reset", "candidate"),
        alone={"reset": "kept"},
        sources=("hidden", "kept"),
    ),
)
"""A gated recurrent unit; `origin_mode` says whether the update gate lets the old state through, or the new
one.

The product with `kept`, the state that the reset gate lets through, is a part of `x_candidate`.
"""
RESET_AFTER = StepCell(
    "x_candidate x_reset x_update x_inner | before=0 -> candidate reset update inner hidden",
    """
    reset = gate_activation(x_reset)
    update = gate_activation(x_update)
    inner = x_inner
    candidate = activation(x_candidate + reset * inner)
    hidden = (before - candidate) * update + candidate
    """,
    Layout(products={"hidden": (1, 4)}, entries=3, saved=("candidate", "reset", "update", "inner")),
)
"""The one of the op `rnn`: its reset gate comes after the product, and `inner` is the candidate's part."""
SIMPLE = StepCell(
    "x | clip=0 -> hidden",
    "hidden = bounded(activation(x), clip)",
    Layout(products={"hidden": (0, 1)}, entries=1),
)
"""A product and an activation: a simple recurrence, or what projects the states of a memory."""


@functools.cache
def lstm_form(
    activations: tuple[str, ...] = ("sigmoid", "tanh", "tanh"), clip: float = 0.0, has_peepholes: bool = False
) -> CellForm:
    """A long short-term memory with activations of gates, cell and candidate, and a bound on its cells (0:
    none).
    """
    names = ("gate_activation", "cell_activation", "candidate_activation")
    absent = () if has_peepholes else ("of_entry", "of_forget", "of_output")
    return LSTM.form(clip=clip, **dict(zip(names, activations, strict=True)), **dict.fromkeys(absent))


@functools.cache
def gru_form(gate: str, candidate: str, origin_mode: bool) -> CellForm:
    """A gated recurrent unit with these activations."""
    return GRU.form(gate_activation=gate, activation=candidate, origin_mode=origin_mode)


@functools.cache
def simple_form(activation: str, clip: float = 0.0) -> CellForm:
    """An activation, and a bound behind it (0: none)."""
    return SIMPLE.form(activation=activation, clip=clip)
