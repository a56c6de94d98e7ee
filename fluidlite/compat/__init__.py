"""Paddle's own views of programs and models: descriptions, kept attributes, the predictor, the steps of a
backward pass.
"""
