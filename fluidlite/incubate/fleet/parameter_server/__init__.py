"""`fluid.incubate.fleet.parameter_server`: jobs in which servers keep the parameters."""
