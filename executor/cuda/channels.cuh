// Kernels over channels, of arrays of (outer, channels, inner) elements: (N, C, H * W) with the channels
// second, (N * H * W, C, 1) with the channels last (LAST).
//
// Sums are taken of `parts` parts of each channel, by blocks of their own, and then added by one thread a
// channel in double precision and in the order of the parts, so that they are the same in every run.

// Channels second: a block has one channel (blockIdx.x), and rows of `inner` elements. Channels last: a block
// has 32 channels, so that a warp reads neighbouring elements. In both the parts (blockIdx.y) take turns at
// the rows.
#if LAST
#define CHANNEL ((Index)blockIdx.x * blockDim.x + threadIdx.x)
#define CHANNEL_OF(row, i, channels) (i)
#define FOR_EACH_PLACE(at, channel, outer, channels, inner)                                            \
  if ((channel) < (channels))                                                                          \
    for (Index row_ = (Index)blockIdx.y * blockDim.y + threadIdx.y, at = row_ * (channels) + (channel); \
         row_ < (outer); row_ += (Index)gridDim.y * blockDim.y, at = row_ * (channels) + (channel))
#else
#define CHANNEL ((Index)blockIdx.x)
#define CHANNEL_OF(row, i, channels) ((row) % (channels))
#define FOR_EACH_PLACE(at, channel, outer, channels, inner)                                              \
  for (Index row_ = (Index)blockIdx.y * blockDim.y + threadIdx.y; row_ < (outer);                        \
       row_ += (Index)gridDim.y * blockDim.y)                                                            \
    for (Index at = (row_ * (channels) + (channel)) * (inner) + threadIdx.x,                             \
               end_ = (row_ * (channels) + (channel) + 1) * (inner);                                     \
         at < end_; at += blockDim.x)
#endif

// All elements, as rows of `columns`: of one channel each, or (LAST) of all channels.
#define FOR_EACH_ELEMENT(at, channel, rows, columns, channels)                                       \
  FOR_EACH_ROW(row_, end_, rows, columns)                                                            \
    for (Index i_ = threadIdx.x, channel = CHANNEL_OF(row_, i_, channels), at = row_ * columns + i_; \
         i_ < end_; i_ += blockDim.x, channel = CHANNEL_OF(row_, i_, channels), at = row_ * columns + i_)

// A sum of this block's part of a channel, into place `part` of the parts.
__device__ inline void keep(S mine, S* parts, Index channel, Index channels) {
#if LAST
  mine = over_column(mine);
  if (threadIdx.y == 0 && channel < channels) parts[blockIdx.y * channels + channel] = mine;
#else
  mine = block_sum(mine);
  if (threadIdx.x == 0 && threadIdx.y == 0) parts[blockIdx.y * channels + channel] = mine;
#endif
}

__device__ inline double total(const S* parts, Index count, Index channel, Index channels) {
  double sum = 0;
  for (Index part = 0; part < count; part++) sum += parts[part * channels + channel];
  return sum;
}
