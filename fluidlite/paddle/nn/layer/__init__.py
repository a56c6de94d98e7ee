"""`paddle.nn.layer`: the layers of `paddle.nn`, by what they do"""

from __future__ import annotations
