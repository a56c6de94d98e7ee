// The largest elements of each row, found one by one, and the share of rows that have their label among them.

// An element and its column. NaN is larger than all numbers; of equal elements the first comes first.
struct Found {
  T value;
  Index column;
};

__device__ inline bool before(Found a, Found b) {
  const bool left = a.value != a.value, right = b.value != b.value;
  if (left != right) return left;
  if (left || a.value == b.value) return a.column < b.column;
  return a.value > b.value;
}

__device__ inline Found from_lane(Found mine, int by) {
  return {__shfl_xor_sync(EVERY_LANE, mine.value, by), __shfl_xor_sync(EVERY_LANE, mine.column, by)};
}

struct First {
  __device__ static Found apply(Found a, Found b) { return before(b, a) ? b : a; }
};

extern "C" __global__ void top_k(const T* x, T* values, Index* indices, Index rows, Index columns, Index k) {
  FOR_EACH_ROW(row, end, rows, columns) {
    Found last = {0, -1};
    for (Index place = 0; place < k; place++) {
      // behind all: no element has this column
      Found best = {-INFINITY, columns};
      FOR_EACH_OF(i, end) {
        const Found here = {x[row * columns + i], i};
        if ((place == 0 || before(last, here)) && before(here, best)) best = here;
      }
      last = over_row<First>(best);
      if (end && threadIdx.x == 0) {
        values[row * k + place] = last.value;
        indices[row * k + place] = last.column;
      }
    }
  }
}

// One block: each thread counts some rows, the first thread adds up.
extern "C" __global__ void accuracy(const Index* indices, const Index* label, float* share, int* correct,
                                    int* total, Index rows, Index k) {
  __shared__ Index counted[THREADS];
  Index hits = 0;
  for (Index row = threadIdx.x; row < rows; row += blockDim.x) {
    bool is_hit = false;
    for (Index place = 0; place < k; place++) is_hit |= indices[row * k + place] == label[row];
    hits += is_hit;
  }
  counted[threadIdx.x] = hits;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int thread = 1; thread < THREADS; thread++) hits += counted[thread];
  *share = (float)((double)hits / (rows > 1 ? rows : 1));
  *correct = (int)hits;
  *total = (int)rows;
}
