"""`fluid.contrib.op_frequence`: which ops, and which pairs of ops, a program has most of."""

from __future__ import annotations

from collections import Counter

from fluidlite.ir.program import Program

__all__ = ["op_freq_statistic"]


def op_freq_statistic(program: Program) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """(op type, count) and ("producer->consumer", count) of the global block, the most frequent first."""
    if not isinstance(program, Program):
        raise TypeError(f"The input type should be Porgram.But you passed in {type(program)}")
    single: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    writers: dict[str, str] = {}
    for op in program.global_block().ops:
        single[op.type] += 1
        pairs.update(f"{writers[name]}->{op.type}" for name in op.input_arg_names if name in writers)
        writers.update(dict.fromkeys(op.output_arg_names, op.type))
    return single.most_common(), pairs.most_common()
