// Products with K and its blocks without storing K: distances, kernel and product fused in tiles that stay in the L1
// cache. Each function is a loop over rows, run by OpenMP threads.
//
// Included by the source that apviz writes for a kernel, which defines `parts` and `terms`; `of_product(p)`; `combined`,
// the sum of products of the parts' values; and `differentiated`, its slopes. Per entry of a part: 2d flops for the
// distance, and one function; 2p flops for the product.

#pragma once

#include "native.h"
#include "native_forms.h"

#include <utility>
#include <vector>

namespace {

// The numbers of a kernel, and the offsets of its parts' features, with the end of the last.
template <typename Kernel, typename T> struct Numbers {
  T shape[Kernel::parts], weight[Kernel::terms];
  int64_t start[Kernel::parts + 1];

  Numbers(const double* numbers, const int64_t* starts) {
    for (int p = 0; p < Kernel::parts; ++p) shape[p] = T(numbers[p]);
    for (int t = 0; t < Kernel::terms; ++t) weight[t] = T(numbers[Kernel::parts + t]);
    std::copy_n(starts, Kernel::parts + 1, start);
  }
};

// Spare tiles, one for each part after the first.
template <typename Kernel> constexpr int64_t spare_numbers() { return (Kernel::parts - 1) * kRows * kColumns; }

// Computes u of part p in us[p]: the first is the returned tile, the others are spare tiles.
template <typename Kernel, typename T, int... p>
inline void part_tiles(const Numbers<Kernel, T>& k, const T* x, int64_t d, const T* z, int64_t ldz, int64_t columns,
                       T* out, T* spare, T** us, std::integer_sequence<int, p...>) {
  ((us[p] = p == 0 ? out : spare + (p - 1) * kRows * kColumns), ...);
  (tile<Kernel::of_product(p), T>(x + k.start[p], d, k.start[p + 1] - k.start[p], z + k.start[p] * ldz, ldz, columns,
                                  us[p]),
   ...);
}

// Kernel values of kRows rows and `columns` (a multiple of the lanes) columns.
template <typename Kernel, typename T>
inline void kernel_tile(const Numbers<Kernel, T>& k, const T* x, int64_t d, const T* z, int64_t ldz, int64_t columns,
                        T* out, T* spare) {
  T* us[Kernel::parts];
  part_tiles<Kernel, T>(k, x, d, z, ldz, columns, out, spare, us, std::make_integer_sequence<int, Kernel::parts>());
  for (int i = 0; i < kRows; ++i) Kernel::combined(k, us, i * kColumns, columns);
}

constexpr int64_t kRowGroup = 128;  // rows that use a tile of columns before the next is loaded; a thread's unit of work

template <typename Kernel, typename T>
void columns_matmul(const Numbers<Kernel, T>& k, const T* x, int64_t n, int64_t d, const T* z, int64_t m, RightHandSides<T> rhs, T* out,
                    int64_t threads) {
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d), unused(rhs.width), spare(spare_numbers<Kernel>());
#pragma omp for schedule(dynamic)
    for (int64_t group = 0; group < n; group += kRowGroup)
      for (int64_t c = 0; c < m; c += kColumns) {
        const int64_t columns = std::min(kColumns, m - c);
        for (int64_t r = group; r < std::min(n, group + kRowGroup); r += kRows) {
          kernel_tile<Kernel, T>(k, rows_of(x, n, d, r, padded.data()), d, z + c, m, columns, values, spare.data());
          T* rows[kRows];
          for (int64_t i = 0; i < kRows; ++i) rows[i] = r + i < n ? out + (r + i) * rhs.width : unused.data();
          product<T>(values, rhs, c, columns, rows);
        }
      }
  }
}

// out += K u for the symmetric K of x with itself: each pair of rows is evaluated once and used twice.
//
// Groups of kColumns rows are paired as in a round-robin tournament: in each round every group is in one pair. So no two
// threads write to the same rows, and the order of every sum is the same for any number of threads.
template <typename Kernel, typename T>
void symmetric_matmul(const Numbers<Kernel, T>& k, const T* x, int64_t n, int64_t d, const T* z, int64_t m, RightHandSides<T> rhs, T* out,
                      int64_t threads) {
  const int64_t groups = (n + kColumns - 1) / kColumns;
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d), unused(rhs.width), spare(spare_numbers<Kernel>());
    std::vector<T> sums(kColumns * (rhs.narrow() ? rhs.width : rhs.stride));
    for (int64_t round = 0; round < groups; ++round) {
#pragma omp for schedule(dynamic)
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t other = (round - group + groups) % groups;
        if (group > other) continue;
        const int64_t c = other * kColumns, columns = std::min(kColumns, m - c);
        std::fill(sums.begin(), sums.end(), T(0));
        for (int64_t r = group * kColumns; r < std::min(n, (group + 1) * kColumns); r += kRows) {
          kernel_tile<Kernel, T>(k, rows_of(x, n, d, r, padded.data()), d, z + c, m, columns, values, spare.data());
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
void fill(const Numbers<Kernel, T>& k, const T* x, int64_t n, int64_t d, const T* z, int64_t m, int64_t used, T* out, int64_t threads) {
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns];
    std::vector<T> padded(kRows * d), spare(spare_numbers<Kernel>());
#pragma omp for schedule(dynamic, kRowGroup / kRows)
    for (int64_t r = 0; r < n; r += kRows)
      for (int64_t c = 0; c < m; c += kColumns) {
        const int64_t columns = std::min(kColumns, m - c);
        kernel_tile<Kernel, T>(k, rows_of(x, n, d, r, padded.data()), d, z + c, m, columns, values, spare.data());
        for (int64_t i = 0; i < std::min(kRows, n - r); ++i)
          std::copy_n(values + i * kColumns, std::min(columns, used - c), out + (r + i) * used + c);
      }
  }
}

// Derivatives of Σ (a[row] · b[column]) k(row, column): in the features of the rows, out: n × d, and per group of rows
// in the shapes and the weights, partial: groups × (parts + terms). bt: p × m, zero in padded columns, so that they add
// nothing. Without bt, a holds the numbers that multiply k itself: n × p, p columns without padding.
template <typename Kernel, typename T>
void gradients(const Numbers<Kernel, T>& k, const T* x, int64_t n, int64_t d, const T* z, int64_t m, const T* a,
               const T* bt, int64_t p, double* out, double* partial, int64_t threads) {
  using V = typename Vector<T>::type;
  constexpr int64_t lanes = kLanes<T>;
#pragma omp parallel num_threads(threads)
  {
    alignas(64) T values[kRows * kColumns], weights[kRows * kColumns];
    std::vector<T> padded(kRows * d), padded_a(bt ? kRows * p : 0), spare(spare_numbers<Kernel>());
    T* us[Kernel::parts];
#pragma omp for schedule(dynamic)
    for (int64_t group = 0; group < n; group += kRowGroup) {
      double* sums = partial + group / kRowGroup * (Kernel::parts + Kernel::terms);
      for (int64_t c = 0; c < m; c += kColumns) {
        const int64_t columns = std::min(kColumns, m - c);
        for (int64_t r = group; r < std::min(n, group + kRowGroup); r += kRows) {
          const T* rows = rows_of(x, n, d, r, padded.data());
          const T* left = bt ? rows_of(a, n, p, r, padded_a.data()) : a + r * p + c;
          const int64_t used = std::min(kRows, n - r);
          part_tiles<Kernel, T>(k, rows, d, z + c, m, columns, values, spare.data(), us,
                                std::make_integer_sequence<int, Kernel::parts>());
          for (int64_t i = 0; i < used; ++i) {
            T* w = weights + i * kColumns;
            if (!bt) std::fill(std::copy_n(left + i * p, std::min(columns, p - c), w), w + columns, T(0));
            for (int64_t j = 0; bt && j < columns; j += lanes) {
              V sum = {};
              for (int64_t q = 0; q < p; ++q) sum += load(bt + q * m + c + j) * left[i * p + q];
              store(w + j, sum);
            }
            Kernel::differentiated(k, us, weights, i * kColumns, columns, sums);
          }
          for (int part = 0; part < Kernel::parts; ++part)
            for (int64_t f = k.start[part]; f < k.start[part + 1]; ++f)
              for (int64_t i = 0; i < used; ++i) {
                V sum = {};
                const T* by_u = us[part] + i * kColumns;
                const bool product = Kernel::of_product(part);
                const T own = product ? T(0) : rows[i * d + f];
                for (int64_t j = 0; j < columns; j += lanes) sum += load(by_u + j) * (own - load(z + f * m + c + j));
                out[(r + i) * d + f] += (product ? -1.0 : 2.0) * total<T>(sum);
              }
        }
      }
    }
  }
}

}  // namespace

// x: n × d; z: d × m, m a multiple of the lanes; out: n × width; numbers: shapes of the parts, then weights of the terms.
#define APVIZ_EXPORT(K, T, suffix)                                                                                   \
  extern "C" void columns_matmul_##suffix(const double* numbers, const int64_t* starts, const T* x, int64_t n,      \
                                          int64_t d, const T* z, int64_t m, const T* u, int64_t stride,             \
                                          int64_t width, T* out, int64_t threads) {                                 \
    columns_matmul<K, T>({numbers, starts}, x, n, d, z, m, {u, stride, width}, out, threads);                       \
  }                                                                                                                 \
  extern "C" void symmetric_matmul_##suffix(const double* numbers, const int64_t* starts, const T* x, int64_t n,    \
                                            int64_t d, const T* z, int64_t m, const T* u, int64_t stride,           \
                                            int64_t width, T* out, int64_t threads) {                               \
    symmetric_matmul<K, T>({numbers, starts}, x, n, d, z, m, {u, stride, width}, out, threads);                     \
  }                                                                                                                 \
  extern "C" void fill_##suffix(const double* numbers, const int64_t* starts, const T* x, int64_t n, int64_t d,     \
                                const T* z, int64_t m, int64_t used, T* out, int64_t threads) {                     \
    fill<K, T>({numbers, starts}, x, n, d, z, m, used, out, threads);                                               \
  }                                                                                                                 \
  extern "C" void gradients_##suffix(const double* numbers, const int64_t* starts, const T* x, int64_t n,           \
                                     int64_t d, const T* z, int64_t m, const T* a, const T* bt, int64_t p,          \
                                     double* out, double* partial, int64_t threads) {                               \
    gradients<K, T>({numbers, starts}, x, n, d, z, m, a, bt, p, out, partial, threads);                             \
  }
