"""Random training programs and the jobs that become of them, as plain data: made from a seed, built with
FluidLite or PaddlePaddle 1.8.5, and read off as facts that both can be compared by.

Python 3.7 runs this file, with NumPy and one of the two systems. `prove` is about FluidLite alone.
"""

from __future__ import annotations

import difflib
import importlib
import random
import re
from typing import Any

import numpy as np

Job = dict  # JSON: see `make_job`

MODES = ("sync", "async", "half_async", "geo")
ACTIVATIONS = (None, "relu", "tanh", "sigmoid")
WIDTHS = (1, 2, 3, 5, 8, 16, 33, 64, 130)
HEIGHTS = (4, 7, 50, 301)  # rows of tables
BATCH = 4
STEPS = 3
RATES = (0.1, 0.01, 1.0)

OPTIMIZERS = {
    "SGD": [{}],
    "Momentum": [{"momentum": 0.9}, {"momentum": 0.0}, {"momentum": 0.5, "use_nesterov": True}],
    "Adagrad": [{}, {"initial_accumulator_value": 0.1}],
    "Adam": [{}, {"beta1": 0.5, "epsilon": 1e-3}, {"lazy_mode": True}],
    "Adamax": [{}],
    "DecayedAdagrad": [{"decay": 0.9}],
    "RMSProp": [{}, {"centered": True}, {"momentum": 0.9}],
    "Ftrl": [{}, {"l1": 0.01, "l2": 0.1}],
}
DENSE_ONLY = ("Adamax", "DecayedAdagrad")  # 1.8.5 has no update of rows for them
REGULARIZERS = ("L1Decay", "L2Decay")
CLIPS = {
    "GradientClipByValue": {"max": 0.05},
    "GradientClipByNorm": {"clip_norm": 0.1},
    "GradientClipByGlobalNorm": {"clip_norm": 0.1},
}
SCHEDULES = {
    "exponential_decay": {"learning_rate": 0.1, "decay_steps": 2, "decay_rate": 0.5},
    "natural_exp_decay": {"learning_rate": 0.1, "decay_steps": 2, "decay_rate": 0.5, "staircase": True},
    "inverse_time_decay": {"learning_rate": 0.1, "decay_steps": 2, "decay_rate": 0.5},
    "polynomial_decay": {"learning_rate": 0.1, "decay_steps": 3},
    "piecewise_decay": {"boundaries": [1, 2], "values": [0.1, 0.05, 0.01]},
    "noam_decay": {"d_model": 64, "warmup_steps": 2},
    "cosine_decay": {"learning_rate": 0.1, "step_each_epoch": 2, "epochs": 3},
}


# ------------------------------------------------------------------------------------------------ making
def make_job(seed: int) -> Job:
    """A job as JSON: its layers, its optimizer, and how its processes train together.

    layers: [result, kind, operands, keywords] each; `kind` is a key of `LAYERS`.
    feeds: [name, kind, size] each: "rows" of so many numbers, "ids" or "words" (sequences of ids) below it.
    """
    draw = random.Random(seed)
    network = _Network(draw)
    network.draw()
    cluster = _draw_cluster(draw)
    rates = RATES
    corrected = cluster["config"].get("enable_dc_asgd")  # by squares of gradients, which are to stay small
    optimizer = draw.choice([name for name in OPTIMIZERS if not (network.sparse and name in DENSE_ONLY)])
    if corrected:
        rates = (0.01,)
    elif optimizer == "Ftrl":  # which throws parameters about where it goes fast
        rates = RATES[:2]
    return {
        "seed": seed,
        "feeds": network.feeds,
        "layers": network.layers,
        "output": network.output,
        "loss": "mean" if corrected or draw.random() < 0.8 else "sum",
        "optimizer": [optimizer, draw.choice(OPTIMIZERS[optimizer])],
        "rate": draw.choice(rates),
        "schedule": draw.choice(sorted(SCHEDULES)) if draw.random() < 0.3 else None,
        "regularizer": [draw.choice(REGULARIZERS), 0.01] if draw.random() < 0.3 else None,
        "clip": _draw_clip(draw),
        "average": draw.choice(("EMA", "ModelAverage")) if draw.random() < 0.1 else None,
        "random_seed": draw.choice((0, 7)),
        **cluster,
    }


def _draw_clip(draw: random.Random) -> Any:
    if draw.random() < 0.7:
        return None
    return [draw.choice(sorted(CLIPS)), draw.choice(("optimizer", "program"))]


def _draw_cluster(draw: random.Random) -> Job:
    mode = draw.choice(MODES)
    config = {
        "slice_var_up": draw.random() < 0.7,
        "min_block_size": draw.choice((8192, 8192, 9000, 20000)),
        "split_method": "RoundRobin",
    }
    if mode in ("async", "half_async"):
        config["runtime_split_send_recv"] = mode == "half_async" or draw.random() < 0.5
        config["enable_dc_asgd"] = draw.random() < 0.1
    return {
        "mode": mode,
        "config": config,
        "trainers": draw.choice((1, 2, 2, 3)),
        "servers": draw.choice((1, 2, 3, 5)),
    }


class _Network:
    """Draws layers one by one; `values` are the names and widths of what has a row a sample."""

    def __init__(self, draw: random.Random) -> None:
        self.random = draw
        self.feeds: list[Any] = []
        self.layers: list[Any] = []
        self.values: list[Any] = []
        self.tables: list[Any] = []  # name, rows, width
        self.weights: list[Any] = []  # name, rows, columns
        self.sparse = False
        self.output = ""

    def draw(self) -> None:
        """Draw all of it."""
        self.feed("rows", self.random.choice(WIDTHS[2:]))
        for _ in range(self.random.randrange(3)):
            self.look_up()
        for _ in range(self.random.randrange(1, 6)):
            self.random.choice(
                (self.fc, self.fc, self.fc, self.look_up, self.combine, self.shape, self.tie)
            )()
        if len(self.values) > 1:
            self.add("concat", [name for name, _ in self.values], {}, sum(size for _, size in self.values))
        self.fc(1)
        self.output = self.layers[-1][0]

    def feed(self, kind: str, size: int) -> str:
        name = f"in{len(self.feeds)}"
        self.feeds.append([name, kind, size])
        if kind == "rows":
            self.values.append([name, size])
        return name

    def add(self, kind: str, operands: list[str], keywords: Job, width: int) -> None:
        name = f"v{len(self.layers)}"
        self.layers.append([name, kind, operands, keywords])
        self.values.append([name, width])

    def attr(self, name: str | None = None) -> Job:
        """The keywords of a ParamAttr."""
        draw = self.random
        attr: Job = {} if name is None else {"name": name}
        if draw.random() < 0.15:
            attr["trainable"] = False
        if draw.random() < 0.15:
            attr["learning_rate"] = draw.choice((0.0, 0.5, 2.0))
        if draw.random() < 0.15:
            attr["regularizer"] = [draw.choice(REGULARIZERS), 0.1]
        attr["initializer"] = draw.choice(
            (None, None, ["Constant", {"value": 0.1}], ["Uniform", {"low": -0.2, "high": 0.2, "seed": 3}])
        )
        return attr

    def fc(self, size: int | None = None) -> None:
        """A layer of the last value, or of any; now and then with a weight that is there already."""
        draw = self.random
        name, width = self.values[-1] if size or draw.random() < 0.5 else draw.choice(self.values)
        shared = [weight for weight in self.weights if weight[1] == width and size is None]
        if shared and draw.random() < 0.5:
            attr, columns = {"name": draw.choice(shared)[0]}, None
            columns = next(weight[2] for weight in shared if weight[0] == attr["name"])
        else:
            columns = size or draw.choice(WIDTHS)
            own = f"w{len(self.weights)}" if draw.random() < 0.3 else None
            attr = self.attr(own)
            if size:  # the last layer has something to train
                attr.pop("trainable", None)
            if own is not None:
                self.weights.append([own, width, columns])
        keywords = {
            "size": columns,
            "act": None if size else draw.choice(ACTIVATIONS),
            "param_attr": attr,
            "bias_attr": False if draw.random() < 0.3 else self.attr(),
        }
        self.add("fc", [name], keywords, columns)

    def look_up(self) -> None:
        """Rows of a table, a new one or one that is there already."""
        draw = self.random
        if self.tables and draw.random() < 0.4:
            table, rows, width = draw.choice(self.tables)
            attr: Job = {"name": table}
        else:
            table, rows, width = f"table{len(self.tables)}", draw.choice(HEIGHTS), draw.choice(WIDTHS)
            attr = self.attr(table)
            self.tables.append([table, rows, width])
        sparse = draw.random() < 0.6
        self.sparse = self.sparse or sparse
        kind = draw.choice(("embedding", "embedding", "embedding_v2", "pooled"))
        ids = self.feed({"pooled": "words", "embedding_v2": "flat_ids"}.get(kind, "ids"), rows)
        keywords = {
            "size": [rows, width],
            "is_sparse": sparse,
            "padding_idx": draw.choice((None, None, 0)),
            "param_attr": attr,
        }
        self.add(kind, [ids], keywords, width)

    def tie(self) -> None:
        """A value times all rows of a table, where one has its width."""
        draw = self.random
        pairs = [(name, table) for name, width in self.values for table in self.tables if table[2] == width]
        if pairs:
            name, (table, rows, _) = draw.choice(pairs)
            self.add("tied", [name], {"table": table}, rows)

    def combine(self) -> None:
        """Two values of one width added, or the last one with itself."""
        name, width = self.values[-1]
        other = self.random.choice([each for each, size in self.values if size == width])
        self.add("add", [name, other], {}, width)

    def shape(self) -> None:
        """A layer without weights, or one of normalisation, or one whose result nobody uses."""
        draw = self.random
        name, width = draw.choice(self.values)
        kind = draw.choice(("scale", "dropout", "batch_norm", "layer_norm", "stop", "unused"))
        if kind == "batch_norm" and [name, kind] in [layer[:2] for layer in self.layers]:
            kind = "scale"  # means of what is normalised are rounding alone
        self.add(kind, [name], {}, width)
        if kind == "unused":
            self.values.pop()


# ------------------------------------------------------------------------------------------------ building
class Built:
    """The programs of a job in one of the systems."""

    def __init__(self, main: Any, startup: Any) -> None:
        self.main, self.startup = main, startup


def build(fluid: Any, job: Job) -> Built:
    """The programs that one process would train with."""
    built = Built(fluid.Program(), fluid.Program())
    built.main.random_seed = built.startup.random_seed = job["random_seed"]
    with fluid.program_guard(built.main, built.startup), fluid.unique_name.guard():
        values = {name: _declare(fluid, *feed) for name, *feed in [[feed[0], *feed] for feed in job["feeds"]]}
        for result, kind, operands, keywords in job["layers"]:
            values[result] = LAYERS[kind](fluid, [values[name] for name in operands], keywords)
        label = fluid.data("label", [None, 1])
        error = fluid.layers.square_error_cost(values[job["output"]], label)
        loss = fluid.layers.mean(error) if job["loss"] == "mean" else fluid.layers.reduce_sum(error)
        _optimizer(fluid, job).minimize(loss)
        _average(fluid, job)
    return built


def _declare(fluid: Any, name: str, kind: str, size: int) -> Any:
    if kind == "rows":
        return fluid.data(name, [None, size])
    return fluid.data(
        name, [None] if kind == "flat_ids" else [None, 1], "int64", lod_level=int(kind == "words")
    )


def _attr(fluid: Any, given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    keywords = dict(given)
    initializer = keywords.pop("initializer", None)
    if initializer is not None:
        keywords["initializer"] = getattr(fluid.initializer, initializer[0])(**initializer[1])
    if "regularizer" in keywords:
        keywords["regularizer"] = _regularizer(fluid, keywords["regularizer"])
    return fluid.ParamAttr(**keywords)


def _regularizer(fluid: Any, given: Any) -> Any:
    return given and getattr(fluid.regularizer, given[0])(given[1])


def _with_attrs(fluid: Any, keywords: Job) -> Job:
    return {key: _attr(fluid, value) if key.endswith("_attr") else value for key, value in keywords.items()}


def _embedding(fluid: Any, operands: list[Any], keywords: Job) -> Any:
    return fluid.layers.embedding(operands[0], **_with_attrs(fluid, keywords))


def _unused(fluid: Any, operands: list[Any], keywords: Job) -> Any:
    return fluid.layers.fc(operands[0], 3)


def _stop(fluid: Any, operands: list[Any], keywords: Job) -> Any:
    found = fluid.layers.scale(operands[0], 0.5)
    found.stop_gradient = True
    return found


def _tied(fluid: Any, operands: list[Any], keywords: Job) -> Any:
    table = fluid.default_main_program().global_block().var(keywords["table"])
    return fluid.layers.matmul(operands[0], table, transpose_y=True)


LAYERS = {
    "fc": lambda fluid, x, keywords: fluid.layers.fc(x[0], **_with_attrs(fluid, keywords)),
    "embedding": _embedding,
    "embedding_v2": lambda fluid, x, keywords: fluid.embedding(x[0], **_with_attrs(fluid, keywords)),
    "pooled": lambda fluid, x, keywords: fluid.layers.sequence_pool(_embedding(fluid, x, keywords), "sum"),
    "tied": _tied,
    "concat": lambda fluid, x, keywords: fluid.layers.concat(x, axis=1),
    "add": lambda fluid, x, keywords: fluid.layers.elementwise_add(*x),
    "scale": lambda fluid, x, keywords: fluid.layers.scale(x[0], 0.5, 0.1),
    "dropout": lambda fluid, x, keywords: fluid.layers.dropout(x[0], 0.3),
    "batch_norm": lambda fluid, x, keywords: fluid.layers.batch_norm(x[0]),
    "layer_norm": lambda fluid, x, keywords: fluid.layers.layer_norm(x[0]),
    "stop": _stop,
    "unused": _unused,
}


def _optimizer(fluid: Any, job: Job) -> Any:
    name, keywords = job["optimizer"]
    rate = job["rate"]
    if job["schedule"]:
        rate = getattr(fluid.layers, job["schedule"])(**SCHEDULES[job["schedule"]])
    keywords = dict(keywords, regularization=_regularizer(fluid, job["regularizer"]))
    if job["clip"]:
        kind, place = job["clip"]
        clip = getattr(fluid.clip, kind)(**CLIPS[kind])
        if place == "optimizer":
            keywords["grad_clip"] = clip
        else:
            fluid.clip.set_gradient_clip(clip)
    return getattr(fluid.optimizer, name)(rate, **keywords)


def _average(fluid: Any, job: Job) -> None:
    if job["average"] == "EMA":
        fluid.optimizer.ExponentialMovingAverage(0.5).update()
    elif job["average"] == "ModelAverage":
        fluid.optimizer.ModelAverage(0.15, min_average_window=2, max_average_window=4)


def feeds_of(fluid: Any, job: Job) -> list[Job]:
    """Batches for one process; `trainers` divides their size."""
    numbers = np.random.RandomState(job["seed"] % 2**32)
    return [_batch(fluid, job, numbers) for _ in range(STEPS)]


def _batch(fluid: Any, job: Job, numbers: Any) -> Job:
    size = BATCH * job["trainers"]
    found = {"label": numbers.uniform(-1, 1, (size, 1)).astype("float32")}
    for name, kind, width in job["feeds"]:
        if kind == "rows":
            found[name] = numbers.uniform(-1, 1, (size, width)).astype("float32")
        elif kind == "words":
            lengths = numbers.randint(1, 4, size).tolist()
            ids = numbers.randint(0, width, (sum(lengths), 1)).astype("int64")
            found[name] = fluid.create_lod_tensor(ids, [lengths], fluid.CPUPlace())
        else:
            ids = numbers.randint(0, width, (size, 1)).astype("int64")
            found[name] = ids.reshape(-1) if kind == "flat_ids" else ids
    return found


# ------------------------------------------------------------------------------------------------ transpiling
def endpoints_of(job: Job) -> list[str]:
    """The places of its servers."""
    return [f"127.0.0.1:{6174 + number}" for number in range(job["servers"])]


def config_of(fluid: Any, job: Job) -> Any:
    """Its DistributeTranspilerConfig."""
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode = job["mode"] == "sync"
    config.half_async = job["mode"] == "half_async"
    config.geo_sgd_mode = job["mode"] == "geo"
    for name, value in job["config"].items():
        if name == "split_method":
            value = getattr(fluid.transpiler.ps_dispatcher, value)
        setattr(config, name, value)
    return config


def transpile(fluid: Any, job: Job, trainer: int = 0) -> Any:
    """The transpiler of one process, and the programs that it was given."""
    built = build(fluid, job)
    config = config_of(fluid, job)
    kind = fluid.DistributeTranspiler
    if job["mode"] == "geo":
        name = fluid.__name__ + ".transpiler.geo_sgd_transpiler"
        kind = importlib.import_module(name).GeoSgdTranspiler
    transpiler = kind(config)
    with fluid.program_guard(built.main, built.startup):
        transpiler.transpile(
            trainer,
            program=built.main,
            pservers=",".join(endpoints_of(job)),
            trainers=job["trainers"],
            sync_mode=job["mode"] == "sync",
            startup_program=built.startup,
        )
    return transpiler, built


# ------------------------------------------------------------------------------------------------ facts
IGNORED = frozenset(
    ["op_callstack", "op_device", "use_mkldnn", "use_cudnn", "use_quantizer", "mkldnn_data_type"]
    + ["is_test_grad", "op_namescope"]
)
CONTROL = "__control_var@"


def facts(fluid: Any, job: Job) -> Job:
    """Role -> its programs as lists of ops, or the error of the system; "one" is the program of one process.

    Each role is transpiled from a program of its own: 1.8.5's transpilers do not survive more.
    """
    found: Job = {"one": _attempt(_one, fluid, job)}
    for trainer in range(min(job["trainers"], 2)):
        found[f"trainer{trainer}"] = _attempt(_trainer, fluid, job, trainer)
    for number, endpoint in enumerate(endpoints_of(job)):
        found[f"pserver{number}"] = _attempt(_server, fluid, job, endpoint)
    return found


def _attempt(make: Any, *given: Any) -> Any:
    try:
        return make(*given)
    except Exception as error:  # what a system refuses is a fact, too
        return {"error": type(error).__name__, "message": str(error)[-300:]}


def _one(fluid: Any, job: Job) -> Job:
    return _programs(build(fluid, job))


def _programs(built: Built) -> Job:
    return {"main": program_facts(built.main), "startup": program_facts(built.startup)}


def _trainer(fluid: Any, job: Job, number: int) -> Job:
    transpiler, built = transpile(fluid, job, number)
    main = transpiler.get_trainer_program(wait_port=False)
    return _programs(Built(main, built.startup))


def _server(fluid: Any, job: Job, endpoint: str) -> Job:
    transpiler, _ = transpile(fluid, job)
    return _programs(Built(*transpiler.get_pserver_programs(endpoint)))


def program_facts(program: Any) -> list[Any]:
    """Each block as [parent, ops]; an op as [type, inputs, outputs, attributes]."""
    names: dict[str, str] = {}
    blocks = [[block.parent_idx, [_op_facts(op, names) for op in block.ops]] for block in program.blocks]
    for block in blocks:
        block[1] = _in_order(block[1])
    return blocks


def _op_facts(op: Any, names: dict[str, str]) -> list[Any]:
    inputs = {slot: [_plain(name, names) for name in op.input(slot)] for slot in op.input_names}
    outputs = {slot: [_plain(name, names) for name in op.output(slot)] for slot in op.output_names}
    attrs = {name: _value(op.attr(name)) for name in op.attr_names if name not in IGNORED}
    if "grad_to_block_id" in attrs:  # 1.8.5 makes it from a set
        attrs["grad_to_block_id"] = sorted(attrs["grad_to_block_id"])
    return [op.type, _filled(inputs), _filled(outputs), attrs]


def _plain(name: str, names: dict[str, str]) -> str:
    """The name; those that only tie sends to barriers are random in 1.8.5, and numbered here."""
    if not name.startswith(CONTROL):
        return re.sub(r"^tmp_dc_output_\d+", "tmp_dc_output", name)
    return names.setdefault(name, CONTROL + str(len(names)))


def _filled(slots: dict[str, list[str]]) -> dict[str, list[str]]:
    return {slot: given for slot, given in sorted(slots.items()) if given}


def _value(value: Any) -> Any:
    number = getattr(value, "idx", getattr(value, "id", None))  # of a block, as each system has it
    if number is not None:
        return f"block {number}"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, (list, tuple)):
        return [_value(one) for one in value]
    return value if isinstance(value, (bool, int, str, type(None))) else int(value)


def _in_order(ops: list[Any]) -> list[Any]:
    """The ops, neighbouring `fake_init` by what they make: 1.8.5 makes them from a set."""
    found: list[Any] = []
    first = 0
    while first < len(ops):
        last = first + 1
        while ops[first][0] == "fake_init" and last < len(ops) and ops[last][0] == "fake_init":
            last += 1
        found += sorted(ops[first:last], key=lambda op: str(op[2]))
        first = last
    return found


# ------------------------------------------------------------------------------------------------ comparing
def differences(ours: Job, theirs: Job) -> list[str]:
    """Lines in which the facts of two systems differ. An attribute that one of them lacks has its default."""
    found: list[str] = []
    for role in sorted(set(ours) | set(theirs)):
        mine, other = ours.get(role, {}), theirs.get(role, {})
        if "error" in mine or "error" in other:
            if ("error" in mine) != ("error" in other):
                found.append("{}: ours {}; theirs {}".format(role, *map(_outcome, (mine, other))))
            continue
        for name in ("main", "startup"):
            found += program_differences(f"{role}.{name}", mine[name], other[name])
    return found


def _outcome(role: Job) -> str:
    return "{}: {}".format(role["error"], role["message"]) if "error" in role else "made"


def program_differences(where: str, mine: Any, theirs: Any) -> list[str]:
    if [block[0] for block in mine] != [block[0] for block in theirs]:
        parents = [[block[0] for block in blocks] for blocks in (mine, theirs)]
        return ["{}: parents of blocks {}, theirs {}".format(where, *parents)]
    found = []
    for number, (block, other) in enumerate(zip(mine, theirs)):
        found += _block_differences(f"{where}, block {number}", block[1], other[1])
    return found


def _block_differences(where: str, mine: Any, theirs: Any) -> list[str]:
    """The ops that only one of the two has, then what the common ones differ in."""
    keys = [[f"{op[0]} {_made(op)}" for op in ops] for ops in (mine, theirs)]
    found = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            for left, right in zip(range(a, b), range(c, d)):
                found += _op_differences(f"{where}, op {left}", mine[left], theirs[right])
            continue
        found += [f"{where}: ours alone {_line(op)}" for op in mine[a:b]]
        found += [f"{where}: theirs alone {_line(op)}" for op in theirs[c:d]]
    return found


def _made(op: Any) -> str:
    """The outputs of an op, without the numbers of what only ties sends to barriers."""
    names = [name for given in op[2].values() for name in given]
    return " ".join(CONTROL if name.startswith(CONTROL) else name for name in names)


def _line(op: Any) -> str:
    return "{}({}) -> {}".format(
        op[0], ", ".join(name for given in op[1].values() for name in given), _made(op)
    )


def _op_differences(where: str, mine: Any, theirs: Any) -> list[str]:
    found = [
        f"{where} ({mine[0]}): {mine[place]}, theirs {theirs[place]}"
        for place in (1, 2)
        if mine[place] != theirs[place]
    ]
    for name in sorted(set(mine[3]) & set(theirs[3])):
        if mine[3][name] != theirs[3][name]:
            found.append(f"{where} ({mine[0]}): {name} is {mine[3][name]}, theirs {theirs[3][name]}")
    return found


def prove(job: Job) -> Job:
    """Faults of a job of FluidLite by itself: {} for none; see `job_proofs.prove`."""
    from .job_proofs import prove as proofs  # FluidLite, which Python 3.7 does not run

    return proofs(job)
