// Responses normalised over the channels around each (lrn). A thread computes whole elements; the channels of
// a place lie `inner` elements apart.
//
// reach: channels on either side that count.
#define FOR_EACH_NEIGHBOUR(place, channel, i) /* every channel around that of element i */   \
  for (Index channel = i / inner % channels, first_ = channel < reach ? 0 : channel - reach, \
             last_ = channel + reach < channels ? channel + reach : channels - 1,            \
             place = i - (channel - first_) * inner, end_ = i + (last_ - channel) * inner;   \
       place <= end_; place += inner)

extern "C" __global__ void lrn(const T* x, T* out, T* middle, Index count, Index channels, Index inner,
                               Index reach, S k, S alpha, S beta) {
  FOR_EACH(i, count) {
    S sum = 0;
    FOR_EACH_NEIGHBOUR(place, channel, i) sum += (S)x[place] * (S)x[place];
    const S found = sum * alpha + k;
    middle[i] = found;
    out[i] = (S)x[i] * pow(found, -beta);
  }
}

extern "C" __global__ void lrn_grad(const T* x, const T* out, const T* middle, const T* d, T* dx, Index count,
                                    Index channels, Index inner, Index reach, S alpha, S beta) {
  FOR_EACH(i, count) {
    S shares = 0;
    FOR_EACH_NEIGHBOUR(place, channel, i) shares += (S)d[place] * (S)out[place] / (S)middle[place];
    dx[i] = (S)d[i] * pow((S)middle[i], -beta) - (S)x[i] * shares * (2 * alpha * beta);
  }
}
