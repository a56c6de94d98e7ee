// Sums over the rows of a matrix, a number for each column, by blocks of 32 x 8 threads.

// The sum over the threads of a column (threadIdx.y), for the thread with threadIdx.y == 0.
static __device__ S over_column(S mine) {
  __shared__ S held[THREADS / WARP][WARP];
  held[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  S total = 0;
  if (threadIdx.y == 0)
    for (int row = 0; row < THREADS / WARP; row++) total += held[row][threadIdx.x];
  __syncthreads();  // the next reduction writes to the same memory
  return total;
}

// out[column] = the sum of `parts[part][column]`, one thread a column, in the order of the parts
extern "C" __global__ void add_parts(const S* parts, T* out, Index count, Index columns) {
  FOR_EACH(column, columns) {
    S total = 0;
    for (Index part = 0; part < count; part++) total += parts[part * columns + column];
    out[column] = total;
  }
}
