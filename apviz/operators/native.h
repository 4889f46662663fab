// Distances and products of a few rows and a tile of columns, in vectors, for the loops of native.cpp and
// native_loops.h.
//
// Distances are direct differences, so near pairs keep full relative accuracy in float32 even when the inputs
// span hundreds of lengthscales.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

constexpr int64_t kRows = 4;        // rows that share one load of a column's inputs
constexpr int64_t kColumns = 256;   // columns of a tile

// Vectors are as wide as the processor's registers: GCC keeps wider ones in memory, which took 1.3
// to 13 times as long with AVX2.
#ifndef APVIZ_VECTOR_BYTES
#if defined(__AVX512F__)
#define APVIZ_VECTOR_BYTES 64
#elif defined(__AVX__)
#define APVIZ_VECTOR_BYTES 32
#else
#define APVIZ_VECTOR_BYTES 16
#endif
#endif

// Vectors of columns that are summed at once, for each of kRows rows, limited by the number of registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kWide = 4;  // of 32 registers
#else
constexpr int kWide = 2;  // of 16
#endif

template <typename T> struct Vector;
template <> struct Vector<float> {
  typedef float type __attribute__((vector_size(APVIZ_VECTOR_BYTES)));
  typedef float in_memory __attribute__((vector_size(APVIZ_VECTOR_BYTES), aligned(4), may_alias));
};
template <> struct Vector<double> {
  typedef double type __attribute__((vector_size(APVIZ_VECTOR_BYTES)));
  typedef double in_memory __attribute__((vector_size(APVIZ_VECTOR_BYTES), aligned(8), may_alias));
};
template <typename T> constexpr int64_t kLanes = APVIZ_VECTOR_BYTES / sizeof(T);

// memcpy would be slower: GCC splits it into halves, and a later load of the whole vector must wait for both.
template <typename T> inline typename Vector<T>::type load(const T* from) {
  return *reinterpret_cast<const typename Vector<T>::in_memory*>(from);
}

template <typename T> inline void store(T* to, typename Vector<T>::type v) {
  *reinterpret_cast<typename Vector<T>::in_memory*>(to) = v;
}

// Squared distances of kRows rows (x: kRows × d, ldx apart) to wide·kLanes columns (z: d × ldz, one feature a row); or
// their products.
template <bool of_product, int wide, typename T>
inline void pairs(const T* x, int64_t ldx, int64_t d, const T* z, int64_t ldz, T* out) {
  using V = typename Vector<T>::type;
  V sum[kRows][wide] = {};
  for (int64_t k = 0; k < d; ++k) {
    V column[wide];
#pragma GCC unroll 4
    for (int w = 0; w < wide; ++w) column[w] = load(z + k * ldz + w * kLanes<T>);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const T xi = x[i * ldx + k];
#pragma GCC unroll 4
      for (int w = 0; w < wide; ++w) {
        if constexpr (of_product) {
          sum[i][w] += column[w] * xi;
        } else {
          const V gap = column[w] - xi;
          sum[i][w] += gap * gap;
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int w = 0; w < wide; ++w) store(out + i * kColumns + w * kLanes<T>, sum[i][w]);
}

// pairs() for `columns` (a multiple of the lanes) columns.
template <bool of_product, typename T>
inline void tile(const T* x, int64_t ldx, int64_t d, const T* z, int64_t ldz, int64_t columns, T* out) {
  constexpr int64_t lanes = kLanes<T>;
  int64_t c = 0;
  for (; c + kWide * lanes <= columns; c += kWide * lanes)
    pairs<of_product, kWide, T>(x, ldx, d, z + c, ldz, out + c);
  for (; c < columns; c += lanes) pairs<of_product, 1, T>(x, ldx, d, z + c, ldz, out + c);
}

template <typename T> inline double total(typename Vector<T>::type v) {
  double sum = 0;
  for (int64_t l = 0; l < kLanes<T>; ++l) sum += v[l];
  return sum;
}

// Number of right-hand sides up to which sums run along the columns. Along the right-hand sides, a single one would
// take as long as a whole vector of them.
template <typename T> constexpr int64_t kNarrow = kLanes<T> / 2;

// The right-hand sides of a product, padded with zeros to whole vectors, and stored along the summation index.
template <typename T> struct RightHandSides {
  const T* u;     // rows × stride, one right-hand side per column; if narrow, one per row
  int64_t stride;
  int64_t width;  // right-hand sides

  bool narrow() const { return width <= kNarrow<T>; }
  const T* from(int64_t row) const { return narrow() ? u + row : u + row * stride; }
};

// out[i][j] += Σ values[i] · u[j] for kRows rows: each lane has a separate sum.
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

// narrow_product() with the right-hand sides along the vectors.
// Each chunk of columns has a separate sum, because rounding grows with the root of the length of a sum.
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

// out[c] += Σ values[i][c] · u[row + i]: the transposed product with the same kernel values. out: one row of kColumns
// per right-hand side if narrow, otherwise kColumns rows of length stride.
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
        store(sums + c, sum);
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
      store(out + c * rhs.stride + j, sum);
    }
  }
}

// kRows rows of x starting at row r; rows beyond n repeat the last one, and their results are never stored.
template <typename T> inline const T* rows_of(const T* x, int64_t n, int64_t d, int64_t r, T* padded) {
  if (r + kRows <= n) return x + r * d;
  for (int64_t i = 0; i < kRows; ++i) std::copy_n(x + std::min(r + i, n - 1) * d, d, padded + i * d);
  return padded;
}

}  // namespace

// Up to `narrow` right-hand sides, u is passed as width × m; otherwise as m × stride, stride a multiple of the lanes.
extern "C" int64_t narrow_f32() { return kNarrow<float>; }
extern "C" int64_t narrow_f64() { return kNarrow<double>; }
extern "C" int64_t lanes_f32() { return kLanes<float>; }
extern "C" int64_t lanes_f64() { return kLanes<double>; }
