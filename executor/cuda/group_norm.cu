// group_norm and instance_norm of (N, C, places): a row is a group of neighbouring channels of one image, and
// each channel has its own scale and bias. FROM_RESULT: the gradient is given what the op has written, and
// the variance; otherwise what it has read, the mean, and one over the deviation.

// the channel of an element of a row, whose `places` elements lie behind each other
__device__ inline Index channel_of(Index row, Index at, Index groups, Index of_group, Index places) {
  return row % groups * of_group + at / places;
}

extern "C" __global__ void group_norm(const T* x, const T* scale, const T* bias, T* y, T* mean, T* spread,
                                      Index rows, Index columns, Index groups, Index of_group, Index places,
                                      S epsilon) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const Index at = row * columns;
    S total = 0;
    FOR_EACH_OF(i, end) total += x[at + i];
    const S middle = row_sum(total) / columns;
    S squares = 0;
    FOR_EACH_OF(i, end) squares += (x[at + i] - middle) * (x[at + i] - middle);
    const S variance = row_sum(squares) / columns;
    const S inverse = 1 / sqrt(variance + epsilon);
    FOR_EACH_OF(i, end) {
      const Index channel = channel_of(row, i, groups, of_group, places);
      S result = (x[at + i] - middle) * inverse;
      if (SCALED) result *= scale[channel];
      if (SHIFTED) result += bias[channel];
      y[at + i] = result;
    }
    if (row < rows && threadIdx.x == 0) {
      mean[row] = middle;
      spread[row] = FROM_RESULT ? variance : inverse;
    }
  }
}

// What the gradients read: the normalised elements, and one over the deviation of a row.
struct Normalised {
  const T *given, *scale, *bias, *mean, *spread;
  S epsilon;

  __device__ S inverse(Index row) const {
    return FROM_RESULT ? 1 / sqrt(spread[row] + epsilon) : (S)spread[row];
  }

  __device__ S unit(Index at, Index row, Index channel) const {
    if (!FROM_RESULT) return (given[at] - mean[row]) * spread[row];
    S result = given[at];
    if (SHIFTED) result -= bias[channel];
    if (SCALED && scale[channel] != 0) result /= scale[channel];
    return result;
  }
};

// With u the normalised elements and g = d * scale:  dx = (g - mean of g - u * mean of g * u) / deviation
extern "C" __global__ void group_norm_grad(const T* given, const T* scale, const T* bias, const T* mean,
                                           const T* spread, const T* d, T* dx, Index rows, Index columns,
                                           Index groups, Index of_group, Index places, S epsilon) {
  const Normalised from = {given, scale, bias, mean, spread, epsilon};
  FOR_EACH_ROW(row, end, rows, columns) {
    const Index at = row * columns;
    S sum = 0, product = 0;
    FOR_EACH_OF(i, end) {
      const Index channel = channel_of(row, i, groups, of_group, places);
      const S slope = SCALED ? d[at + i] * scale[channel] : d[at + i];
      sum += slope;
      product += slope * from.unit(at + i, row, channel);
    }
    sum = row_sum(sum) / columns;
    product = row_sum(product) / columns;
    FOR_EACH_OF(i, end) {
      const Index channel = channel_of(row, i, groups, of_group, places);
      const S slope = SCALED ? d[at + i] * scale[channel] : d[at + i];
      dx[at + i] = (slope - sum - from.unit(at + i, row, channel) * product) * from.inverse(row);
    }
  }
}

// The sums over images and places that the gradients of scale (of d * u) and bias (of d) are: a row of
// threads for each channel, `rows` are channels here and `columns` the elements of each.
extern "C" __global__ void group_norm_sums(const T* given, const T* scale, const T* bias, const T* mean,
                                           const T* spread, const T* d, T* dscale, T* dbias, Index rows,
                                           Index columns, Index groups, Index of_group, Index places,
                                           S epsilon) {
  const Normalised from = {given, scale, bias, mean, spread, epsilon};
  FOR_EACH_ROW(channel, end, rows, columns) {
    S weights = 0, biases = 0;
    FOR_EACH_OF(i, end) {
      const Index image = i / places, at = (image * rows + channel) * places + i % places;
      weights += d[at] * from.unit(at, image * groups + channel / of_group, channel);
      biases += d[at];
    }
    weights = row_sum(weights);
    biases = row_sum(biases);
    if (channel < rows && threadIdx.x == 0) {
      dscale[channel] = weights;
      dbias[channel] = biases;
    }
  }
}
