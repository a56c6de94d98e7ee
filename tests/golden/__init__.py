"""Programs, and what PaddlePaddle made of them."""
