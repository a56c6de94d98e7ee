"""Rows of the ops that saved inference models hold, against loops over rows."""

import numpy as np
from optest import Case

random = np.random.RandomState(7)
LENGTHS = [[2, 3, 1]]
SIZE, WIDTH, ROWS, SEQUENCES = 4, 3, 6, 3


def draw(*shape):
    return random.uniform(-1, 1, shape).astype("float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def sequences(reverse):
    """The rows of each sequence, in the order of the steps."""
    start = 0
    for length in LENGTHS[0]:
        rows = list(range(start, start + length))
        yield rows[::-1] if reverse else rows
        start += length


def lstm_loop(inputs, weight, bias, H0, C0, reverse):
    """Hidden states and cells row by row; gates: candidate, input, forget, output."""
    hidden, cells = np.zeros((2, len(inputs), SIZE))
    gate_bias, peepholes = bias.ravel()[: 4 * SIZE], np.zeros(3 * SIZE)
    peepholes[: bias.size - 4 * SIZE] = bias.ravel()[4 * SIZE :]
    of_input, of_forget, of_output = peepholes.reshape(3, SIZE)
    for number, rows in enumerate(sequences(reverse)):
        h = np.zeros(SIZE) if H0 is None else H0[number]
        c = np.zeros(SIZE) if C0 is None else C0[number]
        for row in rows:
            candidate, entry, forget, output = (inputs[row] + gate_bias + h @ weight).reshape(4, SIZE)
            entry, forget = sigmoid(entry + of_input * c), sigmoid(forget + of_forget * c)
            c = np.tanh(candidate) * entry + forget * c
            h = sigmoid(output + of_output * c) * np.tanh(c)
            hidden[row], cells[row] = h, c
    return {"Hidden": hidden, "Cell": cells}


def gru_loop(inputs, weight, H0, reverse, origin):
    """States row by row; gates: update, reset, candidate."""
    of_gates = weight.ravel()[: 2 * SIZE * SIZE].reshape(SIZE, -1)
    of_candidate = weight.ravel()[2 * SIZE * SIZE :].reshape(SIZE, SIZE)
    hidden = np.zeros((len(inputs), SIZE))
    for number, rows in enumerate(sequences(reverse)):
        h = np.zeros(SIZE) if H0 is None else H0[number]
        for row in rows:
            update, reset = sigmoid(inputs[row][: 2 * SIZE] + h @ of_gates).reshape(2, SIZE)
            new = np.tanh(inputs[row][2 * SIZE :] + (reset * h) @ of_candidate)
            h = update * h + (1 - update) * new if origin else (1 - update) * h + update * new
            hidden[row] = h
    return {"Hidden": hidden}


LODS = {"Hidden": LENGTHS, "Cell": LENGTHS}
SCRATCH = ["XX", "BatchedInput", "BatchedHidden", "BatchedCell", "ReorderedH0", "ReorderedC0"]


def lstm_cases():
    for peepholes, starts, reverse in ((True, False, False), (True, True, True), (False, True, False)):
        inputs = {
            "X": (draw(ROWS, WIDTH), LENGTHS),
            "WeightX": draw(WIDTH, 4 * SIZE),
            "WeightH": draw(SIZE, 4 * SIZE),
            "Bias": draw(1, (7 if peepholes else 4) * SIZE),
        }
        first = {"H0": draw(SEQUENCES, SIZE), "C0": draw(SEQUENCES, SIZE)} if starts else {}
        attrs = {"use_peepholes": peepholes, "is_reverse": reverse}
        name = f"{peepholes}-{starts}-{reverse}"

        def fused(X, WeightX, WeightH, Bias, H0=None, C0=None, reverse=reverse):
            return lstm_loop(X @ WeightX, WeightH, Bias, H0, C0, reverse)

        yield Case(
            "fusion_lstm",
            inputs | first,
            fused,
            attrs,
            lods=LODS,
            ignore=[*SCRATCH, "CheckedCell"],
            name=name,
        )
        words = {
            "Ids": (random.randint(0, 5, (ROWS, 1)).astype("int64"), LENGTHS),
            "Embeddings": draw(5, 4 * SIZE),
        }

        def embedded(Ids, Embeddings, WeightH, Bias, H0=None, C0=None, reverse=reverse):
            Bias = np.where(np.arange(Bias.size) < 4 * SIZE, 0, Bias)  # the table has it
            return lstm_loop(Embeddings[Ids.ravel()], WeightH, Bias, H0, C0, reverse)

        rest = {slot: inputs[slot] for slot in ("WeightH", "Bias")}
        yield Case(
            "fused_embedding_fc_lstm",
            words | rest | first,
            embedded,
            attrs,
            lods=LODS,
            ignore=SCRATCH,
            name=name,
        )


def gru_cases():
    for starts, reverse, origin in ((False, False, False), (True, True, False), (True, False, True)):
        inputs = {
            "X": (draw(ROWS, WIDTH), LENGTHS),
            "WeightX": draw(WIDTH, 3 * SIZE),
            "WeightH": draw(SIZE, 3 * SIZE),
            "Bias": draw(1, 3 * SIZE),
        }
        first = {"H0": draw(SEQUENCES, SIZE)} if starts else {}

        def fused(X, WeightX, WeightH, Bias, H0=None, reverse=reverse, origin=origin):
            return gru_loop(X @ WeightX + Bias, WeightH, H0, reverse, origin)

        yield Case(
            "fusion_gru",
            inputs | first,
            fused,
            {"is_reverse": reverse, "origin_mode": origin},
            lods={"Hidden": LENGTHS},
            ignore=["ReorderedH0", "XX", "BatchedInput", "BatchedOut"],
            name=f"{starts}-{reverse}-{origin}",
        )


def both_ways_cases():
    for layers, origin in ((1, False), (2, True)):
        widths = [WIDTH, 2 * SIZE][:layers]
        inputs = {
            "X": (draw(ROWS, WIDTH), LENGTHS),
            "WeightX": [draw(width, 3 * SIZE) for width in widths for _ in range(2)],
            "WeightH": [draw(SIZE, 3 * SIZE) for _ in range(2 * layers)],
            "Bias": [draw(1, 3 * SIZE) for _ in range(2 * layers)],
        }

        def stacked(X, WeightX, WeightH, Bias, layers=layers, origin=origin):
            for layer in range(layers):
                places = (2 * layer, 2 * layer + 1)
                sides = [
                    gru_loop(X @ WeightX[at] + Bias[at], WeightH[at], None, bool(at % 2), origin)
                    for at in places
                ]
                X = np.concatenate(
                    [side["Hidden"] if isinstance(side, dict) else side for side in sides], axis=1
                )
            return X

        attrs = {"layers": layers, "origin_mode": origin}
        yield Case("multi_gru", inputs, stacked, attrs, lods={"Hidden": LENGTHS}, name=f"{layers}-{origin}")


def attention_loop(X, C0, AttentionWeight, AttentionBias, LSTMWeight, LSTMBias, H0=None, **scalars):
    hidden, cells = np.zeros((2, len(X), SIZE))
    for number, rows in enumerate(sequences(False)):
        h, c = (np.zeros(SIZE) if H0 is None else H0[number]), C0[number]
        for row in rows:
            beside = np.concatenate([X[rows], np.tile(c, (len(rows), 1))], axis=1)
            score = relu(beside @ AttentionWeight + AttentionBias)
            if scalars:
                score = relu(score * scalars["AttentionScalar"] + scalars["AttentionScalarBias"])
            share = np.exp(score) / np.exp(score).sum()
            gates = np.concatenate([h, (share * X[rows]).sum(0)]) @ LSTMWeight + LSTMBias.ravel()
            forget, entry, output, new = gates.reshape(4, SIZE)
            c = sigmoid(forget) * c + sigmoid(entry) * np.tanh(new)
            h = sigmoid(output) * np.tanh(c)
            hidden[row], cells[row] = h, c
    return {"Hidden": hidden, "Cell": cells}


def attention_cases():
    for full in (False, True):
        inputs = {
            "X": (draw(ROWS, WIDTH), LENGTHS),
            "C0": draw(SEQUENCES, SIZE),
            "AttentionWeight": draw(WIDTH + SIZE, 1),
            "AttentionBias": draw(1, 1),
            "LSTMWeight": draw(WIDTH + SIZE, 4 * SIZE),
            "LSTMBias": draw(1, 4 * SIZE),
        }
        if full:
            inputs |= {"H0": draw(SEQUENCES, SIZE), "AttentionScalar": draw(1, 1)}
            inputs["AttentionScalarBias"] = draw(1, 1)
        yield Case(
            "attention_lstm",
            inputs,
            attention_loop,
            lods=LODS,
            ignore=["AttentionedX", "AttentionFCOut", "LSTMX", "LSTMOUT"],
            name="full" if full else "",
        )


def context(X):
    """Each row with the one before and the one after it in its sequence."""
    out = np.zeros((len(X), 3, X.shape[1]))
    for rows in sequences(False):
        for row in rows:
            for place, other in enumerate((row - 1, row, row + 1)):
                if other in rows:
                    out[row, place] = X[other]
    return out.reshape(len(X), -1)


def pooled(X, how):
    factor = {"SUM": lambda n: 1, "AVERAGE": lambda n: 1 / n, "SQRT": lambda n: n**-0.5}[how]
    return np.stack([X[rows].sum(0) * factor(len(rows)) for rows in sequences(False)])


def counted(X):
    shows, clicks = np.log(X[:, :1] + 1), np.log(X[:, 1:2] + 1)
    return np.concatenate([shows, clicks - shows, X[:, 2:]], axis=1)


PARTS = [(abs(draw(ROWS, WIDTH)), LENGTHS), (abs(draw(ROWS, WIDTH)), LENGTHS)]
OTHERS = [(draw(SEQUENCES, 2), [[1, 1, 1]]), (draw(SEQUENCES, 1), [[1, 1, 1]])]
EACH = {"Out": [[1, 1, 1]]}
OWNER = np.repeat(np.arange(SEQUENCES), LENGTHS[0])
X = draw(2, 3)

CASES = [
    *lstm_cases(),
    *gru_cases(),
    *both_ways_cases(),
    *attention_cases(),
    Case(
        "fc",
        {"Input": draw(2, 3), "W": draw(3, 4), "Bias": draw(4)},
        lambda Input, W, Bias: relu(Input @ W + Bias),
        {"activation_type": "relu"},
    ),
    Case(
        "fc",
        {"Input": draw(2, 3, 4), "W": draw(4, 5)},
        lambda Input, W: Input @ W,
        {"in_num_col_dims": 2},
        name="2",
    ),
    Case(
        "fc",
        {"Input": draw(2, 3), "W": draw(7, 8), "Bias": draw(1, 4)},
        lambda Input, W, Bias: Input @ W[:3, :4] + Bias,
        {"padding_weights": True},
        name="padded",
    ),
    Case(
        "fusion_repeated_fc_relu",
        {"X": X, "W": [draw(3, 4), draw(4, 5)], "Bias": [draw(1, 4), draw(1, 5)]},
        lambda X, W, Bias: {"Out": relu(relu(X @ W[0] + Bias[0]) @ W[1] + Bias[1])},
        ignore=["ReluOut"],
    ),
    Case(
        "fusion_squared_mat_sub",
        {"X": X, "Y": draw(3, 4)},
        lambda X, Y: {"Out": 0.5 * ((X @ Y) ** 2 - X**2 @ Y**2)},
        {"scalar": 0.5},
        ignore=["SquaredX", "SquaredY", "SquaredXY"],
    ),
    Case("equal_reduce", {"X": X, "Y": X.copy()}, {"Out": np.array([True])}, name="same"),
    Case("equal_reduce", {"X": X, "Y": X + (X == X[1, 2])}, {"Out": np.array([False])}, name="other"),
    Case(
        "fusion_seqconv_eltadd_relu",
        {"X": (draw(ROWS, WIDTH), LENGTHS), "Filter": draw(3 * WIDTH, 2), "Bias": draw(1, 2)},
        lambda X, Filter, Bias: {"Out": relu(context(X) @ Filter + Bias)},
        {"contextLength": 3, "contextStart": -1},
        ignore=["ColMat"],
        lods={"Out": LENGTHS},
    ),
    Case(
        "fusion_seqexpand_concat_fc",
        {"X": [(draw(ROWS, WIDTH), LENGTHS), *OTHERS], "FCWeight": draw(WIDTH + 3, 2), "FCBias": draw(1, 2)},
        lambda X, FCWeight, FCBias: {
            "Out": np.tanh(
                np.concatenate([X[0], *(part[OWNER] for part in X[1:])], axis=1) @ FCWeight + FCBias
            )
        },
        {"fc_activation": "tanh"},
        ignore=["FCOut"],
        lods={"Out": LENGTHS},
    ),
    *(
        Case(
            "fusion_seqpool_concat",
            {"X": PARTS},
            lambda X, how=how: np.concatenate([pooled(part, how) for part in X], axis=1),
            {"pooltype": how},
            lods=EACH,
            name=how,
        )
        for how in ("SUM", "AVERAGE", "SQRT")
    ),
    Case(
        "fusion_seqpool_cvm_concat",
        {"X": PARTS, "CVM": draw(SEQUENCES, 2)},
        lambda X, CVM: np.concatenate([counted(pooled(part, "SUM")) for part in X], axis=1),
        lods=EACH,
    ),
    Case(
        "fusion_seqpool_cvm_concat",
        {"X": PARTS, "CVM": draw(SEQUENCES, 2)},
        lambda X, CVM: np.concatenate([pooled(part, "SUM")[:, 2:] for part in X], axis=1),
        {"use_cvm": False},
        lods=EACH,
        name="without",
    ),
]
