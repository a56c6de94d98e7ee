"""Searches in which each step needs the one before, by compiled code: the best path through tags, distances
of sequences, the best continuations of prefixes, boxes that overlap no better one; and runs of rows, of
which each is short.

NumPy takes a call or more for each step. The functions give None where there is no code, or not yet.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.loops.beams import write_best_continuations
from fluidlite.executor.fast.loops.bins import write_maxima_of_bins
from fluidlite.executor.fast.loops.chains import write_messages
from fluidlite.executor.fast.loops.compiler import LoopCode, loop_of, widths
from fluidlite.executor.fast.loops.draws import BLOCK, write_drawn_classes
from fluidlite.executor.fast.loops.routine import Routine, Scalar
from fluidlite.executor.fast.loops.runs import write_maxima_of_runs, write_sums_of_runs
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["Searches"]

_FEW_COLUMNS = 4  # of which NumPy takes several rows at once
_HEAD = "void @LOOP(i64 %first, i64 %last, ptr %arguments)"


@cache
def _code(write: Callable[[Routine], None]) -> LoopCode:
    """The code of a function that `write` writes."""
    intrinsics: dict[str, str] = {}
    a = Routine(widths()[1], intrinsics)
    write(a)
    text = a.function(_HEAD)
    return loop_of("\n".join([*intrinsics.values(), text]))


class Searches:
    """The compiled searches of a plan."""

    def __init__(self, wait: bool) -> None:
        self.wait = wait
        self.runs: dict[Callable[[Routine], None], int] = {}

    def _run(self, write: Callable[[Routine], None], count: int, *arguments: Array | int) -> bool:
        """Run a function over `count` items; False where its code is not there."""
        code = _code(write)
        run = self.runs[write] = self.runs.get(write, 0) + 1
        if not code.ready(run, self.wait):
            return False
        numbers = [item if isinstance(item, int) else address_of(item) for item in arguments]
        code.function(0, count, (ctypes.c_int64 * len(numbers))(*numbers))
        return True

    def best_paths(self, emission: Array, starts: Array, ends: Array, transition: Array) -> Array | None:
        """Viterbi's path through rows [start, end) of `emission` for each sequence, zeros in other rows."""
        count, tags = emission.shape
        are_floats = emission.dtype == transition.dtype == np.float32
        if not are_floats or transition.shape != (tags + 2, tags):
            return None
        # what the portable kernel refuses must not be read past
        if starts.min(initial=0) < 0 or ends.max(initial=0) > count:
            return None
        emission = np.ascontiguousarray(emission)
        transition = np.ascontiguousarray(transition)
        starts, ends = _whole(starts), _whole(ends)
        path = np.zeros(count, np.int64)
        scores = np.empty_like(emission)
        best = np.empty(1, np.float32)
        arrays = (emission, starts, ends, transition, scores, best, path)
        done = self._run(_write_best_paths, len(starts), *arrays, tags)
        return path if done else None

    def messages(
        self, rows: Array, first: Array, moves: Array, starts: Array, lengths: Array, step: int
    ) -> tuple[Array, Array] | None:
        """Messages along chains of rows from `starts` on, `step` rows apart, and their sums before they are
        scaled to 1: a row times what `moves` make of the message before, or times `first`; 1 in other rows.
        """
        count, tags = rows.shape
        is_float = {array.dtype for array in (rows, first, moves)} == {np.dtype(np.float32)}
        if not is_float or first.shape != (tags,) or moves.shape != (tags, tags):
            return None
        ends = starts + (lengths - 1) * step
        filled = lengths > 0
        places = np.concatenate((starts[filled], ends[filled]))
        # what the portable kernel refuses must not be read past
        if places.min(initial=0) < 0 or places.max(initial=-1) >= count:
            return None
        messages, sizes = np.ones((count, tags), np.float32), np.ones(count, np.float32)
        given = (np.ascontiguousarray(rows), _whole(starts), _whole(lengths))
        weights = (np.ascontiguousarray(first), np.ascontiguousarray(moves))
        arrays = (*given, *weights, messages, sizes)
        done = self._run(write_messages, len(starts), *arrays, tags, step)
        return (messages, sizes) if done else None

    def edit_distances(self, found: Array, found_ends: Array, wanted: Array, ends: Array) -> Array | None:
        """Levenshtein's distance of each pair of rows, of which as many elements count as the ends say."""
        long = found.shape[1]
        wide = wanted.shape[1]
        if found_ends.max(initial=0) > long or ends.max(initial=0) > wide:
            return None
        table = np.empty((2, wide + 1), np.int64)
        distances = np.empty(len(found), np.int64)
        rows = map(_whole, (found, found_ends, wanted, ends))
        arrays = (*rows, table, distances)
        done = self._run(_write_edit_distances, len(found), *arrays, long, wide, wide + 1)
        return distances if done else None

    def best_continuations(
        self,
        offsets: Array,
        words: Array,
        before: Array,
        ids: Array | None,
        totals: Array,
        most: int,
        end_id: int,
    ) -> tuple[Array, Array, Array, Array] | None:
        """Rows, ids and scores of the best `most` continuations of each source, in order of rows, and before
        each row the number of those that were chosen.

        Rows [offsets[i], offsets[i + 1]) of `totals` [rows, width] are the prefixes of source i, of which
        `words` are the last words and `before` the scores; `ids` are the numbers of columns where it is None.
        None where a score is no number, too.
        """
        are_floats = totals.dtype == before.dtype == np.float32
        if not are_floats or not totals.size or most <= 0:
            return None
        if len(totals) != len(words) or len(words) != len(before):
            return None
        offsets, words = _whole(offsets), _whole(words)
        before = np.ascontiguousarray(before)
        totals = np.ascontiguousarray(totals)
        given = offsets if ids is None else _whole(ids)
        numbers = (int(ids is not None), totals.shape[1], most, end_id)
        # the beam of a source, and what of all beams is chosen
        beam = [np.empty(most + 2, kind) for kind in (np.float32, np.int64, np.int64)]
        sources = len(offsets) - 1
        found = [np.empty(sources * most + 1, kind) for kind in (np.int64, np.int64, np.float32)]
        state = np.zeros(4, np.int64)
        counts = np.zeros(len(words) + 1, np.int64)
        inputs = (offsets, words, before, given, totals, *numbers)
        arrays = (state, *beam, *found, counts)
        done = self._run(write_best_continuations, sources, *inputs, *arrays)
        _, count, _, is_odd = state.tolist()
        if not done or is_odd:
            return None
        rows, chosen, scores = (array[:count] for array in found)
        return rows, chosen, scores, counts

    def kept_boxes(self, boxes: Array, limit: float, normalized: bool, most: int = -1) -> list[int] | None:
        """Positions of boxes of corners (the best first) that overlap no kept one before them by more than
        the limit, and no more than `most` of them (all for -1).
        """
        if boxes.dtype != np.float32 or boxes.shape[1] != 4:
            return None
        boxes = np.ascontiguousarray(boxes)
        kept = np.empty(len(boxes) + 1, np.int64)
        count = np.zeros(1, np.int64)
        corners = np.empty((5, len(boxes) + 1), np.float32)
        numbers = np.array([limit, not normalized], np.float32)
        arrays = (boxes, corners, numbers, kept, count)
        if most < 0:
            most = len(boxes)
        done = self._run(_write_kept_boxes, len(boxes), *arrays, most)
        return kept[: count[0]].tolist() if done else None

    def sums_of_runs(self, rows: Array, offsets: Array) -> Array | None:
        """The sums of rows [offsets[i], offsets[i + 1]) of a matrix, in their order; 0 for none."""
        if not _are_runs(rows, offsets):
            return None
        width = rows.shape[1]
        sums = np.empty((len(offsets) - 1, width), np.float32)
        arrays = (np.ascontiguousarray(rows), _whole(offsets), sums)
        done = self._run(write_sums_of_runs, len(sums), *arrays, width)
        return sums if done else None

    def maxima_of_runs(self, rows: Array, offsets: Array) -> tuple[Array, Array] | None:
        """The largest elements of the columns of such runs, NaN if there is one, and the first row of each;
        0 and row -1 where there are none.
        """
        if not _are_runs(rows, offsets):
            return None
        width = rows.shape[1]
        shape = (len(offsets) - 1, width)
        maxima = np.empty(shape, np.float32)
        places = np.empty(shape, np.int32)
        arrays = (np.ascontiguousarray(rows), _whole(offsets), maxima, places)
        done = self._run(write_maxima_of_runs, len(maxima), *arrays, width)
        return (maxima, places) if done else None

    def maxima_of_bins(
        self,
        pixels: Array,
        size: tuple[int, int],
        images: Array,
        down: tuple[Array, Array],
        across: tuple[Array, Array],
    ) -> tuple[Array, Array] | None:
        """The largest elements of bins of regions, [regions, high, wide, channels], and their places in their
        images, -1 where none is above the lowest number; the number is 0 for an empty bin.

        `pixels` [N * height * width, channels] are those of images of a size, of which `images` says each
        region's; `down` are the first row and the end of each bin, [regions, high], `across` its first column
        and the end, [regions, wide].
        """
        if pixels.dtype != np.float32 or not pixels.size:
            return None
        bounds = [np.ascontiguousarray(each, np.int64) for each in (images, *down, *across)]
        shape = (*down[0].shape, across[0].shape[1], pixels.shape[1])
        maxima, places = np.empty(shape, np.float32), np.empty(shape, np.int32)
        arrays = (np.ascontiguousarray(pixels), *bounds, maxima, places)
        done = self._run(write_maxima_of_bins, shape[0], *arrays, *shape[1:3], *size, shape[3])
        return (maxima, places) if done else None

    def drawn_classes(self, probabilities: Array, drawn: Array) -> Array | None:
        """For each row the first class up to which its probabilities add up to what is drawn, or the last."""
        if probabilities.dtype != np.float32 or not probabilities.size:
            return None
        probabilities, drawn = map(np.ascontiguousarray, (probabilities, drawn))
        count, width = probabilities.shape
        classes = np.empty(count, np.int64)
        arrays = (probabilities, drawn, classes)
        done = self._run(write_drawn_classes, count, *arrays, width, -(-width // BLOCK))
        return classes if done else None


def _whole(numbers: Array) -> Array:
    """Integers as compiled code reads them."""
    return np.ascontiguousarray(numbers, np.int64)


def _are_runs(rows: Array, offsets: Array) -> bool:
    """True for runs that do not reach beyond the rows; long columns are summed more exactly by NumPy."""
    if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] < _FEW_COLUMNS:
        return False
    return bool(offsets[0] >= 0 and offsets[-1] <= len(rows))


# ---------------------------------------------------------------------- paths
def _write_best_paths(a: Routine) -> None:
    a.arguments(["Emission", "Starts", "Ends", "Transition", "Scores", "Best", "Path", "tags"])
    tags = a.integer("tags")
    stop = a.at("%Transition", tags)
    moves = a.at(stop, tags)
    with a.loop(a.integer("first"), a.integer("last")) as sequence:
        start = a.entry("%Starts", sequence.index)
        end = a.entry("%Ends", sequence.index)
        second = a.least(start + 1, end)
        with a.loop(start, second) as row, a.units(tags, is_masked=True) as unit:
            place = row.index * tags + unit.index
            emission = a.load("%Emission", place)
            beginning = a.load("%Transition", unit.index)
            a.store(emission + beginning, "%Scores", place)
        with a.loop(second, end) as row:
            _write_scores(a, row.index, moves)
        _write_way_back(a, start, end, stop, moves)


def _write_scores(a: Routine, row: Scalar, moves: Scalar) -> None:
    """The score of the best path to each tag of a row."""
    tags = a.integer("tags")
    here = row * tags
    before = a.at("%Scores", here - tags)
    with a.units(tags, is_masked=True) as unit:
        least = a.code.number(-np.inf, "float")
        with a.loop(0, tags, carried=[least]) as tag:
            (best,) = tag.values
            score = a.spread(a.entry(before, tag.index, "float"))
            moves_on = a.at(moves, tag.index * tags)
            reached = score + a.load(moves_on, unit.index)
            is_better = reached.compare("ogt", best)
            tag.next = [a.code.select(is_better, reached, best)]
        place = here + unit.index
        (best,) = tag.values
        a.store(best + a.load("%Emission", place), "%Scores", place)


def _write_way_back(a: Routine, start: Scalar, end: Scalar, stop: Scalar, moves: Scalar) -> None:
    """From the best tag of the last row to those that it was reached from.

    A search along that path alone is a small part of the work, so that it may go tag by tag.
    """
    last = end - 1
    with a.loop(start, end) as turn:
        row = last - (turn.index - start)
        is_last = row.compare("eq", last)
        following = a.pick(is_last, row, row + 1)
        after = a.entry("%Path", following)
        # the transitions to the tag behind lie one row apart, those to the end beside each other
        leaving = a.pick(is_last, stop, a.at(moves, after))
        step = a.pick(is_last, 1, a.integer("tags"))
        _write_best_tag(a, row, leaving, step)


def _write_best_tag(a: Routine, row: Scalar, leaving: Scalar, step: Scalar) -> None:
    tags = a.integer("tags")
    path = a.at("%Path", row, "i64")
    a.put(a.number(-np.inf), "%Best")
    a.put(0, path)
    scores = a.at("%Scores", row * tags)
    with a.loop(0, tags) as tag:
        score = a.entry(scores, tag.index, "float")
        move = a.entry(leaving, tag.index * step, "float")
        total = score + move
        best = a.entry("%Best", 0, "float")
        is_better = total.compare("ogt", best)
        a.put(a.pick(is_better, total, best), "%Best")
        before = a.entry(path, 0)
        a.put(a.pick(is_better, tag.index, before), path)


# ---------------------------------------------------------------------- distances
def _write_edit_distances(a: Routine) -> None:
    a.arguments(["Found", "FoundEnds", "Wanted", "Ends", "Table", "Distances", "long", "wide", "width"])
    with a.loop(a.integer("first"), a.integer("last")) as pair:
        rows = a.entry("%FoundEnds", pair.index)
        columns = a.entry("%Ends", pair.index)
        found = a.at("%Found", pair.index * a.integer("long"), "i64")
        wanted = a.at("%Wanted", pair.index * a.integer("wide"), "i64")
        with a.loop(0, columns + 1) as column:
            a.put(column.index, "%Table", column.index)
        with a.loop(0, rows) as row:
            above = _line(a, row.index)
            here = _line(a, row.index + 1)
            a.put(row.index + 1, here)
            word = a.entry(found, row.index)
            with a.loop(0, columns) as column:
                _write_distance(a, column.index, word, wanted, above, here)
        distance = a.entry(_line(a, rows), columns)
        a.put(distance, "%Distances", pair.index)


def _line(a: Routine, row: Scalar) -> Scalar:
    """The address of a row of distances, of which two are kept."""
    kept = a.let(f"and i64 {row}, 1")
    return a.at("%Table", kept * a.integer("width"), "i64")


def _write_distance(
    a: Routine, column: Scalar, word: Scalar, wanted: Scalar, above: Scalar, here: Scalar
) -> None:
    after = column + 1
    differs = word.compare("ne", a.entry(wanted, column))
    replaced = a.entry(above, column) + differs.counted()
    without = a.entry(above, after)
    beyond = a.entry(here, column)
    changed = a.least(without, beyond) + 1
    a.put(a.least(replaced, changed), here, after)


# ---------------------------------------------------------------------- boxes
_CORNERS = range(4)


def _write_kept_boxes(a: Routine) -> None:
    a.arguments(["Boxes", "Corners", "Numbers", "Kept", "Count", "most"])
    first = a.integer("first")
    last = a.integer("last")
    limit = a.spread(a.entry("%Numbers", 0, "float"))
    one = a.spread(a.entry("%Numbers", 1, "float"))
    columns = [a.at("%Corners", number * (last + 1)) for number in range(5)]
    with a.loop(first, last) as box:
        corners = a.at("%Boxes", box.index * 4)
        own = [a.spread(a.entry(corners, corner, "float")) for corner in _CORNERS]
        width = own[2] - own[0] + one
        height = own[3] - own[1] + one
        area = width * height
        count = a.entry("%Count", 0)
        nothing = a.code.number(0, "i32")
        with a.units(count, is_masked=True, carried=[nothing]) as unit:
            others = [a.load(column, unit.index) for column in columns]
            near = _overlaps(a, own, area, others, one).compare("ugt", limit)
            assert a.mask is not None
            met = near.bits("and", a.mask).converted("i32")
            unit.next = [unit.values[0].bits("or", met)]
        (all_met,) = unit.values
        _write_box(a, box.index, count, [*own, area], columns, all_met)


def _overlaps(a: Routine, own: list[Vector], area: Vector, others: list[Vector], one: Vector) -> Vector:
    """As `fluidlite.ops.kernels.boxes` computes them, step by step."""
    zero = a.zero()
    both = area
    for low in (0, 1):
        end = _smaller(a, own[low + 2], others[low + 2])
        start = _larger(a, own[low], others[low])
        size = end - start
        # boxes of pixels between which there is a gap share nothing, if it is smaller than a pixel
        is_apart = size.compare("olt", 0.0)
        size = a.code.select(is_apart, -one, size) + one
        size = _larger(a, size, zero)
        both = size if low == 0 else both * size
    union = area + others[4] - both
    is_empty = union.compare("oeq", 0.0)
    return both / a.code.select(is_empty, a.code.number(1.0, "float"), union)


def _smaller(a: Routine, left: Vector, right: Vector) -> Vector:
    is_smaller = left.compare("olt", right)
    return a.code.select(is_smaller, left, right)


def _larger(a: Routine, left: Vector, right: Vector) -> Vector:
    is_larger = left.compare("ogt", right)
    return a.code.select(is_larger, left, right)


def _write_box(
    a: Routine, box: Scalar, count: Scalar, numbers: list[Vector], columns: list[Scalar], near: Vector
) -> None:
    """Write a box behind those that are kept, and count it where it is near to none of them."""
    reduction = f"@llvm.vector.reduce.or.v{a.lanes}i32"
    kind = a.code.type("i32")
    a.code.intrinsics[reduction] = f"declare i32 {reduction}({kind})"
    met = a.let(f"call i32 {reduction}({kind} {near.name})", "i32")
    a.put(box, "%Kept", count)
    for value, column in zip(numbers, columns, strict=True):
        first = a.let(f"extractelement {a.code.type('float')} {value.name}, i64 0", "float")
        a.put(first, column, count)
    is_free = met.compare("eq", 0)
    has_room = count.compare("slt", a.integer("most"))
    is_kept = a.let(f"and i1 {is_free}, {has_room}", "i1")
    a.put(count + is_kept.counted(), "%Count")
