# ruff: noqa: B007, UP031
"""A distributed training script as they were written for fluid in 2019, with the names of that time."""

import os

import numpy as np
import paddle
import paddle.fluid as fluid

BATCH_SIZE = 16
PASSES = 2


def reader():
    random = np.random.RandomState(5)
    weight = random.randn(13, 1).astype("float32")
    for _ in range(160):
        x = random.randn(13).astype("float32")
        yield x, x.dot(weight).astype("float32")


def train_program():
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    hidden = fluid.layers.fc(
        input=x,
        size=200,
        act="relu",
        param_attr=fluid.ParamAttr(name="w1", initializer=fluid.initializer.Constant(0.01)),
    )
    y_predict = fluid.layers.fc(
        input=hidden,
        size=1,
        param_attr=fluid.ParamAttr(name="w2", initializer=fluid.initializer.Constant(0.02)),
    )
    cost = fluid.layers.square_error_cost(input=y_predict, label=y)
    avg_cost = fluid.layers.mean(cost)
    fluid.optimizer.SGD(learning_rate=0.001).minimize(avg_cost)
    return [x, y], avg_cost


def train_loop(exe, main_program, feeds, avg_cost, trainer_id, trainers):
    feeder = fluid.DataFeeder(feed_list=feeds, place=fluid.CPUPlace())
    for pass_id in range(PASSES):
        for batch_id, data in enumerate(paddle.batch(reader, batch_size=BATCH_SIZE)()):
            mine = data[trainer_id::trainers]
            (loss,) = exe.run(main_program, feed=feeder.feed(mine), fetch_list=[avg_cost])
        print("pass %d batch %d loss %f" % (pass_id, batch_id, loss[0]))
    value = np.array(fluid.global_scope().find_var("w1").get_tensor())
    print("w1 %.9e %.9e" % (value.sum(), np.abs(value).max()))


def main():
    feeds, avg_cost = train_program()
    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    training_role = os.getenv("TRAINING_ROLE", "LOCAL")
    if training_role == "LOCAL":
        exe.run(fluid.default_startup_program())
        train_loop(exe, fluid.default_main_program(), feeds, avg_cost, 0, 1)
        return

    pserver_endpoints = os.getenv("PADDLE_PSERVERS_IP_PORT_LIST")
    trainers = int(os.getenv("PADDLE_TRAINERS_NUM"))
    trainer_id = int(os.getenv("PADDLE_TRAINER_ID", "0"))
    current_endpoint = os.getenv("POD_IP", "") + ":" + os.getenv("PADDLE_PORT", "")
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = True
    t = fluid.DistributeTranspiler(config=config)
    t.transpile(trainer_id, pservers=pserver_endpoints, trainers=trainers)
    if training_role == "PSERVER":
        pserver_prog = t.get_pserver_program(current_endpoint)
        pserver_startup = t.get_startup_program(current_endpoint, pserver_prog)
        exe.run(pserver_startup)
        exe.run(pserver_prog)
    elif training_role == "TRAINER":
        trainer_prog = t.get_trainer_program()
        exe.run(fluid.default_startup_program())
        train_loop(exe, trainer_prog, feeds, avg_cost, trainer_id, trainers)
        exe.close()


if __name__ == "__main__":
    main()
