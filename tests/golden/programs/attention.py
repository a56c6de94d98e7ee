"""Transformers from plain layers."""

from typing import Any, Optional

from ..cases import Built, case, fixed, floats, ids, train

HEADS, WIDTH, LENGTH, BATCH, WORDS = 2, 8, 4, 2, 18


def heads_of(fluid: Any, x: Any, size: int) -> Any:
    split = fluid.layers.reshape(x=x, shape=[0, 0, HEADS, size // HEADS], inplace=True)
    return fluid.layers.transpose(x=split, perm=[0, 2, 1, 3])


def attend(fluid: Any, queries: Any, memory: Any, bias: Optional[Any]) -> Any:
    layers = fluid.layers
    q, k, v = (
        layers.fc(x, size=WIDTH, bias_attr=False, num_flatten_dims=2) for x in (queries, memory, memory)
    )
    q, k, v = (heads_of(fluid, x, WIDTH) for x in (q, k, v))
    product = layers.matmul(x=q, y=k, transpose_y=True, alpha=(WIDTH // HEADS) ** -0.5)
    if bias is not None:
        product = layers.elementwise_add(x=product, y=bias)
    weights = layers.dropout(layers.softmax(product), dropout_prob=0.0, is_test=False)
    mixed = layers.transpose(layers.matmul(weights, v), perm=[0, 2, 1, 3])
    joined = layers.reshape(x=mixed, shape=[0, 0, WIDTH], inplace=True)
    return layers.fc(joined, size=WIDTH, bias_attr=False, num_flatten_dims=2)


def normalised(fluid: Any, x: Any) -> Any:
    return fluid.layers.layer_norm(
        x,
        begin_norm_axis=2,
        param_attr=fluid.initializer.Constant(1.0),
        bias_attr=fluid.initializer.Constant(0.0),
    )


def feed_forward(fluid: Any, x: Any, act: str) -> Any:
    hidden = fluid.layers.fc(x, size=12, num_flatten_dims=2, act=act)
    return fluid.layers.fc(hidden, size=WIDTH, num_flatten_dims=2)


def embed(fluid: Any, words: Any, positions: Any) -> Any:
    word = fluid.layers.embedding(
        words,
        size=[WORDS, WIDTH],
        padding_idx=0,
        param_attr=fluid.ParamAttr(name="word_emb", initializer=fluid.initializer.Normal(0.0, WIDTH**-0.5)),
    )
    position = fluid.layers.embedding(
        positions, size=[LENGTH, WIDTH], param_attr=fluid.ParamAttr(name="pos_emb", trainable=False)
    )
    position.stop_gradient = True
    return fluid.layers.scale(x=word, scale=WIDTH**0.5) + position


POSITIONS = fixed([[[n] for n in range(LENGTH)]] * BATCH, "int64")


@case
def transformer_encoder(fluid: Any) -> Built:
    """Post-norm encoder, a padding bias, label smoothing, Noam's schedule, Adam as in the paper."""
    layers = fluid.layers
    words = fluid.data(name="words", shape=[None, LENGTH, 1], dtype="int64")
    positions = fluid.data(name="positions", shape=[None, LENGTH, 1], dtype="int64")
    bias = fluid.data(name="bias", shape=[None, HEADS, LENGTH, LENGTH], dtype="float32")
    target = fluid.data(name="target", shape=[None, 1], dtype="int64")
    weight = fluid.data(name="weight", shape=[None, 1], dtype="float32")
    x = embed(fluid, words, positions)
    for _ in range(2):
        x = normalised(fluid, x + attend(fluid, x, x, bias))
        x = normalised(fluid, x + feed_forward(fluid, x, "relu"))
    logits = layers.reshape(layers.fc(x, size=WORDS, num_flatten_dims=2), shape=[-1, WORDS])
    smooth = layers.label_smooth(label=layers.one_hot(input=target, depth=WORDS), epsilon=0.1)
    cost = layers.softmax_with_cross_entropy(logits=logits, label=smooth, soft_label=True)
    total = layers.reduce_sum(cost * weight)
    tokens = layers.reduce_sum(weight)
    tokens.stop_gradient = True
    loss = total / tokens
    rate = layers.noam_decay(WIDTH, 40)
    fluid.optimizer.Adam(learning_rate=rate, beta1=0.9, beta2=0.997, epsilon=1e-9).minimize(loss)
    feeds = {
        "words": ids(BATCH, LENGTH, 1, below=WORDS),
        "positions": POSITIONS,
        "bias": floats(BATCH, HEADS, LENGTH, LENGTH),
        "target": ids(BATCH * LENGTH, 1, below=WORDS),
        "weight": ids(BATCH * LENGTH, 1, below=2, dtype="float32"),
    }
    return train(fluid, feeds, loss, total, tokens, rate)


@case
def transformer_decoder(fluid: Any) -> Built:
    """Pre-norm decoder that attends to a memory, causal bias, output weights tied to the embedding."""
    layers = fluid.layers
    words = fluid.data(name="words", shape=[None, LENGTH, 1], dtype="int64")
    positions = fluid.data(name="positions", shape=[None, LENGTH, 1], dtype="int64")
    memory = fluid.data(name="memory", shape=[None, 3, WIDTH], dtype="float32")
    causal = fluid.data(name="causal", shape=[None, HEADS, LENGTH, LENGTH], dtype="float32")
    target = fluid.data(name="target", shape=[None, 1], dtype="int64")
    causal.stop_gradient = True
    x = embed(fluid, words, positions)
    norm = normalised(fluid, x)
    x = x + attend(fluid, norm, norm, causal)
    x = x + attend(fluid, normalised(fluid, x), memory, None)
    x = normalised(fluid, x + feed_forward(fluid, normalised(fluid, x), "gelu"))
    table = fluid.default_main_program().global_block().var("word_emb")
    logits = layers.matmul(x=layers.reshape(x, shape=[-1, WIDTH]), y=table, transpose_y=True)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, target))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(clip_norm=0.5))
    fluid.optimizer.AdamOptimizer(learning_rate=0.01).minimize(loss)
    mask = [[[[0.0 if j <= i else -1e9 for j in range(LENGTH)] for i in range(LENGTH)]] * HEADS] * BATCH
    feeds = {
        "words": ids(BATCH, LENGTH, 1, below=WORDS),
        "positions": POSITIONS,
        "memory": floats(BATCH, 3, WIDTH),
        "causal": fixed(mask),
        "target": ids(BATCH * LENGTH, 1, below=WORDS),
    }
    return train(fluid, feeds, loss)


@case
def bert(fluid: Any) -> Built:
    """Masked words gathered out of a batch, a pooled first token, stacked attention bias, Lamb-like decay."""
    layers = fluid.layers
    words = fluid.data(name="words", shape=[None, LENGTH, 1], dtype="int64")
    positions = fluid.data(name="positions", shape=[None, LENGTH, 1], dtype="int64")
    mask = fluid.data(name="mask", shape=[None, LENGTH, 1], dtype="float32")
    masked = fluid.data(name="masked", shape=[None, 1], dtype="int32")
    answer = fluid.data(name="answer", shape=[None, 1], dtype="int64")
    following = fluid.data(name="following", shape=[None, 1], dtype="int64")
    x = layers.layer_norm(embed(fluid, words, positions), begin_norm_axis=2)
    square = layers.matmul(x=mask, y=mask, transpose_y=True)
    square = layers.scale(x=square, scale=10000.0, bias=-1.0, bias_after_scale=False)
    bias = layers.stack(x=[square] * HEADS, axis=1)
    bias.stop_gradient = True
    x = normalised(fluid, x + attend(fluid, x, x, bias))
    x = normalised(fluid, x + feed_forward(fluid, x, "gelu"))
    first = layers.slice(input=x, axes=[1], starts=[0], ends=[1])
    pooled = layers.fc(first, size=WIDTH, act="tanh")
    gathered = layers.gather(input=layers.reshape(x=x, shape=[-1, WIDTH]), index=masked)
    transformed = layers.layer_norm(layers.fc(gathered, size=WIDTH, act="gelu"), begin_norm_axis=1)
    table = fluid.default_main_program().global_block().var("word_emb")
    out_bias = layers.create_parameter(
        shape=[WORDS], dtype="float32", name="mask_lm_out_fc.b_0", is_bias=True
    )
    logits = layers.elementwise_add(layers.matmul(transformed, table, transpose_y=True), out_bias)
    mask_loss = layers.mean(layers.softmax_with_cross_entropy(logits, answer))
    next_logits = layers.fc(pooled, size=2)
    next_loss, softmax = layers.softmax_with_cross_entropy(next_logits, following, return_softmax=True)
    accuracy = layers.accuracy(input=softmax, label=following)
    loss = mask_loss + layers.mean(next_loss)
    fluid.optimizer.Adam(learning_rate=layers.polynomial_decay(0.02, 8, 0.0, 1.0)).minimize(loss)
    feeds = {
        "words": ids(BATCH, LENGTH, 1, below=WORDS),
        "positions": POSITIONS,
        "mask": fixed([[[1.0]] * LENGTH, [[1.0]] * (LENGTH - 1) + [[0.0]]]),
        "masked": fixed([[1], [2], [5]], "int32"),
        "answer": ids(3, 1, below=WORDS),
        "following": ids(BATCH, 1, below=2),
    }
    return train(fluid, feeds, loss, mask_loss, accuracy)
