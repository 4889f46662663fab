// Loops over rows that need no kernel: nearest rows, norms of blocks, steps along
// earlier updates; run by OpenMP threads.

#include "native.h"

#include <limits>
#include <vector>

namespace {

// out[i] = squared distance of row i of x to the nearest of the first `used` columns of z.
template <typename T>
void nearest(const T* x, int64_t n, int64_t d, const T* z, int64_t m, int64_t used, T* out, int64_t threads) {
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d);
#pragma omp for schedule(static, 32)
    for (int64_t r = 0; r < n; r += kRows) {
      const T* rows = rows_of(x, n, d, r, padded.data());
      const int64_t kept = std::min(kRows, n - r);
      std::fill_n(out + r, kept, std::numeric_limits<T>::infinity());
      for (int64_t c = 0; c < used; c += kColumns) {
        tile<false, T>(rows, d, d, z + c, m, std::min(kColumns, m - c), values);
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

// out[j] = column sums of squares of rows starts[j] to starts[j + 1] of r, each p wide.
template <typename T>
void squared_norms(const T* r, int64_t p, const int64_t* starts, int64_t m, T* out, int64_t threads) {
  constexpr int64_t kChunk = 128;  // rows per partial sum: short sums round less than one over a long block
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

// r −= Σ steps[i] · images[i] for images: q × n × p; a chunk of r stays in L1 while all images are subtracted from it.
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
  constexpr int64_t kChunk = 16;  // terms per partial sum in T; the partial sums are added in double
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

// x: n × d; z: d × m, m a multiple of the lanes.
#define APVIZ_EXPORT(T, suffix)                                                                                     \
  extern "C" void nearest_##suffix(const T* x, int64_t n, int64_t d, const T* z, int64_t m, int64_t used, T* out,   \
                                   int64_t threads) {                                                               \
    nearest<T>(x, n, d, z, m, used, out, threads);                                                                  \
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
