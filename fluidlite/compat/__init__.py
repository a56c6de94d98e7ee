"""Paddle's own views of programs and models: descriptions, the predictor, the steps of a
backward pass.
"""
