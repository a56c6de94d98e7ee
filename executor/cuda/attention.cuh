// What attention, softmax(alpha * q k' + bias) v for a stack of matrices, and its gradient share: no array of
// scores, a block goes through them tile by tile, in shared memory. float16 is computed with in float.
//
// A block has 16 x 16 threads. A tile has HIGH rows of queries and WIDE of keys; a thread has every 16th of
// its rows and columns, from its own place on. Rows of heads are filled up with zeros to SIZE elements, and
// take one more in shared memory, so that threads of a warp read from different banks. What a row adds up has
// one order.
//
// The lowest score that `softmax` knows (64 below the largest) changes a weight by 1e-28 at most, and is left
// out here.

#define SIDE 16
#define TALL (HIGH / SIDE)   // rows of a tile that a thread has
#define BROAD (WIDE / SIDE)  // and columns
#define SHARE (SIZE / SIDE)  // columns of a head that a thread has
#define PITCH (SIZE + 1)

#define FOR_ROWS(i) for (int i = 0; i < TALL; i++)
#define FOR_COLUMNS(j) for (int j = 0; j < BROAD; j++)
#define FOR_SHARE(s) for (int s = 0; s < SHARE; s++)

// Arrays and sizes of a call. A bias lies by its own steps, which are 0 in dimensions that it is broadcast
// over.
struct Given {
  const BIAS* bias;
  const bool* kept;
  Index heads, queries, keys, depth, width;
  Index of_batch, of_head, of_query, of_key;
  S alpha, grown;

  // a score from the product of its query and key
  __device__ S score(S product, Index stack, Index query, Index key) const {
    const S result = alpha * product;
    if (!BIASED) return result;
    const Index of_stack = stack / heads * of_batch + stack % heads * of_head;
    return result + bias[of_stack + query * of_query + key * of_key];
  }

  // the factor that dropout has for a weight
  __device__ S factor(Index stack, Index query, Index key) const {
    if (!DROPPED) return grown;
    return kept[(stack * queries + query) * keys + key] ? grown : (S)0;
  }
};

#define ARRAYS const T *q, const T *k, const T *v, const BIAS *bias, const bool *kept
#define NUMBERS Index stacks, Index heads, Index queries, Index keys, Index depth, Index width, \
                Index of_batch, Index of_head, Index of_query, Index of_key, S alpha, S grown
#define AS_GIVEN {bias, kept, heads, queries, keys, depth, width, of_batch, of_head, of_query, of_key, \
                  alpha, grown}

// rows of a matrix into a tile, with zeros beyond its last row and column
template <int COUNT>
static __device__ void load(const T* from, Index first, Index rows, Index columns, S (*tile)[PITCH]) {
  for (int at = threadIdx.y * SIDE + threadIdx.x; at < COUNT * SIZE; at += THREADS) {
    const int row = at / SIZE, column = at % SIZE;
    const bool is_there = first + row < rows && column < columns;
    tile[row][column] = is_there ? (S)from[(first + row) * columns + column] : (S)0;
  }
}

// products of the rows of two tiles, those of this thread
static __device__ void multiply(const S (*left)[PITCH], const S (*right)[PITCH], S (*out)[BROAD]) {
  FOR_ROWS(i) FOR_COLUMNS(j) out[i][j] = 0;
  for (int c = 0; c < SIZE; c++) {
    S across[BROAD];
    FOR_COLUMNS(j) across[j] = right[threadIdx.x + SIDE * j][c];
    FOR_ROWS(i) {
      const S down = left[threadIdx.y + SIDE * i][c];
      FOR_COLUMNS(j) out[i][j] += down * across[j];
    }
  }
}

template <class Operation>
static __device__ S over_lanes(S mine) {
  for (int by = SIDE / 2; by > 0; by /= 2) mine = Operation::apply(mine, from_lane(mine, by));
  return mine;
}
