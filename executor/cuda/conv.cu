// Convolutions of images (N, C, height, width): windows copied out for matrix products (im2col), their
// gradients gathered again, and convolutions of each channel by itself. A thread computes whole elements, in
// one order.
//
// kh, kw: the kernel; oh, ow: places of the result; sh, sw: strides; top, left: padding; dh, dw: dilations.
#define GEOMETRY                                                                                    \
  Index height, Index width, Index kh, Index kw, Index oh, Index ow, Index sh, Index sw, Index top, \
      Index left, Index dh, Index dw

// columns[plane][ky][kx][oy][ox] = x[plane][oy * sh + ky * dh - top][ox * sw + kx * dw - left], 0 beyond the
// edges. The rows of a block are those of the columns.
extern "C" __global__ void unfold(const T* x, T* columns, Index rows, GEOMETRY) {
  FOR_EACH_ROW(row, end, rows, ow) {
    const Index oy = row % oh, kx = row / oh % kw, ky = row / oh / kw % kh, plane = row / oh / kw / kh;
    const Index y = oy * sh + ky * dh - top;
    const bool is_inside = y >= 0 && y < height;
    FOR_EACH_OF(i, end) {
      const Index at = i * sw + kx * dw - left;
      S value = 0;
      if (is_inside && at >= 0 && at < width) value = x[(plane * height + y) * width + at];
      columns[row * ow + i] = value;
    }
  }
}

// The place of a window that meets `at` by its element `k`: -1 where there is none.
__device__ inline Index place_of(Index at, Index k, Index stride, Index dilation, Index places) {
  const Index from = at - k * dilation;
  if (from < 0 || from % stride) return -1;
  return from / stride < places ? from / stride : -1;
}

// Each element of x is the sum of all elements of the columns that were copied from it.
extern "C" __global__ void fold(const T* columns, T* x, Index rows, GEOMETRY) {
  FOR_EACH_ROW(row, end, rows, width) {
    const Index y = row % height, plane = row / height;
    FOR_EACH_OF(i, end) {
      S sum = 0;
      for (Index ky = 0; ky < kh; ky++) {
        const Index oy = place_of(y + top, ky, sh, dh, oh);
        if (oy < 0) continue;
        for (Index kx = 0; kx < kw; kx++) {
          const Index ox = place_of(i + left, kx, sw, dw, ow);
          if (ox >= 0) sum += columns[(((plane * kh + ky) * kw + kx) * oh + oy) * ow + ox];
        }
      }
      x[row * width + i] = sum;
    }
  }
}

// ------------------------------------------------------------------ one channel of x to each filter
// `many` filters to a channel; `channels` of x.
extern "C" __global__ void depthwise(const T* x, const T* w, T* out, Index rows, Index channels, Index many,
                                     GEOMETRY) {
  FOR_EACH_ROW(row, end, rows, ow) {
    const Index oy = row % oh, filter = row / oh % (channels * many), image = row / oh / (channels * many);
    const T* from = x + (image * channels + filter / many) * height * width;
    FOR_EACH_OF(i, end) {
      S sum = 0;
      for (Index ky = 0; ky < kh; ky++) {
        const Index y = oy * sh + ky * dh - top;
        if (y < 0 || y >= height) continue;
        for (Index kx = 0; kx < kw; kx++) {
          const Index at = i * sw + kx * dw - left;
          if (at >= 0 && at < width) sum += (S)from[y * width + at] * (S)w[(filter * kh + ky) * kw + kx];
        }
      }
      out[row * ow + i] = sum;
    }
  }
}

extern "C" __global__ void depthwise_grad_input(const T* d, const T* w, T* dx, Index rows, Index channels,
                                                Index many, GEOMETRY) {
  FOR_EACH_ROW(row, end, rows, width) {
    const Index y = row % height, plane = row / height, channel = plane % channels;
    FOR_EACH_OF(i, end) {
      S sum = 0;
      for (Index filter = 0; filter < many; filter++)
        for (Index ky = 0; ky < kh; ky++) {
          const Index oy = place_of(y + top, ky, sh, dh, oh);
          if (oy < 0) continue;
          for (Index kx = 0; kx < kw; kx++) {
            const Index ox = place_of(i + left, kx, sw, dw, ow);
            if (ox < 0) continue;
            const S weight = w[((channel * many + filter) * kh + ky) * kw + kx];
            sum += (S)d[((plane * many + filter) * oh + oy) * ow + ox] * weight;
          }
        }
      dx[row * width + i] = sum;
    }
  }
}

// A block to each element of the filters.
extern "C" __global__ void depthwise_grad_filter(const T* x, const T* d, T* dw_out, Index images,
                                                 Index channels, Index many, GEOMETRY) {
  const Index element = blockIdx.x, kx = element % kw, ky = element / kw % kh, filter = element / kw / kh;
  const Index places = oh * ow, count = images * places;
  S sum = 0;
  for (Index at = threadIdx.x; at < count; at += blockDim.x) {
    const Index image = at / places, oy = at % places / ow, ox = at % ow;
    const Index y = oy * sh + ky * dh - top, from = ox * sw + kx * dw - left;
    if (y < 0 || y >= height || from < 0 || from >= width) continue;
    const S value = x[((image * channels + filter / many) * height + y) * width + from];
    sum += value * (S)d[(image * channels * many + filter) * places + at % places];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) dw_out[element] = sum;
}
