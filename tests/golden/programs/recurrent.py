"""Recurrent nets over sequences: dynamic_lstm, dynamic_gru, cells, tagging with a CRF, CTC."""

from typing import Any, Dict, Tuple

from ..cases import Built, Feed, Run, case, fixed, floats, ids, sequences, train

WORDS = 20


def sentiment_inputs(fluid: Any, is_sparse: bool = False) -> Tuple[Any, Any]:
    words = fluid.data(name="words", shape=[None, 1], dtype="int64", lod_level=1)
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    return fluid.layers.embedding(input=words, size=[WORDS, 5], is_sparse=is_sparse), label


def sentiment_feeds(count: int = 4, longest: int = 5) -> Dict[str, Feed]:
    return {"words": sequences(count, longest, 1, below=WORDS), "label": ids(count, 1, below=2)}


def finish(fluid: Any, features: Any, label: Any, optimizer: Any) -> Built:
    predicted = fluid.layers.fc(input=features, size=2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=label))
    accuracy = fluid.layers.accuracy(input=predicted, label=label)
    optimizer.minimize(loss)
    return train(fluid, sentiment_feeds(), loss, accuracy, predicted)


@case
def lstm_sentiment(fluid: Any) -> Built:
    vectors, label = sentiment_inputs(fluid, is_sparse=True)
    projected = fluid.layers.fc(input=vectors, size=16, act="tanh")
    hidden, _ = fluid.layers.dynamic_lstm(input=projected, size=16, is_reverse=False)
    pooled = fluid.layers.tanh(fluid.layers.sequence_pool(input=hidden, pool_type="max"))
    features = fluid.layers.fc(input=pooled, size=6, act="tanh")
    return finish(fluid, features, label, fluid.optimizer.Adagrad(learning_rate=0.05))


@case
def stacked_lstm(fluid: Any) -> Built:
    """The book's understand_sentiment: three layers, alternate directions, no peepholes in the last."""
    vectors, label = sentiment_inputs(fluid)
    fc = fluid.layers.fc(input=vectors, size=16)
    lstm, cell = fluid.layers.dynamic_lstm(input=fc, size=16)
    layers = [fc, lstm]
    for number in range(2):
        fc = fluid.layers.fc(input=layers, size=16)
        lstm, cell = fluid.layers.dynamic_lstm(
            input=fc, size=16, is_reverse=number % 2 == 0, use_peepholes=number == 0
        )
        layers = [fc, lstm]
    pooled = [fluid.layers.sequence_pool(input=layer, pool_type="max") for layer in layers]
    pooled.append(fluid.layers.sequence_last_step(cell))
    return finish(fluid, pooled, label, fluid.optimizer.Adam(learning_rate=0.02))


@case
def gru(fluid: Any) -> Built:
    """dynamic_gru in both directions and both formulas; candidate activations; first and last steps."""
    vectors, label = sentiment_inputs(fluid)
    forward = fluid.layers.dynamic_gru(fluid.layers.fc(vectors, size=12), size=4)
    backward = fluid.layers.dynamic_gru(
        fluid.layers.fc(vectors, size=12, bias_attr=False),
        size=4,
        is_reverse=True,
        candidate_activation="relu",
        gate_activation="sigmoid",
        origin_mode=True,
    )
    features = [
        fluid.layers.sequence_last_step(forward),
        fluid.layers.sequence_first_step(backward),
        fluid.layers.sequence_pool(forward, "average"),
    ]
    return finish(fluid, features, label, fluid.optimizer.Adam(learning_rate=0.02))


@case
def lstm_projected(fluid: Any) -> Built:
    """dynamic_lstmp: a recurrent projection; and dynamic_lstm with given initial states."""
    vectors, label = sentiment_inputs(fluid, is_sparse=True)
    start = fluid.data(name="start", shape=[None, 3], dtype="float32")
    projected = fluid.layers.fc(input=vectors, size=16, bias_attr=False)
    out, _ = fluid.layers.dynamic_lstmp(input=projected, size=16, proj_size=3, proj_activation="tanh")
    again = fluid.layers.fc(input=out, size=12)
    hidden, cell = fluid.layers.dynamic_lstm(
        input=again,
        size=12,
        h_0=start,
        c_0=fluid.layers.relu(start),
        cell_activation="relu",
        candidate_activation="tanh",
    )
    pooled = [fluid.layers.sequence_pool(hidden, "sqrt"), fluid.layers.sequence_pool(cell, "last")]
    built = finish(fluid, pooled, label, fluid.optimizer.SGD(learning_rate=0.1))
    built.steps[0].feeds["start"] = floats(4, 3)
    return built


@case
def label_semantic_roles(fluid: Any) -> Built:
    """Tagging: several embeddings, mixed LSTM layers, a linear-chain CRF and its decoding."""
    feeds: Dict[str, Feed] = {"word": sequences(3, 5, 1, below=WORDS)}
    vectors = []
    for name, size in (("word", WORDS), ("verb", 6), ("mark", 2)):
        slot = fluid.layers.data(name=name, shape=[1], dtype="int64", lod_level=1)
        vectors.append(fluid.layers.embedding(input=slot, size=[size, 4], param_attr=name + "_emb"))
        if name != "word":
            feeds[name] = sequences(3, 5, 1, below=size, like="word")
    target = fluid.layers.data(name="target", shape=[1], dtype="int64", lod_level=1)
    feeds["target"] = sequences(3, 5, 1, below=4, like="word")
    mixed = fluid.layers.sums([fluid.layers.fc(input=vector, size=8, act="tanh") for vector in vectors])
    lstm, _ = fluid.layers.dynamic_lstm(
        input=mixed, size=8, candidate_activation="relu", gate_activation="sigmoid", cell_activation="sigmoid"
    )
    features = fluid.layers.sums([fluid.layers.fc(mixed, size=4, act="tanh"), fluid.layers.fc(lstm, size=4)])
    crf = fluid.layers.linear_chain_crf(
        input=features, label=target, param_attr=fluid.ParamAttr(name="crfw", learning_rate=0.5)
    )
    loss = fluid.layers.mean(crf)
    fluid.optimizer.SGD(
        learning_rate=fluid.layers.exponential_decay(
            learning_rate=0.05, decay_steps=3, decay_rate=0.5, staircase=True
        )
    ).minimize(loss)
    decoded = fluid.layers.crf_decoding(input=features, param_attr=fluid.ParamAttr(name="crfw"))
    right = fluid.layers.crf_decoding(input=features, label=target, param_attr=fluid.ParamAttr(name="crfw"))
    chunks = fluid.layers.chunk_eval(input=decoded, label=target, chunk_scheme="IOB", num_chunk_types=2)
    return train(fluid, feeds, loss, crf, decoded, right, *chunks[:3])


@case
def ctc(fluid: Any) -> Built:
    """Speech-like: a GRU over frames, warp-ctc, greedy decoding, edit distance."""
    frames = fluid.data(name="frames", shape=[None, 4], dtype="float32", lod_level=1)
    label = fluid.data(name="label", shape=[None, 1], dtype="int32", lod_level=1)
    hidden = fluid.layers.dynamic_gru(fluid.layers.fc(frames, size=9), size=3)
    logits = fluid.layers.fc(hidden, size=5)
    loss = fluid.layers.mean(fluid.layers.warpctc(input=logits, label=label, blank=4, norm_by_times=True))
    decoded = fluid.layers.ctc_greedy_decoder(input=logits, blank=4)
    distance, count = fluid.layers.edit_distance(decoded, fluid.layers.cast(label, "int64"), normalized=False)
    fluid.optimizer.Momentum(learning_rate=0.02, momentum=0.9).minimize(loss)
    lengths = [[4, 6, 3]]
    spoken = fixed([[0], [1], [2], [2], [3], [1]], "int32", [[2, 3, 1]])

    def frame_feed(rng: Any, step: int, others: Any) -> Any:
        return rng.uniform(-1, 1, (13, 4)).astype("float32"), lengths

    return train(fluid, {"frames": frame_feed, "label": spoken}, loss, decoded, distance, count)


@case
def rnn_cells(fluid: Any) -> Built:
    """layers.rnn with LSTMCell and GRUCell over padded batches, with lengths; lstm_unit and gru_unit."""
    x = fluid.data(name="x", shape=[None, 3, 4], dtype="float32")
    lengths = fluid.data(name="lengths", shape=[None], dtype="int64")
    outputs, (hidden, cell) = fluid.layers.rnn(
        fluid.layers.LSTMCell(hidden_size=5), x, sequence_length=lengths
    )
    backward, last = fluid.layers.rnn(fluid.layers.GRUCell(hidden_size=5), outputs, is_reverse=True)
    unit_hidden, unit_cell = fluid.layers.lstm_unit(hidden, last, cell)
    gates = fluid.layers.fc(unit_cell, size=15)
    updated, _, _ = fluid.layers.gru_unit(gates, unit_hidden, 15)
    loss = fluid.layers.mean(fluid.layers.square(updated)) + fluid.layers.mean(backward)
    fluid.optimizer.Adam(learning_rate=0.02).minimize(loss)
    feeds = {"x": floats(4, 3, 4), "lengths": fixed([3, 1, 2, 3], "int64")}
    return train(fluid, feeds, loss, outputs, updated)


@case
def static_rnn(fluid: Any) -> Built:
    """StaticRNN (the `recurrent` operator) with a memory and parameters shared by all steps.

    Its input must carry a gradient: 1.8.5 refuses to build the gradient of a StaticRNN over plain data.
    """
    data = fluid.data(name="x", shape=[4, None, 3], dtype="float32")
    x = fluid.layers.fc(data, size=3, num_flatten_dims=2)
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        previous = rnn.memory(shape=[-1, 5], batch_ref=word)
        hidden = fluid.layers.fc(input=[word, previous], size=5, act="tanh")
        rnn.update_memory(previous, hidden)
        rnn.step_output(hidden)
    out = rnn()
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(out, size=2, num_flatten_dims=2)))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, {"x": floats(4, 3, 3)}, loss, out)


@case
def dynamic_rnn(fluid: Any) -> Built:
    """DynamicRNN: a while loop over ranked sequences, a static input, a memory that starts from a layer."""
    vectors, label = sentiment_inputs(fluid)
    start = fluid.layers.fc(fluid.layers.sequence_pool(vectors, "average"), size=4, act="tanh")
    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(vectors)
        previous = rnn.memory(init=start, need_reorder=True)
        context = rnn.static_input(start)
        hidden = fluid.layers.fc(input=[word, previous, context], size=4, act="tanh")
        rnn.update_memory(previous, hidden)
        rnn.output(hidden)
    return finish(
        fluid, fluid.layers.sequence_last_step(rnn()), label, fluid.optimizer.Adam(learning_rate=0.02)
    )


@case
def attention_seq2seq(fluid: Any) -> Built:
    """The book's machine_translation: a decoder in a DynamicRNN that attends to the encoder's sequence."""
    source = fluid.layers.data(name="source", shape=[1], dtype="int64", lod_level=1)
    target = fluid.layers.data(name="target", shape=[1], dtype="int64", lod_level=1)
    following = fluid.layers.data(name="following", shape=[1], dtype="int64", lod_level=1)
    encoded, _ = fluid.layers.dynamic_lstm(
        input=fluid.layers.fc(fluid.layers.embedding(source, size=[WORDS, 4]), size=16, act="tanh"), size=16
    )
    last = fluid.layers.fc(fluid.layers.sequence_last_step(encoded), size=4, act="tanh")
    vectors = fluid.layers.embedding(target, size=[WORDS, 4], param_attr="target_emb")
    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(vectors)
        memory = rnn.static_input(encoded)
        state = rnn.memory(init=last, need_reorder=True)
        spread = fluid.layers.sequence_expand(x=state, y=memory)
        scores = fluid.layers.fc(
            fluid.layers.concat([memory, spread], axis=1), size=1, act="tanh", bias_attr=False
        )
        weights = fluid.layers.reshape(fluid.layers.sequence_softmax(scores), shape=[-1])
        context = fluid.layers.sequence_pool(fluid.layers.elementwise_mul(memory, weights, axis=0), "sum")
        current = fluid.layers.fc([word, context, state], size=4, act="tanh")
        rnn.update_memory(state, current)
        rnn.output(fluid.layers.fc(current, size=WORDS, act="softmax"))
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=rnn(), label=following))
    fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)
    feeds = {
        "source": sequences(3, 4, 1, below=WORDS),
        "target": sequences(3, 4, 1, below=WORDS),
        "following": sequences(3, 4, 1, below=WORDS, like="target"),
    }
    return train(fluid, feeds, loss)


@case
def beam_search_step(fluid: Any) -> Built:
    """Two hand-made steps of beam search and its decoding, as inference programs do."""
    layers = fluid.layers
    pre_ids = fluid.data(name="pre_ids", shape=[None, 1], dtype="int64", lod_level=2)
    pre_scores = fluid.data(name="pre_scores", shape=[None, 1], dtype="float32", lod_level=2)
    probs = fluid.data(name="probs", shape=[None, 6], dtype="float32", lod_level=2)
    topk_scores, topk_ids = layers.topk(layers.softmax(probs), k=3)
    total = layers.elementwise_add(layers.log(topk_scores), layers.reshape(pre_scores, shape=[-1]), axis=0)
    chosen, scores, parents = layers.beam_search(
        pre_ids, pre_scores, topk_ids, total, beam_size=2, end_id=0, return_parent_idx=True
    )
    counter = layers.zeros(shape=[1], dtype="int64")
    id_array, score_array = layers.array_write(pre_ids, counter), layers.array_write(pre_scores, counter)
    counter = layers.increment(counter, in_place=True)
    layers.array_write(chosen, counter, array=id_array)
    layers.array_write(scores, counter, array=score_array)
    sentences, sentence_scores = layers.beam_search_decode(id_array, score_array, beam_size=2, end_id=0)
    lengths = [[1, 1], [1, 1]]

    def scores_feed(rng: Any, step: int, others: Any) -> Any:
        return rng.uniform(-1, 1, (2, 6)).astype("float32"), lengths

    feeds = {
        "pre_ids": fixed([[2], [3]], "int64", lengths),
        "pre_scores": fixed([[-0.2], [-0.4]], "float32", lengths),
        "probs": scores_feed,
    }
    fetch = [chosen, scores, parents, sentences, sentence_scores]
    return Built([Run(fluid.default_main_program(), feeds, fetch)])
