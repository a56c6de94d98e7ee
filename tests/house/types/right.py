"""A user's script without a mistake: no type checker may complain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.layers import fc, relu
from fluidlite.param_attr import ParamAttr


def reader() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for i in range(64):
        yield np.random.rand(8).astype("float32"), np.array([i % 3], "int64")


def network(image: fluid.Variable, label: fluid.Variable) -> tuple[fluid.Variable, fluid.Variable]:
    hidden = fc(
        input=image,
        size=16,
        act="relu",
        param_attr=ParamAttr(name="w", initializer=fluid.initializer.Xavier()),
    )
    hidden = fluid.layers.batch_norm(hidden, act="tanh", momentum=0.8)
    hidden = fluid.layers.dropout(hidden, dropout_prob=0.5)
    both = fluid.layers.concat([hidden, relu(hidden)], axis=1)
    prediction = fc(both, 3, act="softmax", bias_attr=False)
    cost = fluid.layers.cross_entropy(input=prediction, label=label)
    return fluid.layers.mean(cost), fluid.layers.accuracy(input=prediction, label=label)


main, startup = fluid.Program(), fluid.Program()
with fluid.program_guard(main, startup):
    with fluid.unique_name.guard():
        image = fluid.data("image", [None, 8], "float32")
        label = fluid.layers.data(name="label", shape=[1], dtype="int64")
        loss, accuracy = network(image, label)
        test = main.clone(for_test=True)
        rate = fluid.layers.piecewise_decay([10, 20], [0.1, 0.01, 0.001])
        clip = fluid.clip.GradientClipByGlobalNorm(1.0)
        optimizer = fluid.optimizer.Momentum(
            rate, momentum=0.9, regularization=fluid.regularizer.L2Decay(1e-4), grad_clip=clip
        )
        optimizer.minimize(loss)
        scaled = loss * 2 + 1 - loss / 3
        bigger = image > 0.5
        part = image[:, 0:2]
        main.random_seed = 1
place = fluid.CUDAPlace(0) if fluid.is_compiled_with_cuda() else fluid.CPUPlace()
exe = fluid.Executor(place)
exe.run(startup)
feeder = fluid.DataFeeder(feed_list=[image, label], place=place)
batches = fluid.io.batch(reader, batch_size=16)
for epoch in range(2):
    for step, data in enumerate(batches()):
        value, right = exe.run(main, feed=feeder.feed(data), fetch_list=[loss, accuracy.name])
        print(epoch, step, float(value), value.shape, right[0])
compiled = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name)
exe.run(
    compiled,
    feed={"image": np.zeros((4, 8), "float32"), "label": np.zeros((4, 1), "int64")},
    fetch_list=[loss],
)
exe.run(main, feed=feeder.feed(data), fetch_list=loss)
weight = fluid.global_scope().find_var("w").get_tensor()
weight.set(np.ones((8, 16), "float32"), place)
print(np.array(weight).sum(), weight.shape())
fluid.io.save_inference_model("model", ["image"], [accuracy], exe, main_program=main)
program, feeds, targets = fluid.io.load_inference_model("model", exe)
print(
    exe.run(program, feed={feeds[0]: np.zeros((1, 8), "float32")}, fetch_list=targets, return_numpy=False)[0]
)
fluid.save(main, "all")
fluid.load(main, "all", exe)
for parameter in main.global_block().all_parameters():
    print(parameter.name, parameter.shape, parameter.dtype)
for op in main.global_block().ops:
    print(op.type, op.input_arg_names, op.attr("op_role"))
config = fluid.DistributeTranspilerConfig()
config.sync_mode = False
transpiler = fluid.DistributeTranspiler(config=config)
transpiler.transpile(
    trainer_id=0, program=main, pservers="127.0.0.1:6174", trainers=2, startup_program=startup
)
trainer = transpiler.get_trainer_program()
server = transpiler.get_pserver_program("127.0.0.1:6174")
print(trainer.to_string(True), server)

i = fluid.layers.fill_constant([1], "int64", 0)
n = fluid.layers.fill_constant([1], "int64", 10)
cond = fluid.layers.less_than(i, n)
loop = fluid.layers.While(cond)
with loop.block():
    fluid.layers.increment(i, value=1, in_place=True)
    fluid.layers.less_than(i, n, cond=cond)
words = fluid.data("words", [None, 1], "int64", lod_level=1)
embedded = fluid.embedding(words, size=[100, 8], is_sparse=True)
projected = fluid.layers.fc(embedded, 32)
lstm, cell = fluid.layers.dynamic_lstm(projected, size=32)
last = fluid.layers.sequence_pool(lstm, "last")
ids = fluid.create_lod_tensor(np.zeros((3, 1), "int64"), [[1, 2]], place)
x = paddle.static.data("x", [None, 4], "float32")
y = paddle.add(paddle.nn.functional.relu(x), x)
out = paddle.nn.Linear(4, 2)(y)
print(paddle.mean(out), paddle.sum(out, axis=1), ids.lod())
opt = paddle.optimizer.Adam(learning_rate=0.1)
opt.minimize(paddle.mean(out))
