// One sweep over the keys: a row's largest score so far, and the sums of its weights and of what they weigh,
// which shrink when a larger one comes. `tops` and `shares` are what the gradient finds weights again by.
extern "C" __global__ void attention(ARRAYS, T* out, S* tops, S* shares, NUMBERS) {
  const Given given = AS_GIVEN;
  __shared__ S asked[HIGH][PITCH], held[WIDE][PITCH], weights[HIGH][WIDE + 1];
  const Index tiles = (queries + HIGH - 1) / HIGH;
  for (Index block = blockIdx.x; block < stacks * tiles; block += gridDim.x) {
    const Index stack = block / tiles, first = block % tiles * HIGH;
    S top[TALL], total[TALL], sum[TALL][SHARE];
    FOR_ROWS(i) {
      top[i] = -INFINITY;
      total[i] = 0;
      FOR_SHARE(s) sum[i][s] = 0;
    }
    load<HIGH>(q + stack * queries * depth, first, queries, depth, asked);
    for (Index start = 0; start < keys; start += WIDE) {
      load<WIDE>(k + stack * keys * depth, start, keys, depth, held);
      __syncthreads();
      S score[TALL][BROAD];
      multiply(asked, held, score);
      FOR_ROWS(i) {
        const int row = threadIdx.y + SIDE * i;
        const Index query = first + row;
        S most = top[i];
        FOR_COLUMNS(j) {
          const Index key = start + threadIdx.x + SIDE * j;
          const bool is_there = query < queries && key < keys;
          score[i][j] = is_there ? given.score(score[i][j], stack, query, key) : (S)-INFINITY;
          most = larger(most, score[i][j]);
        }
        most = over_lanes<Larger>(most);
        // inf - inf would be NaN, also for the keys that follow
        const S origin = most == -INFINITY ? (S)0 : most;
        const S fade = exp(top[i] - origin);
        S added = 0;
        FOR_COLUMNS(j) {
          const Index key = start + threadIdx.x + SIDE * j;
          const S weight = exp(score[i][j] - origin);
          const bool is_there = query < queries && key < keys;
          added += weight;
          weights[row][threadIdx.x + SIDE * j] = is_there ? weight * given.factor(stack, query, key) : (S)0;
        }
        total[i] = total[i] * fade + over_lanes<Add>(added);
        top[i] = most;
        FOR_SHARE(s) sum[i][s] *= fade;
      }
      __syncthreads();
      load<WIDE>(v + stack * keys * width, start, keys, width, held);
      __syncthreads();
      for (int c = 0; c < WIDE; c++) {
        S across[SHARE];
        FOR_SHARE(s) across[s] = held[c][threadIdx.x + SIDE * s];
        FOR_ROWS(i) {
          const S weight = weights[threadIdx.y + SIDE * i][c];
          FOR_SHARE(s) sum[i][s] += weight * across[s];
        }
      }
      __syncthreads();
    }
    FOR_ROWS(i) {
      const Index query = first + threadIdx.y + SIDE * i;
      if (query >= queries) continue;
      FOR_SHARE(s) {
        const Index column = threadIdx.x + SIDE * s;
        if (column < width) out[(stack * queries + query) * width + column] = sum[i][s] / total[i];
      }
      if (threadIdx.x != 0) continue;
      tops[stack * queries + query] = top[i];
      shares[stack * queries + query] = 1 / total[i];
    }
    __syncthreads();  // the next tile writes to the same memory
  }
}
