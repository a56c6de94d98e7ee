// CUDA C on the CPU, for one kernel: what its text may name. `server.cpp` runs it.
#include <math.h>
#include <stdint.h>
#include <string.h>

struct dim3 { unsigned x, y, z; };
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };
extern char* dynamic_shared_memory;

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static __attribute__((section("shared_memory")))
#define __launch_bounds__(...)
#define CUDART_INF_F ((float)INFINITY)

struct __attribute__((aligned(8))) float2 { float x, y; };
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
struct __attribute__((aligned(16))) double2 { double x, y; };
struct __attribute__((aligned(8))) int2 { int x, y; };
struct __attribute__((aligned(16))) int4 { int x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
// the C library has functions of these names
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline int __float_as_int(float x) { int bits; memcpy(&bits, &x, 4); return bits; }
static inline double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
static inline long long __double_as_longlong(double x) { long long bits; memcpy(&bits, &x, 8); return bits; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }

// CUDA's of floats give the number beside a NaN
#define EXTREMES(T) \
  static inline T max(T a, T b) { return a > b ? a : b; } \
  static inline T min(T a, T b) { return a < b ? a : b; }
EXTREMES(int) EXTREMES(unsigned) EXTREMES(long) EXTREMES(unsigned long)
EXTREMES(long long) EXTREMES(unsigned long long)
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(float a, double b) { return fmax(a, b); }
static inline double min(float a, double b) { return fmin(a, b); }
static inline double max(double a, float b) { return fmax(a, b); }
static inline double min(double a, float b) { return fmin(a, b); }

template <class T> static inline T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <class T> static inline T atomicSub(T* p, T v) { T old = *p; *p = old - v; return old; }
template <class T> static inline T atomicMax(T* p, T v) { T old = *p; *p = old > v ? old : v; return old; }
template <class T> static inline T atomicMin(T* p, T v) { T old = *p; *p = old < v ? old : v; return old; }
template <class T> static inline T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }
template <class T> static inline T atomicCAS(T* p, T c, T v) { T old = *p; if (old == c) *p = v; return old; }
template <class T> static inline T __ldg(const T* p) { return *p; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

// ------------------------------------------------------------------ what waits for other threads
extern "C" {
void wait_for_block();
void wait_for_warp();
void show_to_warp(const void* value, unsigned bytes);
// what a thread of this one's warp shows, or null where there is none
const void* shown_by_lane(int lane);
int own_lane();
}
static inline void __syncthreads() { wait_for_block(); }
static inline void __syncwarp(unsigned = ~0u) { wait_for_warp(); }
template <class T> static T from_lane(T value, int lane) {
  show_to_warp(&value, sizeof(T));
  wait_for_warp();
  T found = value;
  if (const void* shown = shown_by_lane(lane)) memcpy(&found, shown, sizeof(T));
  wait_for_warp();
  return found;
}
static inline int lane_in(int lane, int width) { return own_lane() / width * width + lane; }
template <class T> static T __shfl_sync(unsigned, T v, int lane, int width = 32) {
  return from_lane(v, lane_in(lane % width, width));
}
template <class T> static T __shfl_down_sync(unsigned, T v, unsigned by, int width = 32) {
  int lane = own_lane() % width + (int)by;
  return from_lane(v, lane < width ? lane_in(lane, width) : -1);
}
template <class T> static T __shfl_up_sync(unsigned, T v, unsigned by, int width = 32) {
  int lane = own_lane() % width - (int)by;
  return from_lane(v, lane >= 0 ? lane_in(lane, width) : -1);
}
template <class T> static T __shfl_xor_sync(unsigned, T v, int mask, int width = 32) {
  int lane = own_lane() ^ mask;
  return from_lane(v, lane / width == own_lane() / width ? lane : -1);
}
static inline unsigned __ballot_sync(unsigned, int is_true) {
  unsigned found = 0;
  show_to_warp(&is_true, sizeof is_true);
  wait_for_warp();
  for (int lane = 0; lane < 32; lane++)
    if (const void* shown = shown_by_lane(lane)) found |= (unsigned)(*(const int*)shown != 0) << lane;
  wait_for_warp();
  return found;
}
static inline int __any_sync(unsigned mask, int is_true) { return __ballot_sync(mask, is_true) != 0; }
static inline unsigned __activemask() { return ~0u; }

// ------------------------------------------------------------------ how the server calls the kernel
struct Parameter { int size; bool is_pointer, is_const; };
template <class T> struct Form { static const bool is_pointer = false, is_const = false; };
template <class T> struct Form<T*> { static const bool is_pointer = true, is_const = false; };
template <class T> struct Form<const T*> { static const bool is_pointer = true, is_const = true; };
template <class T> struct Form<T* __restrict> : Form<T*> {};
template <class T> struct Form<const T* __restrict> : Form<const T*> {};
template <int... I> struct Numbers {};
template <int N, int... I> struct Counted : Counted<N - 1, N - 1, I...> {};
template <int... I> struct Counted<0, I...> { using type = Numbers<I...>; };
template <class... A> int describe(void (*)(A...), Parameter* found) {
  const Parameter all[] = {{(int)sizeof(A), Form<A>::is_pointer, Form<A>::is_const}..., {0, false, false}};
  for (int i = 0; i < (int)sizeof...(A); i++) found[i] = all[i];
  return sizeof...(A);
}
template <class... A, int... I> void call_numbered(void (*kernel)(A...), void** given, Numbers<I...>) {
  kernel(*(A*)given[I]...);
}
template <class... A> void call_kernel(void (*kernel)(A...), void** given) {
  call_numbered(kernel, given, typename Counted<sizeof...(A)>::type());
}
// symbols of the linker, where the module has shared memory
extern "C" char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));
#define SERVED(name) \
  extern "C" int parameters_of_##name(Parameter* found) { return describe(&name, found); } \
  extern "C" void call_##name(void** given) { call_kernel(&name, given); } \
  extern "C" void shared_of_##name(char** from, char** to) { \
    *from = __start_shared_memory; \
    *to = __stop_shared_memory; \
  }
