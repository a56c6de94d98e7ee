// layer_norm of the rows of a matrix, and its gradient.

// The mean first, then the squares of the distances from it: nothing cancels, however far the mean is from 0.
extern "C" __global__ void layer_norm(const T* x, const T* scale, const T* bias, T* y, T* mean, T* variance,
                                      Index rows, Index columns, S epsilon) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const T* from = x + row * columns;
    S total = 0;
    FOR_EACH_OF(i, end) total += from[i];
    const S middle = row_sum(total) / columns;
    S squares = 0;
    FOR_EACH_OF(i, end) squares += (from[i] - middle) * (from[i] - middle);
    const S spread = row_sum(squares) / columns;
    const S inverse = 1 / sqrt(spread + epsilon);
    FOR_EACH_OF(i, end) {
      S result = (from[i] - middle) * inverse;
      if (SCALED) result *= scale[i];
      if (SHIFTED) result += bias[i];
      y[row * columns + i] = result;
    }
    if (row < rows && threadIdx.x == 0) {
      mean[row] = middle;
      variance[row] = spread;
    }
  }
}

// With u = (x - mean) / deviation and g = d * scale:  dx = (g - mean of g - u * mean of g * u) / deviation
extern "C" __global__ void layer_norm_grad(const T* x, const T* scale, const T* mean, const T* variance,
                                           const T* d, T* dx, Index rows, Index columns, S epsilon) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const Index at = row * columns;
    const S middle = end ? (S)mean[row] : 0;
    const S inverse = end ? 1 / sqrt(variance[row] + epsilon) : 0;
    S sum = 0, product = 0;
    FOR_EACH_OF(i, end) {
      const S slope = SCALED ? d[at + i] * scale[i] : d[at + i];
      sum += slope;
      product += slope * ((x[at + i] - middle) * inverse);
    }
    sum = row_sum(sum) / columns;
    product = row_sum(product) / columns;
    FOR_EACH_OF(i, end) {
      const S slope = SCALED ? d[at + i] * scale[i] : d[at + i];
      dx[at + i] = (slope - sum - (x[at + i] - middle) * inverse * product) * inverse;
    }
  }
}

// The sums over rows that the gradients of scale (of d * u) and bias (of d) are, of gridDim.y parts of the
// rows each: `add_parts` adds those. A block takes 32 columns, so that a warp reads neighbouring elements,
// and 8 rows at once.
extern "C" __global__ void layer_norm_sums(const T* x, const T* mean, const T* variance, const T* d,
                                           S* weights, S* biases, Index rows, Index columns, S epsilon) {
  const Index column = (Index)blockIdx.x * blockDim.x + threadIdx.x;
  const Index first = (Index)blockIdx.y * blockDim.y + threadIdx.y, step = (Index)gridDim.y * blockDim.y;
  S weight = 0, bias = 0;
  if (column < columns)
    for (Index row = first; row < rows; row += step) {
      const S slope = d[row * columns + column];
      const S inverse = 1 / sqrt(variance[row] + epsilon);
      weight += slope * ((x[row * columns + column] - mean[row]) * inverse);
      bias += slope;
    }
  weight = over_column(weight);
  bias = over_column(bias);
  if (column < columns && threadIdx.y == 0) {
    weights[blockIdx.y * columns + column] = weight;
    biases[blockIdx.y * columns + column] = bias;
  }
}
