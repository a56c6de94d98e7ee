"""More small networks of the kinds that are deployed, some of them trained as static programs first.

The way each is saved differs on purpose: `paddle.jit.save`, `paddle.static.save_inference_model`, and a
folder with the file of settings that deployments of detectors bring along.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.static import InputSpec

from .models import PICTURE, Backbone, ConvNorm, rounded

F = paddle.nn.functional


class Embedder(nn.Layer):
    """A face as a point of the unit sphere."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2D(3, 8, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(8), nn.PReLU(8))
        self.deep = nn.Sequential(
            nn.Conv2D(8, 16, 3, 2, 1, groups=8, bias_attr=False),
            nn.BatchNorm2D(16),
            nn.PReLU(16),
            nn.Conv2D(16, 16, 3, 1, 1),
        )
        self.pool = nn.Conv2D(16, 16, (8, 8), groups=16)
        self.out = nn.Linear(16, 12, bias_attr=False)

    def forward(self, x):
        x = self.deep(self.first(x))
        x = self.out(paddle.flatten(self.pool(F.dropout(x, 0.4, training=self.training)), 1))
        return F.normalize(x, axis=1)


class Points(nn.Layer):
    """Maps of heat of five joints, and the place of the hottest pixel of each."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.up = nn.Sequential(
            nn.Conv2DTranspose(32, 16, 4, 2, 1, bias_attr=False),
            nn.BatchNorm2D(16),
            nn.ReLU(),
            nn.Conv2DTranspose(16, 16, 4, 2, 1, bias_attr=False),
            nn.BatchNorm2D(16),
            nn.ReLU(),
        )
        self.out = nn.Conv2D(16, 5, 1)

    def forward(self, x):
        heat = self.out(self.up(self.backbone(x)[-1]))
        flat = paddle.reshape(heat, [-1, 5, heat.shape[2] * heat.shape[3]])
        return heat, paddle.argmax(flat, axis=-1)


class Heads(nn.Layer):
    """Scores of each cell, and the distances of the four sides as distributions over eight bins."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.shared = nn.LayerList([ConvNorm(width, 16, act="leaky_relu") for width in (24, 32)])
        self.scores = nn.LayerList([nn.Conv2D(16, 3, 1) for _ in range(2)])
        self.sides = nn.LayerList([nn.Conv2D(16, 32, 1) for _ in range(2)])

    def forward(self, image):
        scores, sides = [], []
        for level, x in enumerate(self.backbone(image)[2:]):
            x = self.shared[level](x)
            score = F.sigmoid(self.scores[level](x))
            scores.append(score.reshape([0, 3, -1]).transpose([0, 2, 1]))
            sides.append(self.sides[level](x).flatten(2).transpose([0, 2, 1]))
        return (*scores, *sides)


class Matting(nn.Layer):
    """How much of each pixel is in front, from two scales of the picture."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.low = nn.Conv2D(32, 8, 1)
        self.fine = nn.Sequential(nn.Conv2D(11, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU6())
        self.out = nn.Conv2D(8, 1, 1)

    def forward(self, img):
        size = paddle.shape(img)[-2:]
        half = F.interpolate(img, scale_factor=0.5, mode="bilinear")
        low = F.interpolate(self.low(self.backbone(half)[-1]), size, mode="bicubic")
        alpha = F.hardtanh(self.out(self.fine(paddle.concat([low, img], 1))), 0.0, 1.0)
        known = paddle.where(alpha > 0.9, paddle.ones_like(alpha), alpha)
        return paddle.where(known < 0.1, paddle.zeros_like(known), known)


class Translator(nn.Layer):
    """A translation, word for word: the loop over words is part of the program."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(60, 16), nn.Embedding(40, 16)
        self.encoder = nn.GRU(16, 16)
        self.cell = nn.GRUCell(32, 16)
        self.attention = nn.Linear(16, 16)
        self.out = nn.Linear(16, 40)

    def forward(self, src_word):
        states, last = self.encoder(self.source(src_word))
        word = paddle.zeros_like(src_word[:, 0]) + 1
        state, found = last[0], paddle.unsqueeze(word, 1)
        step = paddle.zeros([1], "int64")
        while step < 8:
            looked = paddle.bmm(states, paddle.unsqueeze(self.attention(state), 2))
            context = paddle.sum(F.softmax(looked, axis=1) * states, axis=1)
            _, state = self.cell(paddle.concat([self.target(word), context], -1), state)
            word = paddle.argmax(self.out(state), axis=-1)
            found = paddle.concat([found, paddle.unsqueeze(word, 1)], 1)
            step = step + 1
        return found


LAYERS: dict[str, tuple[Any, list[Any]]] = {
    "face": (Embedder, [([None, 3, 32, 32], "float32", "data")]),
    "points": (Points, [([None, 3, 64, 48], "float32", "image")]),
    "pico": (Heads, [([1, 3, 64, 64], "float32", "image")]),
    "matting": (Matting, [(PICTURE, "float32", "img")]),
    "translate": (Translator, [([None, None], "int64", "src_word")]),
}

SETTINGS = """mode: paddle
draw_threshold: 0.5
arch: PicoDet
min_subgraph_size: 3
Preprocess:
- type: Resize
  keep_ratio: false
  interp: 2
  target_size: [64, 64]
- type: NormalizeImage
  is_scale: true
  mean: [0.485, 0.456, 0.406]
  std: [0.229, 0.224, 0.225]
- type: Permute
label_list: [person, car, dog]
NMS: {score_threshold: 0.3, nms_threshold: 0.5, keep_top_k: 8}
fpn_stride: [8, 16]
"""


def series(main: Any, startup: Any, exe: Any) -> tuple[list[Any], list[Any]]:
    """Rebuild a window of three sensors through a narrow code; trained on sines."""
    with paddle.static.program_guard(main, startup):
        window = paddle.static.data("window", [None, 24, 3])
        code = paddle.static.nn.fc(window, 8, num_flatten_dims=2, activation="tanh")
        code = paddle.transpose(code, [0, 2, 1])
        code = F.relu(nn.Conv1D(8, 6, 3, padding=1, padding_mode="replicate")(code))
        code = F.avg_pool1d(code, 2, 2)
        code = F.interpolate(code, size=[24], mode="linear", data_format="NCW")
        again = paddle.static.nn.fc(paddle.transpose(code, [0, 2, 1]), 3, num_flatten_dims=2)
        error = F.mse_loss(again, window, reduction="none").mean(axis=[1, 2])
        loss = error.mean()
        test = main.clone(for_test=True)
        paddle.optimizer.Adam(paddle.optimizer.lr.ExponentialDecay(0.02, 0.99)).minimize(loss)
    exe.run(startup)
    source = np.random.RandomState(5)
    for _ in range(60):
        start = source.rand(16, 1, 1) * 6
        turns = start + np.arange(24).reshape(1, 24, 1) / 4 + np.arange(3).reshape(1, 1, 3)
        exe.run(main, feed={"window": np.sin(turns).astype("float32")}, fetch_list=[loss])
    block = test.global_block()
    return [block.var("window")], [block.var(again.name), block.var(error.name)]


def towers(main: Any, startup: Any, exe: Any) -> tuple[list[Any], list[Any]]:
    """Two towers: a user with a history of any length, and an item; trained on clicks."""
    with paddle.static.program_guard(main, startup):
        history = paddle.static.data("history", [None, 1], "int64", lod_level=1)
        age = paddle.static.data("age", [None, 1], "float32")
        item = paddle.static.data("item", [None, 1], "int64")
        label = paddle.static.data("label", [None, 1], "float32")
        attr = paddle.ParamAttr(name="items.w", initializer=nn.initializer.Uniform(-0.3, 0.3))
        seen = paddle.static.nn.embedding(history, [80, 6], is_sparse=True, padding_idx=0, param_attr=attr)
        seen = paddle.static.nn.sequence_lod.sequence_pool(seen, "average")
        user = paddle.static.nn.fc([seen, age], 8, activation="relu")
        user = F.normalize(paddle.static.nn.fc(user, 6, name="user_out"), axis=1)
        rows = paddle.static.nn.embedding(item, [80, 6], is_sparse=True, padding_idx=0, param_attr=attr)
        thing = F.normalize(paddle.static.nn.fc(paddle.squeeze(rows, [1]), 6), axis=1)
        score = F.cosine_similarity(user, thing, axis=1).unsqueeze(-1) * 5.0
        loss = F.binary_cross_entropy_with_logits(score, label)
        test = main.clone(for_test=True)
        paddle.optimizer.Adagrad(0.05).minimize(loss)
    exe.run(startup)
    source = np.random.RandomState(6)
    for _ in range(30):
        lengths = source.randint(1, 6, 16)
        ids = source.randint(1, 80, (int(lengths.sum()), 1)).astype("int64")
        feed = {
            "history": paddle.base.create_lod_tensor(ids, [lengths.tolist()], paddle.CPUPlace()),
            "age": source.rand(16, 1).astype("float32"),
            "item": source.randint(1, 80, (16, 1)).astype("int64"),
            "label": source.randint(0, 2, (16, 1)).astype("float32"),
        }
        exe.run(main, feed=feed, fetch_list=[loss])
    block = test.global_block()
    feeds = [block.var(name) for name in ("history", "age", "item")]
    return feeds, [block.var(one.name) for one in (score, user, thing)]


PROGRAMS = {"series": series, "towers": towers}


def export_layers(folder: str) -> None:
    for place, (name, (network, specs)) in enumerate(LAYERS.items()):
        layer = network()
        layer.eval()
        rounded(layer, np.random.RandomState(20 + place))
        if name == "translate":
            for value in layer.parameters():
                value.set_value(value * 6)
        made = paddle.jit.to_static(layer, input_spec=[InputSpec(*spec) for spec in specs])
        prefix = os.path.join(folder, name, "model" if name == "pico" else "inference")
        paddle.jit.save(made, prefix)
        os.remove(prefix + ".pdiparams.info")
    with open(os.path.join(folder, "pico", "infer_cfg.yml"), "w") as file:
        file.write(SETTINGS)


def export_programs(folder: str) -> None:
    for build in PROGRAMS:
        paddle.seed(4)
        main, startup = paddle.static.Program(), paddle.static.Program()
        exe = paddle.static.Executor(paddle.CPUPlace())
        with paddle.static.scope_guard(paddle.static.Scope()):
            feeds, fetches = PROGRAMS[build](main, startup, exe)
            prefix = os.path.join(folder, build, "inference")
            program = feeds[0].block.program
            paddle.static.save_inference_model(prefix, feeds, fetches, exe, program=program)


def export(folder: str) -> None:
    """Write all models into folders of their own."""
    paddle.seed(3)
    export_layers(folder)
    paddle.enable_static()
    with paddle.utils.unique_name.guard():
        export_programs(folder)
