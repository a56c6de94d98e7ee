"""The layers of `paddle.nn` beside 2.6.2: outputs, gradients, names and shapes of parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden import nn_layers as cases

import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.paddle import nn

RECORDED = np.load(cases.PATH)
META = json.loads(str(RECORDED["meta"]))


def recorded() -> dict[str, list[np.ndarray]]:
    """Case -> arrays."""
    found, start = {}, 0
    for name, shapes in META["shapes"].items():
        found[name] = []
        for shape in shapes:
            size = int(np.prod(shape))
            found[name].append(RECORDED["values"][start : start + size].reshape(shape))
            start += size
    return found


VALUES = recorded()


@pytest.fixture(autouse=True)
def programs() -> Any:
    with (
        unique_name.guard(),
        paddle.static.scope_guard(paddle.static.global_scope().new_scope()),
        paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()),
    ):
        yield


@pytest.mark.parametrize("name", cases.CASES)
def test_as_recorded(name: str) -> None:
    found, params = cases.run(paddle, name)
    assert params == META["params"][name]
    assert len(found) == len(VALUES[name])
    for value, expected in zip(found, VALUES[name], strict=True):
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=2e-4, atol=2e-5)


def test_training_as_recorded() -> None:
    np.testing.assert_allclose(cases.train(paddle), META["losses"], rtol=2e-4)


def run(fetch: Any, feed: Any = None) -> np.ndarray:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    return np.asarray(exe.run(feed=feed, fetch_list=[fetch])[0])


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.scale = self.create_parameter([3], default_initializer=nn.initializer.Constant(2.0))
        self.norm = nn.BatchNorm1D(3)

    def forward(self, x: Any) -> Any:
        return self.norm(self.first(x)) * self.scale


@pytest.mark.parametrize("kind", ["BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "SyncBatchNorm"])
def test_a_name_is_that_of_running_figures(kind: str) -> None:
    """As 2.6.2 calls them, in whose files they stand so."""
    layer = getattr(nn, kind)(3, name="given")
    assert [layer._mean.name, layer._variance.name] == ["given_mean", "given_variance"]
    assert not layer.weight.name.startswith("given")


@pytest.mark.parametrize(
    ("make", "shape", "names"),
    [
        # as 2.6.2 counts: what these compute has their own names, and no name of the next layer
        (lambda: nn.Conv2D(2, 4, 1, groups=2), (2, 2, 3, 3), "conv2d_1.w_0 conv2d_1.b_0"),
        (lambda: nn.Conv2DTranspose(2, 2, 1, groups=2), (2, 2, 3, 3), "conv2d_transpose_1.w_0"),
        (lambda: nn.BatchNorm(3, act="relu"), (2, 3), "batch_norm_1.w_0 batch_norm_1.w_2"),
        (lambda: nn.GroupNorm(1, 3), (2, 3, 4), "group_norm_1.w_0 group_norm_1.b_0"),
        (lambda: nn.SpectralNorm([2, 3]), (2, 3), "spectral_norm_1.w_0 spectral_norm_1.w_1"),
        # these call functions, which count
        (lambda: nn.Conv2D(2, 2, 1), (2, 2, 3, 3), "conv2d_2.w_0 conv2d_2.b_0"),
        (lambda: nn.LayerNorm(3), (2, 3), "layer_norm_2.w_0 layer_norm_2.b_0"),
    ],
)
def test_names_of_a_second_layer(make: Callable[[], Any], shape: tuple[int, ...], names: str) -> None:
    x = paddle.static.data("x", shape)
    make()(x)
    second = make()
    second(x)
    assert set(names.split()) <= {param.name for param in second.parameters()}


def test_a_second_call_shares_parameters() -> None:
    net, x = Net(), paddle.static.data("x", [2, 3])
    net(x), net(x)
    assert len(paddle.static.default_main_program().all_parameters()) == len(net.parameters()) == 7


def test_another_program_declares_and_initialises() -> None:
    net = Net()
    net.first(paddle.static.data("x", [2, 3]))
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        out = net(paddle.static.data("x", [2, 3]))
        names = {param.name for param in main.all_parameters()}
        assert names == {param.name for param in net.parameters()}
        assert all(param.block.program is main for param in net.parameters())
        assert {name for op in startup.global_block().ops for name in op.output_arg_names} == names
        assert run(out, {"x": np.ones((2, 3), "float32")}).shape == (2, 3)


def test_weight_normalised_parameters_in_another_program() -> None:
    net = nn.Linear(3, 2, weight_attr=paddle.static.WeightNormParamAttr(dim=1))
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        out = net(paddle.static.data("x", [2, 3]))
        assert run(out, {"x": np.ones((2, 3), "float32")}).shape == (2, 2)


def test_attributes_register() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()][:3] == ["scale", "first.weight", "first.bias"]
    assert [name for name, _ in net.named_sublayers()] == ["first", "norm"]
    net.register_buffer("seen", paddle.static.data("seen", [1]), persistable=False)
    assert "seen" not in net.state_dict() and len(net.buffers()) == 1
    del net.scale
    assert "scale" not in net.state_dict()
    net.first = None
    assert len(net.sublayers()) == 1
    assert "norm" in repr(net) and net.full_name() == "net_0"


def test_hooks_and_modes() -> None:
    layer, x = nn.Dropout(0.5), paddle.static.data("x", [2])
    before = layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1.0,))
    after = layer.register_forward_post_hook(lambda layer, inputs, out: out * 3.0)
    outer = nn.Sequential(layer)
    outer.eval()
    changed = outer(x)
    before.remove(), after.remove()
    assert list(run(changed, {"x": np.zeros(2, "float32")})) == [3.0, 3.0]
    assert list(run(outer(x), {"x": np.zeros(2, "float32")})) == [0.0, 0.0]
    outer.train()
    assert layer.training
    seen: list[Any] = []
    outer.apply(seen.append)
    assert seen == [layer, outer]


def test_state() -> None:
    net = nn.Linear(2, 2)
    net.set_state_dict({"weight": np.eye(2, dtype="float32")})
    missing, unknown = net.set_state_dict({"bias": np.ones(2, "float32"), "other": np.ones(1)})
    assert (missing, unknown) == (["weight"], ["other"])
    with pytest.warns(UserWarning, match="Skip loading for bias"):
        net.set_state_dict({"bias": np.ones(3)})
    other = nn.Linear(2, 2)
    other.set_state_dict(net.state_dict())
    scope = paddle.static.global_scope()
    assert np.array(scope.find_var(other.weight.name).get_tensor()).tolist() == [[1, 0], [0, 1]]
    other.set_state_dict({"linear_1.b_0": np.zeros(2, "float32")}, use_structured_name=False)
    assert not np.array(scope.find_var(other.bias.name).get_tensor()).any()


def test_containers() -> None:
    layers = nn.LayerList([nn.ReLU()])
    layers.append(nn.Tanh()).insert(0, nn.GELU())
    assert [type(layer).__name__ for layer in layers] == ["GELU", "ReLU", "Tanh"]
    layers[1] = nn.ELU()
    del layers[0]
    assert repr(layers[0:1]) == "LayerList(\n  (0): ELU(alpha=1.0)\n)"
    named = nn.LayerDict({"a": nn.ReLU()})
    named.update({"b": nn.Linear(2, 2)})
    assert list(named) == ["a", "b"] and "b" in named and len(named.pop("b").parameters()) == 2
    params = nn.ParameterList([nn.Layer().create_parameter([2]) for _ in range(2)])
    params.append(nn.Layer().create_parameter([3]))
    assert [param.name for param in params] == ["layer_0.w_0", "layer_1.w_0", "layer_2.w_0"]
    chain = nn.Sequential(("a", nn.ReLU()), ("b", nn.Tanh()))
    assert chain["b"] is chain[1] is chain[-1] and len(chain[:1]) == 1


def test_a_cache_gives_what_the_whole_sequence_gives() -> None:
    """The last step of a decoder layer, from keys and values of the steps before."""
    layer = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0)
    memory = paddle.static.data("memory", [1, 3, 4])
    steps = paddle.static.data("steps", [1, 2, 4])
    first, cache = layer(steps[:, :1], memory, cache=layer.gen_cache(memory))
    last, _ = layer(steps[:, 1:], memory, cache=cache)
    mask = nn.Transformer.generate_square_subsequent_mask(None, 2)
    whole = layer(steps, memory, mask)
    rng = np.random.RandomState(0)
    feed = {"memory": rng.rand(1, 3, 4).astype("float32"), "steps": rng.rand(1, 2, 4).astype("float32")}
    gap = paddle.concat([first, last], 1) - whole
    assert abs(run(gap, feed)).max() < 1e-5


def test_beam_search_over_a_cell() -> None:
    cell, embed, project = nn.GRUCell(4, 4), nn.Embedding(6, 4), nn.Linear(4, 6)
    decoder = nn.BeamSearchDecoder(cell, 0, 1, 2, embedding_fn=embed, output_fn=project)
    encoded = paddle.static.data("encoded", [3, 4])
    outputs, _ = nn.dynamic_decode(decoder, cell.get_initial_states(encoded), max_step_num=4)
    found = run(outputs, {"encoded": np.ones((3, 4), "float32")})
    assert found.shape[0] == 3 and found.shape[2] == 2 and found.shape[1] <= 5


def test_a_finished_beam_may_change_places() -> None:
    """The other beam goes on: 2.6.2 gave these ids and lengths."""

    def weights(*shape: int) -> Any:
        drawn = np.random.RandomState(len(shape) + shape[0] + 2).randn(*shape).astype("float32")
        return paddle.ParamAttr(initializer=nn.initializer.Assign(drawn))

    embed = nn.Embedding(6, 2, weight_attr=weights(6, 2))
    project = nn.Linear(2, 6, weight_attr=weights(2, 6))
    cell = nn.GRUCell(2, 2, weights(6, 2), weights(6, 2), weights(6), weights(6))
    decoder = nn.BeamSearchDecoder(cell, 0, 1, 2, embedding_fn=embed, output_fn=project)
    start = paddle.static.data("start", [1, 2])
    outputs, _, lengths = nn.dynamic_decode(decoder, start, max_step_num=4, return_length=True)
    feed = {"start": np.array([[1.349, -1.159]], "float32")}
    assert run(outputs, feed).tolist() == [[[1, 3]] * 5]
    assert run(lengths, feed).tolist() == [[1, 5]]


INITIALIZERS = nn.initializer


@pytest.mark.parametrize(
    ("made", "check"),
    [
        (lambda: INITIALIZERS.Constant(3.0), lambda x: (x == 3).all()),
        (lambda: INITIALIZERS.Assign(np.arange(4000.0).reshape(40, 100)), lambda x: x[1, 0] == 100),
        (lambda: INITIALIZERS.Uniform(2.0, 3.0), lambda x: x.min() >= 2 and x.max() < 3),
        (lambda: INITIALIZERS.Normal(5.0, 2.0), lambda x: abs(x.mean() - 5) < 0.2 and abs(x.std() - 2) < 0.2),
        (lambda: INITIALIZERS.TruncatedNormal(0.0, 1.0), lambda x: abs(x).max() <= 2),
        (lambda: INITIALIZERS.XavierNormal(), lambda x: abs(x.std() - (2 / 140) ** 0.5) < 0.01),
        (lambda: INITIALIZERS.XavierUniform(), lambda x: abs(x).max() <= (6 / 140) ** 0.5),
        (lambda: INITIALIZERS.KaimingNormal(), lambda x: abs(x.std() - (2 / 40) ** 0.5) < 0.02),
        (lambda: INITIALIZERS.KaimingUniform(fan_in=6), lambda x: 0.9 < abs(x).max() <= 1),
        (lambda: INITIALIZERS.KaimingUniform(6, 1.0, "leaky_relu"), lambda x: 0.6 < abs(x).max() <= 0.5**0.5),
    ],
)
def test_initializers(made: Callable[[], Any], check: Callable[[Any], bool]) -> None:
    layer = nn.Linear(40, 100, weight_attr=paddle.ParamAttr(initializer=made()))
    assert check(run(layer.weight))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: nn.Layer().add_sublayer("a", 3), TypeError),
        (lambda: nn.Layer().add_parameter("a", 3), TypeError),
        (lambda: nn.Layer().add_parameter("", None), KeyError),
        (lambda: nn.Layer().add_parameter("a.b", None), KeyError),
        (lambda: nn.Layer().add_parameter("training", None), KeyError),
        (lambda: nn.Layer().register_buffer("b", np.ones(2)), TypeError),
        (lambda: nn.Layer().register_buffer(3, None), TypeError),
        (lambda: nn.Layer().nothing, AttributeError),
        (lambda: nn.Layer()(1), TypeError),
        (lambda: nn.Linear(2, 3).to(dtype="float64"), ValueError),
        (lambda: setattr(nn.Linear(2, 3), "weight", 3), TypeError),
        (lambda: nn.MultiHeadAttention(8, 3), ValueError),
        (lambda: nn.Embedding(0, 3), ValueError),
        (lambda: nn.Embedding(3, 3, padding_idx=3), ValueError),
        (lambda: nn.LSTM(2, 3, direction="up"), ValueError),
        (lambda: nn.SimpleRNN(2, 3, activation="gelu"), ValueError),
        (lambda: nn.LSTMCell(2, 0), ValueError),
        (lambda: nn.RNNCellBase().state_shape, TypeError),
        (lambda: nn.Conv2D(3, 4, 3, groups=2), ValueError),
        (lambda: nn.Conv2D(3, 4, 3, padding_mode="mirror"), ValueError),
        (lambda: nn.BatchNorm2D(3)(paddle.static.data("x", [2, 3])), ValueError),
        (lambda: nn.GroupNorm(2, 4, data_format="NCL"), ValueError),
        (lambda: nn.InstanceNorm2D(3, weight_attr=False), ValueError),
        (lambda: nn.MSELoss("middle"), ValueError),
        (lambda: nn.PixelShuffle(2.0), TypeError),
        (lambda: nn.HSigmoidLoss(3, 1), ValueError),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, activation="nothing"), ValueError),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, weight_attr=[None]), ValueError),
        (lambda: nn.initializer.Assign(3.0), TypeError),
        (lambda: nn.initializer.calculate_gain("gelu"), ValueError),
        (lambda: nn.Linear(2, 3, paddle.ParamAttr(initializer=nn.initializer.Assign([1.0]))), ValueError),
    ],
)
def test_wrong_use(wrong: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"."):
        wrong()


def test_hooks_whose_helpers_nobody_holds() -> None:
    layer, called = paddle.nn.Linear(2, 2), []
    for number in range(20):
        layer.register_forward_pre_hook(lambda _, given, number=number: called.append(number))
    layer(paddle.static.data("x", [None, 2]))
    assert called == list(range(20))


@pytest.mark.parametrize(
    ("attr", "encoder", "decoder"),
    [
        ("p", ["p_0", "p_1"], ["p_0", "p_1", "p_2"]),
        (paddle.ParamAttr(name="q"), ["q_0", "q_1"], ["q_0", "q_1", "q_2"]),
        (["u"], ["u", "u"], ["u", "u", "u"]),
        (["u", "v"], ["u", "v"], ["u", "u", "v"]),
        (["u", "v", "w"], ["u", "w"], ["u", "v", "w"]),
    ],
)
def test_names_of_a_transformers_weights(attr: Any, encoder: list[str], decoder: list[str]) -> None:
    """Those of 2.6.2: one for each attention and for what stands behind them."""
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        made = paddle.nn.Transformer(2, 1, 1, 1, 2, weight_attr=attr)
        first, last = made.encoder.layers[0], made.decoder.layers[0]
        parts = [
            first.self_attn.q_proj,
            first.linear1,
            last.self_attn.q_proj,
            last.cross_attn.q_proj,
            last.linear2,
        ]
        assert [part.weight.name for part in parts] == encoder + decoder
