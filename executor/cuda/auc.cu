// The area under a ROC curve over histograms of scores, and the histograms of the last batches beside it.

// counts[0] of rows whose label is 0, counts[1] of those above, by score. Integers are added in whatever
// order.
extern "C" __global__ void auc_counts(const T* scores, const Index* labels, Index* counts, Index rows,
                                      Index columns, Index bins) {
  FOR_EACH(row, rows) {
    const T score = scores[row * columns + columns - 1];
    const Index label = labels[row];
    if (!(score >= 0 && score <= 1) || label < 0) continue;  // no probability, NaN among them
    const Index bin = (Index)(score * (T)(bins - 1));
    atomicAdd((unsigned long long*)&counts[(label > 0 ? bins : 0) + bin], 1ull);
  }
}

// A state holds the counts of `steps` batches, their sum and the number of batches; without steps the sum
// alone. A thread has the same bin of all of them, so that `after` may be `before`.
extern "C" __global__ void auc_states(const Index* counts, const Index* before, Index* after, Index bins,
                                      Index steps, Index is_positive) {
  FOR_EACH(bin, bins) {
    Index change = counts[is_positive * bins + bin];
    const Index mine = change;
    const Index oldest = steps ? before[(steps + 1) * bins] % steps : 0;
    if (steps) change -= before[oldest * bins + bin];
    const Index total = before[steps * bins + bin] + change;
    for (Index step = 0; step < steps; step++)
      after[step * bins + bin] = step == oldest ? mine : before[step * bins + bin];
    after[steps * bins + bin] = total;
  }
}

// One block: each thread adds up neighbouring bins, from the highest score, in double precision. The batches
// are counted here, when nobody reads their number any more.
extern "C" __global__ void auc_area(const Index* before_positive, const Index* before_negative,
                                    Index* positive, Index* negative, double* area, Index bins, Index steps) {
  __shared__ double hits[THREADS], misses[THREADS], areas[THREADS];
  const Index share = (bins + THREADS - 1) / THREADS, first = threadIdx.x * share;
  const Index last = first + share < bins ? first + share : bins;
  const Index *up = positive + steps * bins, *down = negative + steps * bins;
  double hit = 0, miss = 0;
  for (Index place = first; place < last; place++) hit += up[bins - 1 - place];
  hits[threadIdx.x] = hit;
  __syncthreads();
  double before = 0, sum = 0;
  for (int thread = 0; thread < threadIdx.x; thread++) before += hits[thread];
  for (Index place = first; place < last; place++) {
    const double height = up[bins - 1 - place], width = down[bins - 1 - place];
    sum += width * (2 * before + height) / 2;
    before += height;
    miss += width;
  }
  misses[threadIdx.x] = miss;
  areas[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int thread = 1; thread < THREADS; thread++) {
    hit += hits[thread];
    miss += misses[thread];
    sum += areas[thread];
  }
  *area = hit * miss > 0 ? sum / (hit * miss) : 0;
  if (steps) {
    const Index place = (steps + 1) * bins;
    positive[place] = before_positive[place] + 1;
    negative[place] = before_negative[place] + 1;
  }
}
