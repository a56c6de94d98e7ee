// All steps of a long short-term memory in one launch, forward and back; gates in the order candidate, input,
// forget, output. STEP and STEP_BACK are what `fluidlite.ops.kernels.gated_cells` declares for one unit.

// `peepholes` are the weights of input, forget and output gate. Gates and activated cells lie step by step,
// for the gradient.
extern "C" __global__ void lstm(const T* x, const T* weight, const T* bias, const T* peepholes,
                                const T* first_states, const T* first_cells, const Index* places,
                                const Index* starts, T* hiddens, T* gates, T* cells, T* actives, Index steps,
                                Index size) {
  __shared__ S states[LIMIT], earlier[LIMIT], sums[4 * LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) {
    states[j] = HAS_STATES ? (S)first_states[rank * size + j] : (S)0;
    earlier[j] = HAS_CELLS ? (S)first_cells[rank * size + j] : (S)0;
  }
  __syncthreads();
  const Index count = steps_of(starts, steps, rank);
  for (Index step = 0; step < count; step++) {
    const Index stored = starts[step] + rank, row = places[stored];
    FOR_EACH_OF(c, 4 * size) {
      sums[c] = product(states, weight, size, 4 * size, c) + x[row * 4 * size + c] + bias[c];
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      const bool is_known = HAS_CELLS || step > 0;
      const S x_candidate = sums[j], x_entry = sums[size + j];
      const S x_forget = sums[2 * size + j], x_output = sums[3 * size + j], before = earlier[j];
      PEEPHOLE_WEIGHTS
      STEP
      earlier[j] = cell;
      states[j] = hidden;
      cells[row * size + j] = cell;
      hiddens[row * size + j] = hidden;
      if (!SAVES) continue;
      T* const kept = gates + stored * 4 * size + j;
      kept[0] = candidate;
      kept[size] = entry;
      kept[2 * size] = forget;
      kept[3 * size] = output;
      actives[stored * size + j] = shown;
    }
    __syncthreads();
  }
}

// From the gradients of states (`d`), of all cells and of the last ones: those of the gates (`dx`), the
// states and cells before each row, and the gradient of the first cells. `turned` is the weight transposed.
extern "C" __global__ void lstm_grad(const T* d, const T* dcells, const T* last_cells, const T* turned,
                                     const T* peepholes, const T* first_states, const T* first_cells,
                                     const Index* places, const Index* starts, const T* hiddens,
                                     const T* gates, const T* cells, const T* actives, T* dx, T* earlier,
                                     T* cells_before, T* dfirst_cells, Index steps, Index size) {
  __shared__ S passed[LIMIT], carried[LIMIT], slopes[4 * LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) {
    passed[j] = 0;
    carried[j] = HAS_LAST ? (S)last_cells[rank * size + j] : (S)0;
  }
  __syncthreads();
  for (Index step = steps_of(starts, steps, rank) - 1; step >= 0; step--) {
    const Index stored = starts[step] + rank, row = places[stored];
    const Index row_before = step > 0 ? places[starts[step - 1] + rank] : 0;
    FOR_EACH_OF(j, size) {
      const T* const kept = gates + stored * 4 * size + j;
      const S candidate = kept[0], entry = kept[size], forget = kept[2 * size], output = kept[3 * size];
      const S shown = actives[stored * size + j], cell = cells[row * size + j];
      S state = 0, before = 0;
      if (step > 0) {
        state = hiddens[row_before * size + j];
        before = cells[row_before * size + j];
      } else {
        if (HAS_STATES) state = first_states[rank * size + j];
        if (HAS_CELLS) before = first_cells[rank * size + j];
      }
      const S g_hidden = d[row * size + j] + passed[j];
      const S g_cell = HAS_DCELLS ? carried[j] + dcells[row * size + j] : carried[j];
      PEEPHOLE_WEIGHTS
      STEP_BACK
      carried[j] = d_before;
      slopes[j] = d_x_candidate;
      slopes[size + j] = d_x_entry;
      slopes[2 * size + j] = d_x_forget;
      slopes[3 * size + j] = d_x_output;
      for (int gate = 0; gate < 4; gate++) dx[row * 4 * size + gate * size + j] = slopes[gate * size + j];
      earlier[row * size + j] = state;
      cells_before[row * size + j] = before;
    }
    __syncthreads();
    FOR_EACH_OF(i, size) passed[i] = product(slopes, turned, 4 * size, size, i);
    __syncthreads();
  }
  FOR_EACH_OF(j, size) dfirst_cells[rank * size + j] = carried[j];
}
