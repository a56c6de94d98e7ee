"""Golden programs in the words of PaddlePaddle 2.x: FluidLite reads and runs what 2.6.2 made of them."""
