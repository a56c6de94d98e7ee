// softmax of the rows of a matrix, the cross-entropy of its logarithm, and their gradients.

// no score lies further below the row's largest: a probability is never 0, nor its logarithm infinite
__device__ inline S weight(S score, S top, S lowest) { return exp(larger(score - top, lowest)); }

// Two sweeps for the largest score and the sum of the weights; the row stays in the cache between them.
__device__ inline void statistics(const T* from, Index end, S lowest, S* top, S* share) {
  S largest = -INFINITY;
  FOR_EACH_OF(i, end) largest = larger(largest, from[i]);
  *top = row_max(largest);
  S total = 0;
  FOR_EACH_OF(i, end) total += weight(from[i], *top, lowest);
  *share = 1 / row_sum(total);
}

extern "C" __global__ void softmax(const T* x, T* y, Index rows, Index columns, S lowest) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const T* from = x + row * columns;
    S top, share;
    statistics(from, end, lowest, &top, &share);
    FOR_EACH_OF(i, end) y[row * columns + i] = weight(from[i], top, lowest) * share;
  }
}

// dx = y * (d - sum of y * d over the row)
extern "C" __global__ void softmax_grad(const T* y, const T* d, T* dx, Index rows, Index columns) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const Index at = row * columns;
    S product = 0;
    FOR_EACH_OF(i, end) product += y[at + i] * d[at + i];
    product = row_sum(product);
    FOR_EACH_OF(i, end) dx[at + i] = y[at + i] * (d[at + i] - product);
  }
}

// The loss of a row is minus the logarithm of the probability of its label: 0 for the label that is to be
// ignored, NaN for one that is no column.
extern "C" __global__ void softmax_with_cross_entropy(const T* x, const Index* label, T* y, T* loss,
                                                      Index rows, Index columns, S lowest, Index ignored) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const T* from = x + row * columns;
    S top, share;
    statistics(from, end, lowest, &top, &share);
    FOR_EACH_OF(i, end) y[row * columns + i] = weight(from[i], top, lowest) * share;
    if (row < rows && threadIdx.x == 0) {
      const Index picked = label[row];
      const bool is_column = picked >= 0 && picked < columns;
      S result = NAN;
      if (is_column) result = -log(weight(from[picked], top, lowest) * share);
      loss[row] = picked == ignored ? (S)0 : result;
    }
  }
}

// dx = (y - one at the label) * d, where d holds a number for each row (EACH_ROW), or one for all of them.
extern "C" __global__ void softmax_with_cross_entropy_grad(const T* y, const Index* label, const T* d, T* dx,
                                                           Index rows, Index columns, Index ignored,
                                                           S for_all) {
  FOR_EACH_ROW(row, end, rows, columns) {
    const Index at = row * columns;
    const Index picked = end ? label[row] : 0;
    const S factor = EACH_ROW && end ? (S)d[row] : for_all;
    FOR_EACH_OF(i, end) {
      const S slope = y[at + i] - (S)(i == picked);
      dx[at + i] = picked == ignored ? (S)0 : slope * factor;
    }
  }
}

// ------------------------------------------------------------------ cross-entropy of probabilities
// `match` is the probability of a row's label; infinite logarithms become 1e20, as in Paddle.
#define LARGEST_LOG ((S)1e20)

extern "C" __global__ void cross_entropy2(const T* x, const Index* label, T* loss, T* match, Index rows,
                                          Index columns, Index ignored) {
  FOR_EACH_ROW(row, end, rows, columns) {
    if (end == 0 || threadIdx.x != 0) continue;
    const Index picked = label[row];
    S found = NAN;
    if (picked >= 0 && picked < columns) found = x[row * columns + picked];
    S result = -log(found);
    result = result > LARGEST_LOG ? LARGEST_LOG : result < -LARGEST_LOG ? -LARGEST_LOG : result;
    loss[row] = picked == ignored ? (S)0 : result;
    match[row] = picked == ignored ? (S)0 : found;
  }
}

extern "C" __global__ void cross_entropy_grad2(const Index* label, const T* match, const T* d, T* dx,
                                               Index rows, Index columns, Index ignored) {
  FOR_EACH_ROW(row, end, rows, columns) {
    if (end == 0) continue;
    const Index picked = label[row];
    const S slope = picked == ignored ? (S)0 : -d[row] / match[row];
    FOR_EACH_OF(i, end) dx[row * columns + i] = i == picked ? slope : (S)0;
  }
}
