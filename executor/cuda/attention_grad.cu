// The gradients of attention: one kernel for those of queries, one for those of keys and values.

// With p the weights and g = d v' their gradient:  dscore = p * (g - the sum over the row of p * g). That sum
// is the one of d * out over the columns of a head, which `queries_grad` leaves in `sums` for `keys_grad`.
struct Rows {
  const S *tops, *shares, *sums;
};

// What a step reads: some queries and some keys.
struct Tiles {
  S asked[HIGH][PITCH], incoming[HIGH][PITCH];  // queries, and the gradients of their results
  S held[WIDE][PITCH], worth[WIDE][PITCH];      // keys, and their values

  __device__ void load_queries(const Given& given, const T* q, const T* d, Index stack, Index first) {
    const Index before = stack * given.queries;
    load<HIGH>(q + before * given.depth, first, given.queries, given.depth, asked);
    load<HIGH>(d + before * given.width, first, given.queries, given.width, incoming);
  }

  __device__ void load_keys(const Given& given, const T* k, const T* v, Index stack, Index start) {
    const Index before = stack * given.keys;
    load<WIDE>(k + before * given.depth, start, given.keys, given.depth, held);
    load<WIDE>(v + before * given.width, start, given.keys, given.width, worth);
  }
};

// the weights (with dropout) and the gradients of scores of a tile; 0 beyond the last row or column
static __device__ void slopes(const Given& given, const Rows& rows, const Tiles& tiles, Index stack,
                              Index first, Index start, S (*slope)[BROAD], S (*weight)[BROAD]) {
  S score[TALL][BROAD];
  multiply(tiles.asked, tiles.held, score);
  multiply(tiles.incoming, tiles.worth, slope);
  FOR_ROWS(i) FOR_COLUMNS(j) {
    const Index query = first + threadIdx.y + SIDE * i, key = start + threadIdx.x + SIDE * j;
    weight[i][j] = 0;
    const bool is_there = query < given.queries && key < given.keys;
    if (!is_there) {
      slope[i][j] = 0;
      continue;
    }
    const Index row = stack * given.queries + query;
    const S share = exp(given.score(score[i][j], stack, query, key) - rows.tops[row]) * rows.shares[row];
    const S factor = given.factor(stack, query, key);
    weight[i][j] = share * factor;
    slope[i][j] = share * (slope[i][j] * factor - rows.sums[row]);
  }
}

extern "C" __global__ void queries_grad(ARRAYS, const T* out, const T* d, const S* tops, const S* shares,
                                        S* sums, T* dq, NUMBERS, S steep) {
  const Given given = AS_GIVEN;
  const Rows rows = {tops, shares, sums};
  __shared__ Tiles tiles;
  __shared__ S steps[HIGH][WIDE + 1];
  const Index count = (queries + HIGH - 1) / HIGH;
  for (Index block = blockIdx.x; block < stacks * count; block += gridDim.x) {
    const Index stack = block / count, first = block % count * HIGH;
    S sum[TALL][SHARE];
    FOR_ROWS(i) FOR_SHARE(s) sum[i][s] = 0;
    tiles.load_queries(given, q, d, stack, first);
    __syncthreads();
    FOR_ROWS(i) {
      const int row = threadIdx.y + SIDE * i;
      const Index at = stack * queries + first + row;
      S product = 0;
      if (first + row < queries)
        for (int c = threadIdx.x; c < width; c += SIDE)
          product += tiles.incoming[row][c] * out[at * width + c];
      product = over_lanes<Add>(product);
      if (first + row < queries && threadIdx.x == 0) sums[at] = product;
    }
    for (Index start = 0; start < keys; start += WIDE) {
      tiles.load_keys(given, k, v, stack, start);
      __syncthreads();
      S slope[TALL][BROAD], weight[TALL][BROAD];
      slopes(given, rows, tiles, stack, first, start, slope, weight);
      FOR_ROWS(i) FOR_COLUMNS(j) steps[threadIdx.y + SIDE * i][threadIdx.x + SIDE * j] = slope[i][j];
      __syncthreads();
      for (int c = 0; c < WIDE; c++)
        FOR_ROWS(i) FOR_SHARE(s) {
          const int row = threadIdx.y + SIDE * i, of_head = threadIdx.x + SIDE * s;
          sum[i][s] += steps[row][c] * tiles.held[c][of_head];
        }
      __syncthreads();
    }
    FOR_ROWS(i) FOR_SHARE(s) {
      const Index query = first + threadIdx.y + SIDE * i, column = threadIdx.x + SIDE * s;
      if (query >= queries || column >= depth) continue;
      dq[(stack * queries + query) * depth + column] = sum[i][s] * steep;
    }
    __syncthreads();  // the next tile writes to the same memory
  }
}

// A block has a tile of keys, and goes through all queries.
extern "C" __global__ void keys_grad(ARRAYS, const T* d, const S* tops, const S* shares, const S* sums, T* dk,
                                     T* dv, NUMBERS, S steep) {
  const Given given = AS_GIVEN;
  const Rows rows = {tops, shares, sums};
  __shared__ Tiles tiles;
  __shared__ S steps[HIGH][WIDE + 1], weights[HIGH][WIDE + 1];
  const Index count = (keys + WIDE - 1) / WIDE;
  for (Index block = blockIdx.x; block < stacks * count; block += gridDim.x) {
    const Index stack = block / count, start = block % count * WIDE;
    S of_key[BROAD][SHARE], of_value[BROAD][SHARE];
    FOR_COLUMNS(j) FOR_SHARE(s) of_key[j][s] = of_value[j][s] = 0;
    tiles.load_keys(given, k, v, stack, start);
    for (Index first = 0; first < queries; first += HIGH) {
      tiles.load_queries(given, q, d, stack, first);
      __syncthreads();
      S slope[TALL][BROAD], weight[TALL][BROAD];
      slopes(given, rows, tiles, stack, first, start, slope, weight);
      FOR_ROWS(i) FOR_COLUMNS(j) {
        const int row = threadIdx.y + SIDE * i, column = threadIdx.x + SIDE * j;
        steps[row][column] = slope[i][j];
        weights[row][column] = weight[i][j];
      }
      __syncthreads();
      for (int c = 0; c < HIGH; c++)
        FOR_COLUMNS(j) FOR_SHARE(s) {
          const int column = threadIdx.y + SIDE * j, of_head = threadIdx.x + SIDE * s;
          of_key[j][s] += steps[c][column] * tiles.asked[c][of_head];
          of_value[j][s] += weights[c][column] * tiles.incoming[c][of_head];
        }
      __syncthreads();
    }
    FOR_COLUMNS(j) FOR_SHARE(s) {
      const Index key = start + threadIdx.y + SIDE * j, column = threadIdx.x + SIDE * s;
      if (key >= keys) continue;
      if (column < depth) dk[(stack * keys + key) * depth + column] = of_key[j][s] * steep;
      if (column < width) dv[(stack * keys + key) * width + column] = of_value[j][s];
    }
    __syncthreads();  // the next tile writes to the same memory
  }
}
