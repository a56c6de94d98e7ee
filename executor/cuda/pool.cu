// Pools of images (N, C, height, width) of oh x ow windows, and their gradients. A thread computes whole
// elements, in one order.
//
// `places` says where windows lie, one dimension after the other: the first element of each and the first
// behind it, then for each element the first window that holds it, and the first behind those.
#define GEOMETRY Index rows, Index height, Index width, Index oh, Index ow

struct Span {
  Index begin, end;
};

__device__ inline Span span(const Index* places, Index count, Index at) {
  return {places[at], places[count + at]};
}

#define ROWS_OF(oy) span(places, oh, oy)
#define COLUMNS_OF(ox) span(places + 2 * oh, ow, ox)
#define WINDOWS_ACROSS(y) span(places + 2 * (oh + ow), height, y)
#define WINDOWS_ALONG(x) span(places + 2 * (oh + ow + height), width, x)

#define FOR_EACH_IN(y, x, down, along)             \
  for (Index y = down.begin; y < down.end; y++)    \
    for (Index x = along.begin; x < along.end; x++)

extern "C" __global__ void pool_max(const T* x, const Index* places, T* out, GEOMETRY, S lowest) {
  FOR_EACH_ROW(row, end, rows, ow) {
    const T* plane = x + row / oh * height * width;
    FOR_EACH_OF(i, end) {
      const Span down = ROWS_OF(row % oh), along = COLUMNS_OF(i);
      S largest = lowest;
      FOR_EACH_IN(y, at, down, along) largest = larger(largest, plane[y * width + at]);
      out[row * ow + i] = largest;
    }
  }
}

extern "C" __global__ void pool_mean(const T* x, const Index* places, const S* factors, T* out, GEOMETRY) {
  FOR_EACH_ROW(row, end, rows, ow) {
    const T* plane = x + row / oh * height * width;
    FOR_EACH_OF(i, end) {
      const Span down = ROWS_OF(row % oh), along = COLUMNS_OF(i);
      S sum = 0;
      FOR_EACH_IN(y, at, down, along) sum += plane[y * width + at];
      out[row * ow + i] = sum * factors[row % oh * ow + i];
    }
  }
}

// ------------------------------------------------------------------ backward
// True if no element of a window before (y, x), in the order of rows, is as large.
__device__ inline bool is_first(const T* plane, S largest, Index width, Span down, Span along, Index y,
                                Index x) {
  FOR_EACH_IN(earlier, at, down, along) {
    if (earlier == y && at == x) return true;
    if (plane[earlier * width + at] == largest) return false;
  }
  return true;
}

// The gradient of a window is that of the first of its largest elements; of NaN it is nobody's.
extern "C" __global__ void pool_max_grad(const T* x, const T* pooled, const T* d, const Index* places, T* dx,
                                         GEOMETRY) {
  FOR_EACH_ROW(row, end, rows, width) {
    const Index y = row % height, first = row / height * oh * ow;
    const T* plane = x + row / height * height * width;
    FOR_EACH_OF(i, end) {
      const Span across = WINDOWS_ACROSS(y), along = WINDOWS_ALONG(i);
      const S mine = plane[y * width + i];
      S sum = 0;
      FOR_EACH_IN(oy, ox, across, along) {
        const Index window = first + oy * ow + ox;
        const S largest = pooled[window];
        if (mine != largest) continue;
        if (is_first(plane, largest, width, ROWS_OF(oy), COLUMNS_OF(ox), y, i)) sum += d[window];
      }
      dx[row * width + i] = sum;
    }
  }
}

extern "C" __global__ void pool_mean_grad(const T* d, const Index* places, const S* factors, T* dx,
                                          GEOMETRY) {
  FOR_EACH_ROW(row, end, rows, width) {
    const T* plane = d + row / height * oh * ow;
    FOR_EACH_OF(i, end) {
      const Span across = WINDOWS_ACROSS(row % height), along = WINDOWS_ALONG(i);
      S sum = 0;
      FOR_EACH_IN(oy, ox, across, along) sum += plane[oy * ow + ox] * factors[oy * ow + ox];
      dx[row * width + i] = sum;
    }
  }
}
