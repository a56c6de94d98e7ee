"""Click-through and recommendation models."""

from typing import Any, Dict, List, Tuple

from ..cases import Built, Feed, case, floats, ids, sequences, train


def slots(fluid: Any, count: int) -> List[Any]:
    return [
        fluid.layers.data(name=f"C{n}", shape=[1], lod_level=1, dtype="int64") for n in range(1, count + 1)
    ]


def slot_feeds(count: int, batch: int, table: int) -> Dict[str, Feed]:
    return {f"C{n}": sequences(batch, 3, 1, below=table) for n in range(1, count + 1)}


def normal(fluid: Any, width: int) -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=1.0 / width**0.5))


@case
def ctr_dnn(fluid: Any) -> Built:
    """Several sparse slots in one shared table, dense features, auc."""
    dense = fluid.layers.data(name="dense_input", shape=[5], dtype="float32")
    sparse = slots(fluid, 3)
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    pooled = []
    for slot in sparse:
        vectors = fluid.layers.embedding(
            input=slot,
            size=[30, 4],
            is_sparse=True,
            param_attr=fluid.ParamAttr(name="SparseFeatFactors", initializer=fluid.initializer.Uniform()),
        )
        pooled.append(fluid.layers.sequence_pool(input=vectors, pool_type="sum"))
    hidden = fluid.layers.concat(pooled + [dense], axis=1)
    for _ in range(2):
        hidden = fluid.layers.fc(hidden, size=8, act="relu", param_attr=normal(fluid, 8))
    predicted = fluid.layers.fc(hidden, size=2, act="softmax", param_attr=normal(fluid, 8))
    loss = fluid.layers.reduce_sum(fluid.layers.cross_entropy(input=predicted, label=label))
    accuracy = fluid.layers.accuracy(input=predicted, label=label)
    auc, batch_auc, _ = fluid.layers.auc(input=predicted, label=label, num_thresholds=2**6, slide_steps=3)
    fluid.optimizer.Adagrad(learning_rate=0.05).minimize(loss)
    feeds = {"dense_input": floats(6, 5, low=0.0)}
    feeds.update(slot_feeds(3, 6, 30))
    feeds["label"] = ids(6, 1, below=2)
    return train(fluid, feeds, loss, auc, batch_auc, accuracy)


@case
def deepfm(fluid: Any) -> Built:
    """Factorisation machine of second order beside a deep part."""
    fields, width, table = 4, 3, 25
    index = fluid.data(name="feat_index", shape=[None, fields, 1], dtype="int64")
    value = fluid.data(name="feat_value", shape=[None, fields], dtype="float32")
    label = fluid.data(name="label", shape=[None, 1], dtype="float32")
    flat = fluid.layers.reshape(index, [-1, 1])
    weight = fluid.layers.reshape(value, [-1, fields, 1])
    first = fluid.layers.embedding(
        flat,
        size=[table + 1, 1],
        padding_idx=0,
        param_attr=fluid.ParamAttr(initializer=fluid.initializer.TruncatedNormal(0, 0.1)),
    )
    first = fluid.layers.reduce_sum(fluid.layers.reshape(first, [-1, fields, 1]) * weight, 1)
    vectors = fluid.layers.embedding(flat, size=[table + 1, width], padding_idx=0)
    vectors = fluid.layers.reshape(vectors, [-1, fields, width]) * weight
    square_of_sum = fluid.layers.square(fluid.layers.reduce_sum(vectors, 1))
    sum_of_square = fluid.layers.reduce_sum(fluid.layers.square(vectors), 1)
    second = 0.5 * fluid.layers.reduce_sum(square_of_sum - sum_of_square, 1, keep_dim=True)
    deep = fluid.layers.reshape(vectors, [-1, fields * width])
    for size in (8, 6):
        deep = fluid.layers.fc(deep, size=size, act="relu", param_attr=normal(fluid, size))
    deep = fluid.layers.fc(deep, size=1)
    predicted = fluid.layers.sigmoid(first + second + deep)
    loss = fluid.layers.reduce_sum(fluid.layers.log_loss(input=predicted, label=label))
    fluid.optimizer.SGD(
        learning_rate=0.05, regularization=fluid.regularizer.L2DecayRegularizer(1e-4)
    ).minimize(loss)
    feeds = {
        "feat_index": ids(6, fields, 1, below=table),
        "feat_value": floats(6, fields, low=0.0),
        "label": ids(6, 1, below=2, dtype="float32"),
    }
    return train(fluid, feeds, loss, predicted)


@case
def wide_deep(fluid: Any) -> Built:
    """A linear part with Ftrl beside a deep part with Adagrad: two optimizers over one loss."""
    wide = fluid.data(name="wide", shape=[None, 8], dtype="float32")
    word = fluid.data(name="word", shape=[None, 1], dtype="int64")
    label = fluid.data(name="label", shape=[None, 1], dtype="float32")
    linear = fluid.layers.fc(wide, size=1, param_attr=fluid.ParamAttr(name="wide_w"), bias_attr=False)
    deep = fluid.layers.embedding(
        word, size=[15, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="deep_emb")
    )
    deep = fluid.layers.fc(deep, size=5, act="relu", param_attr=fluid.ParamAttr(name="deep_w"))
    logit = fluid.layers.fc(deep, size=1, param_attr=fluid.ParamAttr(name="deep_out")) + linear
    loss = fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(logit, label))
    fluid.optimizer.Ftrl(learning_rate=0.1, l1=0.01, l2=0.01).minimize(loss, parameter_list=["wide_w"])
    deep_names = ["deep_emb", "deep_w", "deep_out"]
    fluid.optimizer.Adagrad(learning_rate=0.05).minimize(loss, parameter_list=deep_names)
    feeds = {"wide": floats(6, 8), "word": ids(6, 1, below=15), "label": ids(6, 1, below=2, dtype="float32")}
    return train(fluid, feeds, loss, logit)


def user_tower(fluid: Any) -> Tuple[Any, Dict[str, Feed]]:
    parts, feeds = [], {}
    for name, size in (("user_id", 12), ("gender_id", 2), ("age_id", 7), ("job_id", 6)):
        word = fluid.data(name=name, shape=[None, 1], dtype="int64")
        vector = fluid.layers.embedding(
            input=word,
            dtype="float32",
            size=[size, 4],
            is_sparse=name == "user_id",
            param_attr=name + "_table",
        )
        parts.append(fluid.layers.fc(input=vector, size=5))
        feeds[name] = ids(4, 1, below=size)
    return fluid.layers.fc(input=fluid.layers.concat(parts, axis=1), size=6, act="tanh"), feeds


def movie_tower(fluid: Any) -> Tuple[Any, Dict[str, Feed]]:
    movie = fluid.data(name="movie_id", shape=[None, 1], dtype="int64")
    category = fluid.data(name="category_id", shape=[None, 1], dtype="int64", lod_level=1)
    title = fluid.data(name="movie_title", shape=[None, 1], dtype="int64", lod_level=1)
    vector = fluid.layers.fc(fluid.layers.embedding(movie, size=[10, 4], is_sparse=True), size=5)
    categories = fluid.layers.sequence_pool(fluid.layers.embedding(category, size=[8, 4]), pool_type="sum")
    titles = fluid.nets.sequence_conv_pool(
        input=fluid.layers.embedding(title, size=[14, 4]),
        num_filters=4,
        filter_size=3,
        act="tanh",
        pool_type="sum",
    )
    out = fluid.layers.fc(fluid.layers.concat([vector, categories, titles], axis=1), size=6, act="tanh")
    feeds = {
        "movie_id": ids(4, 1, below=10),
        "category_id": sequences(4, 3, 1, below=8),
        "movie_title": sequences(4, 5, 1, below=14),
    }
    return out, feeds


@case
def recommender(fluid: Any) -> Built:
    user, feeds = user_tower(fluid)
    movie, movie_feeds = movie_tower(fluid)
    feeds.update(movie_feeds)
    score = fluid.data(name="score", shape=[None, 1], dtype="float32")
    predicted = fluid.layers.scale(fluid.layers.cos_sim(X=user, Y=movie), scale=5.0)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(input=predicted, label=score))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    feeds["score"] = floats(4, 1, low=1.0, high=5.0)
    built = train(fluid, feeds, loss, predicted)
    built.after.append(type(built.steps[0])(test, feeds, [loss, predicted]))
    return built
