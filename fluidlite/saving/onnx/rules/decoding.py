"""ONNX for ops that read labels out of scores: CTC, Viterbi's path."""

from __future__ import annotations

import numpy as np

from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.sequences import check_single
from fluidlite.saving.onnx.values import GraphValue, counted, joined, values_of


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
        part = rows.part(1, 1)
        is_there = part.compare("Equal", before)
        repeats = is_there.cast(np.int64)
        pads = GraphValue.constant(op, [0, 1, 0, 0], np.int64)
        node = repeats.node("Pad", pads)
        repeated = node.cast(np.bool_)
        is_kept = is_kept & ~repeated
    if is_padded:
        _put_padded(op, rows, is_kept)
    else:
        made = _or_none(rows.reshape(-1, 1).compress(is_kept.reshape(-1)))
        op.put(made.name, "Output")


def _or_none(rows: GraphValue) -> GraphValue:
    """Rows, or one of -1 where there are none."""
    op = rows.op
    size = op.add("Size", rows.name)
    is_equal = op.add("Equal", size, op.whole(0))
    is_empty = GraphValue(op, is_equal, np.bool_)
    cast = is_empty.cast(np.int64)
    more = cast.reshape(1)
    pads = joined(
        [GraphValue.constant(op, [0, 0], np.int64), more, GraphValue.constant(op, [0], np.int64)], 0
    )
    node = rows.cast(np.int64).node("Pad", pads, -1)
    return node.cast(rows.dtype)


def _put_padded(op: OpView, rows: GraphValue, is_kept: GraphValue) -> None:
    (lengths,) = values_of(op, "InputLength")
    sizes = rows.dims(1, 2)
    steps = counted(sizes).reshape(1, -1)
    cast = lengths.cast(np.int64)
    reshaped = cast.reshape(-1, 1)
    is_there = steps.compare("Less", reshaped)
    is_kept = is_kept & is_there
    number = is_kept.cast(np.int64)
    # behind the last place goes what is left out
    last = rows.dims(1, 2)
    node = number.node("CumSum", GraphValue.constant(op, 1, np.int64))
    place = is_kept.where(node - 1, last)
    filler = GraphValue.constant(op, int(op.attr("padding_value")), rows.dtype)
    whole = filler.expand(rows.dims(0, 1), last + 1)
    made = whole.node("ScatterElements", place, rows, axis=1).part(1, 0, last)
    op.put(made.name, "Output")
    found = number.reduce("Sum", 1, keep=True).cast(lengths.dtype)
    op.put(found.name, "OutputLength")


@exports("crf_decoding")
def _crf_decoding(op: OpView) -> None:
    """Viterbi's path of one sequence, or of padded ones with their lengths."""
    if op.has("Label"):
        raise op.error("it compares the path with labels")
    emission, transition = values_of(op, "Emission", "Transition")
    is_padded = op.has("Length")
    if is_padded:
        cast = values_of(op, "Length")[0].cast(np.int64)
        lengths = cast.reshape(1, -1, 1)
        steps = emission.transpose(1, 0, 2)
    else:
        check_single(op, "Emission")
        steps = emission.unsqueeze(1)
        sizes = steps.dims(0, 1)
        lengths = sizes.reshape(1, 1, 1)
    goes_on = counted(steps.dims(0, 1)).reshape(-1, 1, 1).compare("Less", lengths)
    first = transition.part(0, 0, 1)
    stop = transition.part(0, 1, 2)
    moves = transition.part(0, 2)
    part = steps.part(0, 0, 1)
    start = part.squeeze(0) + first
    scores, origins = _forward(op, start, steps.part(0, 1), goes_on.part(0, 1), moves)
    path = _path(op, scores + stop, origins)
    if not is_padded:
        op.put(path.name, "ViterbiPath")
        return
    path = goes_on.squeeze(2).where(path, path * 0)
    made = path.transpose(1, 0)
    op.put(made.name, "ViterbiPath")


@exports("viterbi_decode")
def _viterbi_decode(op: OpView) -> None:
    """The paths of padded sequences, as long as the longest one."""
    emission, moves, lengths = values_of(op, "Input", "Transition", "Length")
    lengths = lengths.cast(np.int64)
    longest = lengths.reduce("Max", 0, keep=True)
    steps = emission.transpose(1, 0, 2).part(0, 0, longest)
    goes_on = counted(longest).reshape(-1, 1, 1).compare("Less", lengths.reshape(1, -1, 1))
    has_ends = bool(op.attr("include_bos_eos_tag"))
    start = steps.part(0, 0, 1).squeeze(0)
    if has_ends:
        start = start + moves.part(0, -1)
    scores, origins = _forward(op, start, steps.part(0, 1), goes_on.part(0, 1), moves)
    if has_ends:
        scores = scores + moves.part(0, -2, -1)
    path = _path(op, scores, origins)
    made = scores.reduce("Max", 1)
    op.put(made.name, "Scores")
    found = goes_on.squeeze(2).where(path, path * 0).transpose(1, 0)
    op.put(found.name, "Path")


def _path(op: OpView, scores: GraphValue, origins: GraphValue) -> GraphValue:
    """The tags [steps, batch] that lead to the best scores at the end."""
    argmax = op.add("ArgMax", scores.name, axis=1, keepdims=1)
    last = GraphValue(op, argmax, np.int64)
    return joined([_backward(op, last, origins), last.unsqueeze(0)], 0).squeeze(2)


def _forward(
    op: OpView, start: GraphValue, steps: GraphValue, goes_on: GraphValue, moves: GraphValue
) -> tuple[GraphValue, GraphValue]:
    """The best score of each tag at the end [batch, tags], and where each step's come from."""
    graph = op.graph
    with graph.branch() as nodes:
        names = [graph.name(name) for name in ("scores", "step", "goes")]
        before, step = (GraphValue(op, name, start.dtype) for name in names[:2])
        goes = GraphValue(op, names[2], np.bool_)
        column = before.unsqueeze(2)
        sums = column + moves.unsqueeze(0)
        reduced = sums.reduce("Max", 1)
        best = reduced + step
        made = op.add("ArgMax", sums.name, axis=1, keepdims=0)
        origin = GraphValue(op, made, np.int64)
        # a sequence that has ended stays as it is
        sizes = moves.dims(0, 1)
        stays = counted(sizes).unsqueeze(0)
        last = [goes.where(best, before), goes.where(origin, stays)]
        last = [each.node("Identity") for each in last]
    kinds = [(start.dtype, 2), (start.dtype, 2), (np.bool_, 2)]
    inputs = [graph.info(name, dtype, rank=rank) for name, (dtype, rank) in zip(names, kinds, strict=True)]
    outputs = [graph.info(each.name, each.dtype, rank=2) for each in last]
    body = graph.subgraph(nodes, inputs, outputs)
    scores, origins = op.add(
        "Scan", start.name, steps.name, goes_on.name, outputs=2, body=body, num_scan_inputs=2
    )
    return GraphValue(op, scores, start.dtype), GraphValue(op, origins, np.int64)


def _backward(op: OpView, last: GraphValue, origins: GraphValue) -> GraphValue:
    """The tags [steps - 1, batch, 1] on the way back from the last one."""
    graph = op.graph
    with graph.branch() as nodes:
        names = [graph.name(name) for name in ("tag", "origin")]
        tag, origin = (GraphValue(op, name, np.int64) for name in names)
        before = origin.node("GatherElements", tag, axis=1)
        made = [before.node("Identity") for _ in range(2)]
    inputs = [graph.info(name, np.int64, rank=2) for name in names]
    outputs = [graph.info(each.name, np.int64, rank=2) for each in made]
    inner = graph.subgraph(nodes, inputs, outputs)
    _, path = op.add(
        "Scan",
        last.name,
        origins.name,
        outputs=2,
        body=inner,
        num_scan_inputs=1,
        scan_input_directions=[1],
        scan_output_directions=[1],
    )
    return GraphValue(op, path, np.int64)
