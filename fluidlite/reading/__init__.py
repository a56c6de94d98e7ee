"""Samples on their way into a program: lines of files, queues, readers; `reader`, `dataset` and
`data_feeder` are the doors.
"""
