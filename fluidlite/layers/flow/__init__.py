"""Layers that steer a program: loops, branches, tensor arrays, looking in from outside."""
