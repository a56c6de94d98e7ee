// CUDA C on the CPU: one kernel, all threads of a launch one after the other as fibers, so that barriers work and
// the order of threads can be chosen. Arguments come through a pipe, each in memory of exactly its size, where the
// address sanitizer finds whoever reads or writes beside it.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <sanitizer/common_interface_defs.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static
#define __launch_bounds__(...)

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
#define __expf expf
#define __logf logf
static inline float __fdividef(float x, float y) { return x / y; }
using std::max;
using std::min;
template <class T> static inline T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <class T> static inline T atomicMax(T* p, T v) { T old = *p; *p = old > v ? old : v; return old; }
template <class T> static inline T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }
template <class T> static inline T atomicCAS(T* p, T c, T v) { T old = *p; if (old == c) *p = v; return old; }
template <class T> static inline T __ldg(const T* p) { return *p; }
static inline void __threadfence() {}

// ------------------------------------------------------------------ fibers
enum State { READY, AT_BARRIER, AT_WARP, DONE };
static const size_t STACK = 1 << 16;
struct Fiber {
  ucontext_t context;
  char* stack;
  State state;
  dim3 index;
  double lane;       // what the thread shows to its warp
  void* shadow;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static void* scheduler_shadow;
static const void* scheduler_stack;
static size_t scheduler_size;
static int running;
static void (*body)();

static void leave(State state) {
  Fiber& fiber = fibers[running];
  fiber.state = state;
  __sanitizer_start_switch_fiber(state == DONE ? nullptr : &fiber.shadow, scheduler_stack, scheduler_size);
  swapcontext(&fiber.context, &scheduler);
  __sanitizer_finish_switch_fiber(fiber.shadow, nullptr, nullptr);
}
static void start() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
  body();
  leave(DONE);
}
static inline void __syncthreads() { leave(AT_BARRIER); }
static inline void __syncwarp(unsigned = ~0u) { leave(AT_WARP); }
static int lane_of(int thread) { return thread % 32; }
template <class T> static T from_lane(T value, int lane) {
  int me = running, first = me - lane_of(me);
  memcpy(&fibers[me].lane, &value, sizeof(T));
  leave(AT_WARP);
  T found = value;
  if (lane >= 0 && lane < 32 && first + lane < (int)fibers.size()) memcpy(&found, &fibers[first + lane].lane, sizeof(T));
  leave(AT_WARP);
  return found;
}
template <class T> static T __shfl_sync(unsigned, T v, int lane, int = 32) { return from_lane(v, lane); }
template <class T> static T __shfl_down_sync(unsigned, T v, unsigned by, int = 32) {
  int lane = lane_of(running) + by;
  return from_lane(v, lane < 32 ? lane : -1);
}
template <class T> static T __shfl_xor_sync(unsigned, T v, int mask, int = 32) { return from_lane(v, lane_of(running) ^ mask); }

static void fail(const char* why) {
  fprintf(stderr, "%s (block %u %u %u)\n", why, blockIdx.x, blockIdx.y, blockIdx.z);
  exit(3);
}
static void resume(int thread) {
  Fiber& fiber = fibers[thread];
  running = thread;
  threadIdx = fiber.index;
  __sanitizer_start_switch_fiber(&scheduler_shadow, fiber.stack, STACK);
  swapcontext(&scheduler, &fiber.context);
  __sanitizer_finish_switch_fiber(scheduler_shadow, nullptr, nullptr);
}
static int place(int i, int count, int order) { return order == 0 ? i : order == 1 ? count - 1 - i : (int)((i * 7919ll + 3) % count); }

static void run_block(int order) {
  int count = (int)fibers.size();
  for (int i = 0; i < count; i++) {
    Fiber& fiber = fibers[i];
    fiber.state = READY;
    fiber.shadow = nullptr;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start, 0);
  }
  for (;;) {
    int ready = 0, waiting = 0, done = 0;
    for (int i = 0; i < count; i++) {
      int thread = place(i, count, order);
      if (fibers[thread].state == READY) { resume(thread); ready++; }
    }
    // a warp whose threads have all come goes on by itself
    for (int first = 0; first < count; first += 32) {
      bool all = true, some = false;
      for (int i = first; i < count && i < first + 32; i++) {
        some |= fibers[i].state == AT_WARP;
        all &= fibers[i].state == AT_WARP || fibers[i].state == DONE;
      }
      for (int i = first; some && all && i < count && i < first + 32; i++)
        if (fibers[i].state == AT_WARP) { fibers[i].state = READY; ready++; }
    }
    for (Fiber& fiber : fibers) { waiting += fiber.state == AT_BARRIER; done += fiber.state == DONE; }
    if (done == count) return;
    if (waiting + done == count) {
      if (done) fail("some threads of a block wait at __syncthreads() and others have ended");
      for (Fiber& fiber : fibers) fiber.state = READY;
    } else if (!ready) fail("threads of a block wait at different barriers");
  }
}
static void run_grid(int order) {
  fibers.resize((size_t)blockDim.x * blockDim.y * blockDim.z);
  size_t i = 0;
  for (unsigned z = 0; z < blockDim.z; z++) for (unsigned y = 0; y < blockDim.y; y++) for (unsigned x = 0; x < blockDim.x; x++) {
    fibers[i].index = dim3{x, y, z};
    fibers[i++].stack = (char*)malloc(STACK);
  }
  long long count = (long long)gridDim.x * gridDim.y * gridDim.z;
  for (long long i = 0; i < count; i++) {
    long long block = order == 1 ? count - 1 - i : i;
    blockIdx = dim3{(unsigned)(block % gridDim.x), (unsigned)(block / gridDim.x % gridDim.y), (unsigned)(block / gridDim.x / gridDim.y)};
    run_block(order);
  }
  for (Fiber& fiber : fibers) free(fiber.stack);
  fibers.clear();
}

// ------------------------------------------------------------------ arguments
static void take(void* to, size_t bytes) { if (bytes && fread(to, 1, bytes, stdin) != bytes) exit(0); }
static int64_t number() { int64_t n; take(&n, sizeof n); return n; }

template <class T> static T argument(std::vector<std::pair<void*, int64_t>>& back) {
  int64_t bytes = number();
  if constexpr (std::is_pointer<T>::value) {
    void* memory = malloc(bytes);
    take(memory, bytes);
    bool is_const = std::is_const<typename std::remove_pointer<T>::type>::value;
    back.push_back({memory, is_const ? -1 : bytes});
    return (T)memory;
  } else {
    if (bytes != (int64_t)sizeof(T)) { fprintf(stderr, "a parameter of %zu bytes is given %lld\n", sizeof(T), (long long)bytes); exit(3); }
    T value;
    take(&value, sizeof value);
    return value;
  }
}

template <class... A> static void serve(void (*kernel)(A...)) {
  static void (*called)(A...);
  static std::tuple<A...> given;
  called = kernel;
  for (;;) {
    unsigned* sizes[] = {&gridDim.x, &gridDim.y, &gridDim.z, &blockDim.x, &blockDim.y, &blockDim.z};
    for (unsigned* size : sizes) *size = (unsigned)number();
    int order = (int)number();
    int64_t count = number();
    if (count != (int64_t)sizeof...(A)) { fprintf(stderr, "%zu parameters are given %lld\n", sizeof...(A), (long long)count); exit(3); }
    std::vector<std::pair<void*, int64_t>> back;
    given = std::tuple<A...>{argument<A>(back)...};
    body = [] { std::apply(called, given); };
    run_grid(order);
    for (auto& item : back) {
      int64_t bytes = item.second;
      fwrite(&bytes, 1, sizeof bytes, stdout);
      if (bytes > 0) fwrite(item.first, 1, bytes, stdout);
      free(item.first);
    }
    fflush(stdout);
  }
}
