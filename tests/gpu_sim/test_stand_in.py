"""The stand-in for a device: what it refuses, what it catches, and programs that run on it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base import registry
from fluidlite.errors import KernelError
from fluidlite.executor.cuda import elementwise
from fluidlite.executor.run.cuda import CapturedStep, FeedCopies
from gpu_sim.arrays import DeviceError
from gpu_sim.faults import KernelFault
from gpu_sim.stand_in import installed
from gpu_sim.streams import CaptureError, RaceError

pytestmark = pytest.mark.skipif(
    not shutil.which("g++") and not shutil.which("c++"), reason="needs a C++ compiler"
)


@pytest.fixture()
def cupy() -> Iterator[Any]:
    with installed(4) as module:
        yield module


# ---------------------------------------------------------------------- refused, as by CuPy
REFUSED = {
    "a NumPy array of a device's": (lambda cp, a: np.asarray(a), TypeError),
    "a host array beside it": (lambda cp, a: a + np.ones(3, "float32"), TypeError),
    "a keyword that CuPy lacks": (lambda cp, a: cp.take(a, [0], mode="clip"), TypeError),
    "a mask for a ufunc": (lambda cp, a: cp.add(a, 1, where=a > 0), TypeError),
    "a function that CuPy lacks": (lambda cp, a: cp.busday_count(a), AttributeError),
    "an index": (lambda cp, a: [1, 2, 3][a[0]], TypeError),
    "objects": (lambda cp, a: cp.asarray(np.array([None])), ValueError),
    "repeats on the device": (lambda cp, a: cp.repeat(a, a), ValueError),
    "host values for a piece": (lambda cp, a: a.__setitem__(slice(0, 2), np.ones(2, "float32")), ValueError),
    "values of another type": (lambda cp, a: a.set(np.ones(3)), TypeError),
    "a product into a piece": (lambda cp, a: cp.dot(cp.eye(3), cp.ones(3), out=cp.ones(6)[::2]), ValueError),
    "a product of another type": (lambda cp, a: cp.dot(cp.eye(3), cp.ones(3), out=a), ValueError),
    "sums of int64": (lambda cp, a: cp.add.at(cp.arange(3), cp.arange(3), 1), TypeError),
    "products at indices": (lambda cp, a: cp.multiply.at(a, cp.arange(3), 2), NotImplementedError),
    "a host array as output": (lambda cp, a: cp.add(a, a, out=np.ones(3)), TypeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(cupy: Any, name: str) -> None:
    action, error = REFUSED[name]
    with pytest.raises(error):
        action(cupy, cupy.ones(3, dtype="float32"))


def test_an_array_of_another_device(cupy: Any) -> None:
    with cupy.cuda.Device(1):
        there = cupy.ones(3)
    with pytest.raises(DeviceError, match="device 0 takes an array of device 1"):
        cupy.add(cupy.ones(3), there)


def test_new_memory_holds_no_numbers(cupy: Any) -> None:
    assert np.isnan(cupy.empty(3, "float32").get()).all()


# ---------------------------------------------------------------------- streams
def test_a_read_that_nothing_orders(cupy: Any) -> None:
    a = cupy.zeros(8)
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    first.wait_event(cupy.cuda.get_current_stream().record())
    second.wait_event(cupy.cuda.get_current_stream().record())
    with first:
        a[...] = 1.0
    with second, pytest.raises(RaceError, match="may still write"):
        a.sum()
    with pytest.raises(RaceError):
        a.get()
    second.wait_event(first.record())
    with second:
        assert a.sum().get() == 8


def test_a_write_before_a_read_has_ended(cupy: Any) -> None:
    a, b = cupy.zeros(8), cupy.zeros(8)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    with stream:
        cupy.copyto(b, a)
    with pytest.raises(RaceError, match="may still read"):
        a[...] = 2.0
    stream.synchronize()
    a[...] = 2.0


CAPTURED = {
    "an allocation": lambda cp, a, stream: a + 1,
    "a value on the host": lambda cp, a, stream: float(a[0]),
    "synchronising": lambda cp, a, stream: stream.synchronize(),
}
# refused of a pool of one's own too
CAPTURED_IN_A_POOL = {
    "a copy of host values": lambda cp, a, stream: cp.asarray([1.0]),
    "cuBLAS through CuPy": lambda cp, a, stream: cp.matmul(a, a),
    "cuBLAS through an operator": lambda cp, a, stream: a @ a,
    "cuSOLVER": lambda cp, a, stream: cp.linalg.inv(cp.eye(3)),
    "cuRAND": lambda cp, a, stream: cp.random.default_rng(0).random(3),
    "sorting": lambda cp, a, stream: cp.argsort(a),
    "a size found on the device": lambda cp, a, stream: a[a > 0],
}


@contextlib.contextmanager
def capturing(cupy: Any, in_pool: bool = False) -> Iterator[Any]:
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    allocator = cupy.cuda.MemoryPool().malloc if in_pool else None
    with stream, cupy.cuda.using_allocator(allocator):
        stream.begin_capture()
        yield stream
        with contextlib.suppress(CaptureError):
            stream.end_capture()
        assert not stream.is_capturing


@pytest.mark.parametrize("name", CAPTURED)
def test_refused_while_a_stream_is_captured(cupy: Any, name: str) -> None:
    a = cupy.ones(3)
    with capturing(cupy) as stream, pytest.raises(CaptureError):
        CAPTURED[name](cupy, a, stream)


@pytest.mark.parametrize("name", CAPTURED_IN_A_POOL)
def test_refused_in_a_capture_with_a_pool(cupy: Any, name: str) -> None:
    a = cupy.ones(3)
    with capturing(cupy, True) as stream, pytest.raises((CaptureError, NotImplementedError)):
        CAPTURED_IN_A_POOL[name](cupy, a, stream)


def test_allocations_from_a_pool_are_captured(cupy: Any) -> None:
    """CuPy captures in CUDA's relaxed mode, in which memory may be taken from the device."""
    a = cupy.ones(3)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    with stream, cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
        stream.begin_capture()
        b, added = a * 2, cupy.zeros(3)
        added += b
        graph = stream.end_capture()
        a += 1
        for _ in range(2):
            graph.launch(stream)
        # what is made anew is new at each launch
        assert b.get().tolist() == added.get().tolist() == [4, 4, 4]


def test_captured_work_runs_when_it_is_launched(cupy: Any) -> None:
    a = cupy.ones(3)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    with stream:
        stream.begin_capture()
        cupy.add(a, a, out=a)
        graph = stream.end_capture()
        assert a.get()[0] == 1
        graph.launch(stream)
        graph.launch(stream)
        assert a.get()[0] == 4


def test_a_capture_takes_in_the_streams_that_wait_for_it(cupy: Any) -> None:
    a = cupy.ones(3)
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    stream.wait_event(cupy.cuda.get_current_stream().record())
    stream.begin_capture()
    other.wait_event(stream.record())
    with other:
        cupy.add(a, a, out=a)
    stream.wait_event(other.record())
    graph = stream.end_capture()
    with stream:
        assert a.get()[0] == 1
        graph.launch(stream)
        assert a.get()[0] == 2


def test_a_capture_waits_for_all_its_streams(cupy: Any) -> None:
    a = cupy.ones(3)
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    stream.begin_capture()
    other.wait_event(stream.record())
    with other:
        cupy.add(a, a, out=a)
    with pytest.raises(CaptureError, match="not waited for"):
        stream.end_capture()


# ---------------------------------------------------------------------- kernels
SCALE = """extern "C" __global__ void scale(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i %s n) b[i] = 2 * a[i];
}"""
REVERSE = """extern "C" __global__ void reverse(const float* a, float* b) {
  __shared__ float s[64];
  s[threadIdx.x] = a[threadIdx.x];
  %s
  b[threadIdx.x] = s[63 - threadIdx.x];
}"""
SHIFT = """extern "C" __global__ void shift(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x]; }"""
SUM = """extern "C" __global__ void total(const float* a, float* b, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += a[i];
  for (int by = 16; by; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
  if (threadIdx.x %% 32 == 0) atomicAdd(b, sum);
}""".replace("%%", "%")


def test_a_kernel(cupy: Any) -> None:
    a, b = cupy.arange(10, dtype="float32"), cupy.empty(10, "float32")
    cupy.RawKernel(SCALE % "<", "scale")((3,), (4,), (a, b, np.int32(10)))
    assert (b.get() == 2 * np.arange(10)).all()


def test_a_kernel_that_writes_beside_its_array(cupy: Any) -> None:
    a, b = cupy.arange(10, dtype="float32"), cupy.empty(10, "float32")
    with pytest.raises(KernelFault, match="heap-buffer-overflow"):
        cupy.RawKernel(SCALE % "<=", "scale")((3,), (4,), (a, b, np.int32(10)))


def test_a_missing_barrier(cupy: Any) -> None:
    a, b = cupy.arange(64, dtype="float32"), cupy.empty(64, "float32")
    cupy.RawKernel(REVERSE % "__syncthreads();", "reverse")((1,), (64,), (a, b))
    assert (b.get() == np.arange(64)[::-1]).all()
    with pytest.raises(KernelFault, match="another order of threads"):
        cupy.RawKernel(REVERSE % "", "reverse")((1,), (64,), (a, b))


def test_a_barrier_that_some_threads_miss(cupy: Any) -> None:
    a, b = cupy.arange(64, dtype="float32"), cupy.empty(64, "float32")
    with pytest.raises(KernelFault, match="others have ended"):
        cupy.RawKernel(REVERSE % "if (threadIdx.x) return; __syncthreads();", "reverse")((1,), (64,), (a, b))


def test_warps_and_atomic_additions(cupy: Any) -> None:
    a, b = cupy.arange(1000, dtype="float32"), cupy.zeros(1, dtype="float32")
    cupy.RawKernel(SUM, "total")((1,), (64,), (a, b, np.int32(1000)))
    assert b.get()[0] == 1000 * 999 / 2


def test_a_number_of_another_size(cupy: Any) -> None:
    a = cupy.arange(10, dtype="float32")
    with pytest.raises(KernelFault, match="4 bytes is given 8"):
        cupy.RawKernel(SCALE % "<", "scale")((3,), (4,), (a, a.copy(), np.int64(10)))


# ---------------------------------------------------------------------- programs
def network() -> Any:
    x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
    h = fluid.layers.fc(x, 8, act="tanh", param_attr=_start("w0"))
    h = fluid.layers.fc(h, 3, param_attr=_start("w1"))
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(h, y))
    fluid.optimizer.Adam(0.05).minimize(loss)
    return loss


def _start(name: str) -> Any:
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=7))


def feed(step: int) -> dict[str, Any]:
    random = np.random.default_rng(step)
    return {"x": random.random((8, 6), "float32"), "y": random.integers(0, 3, (8, 1))}


def losses(place: Any, program: Any, loss: Any) -> list[float]:
    exe = fluid.Executor(place)
    scope = fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=scope)
    runs = [exe.run(program, feed=feed(step), fetch_list=[loss], scope=scope)[0] for step in range(4)]
    return [float(np.mean(value)) for value in runs]


def test_steps_are_captured(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[CapturedStep] = []
    before = CapturedStep.__init__

    def made(self: CapturedStep, *args: Any) -> None:
        before(self, *args)
        steps.append(self)

    monkeypatch.setattr(CapturedStep, "__init__", made)
    loss = network()
    found = losses(fluid.CUDAPlace(0), fluid.default_main_program(), loss)
    assert found == pytest.approx(losses(fluid.CPUPlace(), fluid.default_main_program(), loss), abs=1e-6)
    assert [step.graph is not None for step in steps if step.runs == 4] == [True]


def test_a_feed_is_copied_beside_the_step_before(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    behind: list[int] = []
    before = FeedCopies.feed

    def noted(self: FeedCopies, number: int, target: Any, item: Any) -> None:
        launched = self.stream.seen()[self.stream.number]
        before(self, number, target, item)
        behind.append(launched - self.copies.seen().get(self.stream.number, 0))

    monkeypatch.setattr(FeedCopies, "feed", noted)
    network()
    exe = fluid.Executor(fluid.CUDAPlace(0))
    exe.run(fluid.default_startup_program())
    for step in range(7):
        exe.run(feed=feed(step))
    # of x and y; the first copies wait, since memory for them may have been that stream's
    assert len(behind) == 2 * 6
    # a step is more than ten kernels, and those of the one before are not waited for
    assert min(behind[2:]) > 10


@pytest.mark.parametrize("devices", [2, 4])
def test_data_parallel(cupy: Any, devices: int) -> None:
    loss = network()
    main = fluid.default_main_program()

    def parallel(places: Any) -> Any:
        return fluid.CompiledProgram(main.clone()).with_data_parallel(loss.name, places=places)

    cuda = fluid.cuda_places(range(devices))
    found = losses(fluid.CUDAPlace(0), parallel(cuda), loss)
    assert found == pytest.approx(
        losses(fluid.CPUPlace(), parallel(fluid.cpu_places(devices)), loss), abs=1e-6
    )


# ---------------------------------------------------------------------- mistakes inside a step, named
def step_of(out: Any, count: int = 3) -> None:
    exe = fluid.Executor(fluid.CUDAPlace(0))
    exe.run(fluid.default_startup_program())
    for _ in range(count):
        exe.run(feed={"x": np.ones((4, 6), "float32")}, fetch_list=[out])


def test_a_write_beside_an_array_names_the_kernel(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = elementwise.kernel_text
    monkeypatch.setattr(elementwise, "kernel_text", lambda *args: text(*args).replace("i < 24LL", "i < 25LL"))
    out = fluid.layers.tanh(fluid.layers.scale(fluid.data("x", [None, 6], "float32"), 2.0))
    with pytest.raises(KernelError, match=r"kernel fused_(?s:.*)overflow(?s:.*)built at .*test_stand_in"):
        step_of(out)


def test_a_race_names_the_kernel(cupy: Any) -> None:
    a, b = cupy.zeros(10, dtype="float32"), cupy.zeros(10, dtype="float32")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, pytest.raises(RaceError, match="kernel scale on stream"):
        cupy.RawKernel(SCALE % "<", "scale")((3,), (4,), (a, b, np.int32(10)))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda x: np.asarray(x), "op 'tanh'.*[\\s\\S]*Implicit conversion to a NumPy array"),
        (lambda x: x + np.ones(6, "float32"), "op 'tanh'.*[\\s\\S]*takes a host array"),
    ],
    ids=["conversion", "host array"],
)
def test_an_accidental_numpy_array_names_the_op(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, mistake: Any, words: str
) -> None:
    out = fluid.layers.tanh(fluid.data("x", [None, 6], "float32"))
    monkeypatch.setattr(registry.find("tanh"), "compute", lambda xp, X: mistake(X))
    exe = fluid.Executor(fluid.CUDAPlace(0))
    exe.naive = True
    with pytest.raises(KernelError, match=words):
        exe.run(feed={"x": np.ones((4, 6), "float32")}, fetch_list=[out])


def test_a_host_read_in_a_capture_names_the_function(cupy: Any) -> None:
    a = cupy.ones(3)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    with stream:
        stream.begin_capture()
        with pytest.raises(CaptureError, match="nonzero reads on the host while a stream is captured"):
            cupy.nonzero(a)
        with pytest.raises(CaptureError, match="broken"):
            stream.end_capture()


def test_a_step_that_cannot_be_captured_goes_on(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA fails twice, in the step and at the end of the capture: neither ends the step or the run."""
    launch = elementwise.FusedKernel.__call__

    def synchronising(self: Any, *arrays: Any) -> None:
        launch(self, *arrays)
        cupy.cuda.get_current_stream().synchronize()

    monkeypatch.setattr(elementwise.FusedKernel, "__call__", synchronising)
    step_of(fluid.layers.tanh(fluid.layers.scale(fluid.data("x", [None, 6], "float32"), 2.0)), count=4)


# ---------------------------------------------------------------------- limits of a launch
@pytest.mark.parametrize(
    ("grid", "block"), [((0,), (4,)), ((1,), (2048,)), ((1, 70000), (4,)), ((1,), (1, 1, 128)), ((1,), (0,))]
)
def test_launches_that_cuda_refuses(cupy: Any, grid: Any, block: Any) -> None:
    a = cupy.arange(10, dtype="float32")
    with pytest.raises(KernelFault, match="kernel scale"):
        cupy.RawKernel(SCALE % "<", "scale")(grid, block, (a, a.copy(), np.int32(10)))


def test_a_text_that_cuda_does_not_take(cupy: Any) -> None:
    a = cupy.arange(10, dtype="float32")
    text = SCALE.replace("2 * a[i]", "INFINITY")  # which the C++ compiler knows from math.h
    with pytest.raises(KernelFault, match='identifier "INFINITY" is undefined'):
        cupy.RawKernel(text % "<", "scale")((3,), (4,), (a, a.copy(), np.int32(10)))


def test_arrays_that_share_memory(cupy: Any) -> None:
    a = cupy.arange(64, dtype="float32")
    with pytest.raises(KernelFault, match="another order of threads"):
        cupy.RawKernel(SHIFT, "shift")((1,), (63,), (a[1:], a[:63]))


def test_shared_memory_holds_no_numbers(cupy: Any) -> None:
    text = """extern "C" __global__ void unwritten(float* b) {
      __shared__ float s[4];
      b[blockIdx.x * 4 + threadIdx.x] = s[threadIdx.x];
      s[threadIdx.x] = 1;
    }"""
    b = cupy.zeros(8, dtype="float32")
    cupy.RawKernel(text, "unwritten")((2,), (4,), (b,))
    assert np.isnan(b.get()).all()


def test_more_shared_memory_than_devices_have(cupy: Any) -> None:
    text = REVERSE.replace("s[64]", "s[20000]") % "__syncthreads();"
    with pytest.raises(KernelFault, match="does not compile for CUDA"):
        cupy.RawKernel(text, "reverse")((1,), (64,), (cupy.zeros(64, "float32"), cupy.zeros(64, "float32")))


def test_dynamic_shared_memory(cupy: Any) -> None:
    text = REVERSE.replace("__shared__ float s[64]", "extern __shared__ float s[]") % "__syncthreads();"
    a, b = cupy.arange(64, dtype="float32"), cupy.empty(64, "float32")
    cupy.RawKernel(text, "reverse")((1,), (64,), (a, b), shared_mem=256)
    assert (b.get() == np.arange(64)[::-1]).all()
    with pytest.raises(KernelFault, match="heap-buffer-overflow"):
        cupy.RawKernel(text, "reverse")((1,), (64,), (a, b), shared_mem=252)


def test_a_load_that_is_not_aligned(cupy: Any) -> None:
    text = """extern "C" __global__ void wide(const float* a, float* b) { b[0] = ((const float4*)a)[0].w; }"""
    a, b = cupy.arange(8, dtype="float32"), cupy.empty(1, "float32")
    cupy.RawKernel(text, "wide")((1,), (1,), (a[4:], b))
    assert b.get()[0] == 7
    with pytest.raises(KernelFault, match="misaligned address"):
        cupy.RawKernel(text, "wide")((1,), (1,), (a[1:], b))


# ---------------------------------------------------------------------- arrays whose columns come first
def test_what_is_fed_or_held_in_columns(cupy: Any) -> None:
    """CuPy keeps the order of columns where an array comes from the host or gets another type."""
    columns = np.asfortranarray(np.arange(24, dtype="float32").reshape(4, 6))
    assert not cupy.asarray(columns).flags.c_contiguous and not cupy.array(columns).flags.c_contiguous
    assert not cupy.ones((4, 6)).T.astype("float32").flags.c_contiguous
    assert cupy.asarray(columns, order="C").flags.c_contiguous
    x = fluid.data("x", [None, 6], "float32")
    held = fluid.layers.create_parameter([4, 6], "float32", name="held")
    out = fluid.layers.scale(fluid.layers.elementwise_add(x, held), 2.0)
    exe = fluid.Executor(fluid.CUDAPlace(0))
    exe.run(fluid.default_startup_program())
    fluid.global_scope().find_var("held").get_tensor().set(columns, fluid.CUDAPlace(0))
    for _ in range(4):
        (found,) = exe.run(feed={"x": columns}, fetch_list=[out])
        np.testing.assert_array_equal(found, 4 * columns)
