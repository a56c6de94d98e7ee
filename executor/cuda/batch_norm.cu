// batch_norm and its gradient over arrays of (outer, channels, inner) elements: (N, C, H * W) with the
// channels second, (N * H * W, C, 1) with the channels last (LAST).
//
// Sums are taken of `parts` parts of each channel, by blocks of their own, and then added by one thread a
// channel in double precision and in the order of the parts, so that they are the same in every run.

// Channels second: a block has one channel (blockIdx.x), and rows of `inner` elements. Channels last: a block
// has 32 channels, so that a warp reads neighbouring elements. In both the parts (blockIdx.y) take turns at
// the rows.
#if LAST
#define CHANNEL ((Index)blockIdx.x * blockDim.x + threadIdx.x)
#define FOR_EACH_PLACE(at, channel, outer, channels, inner)                                            \
  if ((channel) < (channels))                                                                          \
    for (Index row_ = (Index)blockIdx.y * blockDim.y + threadIdx.y, at = row_ * (channels) + (channel); \
         row_ < (outer); row_ += (Index)gridDim.y * blockDim.y, at = row_ * (channels) + (channel))
#else
#define CHANNEL ((Index)blockIdx.x)
#define FOR_EACH_PLACE(at, channel, outer, channels, inner)                                              \
  for (Index row_ = (Index)blockIdx.y * blockDim.y + threadIdx.y; row_ < (outer);                        \
       row_ += (Index)gridDim.y * blockDim.y)                                                            \
    for (Index at = (row_ * (channels) + (channel)) * (inner) + threadIdx.x,                             \
               end_ = (row_ * (channels) + (channel) + 1) * (inner);                                     \
         at < end_; at += blockDim.x)
#endif

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

// ------------------------------------------------------------------ forward
// Distances from a pivot, the channel's first element, and their squares: the mean is near it as measured by
// the deviation, so that the square of the mean can be taken off without losing digits.
extern "C" __global__ void batch_norm_sums(const T* x, S* sums, S* squares, Index outer, Index channels,
                                           Index inner) {
  const Index channel = CHANNEL;
  const S pivot = channel < channels ? (S)x[channel * inner] : 0;
  S sum = 0, square = 0;
  FOR_EACH_PLACE(at, channel, outer, channels, inner) {
    const S distance = x[at] - pivot;
    sum += distance;
    square += distance * distance;
  }
  keep(sum, sums, channel, channels);
  keep(square, squares, channel, channels);
}

// The statistics of the batch, what the running ones become, and y = x * factor + shift.
extern "C" __global__ void batch_norm_statistics(const T* x, const S* sums, const S* squares, const S* scale,
                                                 const S* bias, const S* running_mean,
                                                 const S* running_variance, S* mean_out, S* variance_out,
                                                 S* saved_mean, S* saved_inverse, S* factor, S* shift,
                                                 Index parts, Index channels, Index inner, Index elements,
                                                 S momentum, S epsilon) {
  FOR_EACH(channel, channels) {
    const double distance = total(sums, parts, channel, channels) / elements;
    const double spread = total(squares, parts, channel, channels) / elements - distance * distance;
    const S mean = (S)(x[channel * inner] + distance);
    const S variance = (S)(spread < 0 ? 0 : spread);  // NaN stays
    const S inverse = 1 / sqrt(variance + epsilon);
    mean_out[channel] = running_mean[channel] * momentum + mean * (1 - momentum);
    variance_out[channel] = running_variance[channel] * momentum + variance * (1 - momentum);
    saved_mean[channel] = mean;
    saved_inverse[channel] = inverse;
    factor[channel] = inverse * scale[channel];
    shift[channel] = bias[channel] - mean * factor[channel];
  }
}

// The same by given statistics.
extern "C" __global__ void batch_norm_given(const S* scale, const S* bias, const S* mean, const S* variance,
                                            S* factor, S* shift, Index channels, S epsilon) {
  FOR_EACH(channel, channels) {
    factor[channel] = scale[channel] / sqrt(variance[channel] + epsilon);
    shift[channel] = bias[channel] - mean[channel] * factor[channel];
  }
}

// Rows of `columns` elements: of one channel each, or (LAST) of all channels.
#if LAST
#define CHANNEL_OF(row, i, channels) (i)
#else
#define CHANNEL_OF(row, i, channels) ((row) % (channels))
#endif

extern "C" __global__ void batch_norm_apply(const T* x, const S* factor, const S* shift, T* y, Index rows,
                                            Index columns, Index channels) {
  FOR_EACH_ROW(row, end, rows, columns) {
    FOR_EACH_OF(i, end) {
      const Index channel = CHANNEL_OF(row, i, channels), at = row * columns + i;
      y[at] = x[at] * factor[channel] + shift[channel];
    }
  }
}

// ------------------------------------------------------------------ backward
extern "C" __global__ void batch_norm_grad_sums(const T* x, const T* d, const S* mean, S* weights, S* biases,
                                                Index outer, Index channels, Index inner) {
  const Index channel = CHANNEL;
  const S middle = channel < channels ? mean[channel] : 0;
  S weight = 0, bias = 0;
  FOR_EACH_PLACE(at, channel, outer, channels, inner) {
    weight += d[at] * (x[at] - middle);
    bias += d[at];
  }
  keep(weight, weights, channel, channels);
  keep(bias, biases, channel, channels);
}

// `inverse` holds one over the deviation, or (GIVEN) the variance that it is to be computed from.
// dx = d * factor - (x - mean) * slope - shift; with FROZEN statistics, which are constants, slope and shift
// are 0
extern "C" __global__ void batch_norm_grad_statistics(const S* weights, const S* biases, const S* scale,
                                                      const S* inverse, S* dscale, S* dbias, S* factor,
                                                      S* slope, S* shift, Index parts, Index channels,
                                                      Index elements, S epsilon) {
  FOR_EACH(channel, channels) {
    const S one_over = GIVEN ? 1 / sqrt(inverse[channel] + epsilon) : inverse[channel];
    // rounded like the arrays: loss scaling counts on what does not fit them to become an infinity
    const S bias = (S)total(biases, parts, channel, channels);
    const S weight = (S)total(weights, parts, channel, channels) * one_over;
    dscale[channel] = weight;
    dbias[channel] = bias;
    factor[channel] = scale[channel] * one_over;
    slope[channel] = FROZEN ? 0 : factor[channel] * one_over * weight / elements;
    shift[channel] = FROZEN ? 0 : factor[channel] * bias / elements;
  }
}

extern "C" __global__ void batch_norm_grad_apply(const T* x, const T* d, const S* mean, const S* factor,
                                                 const S* slope, const S* shift, T* dx, Index rows,
                                                 Index columns, Index channels) {
  FOR_EACH_ROW(row, end, rows, columns) {
    FOR_EACH_OF(i, end) {
      const Index channel = CHANNEL_OF(row, i, channels), at = row * columns + i;
      dx[at] = d[at] * factor[channel] - (x[at] - mean[channel]) * slope[channel] - shift[channel];
    }
  }
}
