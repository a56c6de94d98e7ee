// float16 as a type of elements: kernels read and write it, and compute with float. CUDA's own header for it
// lies beside no runtime compiler. No constructor takes a number: `is_there ? a[i] : 0` would become an
// integer.
struct half {
  unsigned short bits;

  __device__ operator float() const;
  __device__ half& operator=(float number);
};

#ifdef __CUDA_ARCH__
__device__ inline half::operator float() const {
  float number;
  asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
  return number;
}
__device__ inline half& half::operator=(float number) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(number));
  return *this;
}
#else  // a C++ compiler, for tests without a device
inline half::operator float() const {
  return (float)__builtin_bit_cast(_Float16, bits);
}
inline half& half::operator=(float number) {
  bits = __builtin_bit_cast(unsigned short, (_Float16)number);
  return *this;
}
#endif

__device__ inline float rounded(float number) {
  half nearest;
  nearest = number;
  return nearest;
}
