// Gradients that are not finite.

// *flag = 1 where some element is NaN or infinite: all threads that write to it write the same.
extern "C" __global__ void not_finite(const T* x, int* flag, Index count) {
  FOR_EACH(i, count) {
    const S number = x[i];
    if (!(number - number == 0)) *flag = 1;
  }
}

// factors[i] = one over the scale, and 0 from the first gradient on that is not finite; `found` says that
// there is one.
extern "C" __global__ void unscale_factors(const T* scale, const int* flags, T* factors, bool* found,
                                           Index count) {
  if (blockIdx.x || threadIdx.x) return;
  const S inverse = 1 / (S)*scale;
  bool is_found = false;
  for (Index i = 0; i < count; i++) {
    is_found = is_found || flags[i];
    factors[i] = is_found ? 0 : inverse;
  }
  *found = is_found;
}
