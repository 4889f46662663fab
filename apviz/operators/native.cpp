// Products with K and its blocks without storing K: distances, kernel and product fused in tiles that stay in the L1
// cache; a loop over rows each, shared by OpenMP threads.

#include "native.h"

#include <limits>
#include <vector>

namespace {

constexpr int64_t kRowGroup = 128;  // rows that pass over a tile of columns before the next; a thread's unit of work

template <typename Kernel, typename T>
void columns_matmul(T shape, const T* x, int64_t n, int64_t d, const T* z, int64_t m, RightHandSides<T> rhs, T* out,
                    int64_t threads) {
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d), unused(rhs.width);
#pragma omp for schedule(dynamic)
    for (int64_t group = 0; group < n; group += kRowGroup)
      for (int64_t c = 0; c < m; c += kColumns) {
        const int64_t columns = std::min(kColumns, m - c);
        for (int64_t r = group; r < std::min(n, group + kRowGroup); r += kRows) {
          kernel_tile<Kernel, T>(shape, rows_of(x, n, d, r, padded.data()), d, z + c, m, columns, values);
          T* rows[kRows];
          for (int64_t i = 0; i < kRows; ++i) rows[i] = r + i < n ? out + (r + i) * rhs.width : unused.data();
          product<T>(values, rhs, c, columns, rows);
        }
      }
  }
}

// out += K u for the symmetric K of x with itself: each pair of rows is evaluated once and used twice.
//
// Groups of kColumns rows meet in rounds, in each of which every group is in one pair: no two threads write to the same
// rows, and the order of every sum is the same for any number of threads.
template <typename Kernel, typename T>
void symmetric_matmul(T shape, const T* x, int64_t n, int64_t d, const T* z, int64_t m, RightHandSides<T> rhs, T* out,
                      int64_t threads) {
  const int64_t groups = (n + kColumns - 1) / kColumns;
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d), unused(rhs.width);
    std::vector<T> sums(kColumns * (rhs.narrow() ? rhs.width : rhs.stride));
    for (int64_t round = 0; round < groups; ++round) {
#pragma omp for schedule(dynamic)
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t other = (round - group + groups) % groups;
        if (group > other) continue;
        const int64_t c = other * kColumns, columns = std::min(kColumns, m - c);
        std::fill(sums.begin(), sums.end(), T(0));
        for (int64_t r = group * kColumns; r < std::min(n, (group + 1) * kColumns); r += kRows) {
          kernel_tile<Kernel, T>(shape, rows_of(x, n, d, r, padded.data()), d, z + c, m, columns, values);
          T* rows[kRows];
          for (int64_t i = 0; i < kRows; ++i) rows[i] = r + i < n ? out + (r + i) * rhs.width : unused.data();
          product<T>(values, rhs, c, columns, rows);
          if (group < other) transposed_product<T>(values, rhs, r, columns, sums.data());
        }
        if (group == other) continue;
        for (int64_t i = 0; i < std::min(kColumns, n - c); ++i)
          for (int64_t j = 0; j < rhs.width; ++j)
            out[(c + i) * rhs.width + j] += rhs.narrow() ? sums[j * kColumns + i] : sums[i * rhs.stride + j];
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

// Up to so many right-hand sides, u is passed as width × m; else as m × stride, stride a multiple of the lanes.
extern "C" int64_t narrow_f32() { return kNarrow<float>; }
extern "C" int64_t narrow_f64() { return kNarrow<double>; }

// x: n × d; z: d × m, m a multiple of the lanes; out: n × width.
#define APVIZ_EXPORT(T, suffix)                                                                                     \
  extern "C" void columns_matmul_##suffix(int64_t kind, double shape, const T* x, int64_t n, int64_t d, const T* z, \
                                          int64_t m, const T* u, int64_t stride, int64_t width, T* out,             \
                                          int64_t threads) {                                                        \
    with_kernel(kind, [&](auto kernel) {                                                                            \
      columns_matmul<decltype(kernel), T>(T(shape), x, n, d, z, m, {u, stride, width}, out, threads);               \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" void symmetric_matmul_##suffix(int64_t kind, double shape, const T* x, int64_t n, int64_t d,           \
                                            const T* z, int64_t m, const T* u, int64_t stride, int64_t width,       \
                                            T* out, int64_t threads) {                                              \
    with_kernel(kind, [&](auto kernel) {                                                                            \
      symmetric_matmul<decltype(kernel), T>(T(shape), x, n, d, z, m, {u, stride, width}, out, threads);             \
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
