"""`python -m paddle.distributed.launch`: start the processes of a job"""

from __future__ import annotations
