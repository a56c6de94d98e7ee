"""`fluid.contrib.decoder`: what a cell and its decoders refuse; the programs are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fluidlite as fluid
from fluidlite.contrib.decoder import BeamSearchDecoder, InitState, StateCell, TrainingDecoder

layers = fluid.layers


@pytest.fixture(autouse=True)
def program() -> Iterator[None]:
    """A program of its own."""
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
        yield


def _cell() -> StateCell:
    start = InitState(init=fluid.data("context", [None, 4]))
    cell = StateCell(inputs={"word": None}, states={"hidden": start}, out_state="hidden")

    @cell.state_updater
    def _(cell: StateCell) -> None:
        cell.set_state("hidden", layers.fc([cell.get_state("hidden"), cell.get_input("word")], 4))

    return cell


def _words() -> Any:
    return layers.data("words", [4], lod_level=1)


def test_a_state_needs_a_value() -> None:
    with pytest.raises(ValueError, match="init_boot must be provided"):
        InitState(shape=[-1, 4])
    boot = fluid.data("boot", [None, 3])
    assert InitState(init_boot=boot, shape=[-1, 4], value=1.0).value.shape == (-1, 4)
    with pytest.raises(ValueError, match="state must be an InitState object"):
        StateCell(inputs={}, states={"hidden": boot}, out_state="hidden")  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="out_state must be one state in states"):
        StateCell(inputs={}, states={"hidden": InitState(init=boot)}, out_state="cell")


def test_a_cell_names_what_it_lacks() -> None:
    cell = _cell()
    with pytest.raises(ValueError, match="Unknown state cell. The cell has hidden"):
        cell.get_state("cell")
    with pytest.raises(ValueError, match="Invalid input word"):
        cell.get_input("word")
    with pytest.raises(ValueError, match="Unknown input sentence. .*: word"):
        cell.compute_state({"sentence": _words()})
    bare = StateCell(inputs={}, states={"hidden": InitState(init=_words())}, out_state="hidden")
    with pytest.raises(ValueError, match="no updater"):
        bare.compute_state({})


def test_a_cell_is_in_one_decoder_at_a_time() -> None:
    cell = _cell()
    decoder = TrainingDecoder(cell)
    with pytest.raises(ValueError, match="already entered a decoder"):
        TrainingDecoder(cell)
    for call in (lambda: decoder.state_cell, lambda: decoder.step_input(_words()), lambda: decoder.output()):
        with pytest.raises(ValueError, match="inside block of TrainingDecoder"):
            call()
    with pytest.raises(ValueError, match="only be visited outside the block"):
        decoder()
    with decoder.block():
        word = decoder.step_input(_words())
        decoder.state_cell.compute_state({"word": word})
        decoder.state_cell.update_states()
        decoder.output(cell.out_state())
    assert decoder().lod_level == 1
    with pytest.raises(ValueError, match="can only be invoked once"), decoder.block():
        raise AssertionError("the block is not entered")
    TrainingDecoder(cell)  # it has left the first one


def test_beam_search_decoder_refuses() -> None:
    ids = layers.data("ids", [1], dtype="int64", lod_level=2)
    scores = layers.data("scores", [1], lod_level=2)
    decoder = BeamSearchDecoder(_cell(), ids, scores, 10, 4, input_var_dict={"other": scores})
    for call in (lambda: decoder.read_array(ids), lambda: decoder.update_array(ids, ids)):
        with pytest.raises(ValueError, match="inside block of BeamSearchDecoder"):
            call()
    with pytest.raises(ValueError, match="only be visited outside the block"):
        decoder()
    with pytest.raises(ValueError, match="Variable other not found in StateCell"):
        decoder.decode()
