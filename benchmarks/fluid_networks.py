"""The larger workloads as fluid programs: recurrence, attention, convolutions with batch_norm."""

from __future__ import annotations

from typing import Any


def as_fed(fluid: Any, kind: str, spec: Any) -> list[dict[str, Any]]:
    """The batches as the program of that kind takes them."""
    if kind != "lstm":
        return list(spec.batches)
    lengths = [[spec.seq] * spec.batch]

    def words(batch: dict[str, Any]) -> Any:
        return fluid.create_lod_tensor(batch["x"].reshape(-1, 1), lengths, fluid.CPUPlace())

    return [{**batch, "x": words(batch)} for batch in spec.batches]


def parameters(kind: str, spec: Any) -> dict[str, Any]:
    """The initial values by the names and in the layout of the program of that kind."""
    own = dict(spec.params)
    if kind not in ("lstm", "lstm_layer"):
        return own
    wih, whh, bih, bhh = (own.pop(name) for name in ("wih", "whh", "bih", "bhh"))
    if kind == "lstm_layer":
        return own
    size = spec.hidden
    # gates i f g o become the candidate, i, f, o
    order = [*range(2 * size, 3 * size), *range(2 * size), *range(3 * size, 4 * size)]
    return {
        **own,
        "fc_w": wih[order].T,
        "fc_b": bih[order],
        "rec_w": whh[order].T,
        "rec_b": bhh[order].reshape(1, -1),
    }


def _attr(fluid: Any, name: str) -> Any:
    return fluid.ParamAttr(name=name)


def _words(fluid: Any, spec: Any, lod_level: int) -> Any:
    ids = (
        fluid.layers.data("x", [1], dtype="int64", lod_level=1)
        if lod_level
        else fluid.data("x", [-1, spec.seq], "int64")
    )
    return fluid.embedding(ids, [spec.vocab, spec.emb], is_sparse=True, param_attr=_attr(fluid, "emb"))


def _two_classes(fluid: Any, pooled: Any, spec: Any) -> tuple[Any, Any]:
    logits = fluid.layers.fc(pooled, 2, param_attr=_attr(fluid, "W"), bias_attr=_attr(fluid, "b"))
    label = fluid.data("y", [-1, 1], "int64")
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))
    return loss, fluid.optimizer.Adagrad(learning_rate=spec.lr, epsilon=spec.eps)


def lstm(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """Sequences with a level of detail through `dynamic_lstm`, the maximum over time, Adagrad."""
    words = _words(fluid, spec, 1)
    projected = fluid.layers.fc(
        words, 4 * spec.hidden, param_attr=_attr(fluid, "fc_w"), bias_attr=_attr(fluid, "fc_b")
    )
    hidden, _ = fluid.layers.dynamic_lstm(
        projected,
        4 * spec.hidden,
        use_peepholes=False,
        param_attr=_attr(fluid, "rec_w"),
        bias_attr=_attr(fluid, "rec_b"),
    )
    return _two_classes(fluid, fluid.layers.sequence_pool(hidden, "max"), spec)


def lstm_layer(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """The same over padded sequences through `layers.lstm`, whose one weight starts at random."""
    words = fluid.layers.transpose(_words(fluid, spec, 0), [1, 0, 2])
    zeros = fluid.layers.fill_constant([1, spec.batch, spec.hidden], "float32", 0.0)
    hidden, _, _ = fluid.layers.lstm(words, zeros, zeros, spec.seq, spec.hidden, 1)
    return _two_classes(fluid, fluid.layers.reduce_max(hidden, dim=0), spec)


def _heads(fluid: Any, x: Any, spec: Any) -> Any:
    split = fluid.layers.reshape(x, [-1, spec.seq, spec.heads, spec.d // spec.heads])
    return fluid.layers.transpose(split, [0, 2, 1, 3])


def _encoder_layer(fluid: Any, x: Any, spec: Any, k: str) -> Any:
    layers = fluid.layers

    def dense(h: Any, size: int, name: str, act: str | None = None) -> Any:
        return layers.fc(
            h,
            size,
            num_flatten_dims=2,
            act=act,
            param_attr=_attr(fluid, k + "w" + name),
            bias_attr=_attr(fluid, k + "b" + name),
        )

    def norm(h: Any, number: str) -> Any:
        return layers.layer_norm(
            h,
            begin_norm_axis=2,
            param_attr=_attr(fluid, k + "g" + number),
            bias_attr=_attr(fluid, k + "c" + number),
        )

    q, key, v = (_heads(fluid, part, spec) for part in layers.split(dense(x, 3 * spec.d, "qkv"), 3, dim=-1))
    weights = layers.softmax(
        layers.matmul(q, key, transpose_y=True, alpha=float(spec.d // spec.heads) ** -0.5)
    )
    mixed = layers.reshape(layers.transpose(layers.matmul(weights, v), [0, 2, 1, 3]), [-1, spec.seq, spec.d])
    x = norm(layers.elementwise_add(dense(mixed, spec.d, "o"), x), "1")
    wide = layers.gelu(dense(x, spec.ffn, "1"))
    return norm(layers.elementwise_add(dense(wide, spec.d, "2"), x), "2")


def transformer(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """Post-norm encoder layers, the mean over the words, Adam."""
    x = fluid.data("x", [-1, spec.seq, spec.d], "float32")
    for number in range(spec.layers):
        x = _encoder_layer(fluid, x, spec, f"l{number}_")
    pooled = fluid.layers.reduce_mean(x, dim=1)
    logits = fluid.layers.fc(pooled, 10, param_attr=_attr(fluid, "W"), bias_attr=_attr(fluid, "b"))
    label = fluid.data("y", [-1, 1], "int64")
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))
    return loss, fluid.optimizer.Adam(learning_rate=spec.lr)


def resnet(fluid: Any, spec: Any) -> tuple[Any, Any]:
    """Convolutions with batch_norm in residual blocks; momentum with L2 decay."""
    layers = fluid.layers

    def conv(x: Any, shape: tuple[Any, ...], act: str | None = "relu") -> Any:
        name, _, channels, k, stride = shape
        h = layers.conv2d(
            x, channels, k, stride, k // 2, param_attr=_attr(fluid, name + "_w"), bias_attr=False
        )
        return layers.batch_norm(
            h, act=act, param_attr=_attr(fluid, name + "_g"), bias_attr=_attr(fluid, name + "_b")
        )

    convs, blocks = spec.layout()
    size = spec.batches[0]["x"].shape[1:]
    x = conv(fluid.data("x", [-1, *size], "float32"), convs[0])
    if spec.pool:
        x = layers.pool2d(x, 3, "max", 2, 1)
    for *main, shortcut in blocks:
        h = x
        for number, shape in enumerate(main, 1):
            h = conv(h, shape, "relu" if number < len(main) else None)
        x = layers.elementwise_add(h, x if shortcut is None else conv(x, shortcut, None), act="relu")
    pooled = layers.pool2d(x, pool_type="avg", global_pooling=True)
    classes = spec.params["fc_b"].size
    logits = layers.fc(
        pooled, classes, param_attr=_attr(fluid, "fc_w"), bias_attr=_attr(fluid, "fc_b"), name="logits"
    )
    label = fluid.data("y", [-1, 1], "int64")
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    decay = fluid.regularizer.L2Decay(spec.wd)
    return loss, fluid.optimizer.Momentum(spec.lr, spec.mu, regularization=decay)
