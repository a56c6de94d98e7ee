"""`paddle.vision.models` beside PaddlePaddle 2.6.2: parameters, ops and values."""

from __future__ import annotations

import json
import lzma
import pathlib
from typing import Any

import numpy as np
import pytest
from golden.vision_models_2x import CASES, PATH, build, label, recorded_of

import fluidlite.paddle as paddle
from fluidlite.base.errors import ArgumentError, FormatError, MissingFileError
from fluidlite.paddle.utils import download
from fluidlite.paddle.vision.models import _NAMES

RECORDED = json.loads(lzma.decompress(PATH.read_bytes()))


@pytest.mark.parametrize("case", CASES, ids=[label(*case) for case in CASES])
def test_state_and_ops_are_those_of_paddle(case: tuple[str, dict[str, Any]]) -> None:
    wanted = RECORDED[label(*case)]
    found = json.loads(json.dumps(recorded_of(paddle, *case)))
    assert found["outs"] == wanted["outs"]
    assert found["state"] == wanted["state"]
    assert len(found["ops"]) == len(wanted["ops"])
    for (kind, inputs, attrs), (wanted_kind, wanted_inputs, wanted_attrs) in zip(found["ops"], wanted["ops"]):
        assert (kind, inputs) == (wanted_kind, wanted_inputs)
        # ours has more: the attributes that 1.8.5 gave ops, at their defaults
        assert {key: attrs[key] for key in wanted_attrs if key in attrs} == {
            key: value for key, value in wanted_attrs.items() if key in attrs
        }


def test_every_name_is_a_case() -> None:
    called = {name for name, _ in CASES}
    # of these a function of the file calls the class
    called |= {"AlexNet", "GoogLeNet", "InceptionV3", "MobileNetV1", "MobileNetV2", "MobileNetV3Large"}
    called |= {"MobileNetV3Small", "ResNet", "SqueezeNet", "VGG"}
    assert set(_NAMES.homes) <= called


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_25"])
def test_a_step_of_training(name: str) -> None:
    paddle.seed(7)
    main, startup, _, _, out = build(paddle, name, {"num_classes": 3}, size=32)
    with paddle.static.program_guard(main, startup), paddle.static.scope_guard(paddle.static.Scope()):
        label = paddle.static.data("label", [None, 1], "int64")
        loss = paddle.mean(paddle.nn.functional.cross_entropy(out, label))
        paddle.optimizer.Adam(0.001).minimize(loss)
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        rng = np.random.RandomState(0)
        feed = {"x": rng.rand(6, 3, 32, 32).astype("float32"), "label": np.arange(6).reshape(6, 1) % 3}
        losses = [float(exe.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(8)]
    assert losses[-1] < losses[0]


def test_weights_lie_in_their_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "WEIGHTS_HOME", str(tmp_path))
    with pytest.raises(MissingFileError, match="resnet18.pdparams not found: put https"):
        paddle.vision.models.resnet18(pretrained=True)
    with pytest.raises(ValueError, match="you should set pretrained=False"):
        paddle.vision.models.vgg11(pretrained=True)
    state = {key: np.full(shape, 2, "float32") for key, _, shape, _ in RECORDED["resnet18()"]["state"]}
    paddle.save(state, str(tmp_path / "resnet18.pdparams"))
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with paddle.static.scope_guard(paddle.static.Scope()):
            model = paddle.vision.models.resnet18(pretrained=True)
            names = [var.name for var in model.state_dict().values()]
            scope = paddle.static.global_scope()
            assert all(np.all(np.array(scope.find_var(name).get_tensor()) == 2) for name in names)
    with pytest.raises(FormatError, match="its MD5 is"):
        download.get_weights_path_from_url("https://x.y/resnet18.pdparams", "0" * 32)


def test_what_is_refused() -> None:
    models = paddle.vision.models
    with pytest.raises(AssertionError, match="supported layers are"):
        models.DenseNet(layers=100)
    with pytest.raises(AssertionError, match="supported versions are"):
        models.SqueezeNet("1.2")
    with pytest.raises(ArgumentError, match="0.7"):
        models.ShuffleNetV2(scale=0.7)
    with pytest.raises(RuntimeError, match="not supported: foo"):
        models.ShuffleNetV2(act="foo")
    with pytest.raises(ArgumentError, match="Dilation > 1"):
        models.resnet.BasicBlock(4, 4, dilation=2)
