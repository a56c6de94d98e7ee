// All steps of a gated recurrent unit in one launch, forward and back; gates in the order update, reset,
// candidate. OPEN_GATES, NEW_STATE, STATE_BACK, LET_THROUGH and RESET_BACK are what
// `fluidlite.ops.kernels.gated_cells` declares for one unit.

extern "C" __global__ void gru(const T* x, const T* gate_weight, const T* candidate_weight, const T* bias,
                               const T* first, const Index* places, const Index* starts, T* hiddens, T* gates,
                               T* resets, Index steps, Index size) {
  __shared__ S states[LIMIT], let_through[LIMIT], sums[2 * LIMIT], updates[LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) states[j] = HAS_STATES ? (S)first[rank * size + j] : (S)0;
  __syncthreads();
  const Index count = steps_of(starts, steps, rank);
  for (Index step = 0; step < count; step++) {
    const Index stored = starts[step] + rank, row = places[stored];
    const T* const entry = x + row * 3 * size;
    T* const saved = gates + stored * 3 * size;
    const bool is_known = HAS_STATES || step > 0;
    FOR_EACH_OF(c, 2 * size) {
      sums[c] = product(states, gate_weight, size, 2 * size, c) + entry[c];
      if (BIASED) sums[c] += bias[c];
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      const S x_update = sums[j], x_reset = sums[size + j], before = states[j];
      OPEN_GATES
      updates[j] = saved[j] = update;
      saved[size + j] = reset;
      let_through[j] = kept;
      resets[stored * size + j] = kept;
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      S x_candidate = product(let_through, candidate_weight, size, size, j) + entry[2 * size + j];
      if (BIASED) x_candidate += bias[2 * size + j];
      const S update = updates[j], before = states[j];
      NEW_STATE
      saved[2 * size + j] = candidate;
      states[j] = hidden;
      hiddens[row * size + j] = hidden;
    }
    __syncthreads();
  }
}

// From the gradient of the states (`d`): those of the gates (`dx`), the state before each row and what the
// reset gate let through of it, and the gradient of the first states. The weights are transposed.
extern "C" __global__ void gru_grad(const T* d, const T* gate_weight, const T* candidate_weight,
                                    const T* first, const Index* places, const Index* starts,
                                    const T* hiddens, const T* gates, T* dx, T* earlier, T* resets, T* dfirst,
                                    Index steps, Index size) {
  __shared__ S passed[LIMIT], straight[LIMIT], slopes[3 * LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) passed[j] = 0;
  __syncthreads();
  for (Index step = steps_of(starts, steps, rank) - 1; step >= 0; step--) {
    const Index stored = starts[step] + rank, row = places[stored];
    const Index row_before = step > 0 ? places[starts[step - 1] + rank] : 0;
    const T* const saved = gates + stored * 3 * size;
    const bool is_known = HAS_STATES || step > 0;
    FOR_EACH_OF(j, size) {
      const S update = saved[j], reset = saved[size + j], candidate = saved[2 * size + j];
      S before = 0;
      if (step > 0) before = hiddens[row_before * size + j];
      else if (HAS_STATES) before = first[rank * size + j];
      const S g_hidden = d[row * size + j] + passed[j];
      STATE_BACK
      slopes[j] = d_x_update;
      slopes[2 * size + j] = d_x_candidate;
      straight[j] = d_before;
      earlier[row * size + j] = before;
      LET_THROUGH
      resets[row * size + j] = kept;
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      const S g_kept = product(slopes + 2 * size, candidate_weight, size, size, j);
      const S reset = saved[size + j], before = earlier[row * size + j];
      RESET_BACK
      slopes[size + j] = d_x_reset;
      straight[j] += d_before;
      for (int part = 0; part < 3; part++) dx[row * 3 * size + part * size + j] = slopes[part * size + j];
    }
    __syncthreads();
    FOR_EACH_OF(i, size) passed[i] = product(slopes, gate_weight, 2 * size, size, i) + straight[i];
    __syncthreads();
  }
  FOR_EACH_OF(j, size) dfirst[rank * size + j] = passed[j];
}
