"""Embeddings: word2vec in its forms, text classifiers without recurrence."""

from typing import Any, Dict, Tuple

from ..cases import Built, Feed, case, ids, named, sequences, train

WORDS = 20


def word_feeds(count: int, batch: int = 6) -> Dict[str, Feed]:
    return {f"word{number}": ids(batch, 1, below=WORDS) for number in range(count)}


def word_inputs(fluid: Any, count: int) -> Tuple[Any, ...]:
    return tuple(fluid.layers.data(name=f"word{n}", shape=[1], dtype="int64") for n in range(count))


def embedded(fluid: Any, word: Any, is_sparse: bool) -> Any:
    return fluid.layers.embedding(
        input=word, size=[WORDS, 6], dtype="float32", is_sparse=is_sparse, param_attr="shared_w"
    )


def word2vec_like(fluid: Any, is_sparse: bool) -> Built:
    *context, following = word_inputs(fluid, 5)
    joined = fluid.layers.concat([embedded(fluid, word, is_sparse) for word in context], axis=1)
    hidden = fluid.layers.fc(joined, size=8, act="sigmoid")
    predicted = fluid.layers.fc(hidden, size=WORDS, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=following))
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    return train(fluid, word_feeds(5), loss)


def word2vec(fluid: Any) -> Built:
    return word2vec_like(fluid, False)


def word2vec_sparse(fluid: Any) -> Built:
    return word2vec_like(fluid, True)


named("word2vec", word2vec)
named("word2vec_sparse", word2vec_sparse)


@case
def word2vec_hsigmoid(fluid: Any) -> Built:
    *context, following = word_inputs(fluid, 3)
    joined = fluid.layers.concat([embedded(fluid, word, False) for word in context], axis=1)
    loss = fluid.layers.mean(fluid.layers.hsigmoid(joined, following, num_classes=WORDS))
    fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)
    return train(fluid, word_feeds(3), loss)


@case
def embedding_v2(fluid: Any) -> Built:
    """`fluid.embedding` (ids without a trailing 1) with a padding row, dense, sparse, and a one-hot twin."""
    words = fluid.data(name="words", shape=[None, 4], dtype="int64")
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    dense = fluid.embedding(words, size=[WORDS, 5], padding_idx=0)
    sparse = fluid.embedding(words, size=[WORDS, 5], is_sparse=True)
    hot = fluid.one_hot(words, depth=WORDS)
    twin = fluid.layers.fc(hot, size=5, num_flatten_dims=2)
    mixed = fluid.layers.reduce_sum(dense + sparse * twin, dim=1)
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(mixed, size=3), label))
    fluid.optimizer.Adagrad(learning_rate=0.05).minimize(loss)
    return train(fluid, {"words": ids(6, 4, below=WORDS), "label": ids(6, 1, below=3)}, loss)


@case
def text_conv(fluid: Any) -> Built:
    """nets.sequence_conv_pool over words of two window sizes."""
    words = fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    vectors = fluid.layers.embedding(input=words, size=[WORDS, 6], is_sparse=False)
    three = fluid.nets.sequence_conv_pool(
        input=vectors, num_filters=5, filter_size=3, act="tanh", pool_type="sqrt"
    )
    four = fluid.nets.sequence_conv_pool(
        input=vectors, num_filters=5, filter_size=4, act="relu", pool_type="max"
    )
    predicted = fluid.layers.fc(input=[three, four], size=2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(input=predicted, label=label))
    accuracy = fluid.layers.accuracy(input=predicted, label=label)
    fluid.optimizer.Adagrad(learning_rate=0.05).minimize(loss)
    return train(
        fluid, {"words": sequences(4, 6, 1, below=WORDS), "label": ids(4, 1, below=2)}, loss, accuracy
    )


@case
def bag_of_words(fluid: Any) -> Built:
    """Paddle's `bow` net: summed embeddings, tanh layers, sparse table, Adagrad."""
    words = fluid.data(name="words", shape=[None, 1], dtype="int64", lod_level=1)
    label = fluid.data(name="label", shape=[None, 1], dtype="int64")
    vectors = fluid.layers.embedding(input=words, size=[WORDS, 6], is_sparse=True)
    bow = fluid.layers.tanh(fluid.layers.sequence_pool(input=vectors, pool_type="sum"))
    hidden = fluid.layers.fc(fluid.layers.fc(bow, size=8, act="tanh"), size=6, act="tanh")
    predicted = fluid.layers.fc(input=[hidden], size=2, act="softmax")
    loss = fluid.layers.mean(x=fluid.layers.cross_entropy(input=predicted, label=label))
    fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)
    return train(
        fluid, {"words": sequences(5, 5, 1, below=WORDS), "label": ids(5, 1, below=2)}, loss, predicted
    )


@case
def text_similarity(fluid: Any) -> Built:
    """Two towers over shared words, cosine similarity, margin rank loss (simnet)."""
    towers = []
    for name in ("query", "right", "wrong"):
        words = fluid.data(name=name, shape=[None, 1], dtype="int64", lod_level=1)
        vectors = fluid.layers.embedding(
            words, size=[WORDS, 6], is_sparse=True, param_attr=fluid.ParamAttr(name="emb")
        )
        pooled = fluid.layers.softsign(fluid.layers.sequence_pool(vectors, "sum"))
        side = "q" if name == "query" else "t"
        towers.append(
            fluid.layers.fc(
                pooled,
                size=5,
                param_attr=fluid.ParamAttr(name=side + ".w"),
                bias_attr=fluid.ParamAttr(name=side + ".b"),
            )
        )
    right, wrong = (fluid.layers.cos_sim(towers[0], tower) for tower in towers[1:])
    margin = fluid.layers.fill_constant_batch_size_like(right, shape=[-1, 1], dtype="float32", value=0.1)
    loss = fluid.layers.mean(fluid.layers.relu(margin - right + wrong))
    ordered = fluid.layers.reduce_sum(fluid.layers.cast(fluid.layers.less_than(wrong, right), "float32"))
    fluid.optimizer.SGD(learning_rate=0.2).minimize(loss)
    feeds: Dict[str, Feed] = {name: sequences(4, 4, 1, below=WORDS) for name in ("query", "right", "wrong")}
    return train(fluid, feeds, loss, ordered)
