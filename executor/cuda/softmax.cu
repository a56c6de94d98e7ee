// The cross-entropy of probabilities, and its gradient.
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
