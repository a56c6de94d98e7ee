// Rows of a table by their numbers, and the gradient of the table: the sum of the gradients of each row, over
// all places where it was looked up. The places are sorted by row, and each row is added up in the order of
// its places: no atomic additions, so that a gradient is the same in every run.

// ------------------------------------------------------------------ forward
// A number that is no row gives NaN; the row `padding` reads as 0.
extern "C" __global__ void lookup(const T* table, const Index* ids, T* out, Index rows, Index columns,
                                  Index height, Index padding) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const Index id = end ? ids[row] : 0;
    const bool is_row = id >= 0 && id < height;
    FOR_EACH_OF(i, end) {
      T value = NAN;
      if (is_row) value = table[id * columns + i];
      out[row * columns + i] = id == padding ? (T)0 : value;
    }
  }
}

// ------------------------------------------------------------------ places sorted by row
// Keys are the numbers of rows; what is no row, or padding, has the key `height` behind all of them. These
// places begin at `first` of all.
extern "C" __global__ void keys_of(const Index* ids, Index* keys, Index* places, Index count, Index height,
                                   Index padding, Index first) {
  FOR_EACH(at, count) {
    const Index id = ids[at];
    keys[first + at] = id >= 0 && id < height && id != padding ? id : height;
    places[first + at] = first + at;
  }
}

// A pass for each 8 bits, from the lowest: keys are moved behind those with a smaller digit, and stay in
// order among equal ones. A block has CHUNK keys; each of its threads goes through all of them and looks
// after one digit.
#define CHUNK 1024

__device__ inline int chunk_of_digits(const Index* keys, Index count, Index shift, unsigned char* digits) {
  const Index first = (Index)blockIdx.x * CHUNK;
  const int many = count - first < CHUNK ? (int)(count - first) : CHUNK;
  for (int i = threadIdx.x; i < many; i += blockDim.x) digits[i] = (unsigned char)(keys[first + i] >> shift);
  __syncthreads();
  return many;
}

// starts[digit][block]: how many keys of a block have a digit
extern "C" __global__ void count_digits(const Index* keys, Index* starts, Index count, Index shift) {
  __shared__ unsigned char digits[CHUNK];
  const int many = chunk_of_digits(keys, count, shift, digits);
  Index mine = 0;
  for (int i = 0; i < many; i++) mine += digits[i] == threadIdx.x;
  starts[(Index)threadIdx.x * gridDim.x + blockIdx.x] = mine;
}

// becomes the place of the first of them: the sum of all counts before it. One block, a digit for each
// thread.
extern "C" __global__ void starts_of_digits(Index* starts, Index blocks) {
  __shared__ Index of_digit[THREADS];
  Index* mine = starts + threadIdx.x * blocks;
  Index total = 0;
  for (Index block = 0; block < blocks; block++) total += mine[block];
  of_digit[threadIdx.x] = total;
  __syncthreads();
  Index at = 0;
  for (int digit = 0; digit < threadIdx.x; digit++) at += of_digit[digit];
  for (Index block = 0; block < blocks; block++) {
    const Index many = mine[block];
    mine[block] = at;
    at += many;
  }
}

extern "C" __global__ void move_by_digit(const Index* keys, const Index* places, const Index* starts,
                                         Index* moved_keys, Index* moved_places, Index count, Index shift) {
  __shared__ unsigned char digits[CHUNK];
  const int many = chunk_of_digits(keys, count, shift, digits);
  const Index first = (Index)blockIdx.x * CHUNK;
  Index at = starts[(Index)threadIdx.x * gridDim.x + blockIdx.x];
  for (int i = 0; i < many; i++)
    if (digits[i] == threadIdx.x) {
      moved_keys[at] = keys[first + i];
      moved_places[at] = places[first + i];
      at++;
    }
}

// ------------------------------------------------------------------ sums of segments
// A segment of equal keys is cut at each PIECE-th place, so that a word that stands everywhere has many sums
// at once.
#define PIECE 64

__device__ inline bool begins_segment(const Index* keys, Index at) {
  return at == 0 || keys[at - 1] != keys[at];
}

// The sum of a segment comes to its row of the table, or (BY_PLACE) to the place where the segment begins.
#define ROW_OF(key, at) (BY_PLACE ? (at) : (key))

// The first piece of a segment is added up in its sum, each further one, which begins at PIECE * n, in
// parts[n].
extern "C" __global__ void sum_pieces(const Index* keys, const Index* places, const T* d, T* table, T* parts,
                                      Index count, Index columns, Index height) {
  FOR_EACH_ROW(at, end, count, columns) {
    const Index key = end ? keys[at] : height;
    if (key == height) continue;
    const bool is_first = begins_segment(keys, at);
    if (!is_first && at % PIECE) continue;
    T* to = is_first ? table + ROW_OF(key, at) * columns : parts + at / PIECE * columns;
    FOR_EACH_OF(i, end) {
      S sum = d[places[at] * columns + i];
      for (Index next = at + 1; next < count && next % PIECE && keys[next] == key; next++)
        sum += d[places[next] * columns + i];
      to[i] = sum;
    }
  }
}

// The further pieces are added to the first, in their order.
extern "C" __global__ void add_pieces(const Index* keys, const T* parts, T* table, Index count, Index columns,
                                      Index height) {
  FOR_EACH_ROW(at, end, count, columns) {
    const Index key = end ? keys[at] : height;
    if (key == height || !begins_segment(keys, at)) continue;
    const Index second = at / PIECE + 1;
    if (second * PIECE >= count || keys[second * PIECE] != key) continue;
    FOR_EACH_OF(i, end) {
      S sum = table[ROW_OF(key, at) * columns + i];
      for (Index piece = second; piece * PIECE < count && keys[piece * PIECE] == key; piece++)
        sum += parts[piece * columns + i];
      table[ROW_OF(key, at) * columns + i] = sum;
    }
  }
}

// ------------------------------------------------------------------ some rows of a table
// The number of a segment's row where the segment begins; `height` at all other places.
extern "C" __global__ void heads_of(const Index* keys, Index* heads, Index count, Index height) {
  FOR_EACH(at, count)
    heads[at] = begins_segment(keys, at) ? keys[at] : height;
}

// table[heads[at]] = rows[at]; each row has at most one place.
extern "C" __global__ void put_rows(const Index* heads, const T* rows, T* table, Index count, Index columns,
                                    Index height) {
  FOR_EACH_ROW(at, end, count, columns) {
    const Index key = end ? heads[at] : height;
    if (key == height) continue;
    FOR_EACH_OF(i, end) table[key * columns + i] = rows[at * columns + i];
  }
}
