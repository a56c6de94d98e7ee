"""`contrib.decoder`: one cell, trained over given words and searched with beams."""

import importlib
from typing import Any

from ..cases import Built, Run, case, fixed, sequences, train


def _decoder(fluid: Any) -> Any:
    """1.8.5 does not import it with fluid."""
    return importlib.import_module(fluid.__name__ + ".contrib.decoder.beam_search_decoder")


def _context(fluid: Any) -> Any:
    layers = fluid.layers
    source = layers.data("source", [1], dtype="int64", lod_level=1)
    return layers.sequence_pool(layers.embedding(source, [12, 6]), "last")


def _cell(fluid: Any, context: Any, reorder: bool) -> Any:
    decoder = _decoder(fluid)
    states = {
        "hidden": decoder.InitState(init=context, need_reorder=reorder),
        "sum": decoder.InitState(init_boot=context, shape=[-1, 6], value=0.5, need_reorder=reorder),
    }
    cell = decoder.StateCell(inputs={"word": None, "extra": None}, states=states, out_state="hidden")

    @cell.state_updater
    def update(cell: Any) -> None:
        layers = fluid.layers
        word, before = cell.get_input("word"), cell.get_state("hidden")
        hidden = layers.fc([before, word, cell.get_input("extra")], 6, act="tanh")
        cell.set_state("hidden", hidden + 0.1 * cell.get_state("sum"))
        cell.set_state("sum", cell.get_state("sum") * 0.9 + hidden)

    return cell


@case
def training_decoder(fluid: Any) -> Built:
    layers = fluid.layers
    context = _context(fluid)
    target = layers.data("target", [1], dtype="int64", lod_level=1)
    label = layers.data("label", [1], dtype="int64", lod_level=1)
    decoder = _decoder(fluid).TrainingDecoder(_cell(fluid, context, True))
    words = layers.embedding(target, [12, 6])
    with decoder.block():
        word = decoder.step_input(words)
        decoder.state_cell.compute_state(inputs={"word": word, "extra": decoder.static_input(context)})
        predicted = layers.fc(decoder.state_cell.get_state("hidden"), 12, act="softmax")
        decoder.state_cell.update_states()
        decoder.output(predicted)
    predicted = decoder()
    loss = layers.mean(layers.cross_entropy(predicted, label))
    fluid.optimizer.SGD(0.2).minimize(loss)
    feeds = {
        "source": sequences(3, 4, 1, below=12),
        "target": sequences(3, 5, 1, below=12),
        "label": sequences(3, 5, 1, below=12, like="target"),
    }
    return train(fluid, feeds, loss, predicted)


@case
def beam_search_decoder(fluid: Any) -> Built:
    layers = fluid.layers
    context = _context(fluid)
    start = layers.data("start", [1], dtype="int64", lod_level=2)
    scores = layers.data("scores", [1], dtype="float32", lod_level=2)
    decoder = _decoder(fluid).BeamSearchDecoder(
        _cell(fluid, context, False),
        start,
        scores,
        target_dict_dim=12,
        word_dim=6,
        input_var_dict={"extra": context},
        topk_size=6,
        sparse_emb=False,
        max_len=5,
        beam_size=2,
        end_id=1,
    )
    decoder.decode()
    sentences, found = decoder()
    feeds = {
        "source": sequences(2, 4, 1, below=12),
        "start": fixed([[0], [0]], "int64", [[1, 1], [1, 1]]),
        "scores": fixed([[1.0], [1.0]], "float32", [[1, 1], [1, 1]]),
    }
    return Built([Run(fluid.default_main_program(), feeds, [sentences, found])])
