"""Ops that steer a program: loops and branches, feeds and files, looking in from outside."""
