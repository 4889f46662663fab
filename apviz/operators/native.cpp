// K[:, I] U without storing K: distances, kernel and product fused in tiles that stay in the L1 cache.
//
// Distances are direct differences, so near pairs keep full relative accuracy in float32 even when the inputs
// span hundreds of lengthscales. Per kernel entry: 2d flops for the distance, one exp, 2p flops for the product.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace {

constexpr int64_t kRows = 4;        // rows that share one load of a column's inputs
constexpr int64_t kColumns = 256;   // columns of a tile
constexpr int64_t kRowGroup = 128;  // rows that pass over a tile of columns before the next; a thread's unit of work

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

// out[i][:width] += values[i] · u for kRows rows; u: columns × ldu, ldu a multiple of the lanes, zero beyond width.
// Each chunk of columns is summed by itself: rounding grows with the root of the length of a sum.
template <typename T>
inline void product(const T* values, const T* u, int64_t ldu, int64_t columns, int64_t width, T* const* out) {
  using V = typename Vector<T>::type;
  constexpr int64_t lanes = kLanes<T>;
  for (int64_t j = 0; j < width; j += lanes) {
    V sum[kRows] = {};
    for (int64_t first = 0; first < columns; first += lanes) {
      V chunk[kRows] = {};
#pragma GCC unroll 16
      for (int64_t c = first; c < first + lanes; ++c) {
        const V uc = load(u + c * ldu + j);
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

// kRows rows of x from row r on; the rows beyond n repeat the last one and are never stored.
template <typename T> inline const T* rows_of(const T* x, int64_t n, int64_t d, int64_t r, T* padded) {
  if (r + kRows <= n) return x + r * d;
  for (int64_t i = 0; i < kRows; ++i) std::copy_n(x + std::min(r + i, n - 1) * d, d, padded + i * d);
  return padded;
}

template <typename Kernel, typename T>
void columns_matmul(T shape, const T* x, int64_t n, int64_t d, const T* z, int64_t m, const T* u, int64_t ldu,
                    int64_t width, T* out, int64_t threads) {
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d), unused(width);
#pragma omp for schedule(dynamic)
    for (int64_t group = 0; group < n; group += kRowGroup)
      for (int64_t c = 0; c < m; c += kColumns) {
        const int64_t columns = std::min(kColumns, m - c);
        for (int64_t r = group; r < std::min(n, group + kRowGroup); r += kRows) {
          kernel_tile<Kernel, T>(shape, rows_of(x, n, d, r, padded.data()), d, z + c, m, columns, values);
          T* rows[kRows];
          for (int64_t i = 0; i < kRows; ++i) rows[i] = r + i < n ? out + (r + i) * width : unused.data();
          product<T>(values, u + c * ldu, ldu, columns, width, rows);
        }
      }
  }
}

template <typename Kernel, typename T>
void fill(T shape, const T* x, int64_t n, int64_t d, const T* z, int64_t m, int64_t used, T* out, int64_t threads) {
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d);
#pragma omp for schedule(dynamic, kRowGroup / kRows)
    for (int64_t r = 0; r < n; r += kRows)
      for (int64_t c = 0; c < m; c += kColumns) {
        const int64_t columns = std::min(kColumns, m - c);
        kernel_tile<Kernel, T>(shape, rows_of(x, n, d, r, padded.data()), d, z + c, m, columns, values);
        for (int64_t i = 0; i < std::min(kRows, n - r); ++i)
          std::copy_n(values + i * kColumns, std::min(columns, used - c), out + (r + i) * used + c);
      }
  }
}

// out[i] = squared distance of row i of x to the nearest of the first `used` columns of z.
template <typename T>
void nearest(const T* x, int64_t n, int64_t d, const T* z, int64_t m, int64_t used, T* out, int64_t threads) {
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d);
#pragma omp for schedule(static, kRowGroup / kRows)
    for (int64_t r = 0; r < n; r += kRows) {
      const T* rows = rows_of(x, n, d, r, padded.data());
      const int64_t kept = std::min(kRows, n - r);
      std::fill_n(out + r, kept, std::numeric_limits<T>::infinity());
      for (int64_t c = 0; c < used; c += kColumns) {
        squared_distances<T>(rows, d, z + c, m, std::min(kColumns, m - c), values);
        for (int64_t i = 0; i < kept; ++i) {
          const T* row = values + i * kColumns;
          T least = out[r + i];
#pragma omp simd reduction(min : least)
          for (int64_t j = 0; j < std::min(kColumns, used - c); ++j) least = row[j] < least ? row[j] : least;
          out[r + i] = least;
        }
      }
    }
  }
}

template <typename T> inline double total(typename Vector<T>::type v) {
  double sum = 0;
  for (int64_t l = 0; l < kLanes<T>; ++l) sum += v[l];
  return sum;
}

// Per group of rows: Σ m·correlation, then Σ m·slope·(x_k − z_k)² per input k, with m = a[row] · b[column].
// bt: p × m, zero beyond the true columns, so that the padded ones add nothing. partial: groups × (1 + d).
template <typename Kernel, typename T>
void derivative_sums(T shape, const T* x, int64_t n, int64_t d, const T* z, int64_t m, const T* a, const T* bt,
                     int64_t p, double* partial, int64_t threads) {
  using V = typename Vector<T>::type;
  constexpr int64_t lanes = kLanes<T>;
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns], weights[kRows * kColumns];
    std::vector<T> padded(kRows * d), padded_a(kRows * p);
#pragma omp for schedule(dynamic)
    for (int64_t group = 0; group < n; group += kRowGroup) {
      double* sums = partial + group / kRowGroup * (1 + d);
      for (int64_t c = 0; c < m; c += kColumns) {
        const int64_t columns = std::min(kColumns, m - c);
        for (int64_t r = group; r < std::min(n, group + kRowGroup); r += kRows) {
          const T* rows = rows_of(x, n, d, r, padded.data());
          const T* left = rows_of(a, n, p, r, padded_a.data());
          const int64_t used = std::min(kRows, n - r);
          squared_distances<T>(rows, d, z + c, m, columns, values);
          for (int64_t i = 0; i < used; ++i) {
            T *u = values + i * kColumns, *w = weights + i * kColumns;
            for (int64_t j = 0; j < columns; j += lanes) {
              V sum = {};
              for (int64_t k = 0; k < p; ++k) sum += load(bt + k * m + c + j) * left[i * p + k];
              std::memcpy(w + j, &sum, sizeof sum);
            }
            T products = 0;
#pragma omp simd reduction(+ : products)
            for (int64_t j = 0; j < columns; ++j) {
              products += w[j] * Kernel::correlation(u[j], shape);
              w[j] *= Kernel::slope(u[j], shape);
            }
            sums[0] += products;
          }
          for (int64_t k = 0; k < d; ++k) {
            V sum = {};
            for (int64_t i = 0; i < used; ++i)
              for (int64_t j = 0; j < columns; j += lanes) {
                const V gap = load(z + k * m + c + j) - rows[i * d + k];
                sum += load(weights + i * kColumns + j) * gap * gap;
              }
            sums[1 + k] += total<T>(sum);
          }
        }
      }
    }
  }
}

// out[j] = column sums of squares of rows starts[j] to starts[j + 1] of r, each p wide.
template <typename T>
void squared_norms(const T* r, int64_t p, const int64_t* starts, int64_t m, T* out, int64_t threads) {
  constexpr int64_t kChunk = 128;  // rows summed at a time: their sum rounds less than one over a long block
#pragma omp parallel num_threads(threads)
  {
    std::vector<T> chunk(p);
#pragma omp for schedule(static)
    for (int64_t j = 0; j < m; ++j) {
      T* sum = out + j * p;
      std::fill_n(sum, p, T(0));
      for (int64_t first = starts[j]; first < starts[j + 1]; first += kChunk) {
        std::fill(chunk.begin(), chunk.end(), T(0));
        for (int64_t i = first; i < std::min(first + kChunk, starts[j + 1]); ++i)
          for (int64_t c = 0; c < p; ++c) chunk[c] += r[i * p + c] * r[i * p + c];
        for (int64_t c = 0; c < p; ++c) sum[c] += chunk[c];
      }
    }
  }
}

// r −= Σ steps[i] · images[i] for images: q × n × p; a chunk of r stays in L1 while all images pass over it.
template <typename T>
void subtract_combination(T* r, int64_t n, int64_t p, const T* images, const T* steps, int64_t q, int64_t threads) {
  constexpr int64_t kChunk = 64;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t first = 0; first < n; first += kChunk) {
    const int64_t last = std::min(n, first + kChunk);
    for (int64_t i = 0; i < q; ++i) {
      const T *image = images + i * n * p, *step = steps + i * p;
      for (int64_t row = first; row < last; ++row)
        for (int64_t c = 0; c < p; ++c) r[row * p + c] -= image[row * p + c] * step[c];
    }
  }
}

// out[i] = Σ_k updates[i][k] · a[rows[i][k]] per column, for updates: q × length × p, a: rows of p.
template <typename T>
void gathered_products(const T* updates, const int64_t* rows, int64_t q, int64_t length, int64_t p, const T* a,
                       double* out, int64_t threads) {
  constexpr int64_t kChunk = 16;  // terms summed at the width of T, whose sum is added in double
#pragma omp parallel num_threads(threads)
  {
    std::vector<T> chunk(p);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < q; ++i) {
      std::fill_n(out + i * p, p, 0.0);
      for (int64_t first = i * length; first < (i + 1) * length; first += kChunk) {
        std::fill(chunk.begin(), chunk.end(), T(0));
        for (int64_t k = first; k < std::min(first + kChunk, (i + 1) * length); ++k)
          for (int64_t c = 0; c < p; ++c) chunk[c] += updates[k * p + c] * a[rows[k] * p + c];
        for (int64_t c = 0; c < p; ++c) out[i * p + c] += chunk[c];
      }
    }
  }
}

}  // namespace

// The names of the kernels, in the order in which they are called by number.
extern "C" const char* kernel_names() {
#define APVIZ_NAME(name, ...) #name " "
  return APVIZ_KERNELS(APVIZ_NAME);
}

// x: n × d; z: d × m, m a multiple of the lanes; u: m × ldu, ldu a multiple of the lanes; out: n × width.
#define APVIZ_EXPORT(T, suffix)                                                                                     \
  extern "C" void columns_matmul_##suffix(int64_t kind, double shape, const T* x, int64_t n, int64_t d, const T* z, \
                                          int64_t m, const T* u, int64_t ldu, int64_t width, T* out,                \
                                          int64_t threads) {                                                        \
    with_kernel(kind, [&](auto kernel) {                                                                            \
      columns_matmul<decltype(kernel), T>(T(shape), x, n, d, z, m, u, ldu, width, out, threads);                    \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" void fill_##suffix(int64_t kind, double shape, const T* x, int64_t n, int64_t d, const T* z, int64_t m,\
                                int64_t used, T* out, int64_t threads) {                                            \
    with_kernel(kind, [&](auto kernel) {                                                                            \
      fill<decltype(kernel), T>(T(shape), x, n, d, z, m, used, out, threads);                                       \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" void nearest_##suffix(const T* x, int64_t n, int64_t d, const T* z, int64_t m, int64_t used, T* out,   \
                                   int64_t threads) {                                                               \
    nearest<T>(x, n, d, z, m, used, out, threads);                                                                  \
  }                                                                                                                 \
  extern "C" void derivative_sums_##suffix(int64_t kind, double shape, const T* x, int64_t n, int64_t d, const T* z,\
                                           int64_t m, const T* a, const T* bt, int64_t p, double* partial,          \
                                           int64_t threads) {                                                       \
    with_kernel(kind, [&](auto kernel) {                                                                            \
      derivative_sums<decltype(kernel), T>(T(shape), x, n, d, z, m, a, bt, p, partial, threads);                    \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" void squared_norms_##suffix(const T* r, int64_t p, const int64_t* starts, int64_t m, T* out,           \
                                         int64_t threads) {                                                         \
    squared_norms<T>(r, p, starts, m, out, threads);                                                                \
  }                                                                                                                 \
  extern "C" void subtract_combination_##suffix(T* r, int64_t n, int64_t p, const T* images, const T* steps,        \
                                                int64_t q, int64_t threads) {                                       \
    subtract_combination<T>(r, n, p, images, steps, q, threads);                                                    \
  }                                                                                                                 \
  extern "C" void gathered_products_##suffix(const T* updates, const int64_t* rows, int64_t q, int64_t length,      \
                                             int64_t p, const T* a, double* out, int64_t threads) {                 \
    gathered_products<T>(updates, rows, q, length, p, a, out, threads);                                             \
  }

APVIZ_EXPORT(float, f32)
APVIZ_EXPORT(double, f64)
