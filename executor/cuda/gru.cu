// All steps of a gated recurrent unit in one launch, forward and back; gates in the order update, reset,
// candidate. ORIGIN: the update gate lets the old state through, otherwise the new one.

extern "C" __global__ void gru(const T* x, const T* gate_weight, const T* candidate_weight, const T* bias,
                               const T* first, const Index* places, const Index* starts, T* hidden, T* gates,
                               T* reset, Index steps, Index size) {
  __shared__ S state[LIMIT], kept[LIMIT], sums[2 * LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) state[j] = HAS_STATES ? (S)first[rank * size + j] : (S)0;
  __syncthreads();
  const Index count = steps_of(starts, steps, rank);
  for (Index step = 0; step < count; step++) {
    const Index stored = starts[step] + rank, row = places[stored];
    const T *const entry = x + row * 3 * size;
    FOR_EACH_OF(c, 2 * size) {
      S sum = product(state, gate_weight, size, 2 * size, c) + entry[c];
      if (BIASED) sum += bias[c];
      sums[c] = GATE::of(sum);
      gates[stored * 3 * size + c] = sums[c];
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      kept[j] = sums[size + j] * state[j];
      reset[stored * size + j] = kept[j];
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      S sum = product(kept, candidate_weight, size, size, j) + entry[2 * size + j];
      if (BIASED) sum += bias[2 * size + j];
      const S candidate = CANDIDATE::of(sum), update = sums[j];
      gates[stored * 3 * size + 2 * size + j] = candidate;
      const S opened = ORIGIN ? state[j] : candidate, closed = ORIGIN ? candidate : state[j];
      state[j] = (opened - closed) * update + closed;
      hidden[row * size + j] = state[j];
    }
    __syncthreads();
  }
}

// From the gradient of the states (`d`): those of the gates (`dx`), the state before each row and what the
// reset gate let through of it, and the gradient of the first states. The weights are transposed.
extern "C" __global__ void gru_grad(const T* d, const T* gate_weight, const T* candidate_weight,
                                    const T* first, const Index* places, const Index* starts, const T* hidden,
                                    const T* gates, T* dx, T* earlier, T* reset, T* dfirst, Index steps,
                                    Index size) {
  __shared__ S passed[LIMIT], straight[LIMIT], slopes[3 * LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) passed[j] = 0;
  __syncthreads();
  for (Index step = steps_of(starts, steps, rank) - 1; step >= 0; step--) {
    const Index stored = starts[step] + rank, row = places[stored];
    const Index before = step > 0 ? places[starts[step - 1] + rank] : 0;
    const T* const kept = gates + stored * 3 * size;
    FOR_EACH_OF(j, size) {
      const S update = kept[j], candidate = kept[2 * size + j];
      S state = 0;
      if (step > 0) state = hidden[before * size + j];
      else if (HAS_STATES) state = first[rank * size + j];
      const S incoming = d[row * size + j] + passed[j];
      const S opened = ORIGIN ? state : candidate, closed = ORIGIN ? candidate : state;
      slopes[j] = GATE::slope(update) * (opened - closed) * incoming;
      slopes[2 * size + j] = CANDIDATE::slope(candidate) * (ORIGIN ? 1 - update : update) * incoming;
      straight[j] = (ORIGIN ? update : 1 - update) * incoming;
      earlier[row * size + j] = state;
      reset[row * size + j] = kept[size + j] * state;
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      const S of_reset = product(slopes + 2 * size, candidate_weight, size, size, j), gate = kept[size + j];
      slopes[size + j] = GATE::slope(gate) * earlier[row * size + j] * of_reset;
      straight[j] += gate * of_reset;
      for (int part = 0; part < 3; part++) dx[row * 3 * size + part * size + j] = slopes[part * size + j];
    }
    __syncthreads();
    FOR_EACH_OF(i, size) passed[i] = product(slopes, gate_weight, 2 * size, size, i) + straight[i];
    __syncthreads();
  }
  FOR_EACH_OF(j, size) dfirst[rank * size + j] = passed[j];
}
