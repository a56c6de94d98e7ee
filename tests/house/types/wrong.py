"""A mistake in each marked line: a type checker must find them all, and no other."""

import fluidlite as fluid
import fluidlite.paddle as paddle

x = fluid.data("x", [None, 4])
fluid.layers.fcc(x, 3)  # wrong
fluid.layers.fc(x, sizes=3)  # wrong
fluid.layers.fc(x, "3")  # wrong
fluid.layers.fc(x, 3, act=3)  # wrong
fluid.optimizer.Adam(learning_rate="0.1")  # wrong
fluid.optimizer.Adamm(0.1)  # wrong
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_main_program(), feeds={})  # wrong
exe.run(feed=3)  # wrong
exe.runn()  # wrong
fluid.layers.relu(x, axis=1)  # wrong
fluid.layers.exp(x, 3)  # wrong
fluid.io.save_inference_model("m", "x", [x], exe, program=1)  # wrong
paddle.add(x)  # wrong
paddle.nn.Linear(4)  # wrong
paddle.nn.functional.reluu(x)  # wrong
print(x.shapee)  # wrong
fluid.default_main_program().cloned()  # wrong
fluid.DistributeTranspiler().transpile(trainer="0")  # wrong
fluid.layers.cross_entropy(x)  # wrong
fluid.layers.conv2d(x, 3)  # wrong
fluid.layers.conv2d(x, 3, 3, strides=2)  # wrong
fluid.initializer.Normal(loc="0")  # wrong
fluid.CPUPlace(0)  # wrong
