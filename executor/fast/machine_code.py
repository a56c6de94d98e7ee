"""The machine code by which threads share calls of machine code, without Python, as LLVM text.

A record is four words: the address of a function (i64 first, i64 last, ptr arguments), and these. Whoever of
a team is free takes the next record of a job. The job at hand is one word, so that nobody who wakes up late
takes part in another: its number, its count of records, and the number of the next one.

A thread that waits looks for work for a fifth of a millisecond, yielding the processor each time, and sleeps
then; at once, where another process wants the processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fluidlite.executor.fast.loops.routine import Routine
from fluidlite.ops.kernels.gemm import ROW_MAJOR

__all__ = [
    "BEGIN",
    "CLOCK",
    "DONE",
    "FUNCTIONS",
    "HEAD",
    "MOST_RECORDS",
    "POST",
    "WAIT",
    "WORKER",
    "WORKERS",
    "YIELD",
    "machine_text",
]

MOST_RECORDS = 1 << 15  # of a job: the count has 16 bits

# words of the state of a team: those that threads write stand in lines of the cache of their own
_JOB, _FINISHED, WAIT, POST, YIELD, CLOCK, DONE, WORKERS, _NEVER = 0, 8, 16, 17, 18, 19, 20, 21, 22
_SLEEPS, _RECORDS, _CROWDED = 24, 25, 26
HEAD, WORKER = 32, 8
"""Words before those of the first worker, and words of each: its semaphore, whether Python wants it, whether
it sleeps.
"""
_PATIENCE = 200_000  # ns before a thread sleeps: to wake one up takes 25 to 50 us
_AWAY = 50_000  # ns that another process must have had the processor if one look took as long
_SKIPPED = 64  # waits that nobody looks in then: who is woken up gets the processor sooner than who yields it
_MONOTONIC = 1  # the clock

BEGIN = ("begin_bias", "begin_term", "begin_both")
FUNCTIONS = ("share", "serve", "recall", "sequence", "product", "blas", "execute", "squares", *BEGIN)
"""The functions whose addresses `LOOP` writes down, in order."""

_TEAM = f"""
define internal void @call(ptr %record) {{
  %function = load ptr, ptr %record
  %first_at = getelementptr i64, ptr %record, i64 1
  %first = load i64, ptr %first_at
  %last_at = getelementptr i64, ptr %record, i64 2
  %last = load i64, ptr %last_at
  %arguments_at = getelementptr i64, ptr %record, i64 3
  %arguments = load ptr, ptr %arguments_at
  call void %function(i64 %first, i64 %last, ptr %arguments)
  ret void
}}

define internal void @sequence(i64 %first, i64 %last, ptr %records) {{
entry:
  br label %loop
loop:
  %i = phi i64 [%first, %entry], [%next, %body]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %body, label %end
body:
  %word = shl i64 %i, 2
  %record = getelementptr i64, ptr %records, i64 %word
  call void @call(ptr %record)
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}}

; 0 where no record is left, 2 behind the last one that was not done, else 1
define internal i64 @take(ptr %state) {{
  %seen = load atomic i64, ptr %state seq_cst, align 8
  %seen_next = and i64 %seen, 65535
  %seen_shifted = lshr i64 %seen, 16
  %seen_count = and i64 %seen_shifted, 65535
  %is_left = icmp ult i64 %seen_next, %seen_count
  br i1 %is_left, label %try, label %none
try:
  %taken = atomicrmw add ptr %state, i64 1 seq_cst
  %i = and i64 %taken, 65535
  %shifted = lshr i64 %taken, 16
  %count = and i64 %shifted, 65535
  %is_there = icmp ult i64 %i, %count
  br i1 %is_there, label %run, label %none
run:
  %records_at = getelementptr i64, ptr %state, i64 {_RECORDS}
  %records = load ptr, ptr %records_at
  %word = shl i64 %i, 2
  %record = getelementptr i64, ptr %records, i64 %word
  call void @call(ptr %record)
  %finished_at = getelementptr i64, ptr %state, i64 {_FINISHED}
  %before = atomicrmw add ptr %finished_at, i64 1 seq_cst
  %finished = add i64 %before, 1
  %is_last = icmp eq i64 %finished, %count
  %result = select i1 %is_last, i64 2, i64 1
  ret i64 %result
none:
  ret i64 0
}}

define internal i64 @now(ptr %state) {{
  %time = alloca [2 x i64]
  %clock_at = getelementptr i64, ptr %state, i64 {CLOCK}
  %clock = load ptr, ptr %clock_at
  %status = call i32 %clock(i32 {_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %whole, %rest
  ret i64 %nanoseconds
}}

; looks for a while for another word than the one that is known, or for a flag, letting whoever wants the
; processor have it: the word that was seen last. If somebody wants it, nobody looks for some time.
define internal i64 @look(ptr %word, i64 %known, ptr %flag, ptr %state) {{
entry:
  %crowded_at = getelementptr i64, ptr %state, i64 {_CROWDED}
  %crowded = load atomic i64, ptr %crowded_at monotonic, align 8
  %is_crowded = icmp sgt i64 %crowded, 0
  br i1 %is_crowded, label %leave, label %begin
leave:
  %fewer = sub i64 %crowded, 1
  store atomic i64 %fewer, ptr %crowded_at monotonic, align 8
  ret i64 %known
begin:
  %yield_at = getelementptr i64, ptr %state, i64 {YIELD}
  %yield = load ptr, ptr %yield_at
  %start = call i64 @now(ptr %state)
  br label %loop
loop:
  %before = phi i64 [%start, %begin], [%now, %soon]
  %seen = load atomic i64, ptr %word seq_cst, align 8
  %raised = load atomic i64, ptr %flag seq_cst, align 8
  %is_new = icmp ne i64 %seen, %known
  %is_raised = icmp ne i64 %raised, 0
  %is_found = or i1 %is_new, %is_raised
  br i1 %is_found, label %end, label %again
again:
  %yielded = call i32 %yield()
  %now = call i64 @now(ptr %state)
  %away = sub i64 %now, %before
  %is_long = icmp sgt i64 %away, {_AWAY}
  br i1 %is_long, label %busy, label %short
busy:
  store atomic i64 {_SKIPPED}, ptr %crowded_at monotonic, align 8
  br label %end
short:
  %waited = sub i64 %now, %start
  %is_over = icmp sgt i64 %waited, {_PATIENCE}
  br i1 %is_over, label %end, label %soon
soon:
  br label %loop
end:
  ret i64 %seen
}}

define internal void @share(i64 %count, i64 %records, ptr %state) {{
entry:
  %records_at = getelementptr i64, ptr %state, i64 {_RECORDS}
  store i64 %records, ptr %records_at
  %finished_at = getelementptr i64, ptr %state, i64 {_FINISHED}
  store atomic i64 0, ptr %finished_at seq_cst, align 8
  %old = load atomic i64, ptr %state seq_cst, align 8
  %old_number = lshr i64 %old, 32
  %number = add i64 %old_number, 1
  %high = shl i64 %number, 32
  %middle = shl i64 %count, 16
  %job = or i64 %high, %middle
  store atomic i64 %job, ptr %state seq_cst, align 8
  %wait_at = getelementptr i64, ptr %state, i64 {WAIT}
  %wait = load ptr, ptr %wait_at
  %done_at = getelementptr i64, ptr %state, i64 {DONE}
  %done = load ptr, ptr %done_at
  %sleeps_at = getelementptr i64, ptr %state, i64 {_SLEEPS}
  %never_at = getelementptr i64, ptr %state, i64 {_NEVER}
  %workers_at = getelementptr i64, ptr %state, i64 {WORKERS}
  %workers = load i64, ptr %workers_at
  %others = sub i64 %count, 1
  %is_few = icmp slt i64 %others, %workers
  %woken = select i1 %is_few, i64 %others, i64 %workers
  br label %wake
wake:
  %w = phi i64 [0, %entry], [%w_next, %wake_body]
  %w_more = icmp slt i64 %w, %woken
  br i1 %w_more, label %wake_body, label %work
wake_body:
  call void @rouse(i64 %w, ptr %state)
  %w_next = add i64 %w, 1
  br label %wake
work:
  %kind = call i64 @take(ptr %state)
  %is_none = icmp eq i64 %kind, 0
  br i1 %is_none, label %check, label %work
check:
  %finished = load atomic i64, ptr %finished_at seq_cst, align 8
  %is_done = icmp eq i64 %finished, %count
  br i1 %is_done, label %end, label %poll
poll:
  %seen = call i64 @look(ptr %finished_at, i64 %finished, ptr %never_at, ptr %state)
  %is_same = icmp eq i64 %seen, %finished
  br i1 %is_same, label %doze, label %check
doze:
  store atomic i64 1, ptr %sleeps_at seq_cst, align 8
  %late = load atomic i64, ptr %finished_at seq_cst, align 8
  %is_late = icmp eq i64 %late, %count
  br i1 %is_late, label %stay, label %sleep
sleep:
  %waited = call i32 %wait(ptr %done)
  br label %stay
stay:
  store atomic i64 0, ptr %sleeps_at seq_cst, align 8
  br label %check
end:
  ret void
}}

; wakes a worker, if it sleeps
define internal void @rouse(i64 %worker, ptr %state) {{
entry:
  %post_at = getelementptr i64, ptr %state, i64 {POST}
  %post = load ptr, ptr %post_at
  %words = mul i64 %worker, {WORKER}
  %place = add i64 %words, {HEAD}
  %sem_at = getelementptr i64, ptr %state, i64 %place
  %sleeps_at = getelementptr i64, ptr %sem_at, i64 2
  %sleeps = atomicrmw xchg ptr %sleeps_at, i64 0 seq_cst
  %is_asleep = icmp ne i64 %sleeps, 0
  br i1 %is_asleep, label %wake, label %end
wake:
  %sem = load ptr, ptr %sem_at
  %posted = call i32 %post(ptr %sem)
  br label %end
end:
  ret void
}}

; has a worker return to Python
define internal void @recall(i64 %worker, i64 %unused, ptr %state) {{
  %words = mul i64 %worker, {WORKER}
  %place = add i64 %words, {HEAD}
  %sem_at = getelementptr i64, ptr %state, i64 %place
  %flag_at = getelementptr i64, ptr %sem_at, i64 1
  store atomic i64 1, ptr %flag_at seq_cst, align 8
  call void @rouse(i64 %worker, ptr %state)
  ret void
}}

define internal void @serve(i64 %worker, i64 %unused, ptr %state) {{
entry:
  %wait_at = getelementptr i64, ptr %state, i64 {WAIT}
  %wait = load ptr, ptr %wait_at
  %post_at = getelementptr i64, ptr %state, i64 {POST}
  %post = load ptr, ptr %post_at
  %done_at = getelementptr i64, ptr %state, i64 {DONE}
  %done = load ptr, ptr %done_at
  %caller_at = getelementptr i64, ptr %state, i64 {_SLEEPS}
  %words = mul i64 %worker, {WORKER}
  %place = add i64 %words, {HEAD}
  %sem_at = getelementptr i64, ptr %state, i64 %place
  %sem = load ptr, ptr %sem_at
  %flag_at = getelementptr i64, ptr %sem_at, i64 1
  %sleeps_at = getelementptr i64, ptr %sem_at, i64 2
  br label %work
work:
  %kind = call i64 @take(ptr %state)
  switch i64 %kind, label %work [i64 0, label %idle
                                 i64 2, label %last]
last:
  %caller = atomicrmw xchg ptr %caller_at, i64 0 seq_cst
  %is_asleep = icmp ne i64 %caller, 0
  br i1 %is_asleep, label %tell, label %work
tell:
  %posted = call i32 %post(ptr %done)
  br label %work
idle:
  %wanted = atomicrmw xchg ptr %flag_at, i64 0 seq_cst
  %is_wanted = icmp ne i64 %wanted, 0
  br i1 %is_wanted, label %end, label %poll
poll:
  %known = load atomic i64, ptr %state seq_cst, align 8
  %known_next = and i64 %known, 65535
  %known_shifted = lshr i64 %known, 16
  %known_count = and i64 %known_shifted, 65535
  %is_left = icmp ult i64 %known_next, %known_count
  br i1 %is_left, label %work, label %wait_for_more
wait_for_more:
  %seen = call i64 @look(ptr %state, i64 %known, ptr %flag_at, ptr %state)
  %is_same = icmp eq i64 %seen, %known
  %raised = load atomic i64, ptr %flag_at seq_cst, align 8
  %is_calm = icmp eq i64 %raised, 0
  %is_idle = and i1 %is_same, %is_calm
  br i1 %is_idle, label %doze, label %work
doze:
  store atomic i64 1, ptr %sleeps_at seq_cst, align 8
  %late = load atomic i64, ptr %state seq_cst, align 8
  %late_flag = load atomic i64, ptr %flag_at seq_cst, align 8
  %is_still = icmp eq i64 %late, %known
  %is_quiet = icmp eq i64 %late_flag, 0
  %is_nothing = and i1 %is_still, %is_quiet
  br i1 %is_nothing, label %sleep, label %stay
sleep:
  %waited = call i32 %wait(ptr %sem)
  br label %stay
stay:
  store atomic i64 0, ptr %sleeps_at seq_cst, align 8
  br label %work
end:
  ret void
}}
"""

# words of an argument block of both: the function, the one that keeps the library to one thread, where a
# failure is noted
_LIBRARY = """
define internal void @note(ptr %block, i32 %status) {
  %is_good = icmp eq i32 %status, 0
  br i1 %is_good, label %end, label %bad
bad:
  %place_at = getelementptr i64, ptr %block, i64 2
  %place = load ptr, ptr %place_at
  %wide = sext i32 %status to i64
  store i64 %wide, ptr %place
  br label %end
end:
  ret void
}

define internal ptr @function_of(ptr %block) {
  %alone_at = getelementptr i64, ptr %block, i64 1
  %alone = load ptr, ptr %alone_at
  call void %alone(i32 1)
  %function = load ptr, ptr %block
  ret ptr %function
}
"""


_PRODUCT = {
    **dict.fromkeys(("order_a", "order_b"), "i8"),
    **dict.fromkeys(("rows", "columns", "depth", "lda", "ldb", "ldc"), "i64"),
    **dict.fromkeys(("a", "b", "c"), "ptr"),
    **dict.fromkeys(("kept", "factor"), "float"),
    **dict.fromkeys(("rate", "offsets"), "ptr"),
}
"""The words behind the head of a block for products, and their kinds."""
_SIZES = "i64 %rows, i64 %columns, i64 %depth, float %alpha"
_MATRICES = "ptr %a_now, i64 %lda, ptr %b_now, i64 %ldb, float %kept, ptr %c_now, i64 %ldc"
# oneDNN's `dnnl_sgemm`, which says whether it went well, and BLAS's `cblas_sgemm` for rows that lie one after
# the other
_CALLS = {
    "product": f"""
  %function = call ptr @function_of(ptr %block)
  %status = call i32 %function(i8 signext %order_a, i8 signext %order_b, {_SIZES}, {_MATRICES})
  call void @note(ptr %block, i32 %status)""",
    "blas": f"""
  %function = load ptr, ptr %block
  %wide_a = zext i8 %order_a to i32
  %wide_b = zext i8 %order_b to i32
  call void %function(i32 {ROW_MAJOR}, i32 %wide_a, i32 %wide_b, {_SIZES}, {_MATRICES})""",
}


def _loads(words: Mapping[str, str]) -> Iterator[str]:
    """Instructions that load the words behind the head of a block."""
    for number, (name, kind) in enumerate(words.items(), 3):
        yield f"  %{name}_at = getelementptr i64, ptr %block, i64 {number}"
        yield f"  %{name} = load {kind}, ptr %{name}_at"


def _moves() -> Iterator[str]:
    """Instructions that find the matrices of the product at `word`."""
    for number, name in enumerate("abc"):
        yield f"  %{name}_place = add i64 %word, {number}"
        yield f"  %{name}_offset_at = getelementptr i64, ptr %offsets, i64 %{name}_place"
        yield f"  %{name}_offset = load i64, ptr %{name}_offset_at"
        yield f"  %{name}_moved = getelementptr i8, ptr %{name}, i64 %{name}_offset"


def _choices() -> Iterator[str]:
    """Instructions that take these, or the only ones."""
    for name in "abc":
        yield f"  %{name}_now = phi ptr [%{name}, %body], [%{name}_moved, %moved]"


def _product(name: str) -> str:
    """Products of matrices as a library computes them: times a factor, or less the number at `rate`; with
    offsets in bytes of the three matrices of each product where there are many.
    """
    text = "\n".join
    return f"""
define internal void @{name}(i64 %first, i64 %last, ptr %block) {{
entry:
{text(_loads(_PRODUCT))}
  %has_rate = icmp ne ptr %rate, null
  br i1 %has_rate, label %rated, label %plain
rated:
  %held = load float, ptr %rate
  %less = fneg float %held
  br label %plain
plain:
  %alpha = phi float [%factor, %entry], [%less, %rated]
  %has_offsets = icmp ne ptr %offsets, null
  br label %loop
loop:
  %i = phi i64 [%first, %plain], [%next, %call]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %body, label %end
body:
  br i1 %has_offsets, label %moved, label %call
moved:
  %word = mul i64 %i, 3
{text(_moves())}
  br label %call
call:
{text(_choices())}
{_CALLS[name].lstrip(chr(10))}
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}}
"""


_EXECUTE = """
define internal void @execute(i64 %first, i64 %last, ptr %block) {
  %function = call ptr @function_of(ptr %block)
  %primitive_at = getelementptr i64, ptr %block, i64 3
  %primitive = load ptr, ptr %primitive_at
  %stream_at = getelementptr i64, ptr %block, i64 4
  %stream = load ptr, ptr %stream_at
  %count_at = getelementptr i64, ptr %block, i64 5
  %count = load i32, ptr %count_at
  %passed_at = getelementptr i64, ptr %block, i64 6
  %passed = load ptr, ptr %passed_at
  %status = call i32 %function(ptr %primitive, ptr %stream, i32 %count, ptr %passed)
  call void @note(ptr %block, i32 %status)
  ret void
}
"""


def _begin(name: str, lanes: int, intrinsics: dict[str, str]) -> str:
    """The function that writes into some rows the bias, the term or their sum that products are added to."""
    a = Routine(lanes, intrinsics)
    a.arguments(["Out", "Bias", "Term", "columns", "stride", "distance"])
    stride, distance = a.integer("stride"), a.integer("distance")
    with a.loop(a.integer("first"), a.integer("last")) as row:
        out, term = a.at("%Out", row.index * stride), a.at("%Term", row.index * distance)
        with a.units(a.integer("columns"), is_masked=True) as unit:
            if name == "begin_bias":
                value = a.load("%Bias", unit.index)
            elif name == "begin_term":
                value = a.load(term, unit.index)
            else:
                value = a.load(term, unit.index) + a.load("%Bias", unit.index)
            a.store(value, out, unit.index)
    return a.function(f"internal void @{name}(i64 %first, i64 %last, ptr %arguments)")


def _squares(lanes: int, intrinsics: dict[str, str]) -> str:
    """The function that adds up the squares of numbers: no finite sum if one of them is not finite."""
    a = Routine(lanes, intrinsics)
    a.arguments(["X", "Sum", "size"])
    size = a.integer("size")
    whole = a.let(f"udiv i64 {size}, {4 * lanes}") * (4 * lanes)
    with a.loop(0, whole, 4 * lanes, carried=[a.zero()] * 4) as loop:
        for number, held in enumerate(loop.values):
            given = a.load("%X", loop.index + number * lanes)
            loop.next[number] = given.times_plus(given, held)
    rest = a.at("%X", whole)
    first, second, third, fourth = loop.values
    with a.units(size - whole, is_masked=True, carried=[first + second + (third + fourth)]) as unit:
        given = a.load(rest, unit.index)
        unit.next[0] = given.times_plus(given, unit.values[0])
    a.put(a.total(unit.values[0]), "%Sum", 0)
    return a.function("internal void @squares(i64 %first, i64 %last, ptr %arguments)")


def machine_text(lanes: int) -> str:
    """The text; its `LOOP` writes the addresses of all `FUNCTIONS` where its arguments are."""
    intrinsics: dict[str, str] = {}
    begins = [*(_begin(name, lanes, intrinsics) for name in BEGIN), _squares(lanes, intrinsics)]
    lines = []
    for number, name in enumerate(FUNCTIONS):
        lines.append(f"  %at{number} = getelementptr ptr, ptr %arguments, i64 {number}")
        lines.append(f"  store ptr @{name}, ptr %at{number}")
    head = "define void @LOOP(i64 %first, i64 %last, ptr %arguments) {"
    entry = "\n".join([head, *lines, "  ret void", "}", ""])
    return "\n".join(
        [*intrinsics.values(), _TEAM, _LIBRARY, *map(_product, _CALLS), _EXECUTE, *begins, entry]
    )
