"""ONNX for ops that read labels out of scores: CTC, Viterbi's path."""

from __future__ import annotations

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.sequences import check_single
from fluidlite.saving.onnx.values import Value, counted, joined, values_of


@exports("ctc_align")
def _ctc_align(op: OpView) -> None:
    """Tokens without blanks and repetitions: of one sequence, or of padded ones with their lengths."""
    (tokens,) = values_of(op, "Input")
    is_padded = op.has("InputLength")
    if not is_padded:
        check_single(op, "Input")
        op.idle("padding_value")
    rows = tokens.reshape(0, -1) if is_padded else tokens.reshape(1, -1)
    is_kept = ~rows.compare("Equal", int(op.attr("blank")))
    if op.attr("merge_repeated"):
        count = rows.dims(1, 2)
        before = rows.part(1, 0, count - 1)
        repeats = rows.part(1, 1).compare("Equal", before).cast(np.int64)
        pads = Value.constant(op, [0, 1, 0, 0], np.int64)
        repeated = repeats.node("Pad", pads).cast(np.bool_)
        is_kept = is_kept & ~repeated
    if is_padded:
        _put_padded(op, rows, is_kept)
    else:
        op.put(_or_none(rows.reshape(-1, 1).compress(is_kept.reshape(-1))).name, "Output")


def _or_none(rows: Value) -> Value:
    """Rows, or one of -1 where there are none."""
    op = rows.op
    is_empty = Value(op, op.add("Equal", op.add("Size", rows.name), op.whole(0)), np.bool_)
    more = is_empty.cast(np.int64).reshape(1)
    pads = joined([Value.constant(op, [0, 0], np.int64), more, Value.constant(op, [0], np.int64)], 0)
    return rows.cast(np.int64).node("Pad", pads, -1).cast(rows.dtype)


def _put_padded(op: OpView, rows: Value, is_kept: Value) -> None:
    (lengths,) = values_of(op, "InputLength")
    steps = counted(rows.dims(1, 2)).reshape(1, -1)
    is_kept = is_kept & steps.compare("Less", lengths.cast(np.int64).reshape(-1, 1))
    number = is_kept.cast(np.int64)
    # behind the last place goes what is left out
    last = rows.dims(1, 2)
    place = is_kept.where(number.node("CumSum", Value.constant(op, 1, np.int64)) - 1, last)
    filler = Value.constant(op, int(op.attr("padding_value")), rows.dtype)
    whole = filler.expand(rows.dims(0, 1), last + 1)
    made = whole.node("ScatterElements", place, rows, axis=1).part(1, 0, last)
    op.put(made.name, "Output")
    op.put(number.reduce("Sum", 1, keep=True).cast(lengths.dtype).name, "OutputLength")


@exports("crf_decoding")
def _crf_decoding(op: OpView) -> None:
    """Viterbi's path of one sequence, or of padded ones with their lengths."""
    if op.has("Label"):
        raise op.error("it compares the path with labels")
    emission, transition = values_of(op, "Emission", "Transition")
    is_padded = op.has("Length")
    if is_padded:
        lengths = values_of(op, "Length")[0].cast(np.int64).reshape(1, -1, 1)
        steps = emission.transpose(1, 0, 2)
    else:
        check_single(op, "Emission")
        steps = emission.unsqueeze(1)
        lengths = steps.dims(0, 1).reshape(1, 1, 1)
    number = counted(steps.dims(0, 1)).reshape(-1, 1, 1)
    goes_on = number.compare("Less", lengths)
    first, stop, moves = transition.part(0, 0, 1), transition.part(0, 1, 2), transition.part(0, 2)
    start = steps.part(0, 0, 1).squeeze(0) + first
    scores, origins = _forward(op, start, steps.part(0, 1), goes_on.part(0, 1), moves)
    last = Value(op, op.add("ArgMax", (scores + stop).name, axis=1, keepdims=1), np.int64)
    path = joined([_backward(op, last, origins), last.unsqueeze(0)], 0).squeeze(2)
    if not is_padded:
        op.put(path.name, "ViterbiPath")
        return
    path = goes_on.squeeze(2).where(path, path * 0)
    op.put(path.transpose(1, 0).name, "ViterbiPath")


def _forward(op: OpView, start: Value, steps: Value, goes_on: Value, moves: Value) -> tuple[Value, Value]:
    """The best score of each tag at the end [batch, tags], and where each step's come from."""
    graph = op.graph
    with graph.branch() as nodes:
        names = [graph.name(name) for name in ("scores", "step", "goes")]
        before, step = (Value(op, name, start.dtype) for name in names[:2])
        goes = Value(op, names[2], np.bool_)
        sums = before.unsqueeze(2) + moves.unsqueeze(0)
        best = sums.reduce("Max", 1) + step
        origin = Value(op, op.add("ArgMax", sums.name, axis=1, keepdims=0), np.int64)
        # a sequence that has ended stays as it is
        stays = counted(moves.dims(0, 1)).unsqueeze(0)
        last = [goes.where(best, before), goes.where(origin, stays)]
        last = [each.node("Identity") for each in last]
    kinds = [(start.dtype, 2), (start.dtype, 2), (np.bool_, 2)]
    inputs = [graph.info(name, dtype, rank=rank) for name, (dtype, rank) in zip(names, kinds, strict=True)]
    outputs = [graph.info(each.name, each.dtype, rank=2) for each in last]
    body = graph.subgraph(nodes, inputs, outputs)
    scores, origins = op.add(
        "Scan", start.name, steps.name, goes_on.name, outputs=2, body=body, num_scan_inputs=2
    )
    return Value(op, scores, start.dtype), Value(op, origins, np.int64)


def _backward(op: OpView, last: Value, origins: Value) -> Value:
    """The tags [steps - 1, batch, 1] on the way back from the last one."""
    graph = op.graph
    with graph.branch() as nodes:
        names = [graph.name(name) for name in ("tag", "origin")]
        tag, origin = (Value(op, name, np.int64) for name in names)
        before = origin.node("GatherElements", tag, axis=1)
        made = [before.node("Identity") for _ in range(2)]
    inputs = [graph.info(name, np.int64, rank=2) for name in names]
    outputs = [graph.info(each.name, np.int64, rank=2) for each in made]
    _, path = op.add(
        "Scan",
        last.name,
        origins.name,
        outputs=2,
        body=graph.subgraph(nodes, inputs, outputs),
        num_scan_inputs=1,
        scan_input_directions=[1],
        scan_output_directions=[1],
    )
    return Value(op, path, np.int64)
