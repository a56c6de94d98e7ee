// What recurrences share. A block has one sequence, from its first row to its last, with its state in shared
// memory; the weight is read again at each step, from the cache that blocks share.
//
// Sequences are ranked by length, the longest first; `places` says where the rows of each step lie in what is
// given, `starts` where each step begins among them.

#define LIMIT 512  // units

// the steps of the sequence of this block: those with more sequences than its rank
__device__ inline Index steps_of(const Index* starts, Index steps, Index rank) {
  Index count = 0;
  while (count < steps && starts[count + 1] - starts[count] > rank) count++;
  return count;
}

// an element of left * weight, of `rows` x `columns` elements
__device__ inline S product(const S* left, const T* weight, Index rows, Index columns, Index column) {
  S total = 0;
  for (Index row = 0; row < rows; row++) total += left[row] * weight[row * columns + column];
  return total;
}
