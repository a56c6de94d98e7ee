"""Names of the door that have no generator, each with its reason."""

from __future__ import annotations

__all__ = ["LEFT_OUT"]

BASE = "a base class"
READER = "a queue between threads: its tests feed it"
PART = "a part of a control flow whose generator makes it"
MODULE = "a module"
DEVICE = "PaddlePaddle 1.8.5 has it for devices alone"
NEWER = "PaddlePaddle 1.8.5 lacks it"

LEFT_OUT = {
    "fluid.layers.BlockGuard": PART,
    "fluid.layers.ConditionalBlock": PART,
    "fluid.layers.ConditionalBlockGuard": PART,
    "fluid.layers.IfElseBlockGuard": PART,
    "fluid.layers.StaticRNNMemoryLink": PART,
    "fluid.layers.WhileGuard": PART,
    "fluid.layers.copy_var_to_parent_block": PART,
    "fluid.layers.create_py_reader_by_data": READER,
    "fluid.layers.double_buffer": READER,
    "fluid.layers.py_reader": READER,
    "fluid.layers.read_file": READER,
    "fluid.layers.hash": "PaddlePaddle 1.8.5 raises a TypeError for all arguments",
    "fluid.layers.load": "reads a file",
    "fluid.layers.lstm": DEVICE,
    "fluid.layers.py_func": "calls a Python function as the program runs",
    "fluid.layers.unbind": NEWER,
    "fluid.layers.utils": MODULE,
    "fluid.contrib.layers.metric_op": MODULE,
    "fluid.contrib.layers.nn": MODULE,
    "fluid.contrib.layers.rnn_impl": MODULE,
    "fluid.contrib.layers.rank_attention": DEVICE,
    "fluid.contrib.layers.sparse_embedding": NEWER,
    "fluid.optimizer.DGCMomentumOptimizer": DEVICE,
    "fluid.optimizer.PipelineOptimizer": "cuts a program into parts for several devices",
    "fluid.clip.BaseErrorClipAttr": BASE,
    "fluid.clip.GradientClipBase": BASE,
    "fluid.clip.ClipByGlobalNorm": NEWER,
    "fluid.clip.ClipByNorm": NEWER,
    "fluid.clip.ClipByValue": NEWER,
    "fluid.clip.append_gradient_clip_ops": "what optimizers call",
    "fluid.clip.error_clip_callback": "what backward calls",
    "fluid.regularizer.WeightDecayRegularizer": BASE,
    "fluid.regularizer.append_regularization_ops": "what optimizers call",
    "fluid.initializer.Initializer": BASE,
}
