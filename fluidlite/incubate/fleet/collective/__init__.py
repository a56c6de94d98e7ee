"""`fluid.incubate.fleet.collective`: the fleet whose trainers reduce their gradients."""
