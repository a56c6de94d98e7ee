// Random masks by Philox 4x32 with ten rounds (Salmon and others, 2011): the numbers of a place depend on the
// seed, the step and the place alone, not on the threads that draw them.

struct Four {
  unsigned a, b, c, d;
};

__device__ inline Four drawn(unsigned long long seed, Index step, Index place) {
  Four x = {(unsigned)place, (unsigned)(place >> 32), (unsigned)step, (unsigned)(step >> 32)};
  unsigned first = (unsigned)seed, second = (unsigned)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const unsigned long long left = 0xD2511F53ull * x.a, right = 0xCD9E8D57ull * x.c;
    const unsigned a = (unsigned)(right >> 32) ^ x.b ^ first, c = (unsigned)(left >> 32) ^ x.d ^ second;
    x = {a, (unsigned)right, c, (unsigned)left};
    first += 0x9E3779B9u;
    second += 0xBB67AE85u;
  }
  return x;
}

// 24 bits of a number as a float in [0, 1)
__device__ inline bool keeps(unsigned bits, float probability) {
  return (bits >> 8) * (1.0f / 16777216) >= probability;
}

// mask = True where a number from [0, 1) is not less than `probability`; `state` holds the seed and the step.
// A thread draws for four elements.
extern "C" __global__ void kept_mask(const Index* state, bool* mask, Index count, float probability) {
  const Index quads = (count + 3) / 4;
  FOR_EACH(quad, quads) {
    const Four bits = drawn((unsigned long long)state[0], state[1], quad);
    const Index at = 4 * quad;
    mask[at] = keeps(bits.a, probability);
    if (at + 1 < count) mask[at + 1] = keeps(bits.b, probability);
    if (at + 2 < count) mask[at + 2] = keeps(bits.c, probability);
    if (at + 3 < count) mask[at + 3] = keeps(bits.d, probability);
  }
}

// One thread, when the mask is drawn: a graph that is launched again draws others.
extern "C" __global__ void next_step(Index* state) { state[1]++; }
