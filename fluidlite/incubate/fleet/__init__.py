"""`fluid.incubate.fleet`: one way to write training programs for servers and for rings of trainers."""
