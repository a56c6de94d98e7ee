"""`paddle.distributed.fleet.base`: roles, strategies, exchanges between workers."""
