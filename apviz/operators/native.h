// Kernel values of a few rows and a tile of columns, and their products, in vectors: what the loops of native.cpp share.
//
// Distances are direct differences, so near pairs keep full relative accuracy in float32 even when the inputs
// span hundreds of lengthscales. Per kernel entry: 2d flops for the distance, one exp, 2p flops for the product.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

constexpr int64_t kRows = 4;        // rows that share one load of a column's inputs
constexpr int64_t kColumns = 256;   // columns of a tile

template <typename T> struct Vector;
template <> struct Vector<float> {
  typedef float type __attribute__((vector_size(64), aligned(4)));
};
template <> struct Vector<double> {
  typedef double type __attribute__((vector_size(64), aligned(8)));
};
template <typename T> constexpr int64_t kLanes = 64 / sizeof(T);

template <typename T> inline typename Vector<T>::type load(const T* from) {
  typename Vector<T>::type v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Without branches, so that the loop around it becomes vector code with any compiler, where std::exp is called entry
// by entry; x <= 0. Taylor's polynomial on |f| <= log(2)/2, where its next term is about the rounding.
inline double exponential(double x) {
  x = x < -708.0 ? -708.0 : x;
  const double round = 6755399441055744.0;  // 1.5 · 2^52: as below
  const double shifted = x * 1.4426950408889634 + round;
  const double power = shifted - round;
  const double f = (x - power * 6.93145751953125e-1) - power * 1.42860682030941723212e-6;
  double p = 1.0 / 479001600;
  p = p * f + 1.0 / 39916800;
  p = p * f + 1.0 / 3628800;
  p = p * f + 1.0 / 362880;
  p = p * f + 1.0 / 40320;
  p = p * f + 1.0 / 5040;
  p = p * f + 1.0 / 720;
  p = p * f + 1.0 / 120;
  p = p * f + 1.0 / 24;
  p = p * f + 1.0 / 6;
  p = p * f + 0.5;
  p = p * f * f + f + 1.0;
  int64_t exponent, bits;
  std::memcpy(&exponent, &shifted, 8);
  std::memcpy(&bits, &p, 8);
  bits += exponent << 52;
  std::memcpy(&p, &bits, 8);
  return p;
}

// Cephes' expf in the same way; x <= 0.
inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  const float round = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer kept in the low mantissa bits
  const float shifted = x * 1.44269504f + round;
  const float power = shifted - round;
  const float f = (x - power * 0.693359375f) + power * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  int32_t exponent, bits;
  std::memcpy(&exponent, &shifted, 4);
  std::memcpy(&bits, &p, 4);
  bits += exponent << 23;
  std::memcpy(&p, &bits, 4);
  return p;
}

// log(1 + u) in the same way; u >= 0. With 1 + u = 2^exponent · (1 + f), |f| <= √2 − 1: the series of
// log((1 + t) / (1 − t)) for t = f / (2 + f), to where its next term is about the rounding.
template <typename T> inline T log_one_plus(T u) {
  typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> Int;
  constexpr int mantissa = sizeof(T) == 4 ? 23 : 52, terms = sizeof(T) == 4 ? 5 : 10;
  const T half_root = T(0.70710678118654752), sum = T(1) + u;
  Int bits, least;
  std::memcpy(&bits, &sum, sizeof sum);
  std::memcpy(&least, &half_root, sizeof least);
  const int32_t exponent = static_cast<int32_t>((bits - least) >> mantissa);
  bits -= static_cast<Int>(exponent) << mantissa;
  T scaled;
  std::memcpy(&scaled, &bits, sizeof bits);
  const T f = exponent == 0 ? u : scaled - T(1);  // where the sum is below √2, u itself, which its rounding would lose
  const T t = f / (T(2) + f), square = t * t;
  T p = T(1) / T(2 * terms - 1);
  for (int k = 2 * terms - 3; k > 0; k -= 2) p = p * square + T(1) / T(k);
  return T(exponent) * T(0.69314718055994531) + T(2) * t * p;
}

// (1 + u)^power; u >= 0, power <= 0.
template <typename T> inline T power(T u, T power) { return exponential(power * log_one_plus(u)); }

// The kernels, a line each: its name in apviz.kernels.KERNELS with "_" for "-", its correlation, and the slope of that, 0
// where there is none. Given u, the squared distance of scaled inputs; r = √u; e = exp(−r); shape, the kernel's parameter.
#define APVIZ_KERNELS(KERNEL)                                                           \
  KERNEL(matern12, e, r > T(0) ? e / (T(-2) * r) : T(0))                                \
  KERNEL(matern32, (T(1) + r) * e, T(-0.5) * e)                                         \
  KERNEL(matern52, (T(1) + r + u * T(1.0 / 3.0)) * e, (T(1) + r) * e * T(-1.0 / 6.0))   \
  KERNEL(rbf, exponential(-u), -exponential(-u))                                        \
  KERNEL(rational_quadratic, power(u, -shape), -shape / (T(1) + u) * power(u, -shape))

// What a formula has no use for is never computed.
#define APVIZ_FUNCTION(function, formula)                                                          \
  template <typename T> static inline T function(T u, [[maybe_unused]] T shape) {                  \
    [[maybe_unused]] const T r = std::sqrt(u);                                                     \
    [[maybe_unused]] const T e = exponential(-r);                                                  \
    return formula;                                                                                \
  }
#define APVIZ_KERNEL(name, correlation_of_u, slope_of_u) \
  struct name {                                          \
    APVIZ_FUNCTION(correlation, correlation_of_u)        \
    APVIZ_FUNCTION(slope, slope_of_u)                    \
  };
APVIZ_KERNELS(APVIZ_KERNEL)

// Calls `run` with the kernel whose place in the list is `kind`.
template <typename F> inline void with_kernel(int64_t kind, F run) {
#define APVIZ_CASE(name, ...) \
  if (kind-- == 0) return run(name{});
  APVIZ_KERNELS(APVIZ_CASE)
}

// Squared distances of kRows rows (x: kRows × d) to wide·kLanes columns (z: d × ldz, one input dimension a row).
template <int wide, typename T> inline void distances(const T* x, int64_t d, const T* z, int64_t ldz, T* out) {
  using V = typename Vector<T>::type;
  V sum[kRows][wide] = {};
  for (int64_t k = 0; k < d; ++k) {
    V column[wide];
#pragma GCC unroll 4
    for (int w = 0; w < wide; ++w) column[w] = load(z + k * ldz + w * kLanes<T>);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const T xi = x[i * d + k];
#pragma GCC unroll 4
      for (int w = 0; w < wide; ++w) {
        const V gap = column[w] - xi;
        sum[i][w] += gap * gap;
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int w = 0; w < wide; ++w) std::memcpy(out + i * kColumns + w * kLanes<T>, &sum[i][w], sizeof(V));
}

// The same for `columns` (a multiple of the lanes) columns.
template <typename T>
inline void squared_distances(const T* x, int64_t d, const T* z, int64_t ldz, int64_t columns, T* out) {
  constexpr int64_t lanes = kLanes<T>;
  int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) distances<4, T>(x, d, z + c, ldz, out + c);
  for (; c < columns; c += lanes) distances<1, T>(x, d, z + c, ldz, out + c);
}

// Kernel values of kRows rows and `columns` (a multiple of the lanes) columns.
template <typename Kernel, typename T>
inline void kernel_tile(T shape, const T* x, int64_t d, const T* z, int64_t ldz, int64_t columns, T* out) {
  squared_distances<T>(x, d, z, ldz, columns, out);
  for (int i = 0; i < kRows; ++i) {
    T* row = out + i * kColumns;
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) row[j] = Kernel::correlation(row[j], shape);
  }
}

template <typename T> inline double total(typename Vector<T>::type v) {
  double sum = 0;
  for (int64_t l = 0; l < kLanes<T>; ++l) sum += v[l];
  return sum;
}

// Up to this many right-hand sides, sums run along the columns: one with 16 would take as long as 16.
template <typename T> constexpr int64_t kNarrow = kLanes<T> / 2;

// The right-hand sides of a product: padded with zeros to whole vectors, and stored along what is summed over.
template <typename T> struct RightHandSides {
  const T* u;     // rows × stride, one right-hand side a column; where narrow, one a row
  int64_t stride;
  int64_t width;  // right-hand sides

  bool narrow() const { return width <= kNarrow<T>; }
  const T* from(int64_t row) const { return narrow() ? u + row : u + row * stride; }
};

// out[i][j] += Σ values[i] · u[j] for kRows rows: each lane sums a sixteenth or an eighth of the columns by itself.
template <typename T>
inline void narrow_product(const T* values, const T* u, int64_t stride, int64_t columns, int64_t width, T* const* out) {
  using V = typename Vector<T>::type;
  for (int64_t j = 0; j < width; ++j) {
    V sum[kRows] = {};
    for (int64_t c = 0; c < columns; c += kLanes<T>) {
      const V uc = load(u + j * stride + c);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i] += load(values + i * kColumns + c) * uc;
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) out[i][j] += static_cast<T>(total<T>(sum[i]));
  }
}

// The same with the right-hand sides along the vectors.
// Each chunk of columns is summed by itself: rounding grows with the root of the length of a sum.
template <typename T>
inline void wide_product(const T* values, const T* u, int64_t stride, int64_t columns, int64_t width, T* const* out) {
  using V = typename Vector<T>::type;
  constexpr int64_t lanes = kLanes<T>;
  for (int64_t j = 0; j < width; j += lanes) {
    V sum[kRows] = {};
    for (int64_t first = 0; first < columns; first += lanes) {
      V chunk[kRows] = {};
#pragma GCC unroll 16
      for (int64_t c = first; c < first + lanes; ++c) {
        const V uc = load(u + c * stride + j);
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) chunk[i] += values[i * kColumns + c] * uc;
      }
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i] += chunk[i];
    }
    const int64_t used = std::min(lanes, width - j);
    for (int i = 0; i < kRows; ++i)
      for (int64_t l = 0; l < used; ++l) out[i][j + l] += sum[i][l];
  }
}

// out[i] += Σ values[i][c] · u[column + c] for kRows rows and `columns` (a multiple of the lanes) columns.
template <typename T>
inline void product(const T* values, const RightHandSides<T>& rhs, int64_t column, int64_t columns, T* const* out) {
  if (rhs.narrow()) return narrow_product<T>(values, rhs.from(column), rhs.stride, columns, rhs.width, out);
  wide_product<T>(values, rhs.from(column), rhs.stride, columns, rhs.width, out);
}

// out[c] += Σ values[i][c] · u[row + i]: the same kernel values for the columns. out: a right-hand side a row of
// kColumns where narrow, else kColumns rows of stride.
template <typename T>
inline void transposed_product(const T* values, const RightHandSides<T>& rhs, int64_t row, int64_t columns, T* out) {
  using V = typename Vector<T>::type;
  constexpr int64_t lanes = kLanes<T>;
  if (rhs.narrow()) {
    for (int64_t j = 0; j < rhs.width; ++j) {
      const T* u = rhs.from(row) + j * rhs.stride;
      T* sums = out + j * kColumns;
      for (int64_t c = 0; c < columns; c += lanes) {
        V sum = load(values + c) * u[0];
#pragma GCC unroll 4
        for (int i = 1; i < kRows; ++i) sum += load(values + i * kColumns + c) * u[i];
        sum += load(sums + c);
        std::memcpy(sums + c, &sum, sizeof sum);
      }
    }
    return;
  }
  for (int64_t j = 0; j < rhs.stride; j += lanes) {
    V u[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) u[i] = load(rhs.from(row + i) + j);
    for (int64_t c = 0; c < columns; ++c) {
      V sum = u[0] * values[c];
#pragma GCC unroll 4
      for (int i = 1; i < kRows; ++i) sum += u[i] * values[i * kColumns + c];
      sum += load(out + c * rhs.stride + j);
      std::memcpy(out + c * rhs.stride + j, &sum, sizeof sum);
    }
  }
}

// kRows rows of x from row r on; the rows beyond n repeat the last one and are never stored.
template <typename T> inline const T* rows_of(const T* x, int64_t n, int64_t d, int64_t r, T* padded) {
  if (r + kRows <= n) return x + r * d;
  for (int64_t i = 0; i < kRows; ++i) std::copy_n(x + std::min(r + i, n - 1) * d, d, padded + i * d);
  return padded;
}

}  // namespace
