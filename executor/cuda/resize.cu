// Images of another size, and the way back: each element of the target is a sum of weighted elements of the
// source. Along a dimension, target `at` takes sources[starts[at]] ... sources[starts[at + 1] - 1], each with
// its share.
extern "C" __global__ void resize(const T* x, const Index* down_starts, const Index* down,
                                  const S* down_shares, const Index* along_starts, const Index* along,
                                  const S* along_shares, T* out, Index rows, Index height, Index width,
                                  Index to_height, Index to_width) {
  FOR_EACH_ROW(row, end, rows, to_width) {
    const Index y = row % to_height;
    const T* plane = x + row / to_height * height * width;
    FOR_EACH_OF(i, end) {
      S sum = 0;
      for (Index a = down_starts[y]; a < down_starts[y + 1]; a++) {
        S part = 0;
        for (Index b = along_starts[i]; b < along_starts[i + 1]; b++)
          part += along_shares[b] * plane[down[a] * width + along[b]];
        sum += down_shares[a] * part;
      }
      out[row * to_width + i] = sum;
    }
  }
}
