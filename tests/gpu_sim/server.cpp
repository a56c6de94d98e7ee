// Runs launches of kernels that a pipe brings: all threads of a block one after the other, as fibers where
// they wait for each other, so that barriers work and the order of threads can be chosen. Arrays lie in
// memory of exactly their size, where the address sanitizer finds whoever reads or writes beside them.
#include "cuda_on_host.h"
#include <dlfcn.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <map>
#include <string>
#include <vector>

dim3 threadIdx, blockIdx, blockDim, gridDim;
char* dynamic_shared_memory;

struct Module {
  int (*parameters)(Parameter*);
  void (*call)(void**);
  void (*shared)(char**, char**);
};
static Module* module_called;
static std::vector<void*> given;

static void fail(const char* why) {
  fprintf(stderr, "%s (block %u %u %u)\n", why, blockIdx.x, blockIdx.y, blockIdx.z);
  exit(3);
}

// ------------------------------------------------------------------ fibers
enum State { READY, AT_BARRIER, AT_WARP, DONE };
static const size_t STACK = 1 << 16;
struct Fiber {
  ucontext_t context;
  char* stack;
  State state;
  dim3 index;
  char lane[16];     // what the thread shows to its warp
  void* shadow;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static void* scheduler_shadow;
static const void* scheduler_stack;
static size_t scheduler_size;
static int running;

static void leave(State state) {
  Fiber& fiber = fibers[running];
  fiber.state = state;
  __sanitizer_start_switch_fiber(state == DONE ? nullptr : &fiber.shadow, scheduler_stack, scheduler_size);
  swapcontext(&fiber.context, &scheduler);
  __sanitizer_finish_switch_fiber(fiber.shadow, nullptr, nullptr);
}
static void start() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
  module_called->call(given.data());
  leave(DONE);
}
extern "C" void wait_for_block() { leave(AT_BARRIER); }
extern "C" void wait_for_warp() { leave(AT_WARP); }
extern "C" void show_to_warp(const void* value, unsigned bytes) {
  memcpy(fibers[running].lane, value, bytes);
}
extern "C" int own_lane() { return running % 32; }
extern "C" const void* shown_by_lane(int lane) {
  size_t thread = running - running % 32 + lane;
  const bool is_there = lane >= 0 && lane < 32 && thread < fibers.size() && fibers[thread].state != DONE;
  return is_there ? fibers[thread].lane : nullptr;
}
static void resume(int thread) {
  Fiber& fiber = fibers[thread];
  running = thread;
  threadIdx = fiber.index;
  __sanitizer_start_switch_fiber(&scheduler_shadow, fiber.stack, STACK);
  swapcontext(&scheduler, &fiber.context);
  __sanitizer_finish_switch_fiber(scheduler_shadow, nullptr, nullptr);
}

// ------------------------------------------------------------------ blocks
static void run_fibers(bool backwards) {
  int count = (int)fibers.size();
  for (Fiber& fiber : fibers) {
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
      int thread = backwards ? count - 1 - i : i;
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
// most kernels wait for nobody: their threads are calls
static void run_calls(bool backwards) {
  int count = (int)fibers.size();
  for (int i = 0; i < count; i++) {
    running = backwards ? count - 1 - i : i;
    threadIdx = fibers[running].index;
    module_called->call(given.data());
  }
}
// a block finds no numbers in its shared memory, least of all those of the block before
__attribute__((no_sanitize_address)) static void spoil(char* from, char* to) {
  while (from < to) *from++ = (char)0xFF;
}

static void run_grid(bool backwards, bool waits, size_t dynamic_bytes) {
  fibers.resize((size_t)blockDim.x * blockDim.y * blockDim.z);
  size_t i = 0;
  for (unsigned z = 0; z < blockDim.z; z++)
  for (unsigned y = 0; y < blockDim.y; y++)
  for (unsigned x = 0; x < blockDim.x; x++) {
    fibers[i].index = dim3{x, y, z};
    fibers[i++].stack = waits ? (char*)malloc(STACK) : nullptr;
  }
  char *from, *to;
  module_called->shared(&from, &to);
  dynamic_shared_memory = (char*)malloc(dynamic_bytes);
  long long count = (long long)gridDim.x * gridDim.y * gridDim.z;
  for (long long i = 0; i < count; i++) {
    long long block = backwards ? count - 1 - i : i;
    const auto x = block % gridDim.x, row = block / gridDim.x;
    blockIdx = dim3{(unsigned)x, (unsigned)(row % gridDim.y), (unsigned)(row / gridDim.y)};
    spoil(from, to);
    memset(dynamic_shared_memory, 0xFF, dynamic_bytes);
    waits ? run_fibers(backwards) : run_calls(backwards);
  }
  free(dynamic_shared_memory);
  for (Fiber& fiber : fibers) free(fiber.stack);
  fibers.clear();
}

// ------------------------------------------------------------------ the pipe
static void take(void* to, size_t bytes) { if (bytes && fread(to, 1, bytes, stdin) != bytes) _Exit(0); }
static int64_t number() { int64_t n; take(&n, sizeof n); return n; }

static std::string text() {
  std::string found((size_t)number(), 0);
  take(&found[0], found.size());
  return found;
}

static Module* module_of(const std::string& path, const std::string& name) {
  static std::map<std::string, Module> modules;
  auto found = modules.find(path);
  if (found != modules.end()) return &found->second;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) { fprintf(stderr, "%s\n", dlerror()); exit(3); }
  return &(modules[path] = Module{
    (int (*)(Parameter*))dlsym(library, ("parameters_of_" + name).c_str()),
    (void (*)(void**))dlsym(library, ("call_" + name).c_str()),
    (void (*)(char**, char**))dlsym(library, ("shared_of_" + name).c_str()),
  });
}

// Regions of memory, then the arguments: bytes of a number, or a region and an offset into it. The answer has
// the regions that the kernel may write.
static void serve() {
  std::string path = text();
  module_called = module_of(path, text());
  unsigned* sizes[] = {&gridDim.x, &gridDim.y, &gridDim.z, &blockDim.x, &blockDim.y, &blockDim.z};
  for (unsigned* size : sizes) *size = (unsigned)number();
  bool backwards = number();
  bool waits = number();
  size_t dynamic_bytes = (size_t)number();
  std::vector<std::pair<char*, int64_t>> regions((size_t)number());
  std::vector<char*> allocated;
  for (auto& region : regions) {
    region.second = number();
    size_t skew = (size_t)number();  // alignment as on the device
    allocated.push_back((char*)malloc(skew + (size_t)region.second));
    __asan_poison_memory_region(allocated.back(), skew);
    region.first = allocated.back() + skew;
    take(region.first, (size_t)region.second);
  }
  char* nothing = (char*)malloc(0);
  std::vector<Parameter> parameters(4096);
  int count = module_called->parameters(parameters.data());
  if (count != number()) {
    fprintf(stderr, "the kernel has %d parameters, and the launch another number\n", count);
    exit(3);
  }
  std::vector<std::vector<char>> values((size_t)count);
  std::vector<bool> is_written(regions.size());
  given.clear();
  for (int i = 0; i < count; i++) {
    int64_t region = number(), bytes = number();  // of a pointer: its offset
    if ((region >= 0) != parameters[i].is_pointer) {
      fprintf(stderr, "parameter %d is %sa pointer\n", i, region < 0 ? "" : "not ");
      exit(3);
    }
    if (region >= 0) {
      bool is_empty = region >= (int64_t)regions.size();
      char* address = is_empty ? nothing : regions[region].first + bytes;
      values[i].assign((char*)&address, (char*)(&address + 1));
      if (!is_empty && !parameters[i].is_const) is_written[region] = true;
    } else {
      if (bytes != parameters[i].size) {
        const int size = parameters[i].size;
        fprintf(stderr, "a parameter of %d bytes is given %lld\n", size, (long long)bytes);
        exit(3);
      }
      values[i].resize((size_t)bytes);
      take(values[i].data(), (size_t)bytes);
    }
    given.push_back(values[i].data());
  }
  run_grid(backwards, waits, dynamic_bytes);
  for (size_t i = 0; i < regions.size(); i++) {
    int64_t bytes = is_written[i] ? regions[i].second : -1;
    fwrite(&bytes, 1, sizeof bytes, stdout);
    if (bytes > 0) fwrite(regions[i].first, 1, (size_t)bytes, stdout);
    free(allocated[i]);
  }
  free(nothing);
  fflush(stdout);
}
int main() { for (;;) serve(); }
