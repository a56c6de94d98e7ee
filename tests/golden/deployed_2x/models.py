"""Small networks of the kinds that are deployed, written with layers and exported by `paddle.jit.save`.

From the folder `tests`, with the Python that has PaddlePaddle 2.6.2: `python -m golden.deployed_2x.record`.
Weights are multiples of 1/64, so that the archive is small.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.base.layer_helper import LayerHelper
from paddle.static import InputSpec

F = paddle.nn.functional
PICTURE = [None, 3, None, None]


class ConvNorm(nn.Layer):
    def __init__(self, wide, out, kernel=3, stride=1, groups=1, act="hardswish"):
        super().__init__()
        self.conv = nn.Conv2D(wide, out, kernel, stride, kernel // 2, groups=groups, bias_attr=False)
        self.norm = nn.BatchNorm2D(out)
        self.act = act

    def forward(self, x):
        return getattr(F, self.act)(self.norm(self.conv(x)))


class Squeeze(nn.Layer):
    def __init__(self, wide):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.down = nn.Conv2D(wide, wide // 4, 1)
        self.up = nn.Conv2D(wide // 4, wide, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(self.pool(x)))), slope=0.2, offset=0.5)


class Backbone(nn.Layer):
    """Four maps, each half as large as the one before."""

    def __init__(self, widths=(8, 16, 24, 32)):
        super().__init__()
        self.stem = ConvNorm(3, widths[0], 3, 2)
        pairs = zip(widths[:-1], widths[1:])
        self.stages = nn.LayerList(
            [nn.Sequential(ConvNorm(a, a, 3, 2, a), Squeeze(a), ConvNorm(a, b, 1)) for a, b in pairs]
        )

    def forward(self, x):
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        return maps


class TextFinder(nn.Layer):
    """The chance of each pixel to be text, from a pyramid of features."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.inner = nn.LayerList([nn.Conv2D(width, 8, 1, bias_attr=False) for width in (8, 16, 24, 32)])
        self.head = ConvNorm(32, 8, act="relu")
        self.up1 = nn.Conv2DTranspose(8, 8, 2, 2)
        self.norm = nn.BatchNorm(8, act="relu")
        self.up2 = nn.Conv2DTranspose(8, 1, 2, 2)

    def forward(self, x):
        maps = [inner(one) for inner, one in zip(self.inner, self.backbone(x))]
        for level in (2, 1, 0):
            above = F.upsample(maps[level + 1], scale_factor=2, mode="nearest", align_mode=1)
            maps[level] = maps[level] + above
        size = paddle.shape(maps[0])[2:]
        maps = [F.interpolate(one, size=size, mode="nearest") for one in maps]
        return F.sigmoid(self.up2(self.norm(self.up1(self.head(paddle.concat(maps, axis=1))))))


class Upright(nn.Layer):
    """The chances that a line of text stands upright, and on its head."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        return F.softmax(self.out(paddle.flatten(self.pool(self.backbone(x)[-1]), 1)))


class Reader(nn.Layer):
    """The chances of 37 characters in each column of a line."""

    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(
            ConvNorm(3, 8, 3, (2, 1)),
            ConvNorm(8, 16, 3, (2, 1)),
            nn.MaxPool2D(2, 2),
            ConvNorm(16, 16, 3, (2, 1)),
        )
        self.pool = nn.MaxPool2D((2, 2))
        self.lstm = nn.LSTM(16, 12, num_layers=2, direction="bidirectional")
        self.out = nn.Linear(24, 37)

    def forward(self, x):
        x = paddle.squeeze(self.pool(self.convs(x)), axis=2).transpose([0, 2, 1])
        return F.softmax(self.out(self.lstm(x)[0]), axis=2)


class Detector(nn.Layer):
    """Boxes of four classes from two maps."""

    anchors = ([10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119])

    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.out = nn.LayerList([nn.Conv2D(width, 3 * 9, 1) for width in (24, 32)])

    def forward(self, image, im_shape, scale_factor):
        sizes = paddle.cast(im_shape / scale_factor, "int32")
        boxes, scores = [], []
        for x, out, anchors, stride in zip(self.backbone(image)[2:], self.out, self.anchors, (8, 16)):
            box, score = paddle.vision.ops.yolo_box(
                out(x), sizes, anchors, 4, 0.005, stride, clip_bbox=True, scale_x_y=1.05
            )
            boxes.append(box)
            scores.append(paddle.transpose(score, [0, 2, 1]))
        if paddle.in_dynamic_mode():
            return boxes, scores
        return self.suppressed(paddle.concat(boxes, 1), paddle.concat(scores, 2))

    def suppressed(self, boxes, scores):
        helper = LayerHelper("multiclass_nms3")
        out, index, count = (
            helper.create_variable_for_type_inference(kind) for kind in ("float32", "int32", "int32")
        )
        helper.append_op(
            type="multiclass_nms3",
            inputs={"BBoxes": boxes, "Scores": scores},
            attrs={
                "background_label": -1,
                "score_threshold": 0.01,
                "nms_top_k": 100,
                "nms_threshold": 0.45,
                "keep_top_k": 10,
                "nms_eta": 1.0,
                "normalized": True,
            },
            outputs={"Out": out, "Index": index, "NmsRoisNum": count},
        )
        return out, count


class Segmenter(nn.Layer):
    """The class of each pixel, by convolutions of several widths and the mean of the picture."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.wide = nn.LayerList([nn.Conv2D(32, 8, 3, padding=by, dilation=by) for by in (1, 2, 3)])
        self.whole = nn.Conv2D(32, 8, 1)
        self.out = nn.Conv2D(32, 5, 1)

    def forward(self, x):
        maps = self.backbone(x)[-1]
        mean = self.whole(F.adaptive_avg_pool2d(maps, 1))
        mean = F.interpolate(mean, paddle.shape(maps)[2:], mode="bilinear", align_corners=False)
        found = self.out(F.relu(paddle.concat([wide(maps) for wide in self.wide] + [mean], 1)))
        found = F.interpolate(found, paddle.shape(x)[2:], mode="bilinear", align_corners=True)
        return paddle.argmax(found, axis=1, keepdim=False, dtype="int32")


class Tagger(nn.Layer):
    """The best path of tags of each sentence."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 16)
        self.gru = nn.GRU(16, 12, direction="bidirect")
        self.out = nn.Linear(24, 9)
        self.transitions = self.create_parameter([9, 9])
        self.decoder = paddle.text.ViterbiDecoder(self.transitions, True)

    def forward(self, ids, lengths):
        states, _ = self.gru(self.words(ids), sequence_length=lengths)
        scores, path = self.decoder(self.out(states), lengths)
        return scores, path


class Recommender(nn.Layer):
    """The chance of a click: a factorisation machine beside a deep network."""

    def __init__(self):
        super().__init__()
        self.tables = nn.LayerList([nn.Embedding(50, 4, sparse=True) for _ in range(3)])
        self.deep = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
        self.wide = nn.Linear(2, 1)

    def forward(self, user, item, shop, dense):
        rows = [paddle.flatten(table(ids), 1) for table, ids in zip(self.tables, (user, item, shop))]
        stacked = paddle.stack(rows, 1)
        squares = paddle.square(stacked.sum(1)) - paddle.sum(paddle.square(stacked), 1)
        pairs = 0.5 * paddle.sum(squares, 1, keepdim=True)
        return F.sigmoid(self.deep(paddle.concat([*rows, dense], 1)) + self.wide(dense) + pairs)


class Classifier(nn.Layer):
    """The class of a text, by a transformer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(200, 16, padding_idx=0)
        self.positions = nn.Embedding(64, 16)
        self.kinds = nn.Embedding(2, 16)
        self.norm = nn.LayerNorm(16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.pool = nn.Linear(16, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, input_ids, token_type_ids):
        mask = paddle.unsqueeze((input_ids == 0).astype("float32") * -1e4, axis=[1, 2])
        ones = paddle.ones_like(input_ids, dtype="int64")
        where = self.positions(paddle.cumsum(ones, axis=1) - ones)
        x = self.norm(self.words(input_ids) + where + self.kinds(token_type_ids))
        return self.out(F.tanh(self.pool(self.encoder(x, mask)[:, 0])))


IDS = [None, None], "int64"
SPECS: dict[str, tuple[Any, list[Any]]] = {
    "det": (TextFinder, [(PICTURE, "float32", "x")]),
    "cls": (Upright, [([None, 3, 48, 192], "float32", "x")]),
    "rec": (Reader, [([None, 3, 32, None], "float32", "x")]),
    "yolo": (
        Detector,
        [
            (PICTURE, "float32", "image"),
            ([None, 2], "float32", "im_shape"),
            ([None, 2], "float32", "scale_factor"),
        ],
    ),
    "seg": (Segmenter, [(PICTURE, "float32", "x")]),
    "tag": (Tagger, [(*IDS, "ids"), ([None], "int64", "lengths")]),
    "ctr": (
        Recommender,
        [*(([None, 1], "int64", name) for name in ("user", "item", "shop")), ([None, 2], "float32", "dense")],
    ),
    "text": (Classifier, [(*IDS, "input_ids"), (*IDS, "token_type_ids")]),
}


def rounded(layer: Any, source: np.random.RandomState) -> None:
    """Give the layer weights and statistics that are multiples of 1/64."""
    for name, value in layer.state_dict().items():
        shape = tuple(value.shape)
        inputs = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
        found = source.normal(0.0, 1.5 / np.sqrt(inputs) if len(shape) > 1 else 0.2, shape)
        if name.endswith("_variance") or ("norm" in name and name.endswith("weight")):
            found = 1 + np.abs(found)
        value.set_value((np.round(found * 64) / 64).astype("float32"))


def export(folder: str) -> None:
    """Write all models: `folder`/det/inference.pdmodel and so on."""
    paddle.seed(3)
    for place, (name, (network, specs)) in enumerate(SPECS.items()):
        layer = network()
        layer.eval()
        rounded(layer, np.random.RandomState(place))
        made = paddle.jit.to_static(layer, input_spec=[InputSpec(*spec) for spec in specs])
        prefix = os.path.join(folder, name, "inference")
        paddle.jit.save(made, prefix)
        os.remove(prefix + ".pdiparams.info")
