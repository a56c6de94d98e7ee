// All steps of a long short-term memory in one launch, forward and back; gates in the order candidate, input,
// forget, output.

// `peepholes` are the weights of input, forget and output gate; `clip` bounds the cells where it is not 0.
// Gates and activated cells lie step by step, for the gradient.
extern "C" __global__ void lstm(const T* x, const T* weight, const T* bias, const T* peepholes,
                                const T* first_states, const T* first_cells, const Index* places,
                                const Index* starts, T* hidden, T* cells, T* gates, T* active, Index steps,
                                Index size, S clip) {
  __shared__ S state[LIMIT], cell[LIMIT], sums[4 * LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) {
    state[j] = HAS_STATES ? (S)first_states[rank * size + j] : (S)0;
    cell[j] = HAS_CELLS ? (S)first_cells[rank * size + j] : (S)0;
  }
  __syncthreads();
  const Index count = steps_of(starts, steps, rank);
  for (Index step = 0; step < count; step++) {
    const Index stored = starts[step] + rank, row = places[stored];
    FOR_EACH_OF(c, 4 * size) {
      sums[c] = product(state, weight, size, 4 * size, c) + x[row * 4 * size + c] + bias[c];
    }
    __syncthreads();
    FOR_EACH_OF(j, size) {
      S entry = sums[size + j], forget = sums[2 * size + j], output = sums[3 * size + j];
      const S candidate = CANDIDATE::of(sums[j]);
      if (PEEPHOLES) {
        entry += cell[j] * peepholes[j];
        forget += cell[j] * peepholes[size + j];
      }
      entry = GATE::of(entry);
      forget = GATE::of(forget);
      S now = candidate * entry + forget * cell[j];
      if (clip > 0) now = now > clip ? clip : now < -clip ? -clip : now;
      if (PEEPHOLES) output += now * peepholes[2 * size + j];
      output = GATE::of(output);
      const S shown = STATE::of(now);
      cell[j] = now;
      state[j] = output * shown;
      cells[row * size + j] = now;
      hidden[row * size + j] = state[j];
      if (!SAVES) continue;
      T* const kept = gates + stored * 4 * size + j;
      kept[0] = candidate;
      kept[size] = entry;
      kept[2 * size] = forget;
      kept[3 * size] = output;
      active[stored * size + j] = shown;
    }
    __syncthreads();
  }
}

// From the gradients of states (`d`), of all cells and of the last ones: those of the gates (`dx`), the
// states and cells before each row, and the gradient of the first cells. `turned` is the weight transposed.
extern "C" __global__ void lstm_grad(const T* d, const T* dcells, const T* last_cells, const T* turned,
                                     const T* peepholes, const T* first_states, const T* first_cells,
                                     const Index* places, const Index* starts, const T* hidden,
                                     const T* cells, const T* gates, const T* active, T* dx, T* earlier,
                                     T* cells_before, T* dfirst_cells, Index steps, Index size, S clip) {
  __shared__ S passed[LIMIT], carried[LIMIT], slopes[4 * LIMIT];
  const Index rank = blockIdx.x;
  FOR_EACH_OF(j, size) {
    passed[j] = 0;
    carried[j] = HAS_LAST ? (S)last_cells[rank * size + j] : (S)0;
  }
  __syncthreads();
  for (Index step = steps_of(starts, steps, rank) - 1; step >= 0; step--) {
    const Index stored = starts[step] + rank, row = places[stored];
    const Index before = step > 0 ? places[starts[step - 1] + rank] : 0;
    FOR_EACH_OF(j, size) {
      const T* const kept = gates + stored * 4 * size + j;
      const S candidate = kept[0], entry = kept[size], forget = kept[2 * size], output = kept[3 * size];
      const S shown = active[stored * size + j], now = cells[row * size + j];
      S state = 0, cell = 0;
      if (step > 0) {
        state = hidden[before * size + j];
        cell = cells[before * size + j];
      } else {
        if (HAS_STATES) state = first_states[rank * size + j];
        if (HAS_CELLS) cell = first_cells[rank * size + j];
      }
      const S incoming = d[row * size + j] + passed[j];
      const S of_output = GATE::slope(output) * shown * incoming;
      S share = STATE::slope(shown) * output * incoming + carried[j];
      if (HAS_DCELLS) share += dcells[row * size + j];
      if (PEEPHOLES) share += of_output * peepholes[2 * size + j];
      if (clip > 0 && !(abs(now) < clip)) share = 0;
      const S of_entry = GATE::slope(entry) * candidate * share;
      const S of_forget = GATE::slope(forget) * cell * share;
      carried[j] = share * forget;
      if (PEEPHOLES) carried[j] += of_entry * peepholes[j] + of_forget * peepholes[size + j];
      slopes[j] = CANDIDATE::slope(candidate) * entry * share;
      slopes[size + j] = of_entry;
      slopes[2 * size + j] = of_forget;
      slopes[3 * size + j] = of_output;
      for (int gate = 0; gate < 4; gate++) dx[row * 4 * size + gate * size + j] = slopes[gate * size + j];
      earlier[row * size + j] = state;
      cells_before[row * size + j] = cell;
    }
    __syncthreads();
    FOR_EACH_OF(i, size) passed[i] = product(slopes, turned, 4 * size, size, i);
    __syncthreads();
  }
  FOR_EACH_OF(j, size) dfirst_cells[rank * size + j] = carried[j];
}
