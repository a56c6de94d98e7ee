// What kernels of this room share. `T` is the type of the elements, `S` that of sums.
//
// A block has blockDim.x threads (1, 2, 4 ... 256, "lanes") along a row and blockDim.y rows beside each
// other, 256 threads in all. All threads of a block come to each reduction, also those whose row is beyond
// the last: they bring what changes nothing. Additions have one order, so that results are the same in every
// run.

#define THREADS 256
#define WARP 32
#define EVERY_LANE 0xffffffffu

typedef long long Index;  // arrays of more than 2^31 elements exist

// the larger of two numbers, and NaN if one of them is: max(a, b) of CUDA drops it
__device__ inline S larger(S a, S b) { return a > b || a != a ? a : b; }

struct Add {
  __device__ static S apply(S a, S b) { return a + b; }
};
struct Larger {
  __device__ static S apply(S a, S b) { return larger(a, b); }
};

__device__ inline S from_lane(S mine, int by) { return __shfl_xor_sync(EVERY_LANE, mine, by); }

// One number for each row, known to all of its lanes. Within a warp registers are exchanged: after the
// exchange with the lane `by` places away every lane holds the result of 2 * by lanes. Beyond a warp there is
// one number for each warp in shared memory.
template <class Operation, class Value>
static __device__ Value over_row(Value mine) {
  const int lanes = blockDim.x;
  for (int by = (lanes < WARP ? lanes : WARP) / 2; by > 0; by /= 2)
    mine = Operation::apply(mine, from_lane(mine, by));
  if (lanes <= WARP) return mine;

  __shared__ Value of_warp[THREADS / WARP];
  const int thread = threadIdx.y * lanes + threadIdx.x;
  if (thread % WARP == 0) of_warp[thread / WARP] = mine;
  __syncthreads();
  const int first = threadIdx.y * lanes / WARP;
  Value result = of_warp[first];
  for (int warp = 1; warp < lanes / WARP; warp++) result = Operation::apply(result, of_warp[first + warp]);
  __syncthreads();  // the next reduction writes to the same memory
  return result;
}

__device__ inline S row_sum(S mine) { return over_row<Add>(mine); }
__device__ inline S row_max(S mine) { return over_row<Larger>(mine); }

// The rows of a block, one after the other: all of its threads go through this loop equally often. `end` is
// the number of elements of the row, 0 beyond the last row.
#define FOR_EACH_ROW(row, end, rows, columns)                                                               \
  for (Index first_ = (Index)blockIdx.x * blockDim.y, row = first_ + threadIdx.y,                           \
             end = row < (rows) ? (columns) : 0;                                                            \
       first_ < (rows); first_ += (Index)gridDim.x * blockDim.y, row = first_ + threadIdx.y,                \
             end = row < (rows) ? (columns) : 0)

// This thread's share of the numbers below `count`, where blocks are in no rows.
#define FOR_EACH(i, count)                                                  \
  for (Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x; i < (count); \
       i += (Index)gridDim.x * blockDim.x)

// This thread's share of a row: neighbouring lanes take neighbouring elements.
#define FOR_EACH_OF(i, end) for (Index i = threadIdx.x; i < (end); i += blockDim.x)

// The sum over all 256 threads of a block, known to all of them.
static __device__ S block_sum(S mine) {
  for (int by = WARP / 2; by > 0; by /= 2) mine += __shfl_xor_sync(EVERY_LANE, mine, by);
  __shared__ S of_warp[THREADS / WARP];
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  if (thread % WARP == 0) of_warp[thread / WARP] = mine;
  __syncthreads();
  S result = 0;
  for (int warp = 0; warp < THREADS / WARP; warp++) result += of_warp[warp];
  __syncthreads();  // the next reduction writes to the same memory
  return result;
}
