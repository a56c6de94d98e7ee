"""Models and scripts in the style of published deployments, with their results in PaddlePaddle 2.6.2."""
