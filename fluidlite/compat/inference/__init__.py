"""Saved models under the interface of Paddle's inference library: files, tensors, configurations, predictors.

`fluid.core` has 1.8.5's names from here, and `paddle.inference` builds 2.6.2's on them.
"""
