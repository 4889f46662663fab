// Products of a function of short range, a polynomial P(r) for r < 1 and 0 beyond, between two sets of points.
//
// The plane of all coordinates but the last is cut into square columns. Points are sorted by column, and within a column
// by the last coordinate, so that the neighbours of a point in a column are one contiguous range, whose ends move up
// as the targets of a column are passed through in order. Coordinates are divided by the cut-off.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

// neighbours that are evaluated together: the bytes of two AVX registers, so that chains of multiplications overlap
template <typename T>
constexpr int kLanes = 64 / sizeof(T);
// targets of a task of a thread
constexpr int64_t kTargets = 128;
// right-hand sides that share the evaluation of P
constexpr int kColumns = 8;

template <typename T>
struct Points {
  int64_t stride;         // of a coordinate or of a right-hand side; at least kLanes beyond the number of points
  const T* x;             // (d, stride)
  const int64_t* starts;  // of the columns, and the end of the last
};

struct Grid {
  int64_t dims[2];  // columns along the leading coordinates, 1 where there are none
  double side;      // of a column, divided by the cut-off
};

template <typename T>
struct Polynomial {
  int degree;
  const T* value;  // coefficients in powers of 2r − 1, from the constant up
  const T* slope;  // those of dP/dr, degree − 1; null if not needed
};

template <typename T, int L>
inline void evaluate(const T* c, int degree, const T* z, T* v) {
  for (int l = 0; l < L; ++l) v[l] = c[degree];
  for (int k = degree - 1; k >= 0; --k) {
    const T ck = c[k];
#pragma omp simd
    for (int l = 0; l < L; ++l) v[l] = v[l] * z[l] + ck;
  }
}

// the sum of a vector, halved again and again: one after another, additions would wait for each other
template <typename T, int L>
inline T total(T* v) {
  for (int half = L / 2; half > 0; half /= 2)
#pragma omp simd
    for (int l = 0; l < half; ++l) v[l] += v[l + half];
  return v[0];
}

// sources low to high of a column
struct Range {
  int64_t low, high;
};

// calls target(t, ranges) for every wanted target t of a task, with the ranges of sources that may be nearer than 1
template <typename T, int D, typename F>
void over_targets(const Grid& grid, const Points<T>& sources, const Points<T>& targets, const uint8_t* wanted,
                  int64_t column, int64_t begin, int64_t end, F&& target) {
  struct Column {
    int64_t low, high, stop;
    T half;
  };
  const int64_t a = column / grid.dims[1], b = column % grid.dims[1];
  const double side = grid.side;
  const int64_t m = int64_t(std::ceil(1.0 / side));
  const T* const last = sources.x + (D - 1) * sources.stride;
  const T* const of_target = targets.x + (D - 1) * targets.stride;
  std::vector<Column> columns;
  for (int64_t i = std::max<int64_t>(0, a - m); i <= std::min(grid.dims[0] - 1, a + m); ++i)
    for (int64_t j = std::max<int64_t>(0, b - m); j <= std::min(grid.dims[1] - 1, b + m); ++j) {
      const double da = side * double(std::max<int64_t>(0, std::abs(i - a) - 1));
      const double db = side * double(std::max<int64_t>(0, std::abs(j - b) - 1));
      const double left = 1.0 - da * da - db * db;
      const int64_t start = sources.starts[i * grid.dims[1] + j], stop = sources.starts[i * grid.dims[1] + j + 1];
      if (left <= 0 || start == stop) continue;
      const T half = T(std::sqrt(left) * (1.0 + 1e-6));
      // the first target starts by bisection, those after it move the ends
      const int64_t low = std::lower_bound(last + start, last + stop, of_target[begin] - half) - last;
      columns.push_back({low, low, stop, half});
    }
  std::vector<Range> ranges(columns.size());
  for (int64_t t = begin; t < end; ++t) {
    if (wanted && !wanted[t]) continue;
    const T z = of_target[t];
    size_t count = 0;
    for (Column& c : columns) {
      while (c.low < c.stop && last[c.low] < z - c.half) ++c.low;
      c.high = std::max(c.high, c.low);
      while (c.high < c.stop && last[c.high] <= z + c.half) ++c.high;
      ranges[count] = {c.low, c.high};
      count += c.low < c.high;
    }
    target(t, ranges.data(), count);
  }
}

// wanted: a flag for each target, null if all are wanted
template <typename T, int D, typename F>
void over_tasks(const Grid& grid, const Points<T>& targets, const uint8_t* wanted, int64_t threads, F&& task) {
  struct Task {
    int64_t column, begin, end;
  };
  std::vector<Task> tasks;
  for (int64_t c = 0; c < grid.dims[0] * grid.dims[1]; ++c)
    for (int64_t t = targets.starts[c]; t < targets.starts[c + 1]; t += kTargets) {
      const int64_t end = std::min(t + kTargets, targets.starts[c + 1]);
      const int64_t first = wanted ? std::find_if(wanted + t, wanted + end, [](uint8_t w) { return w; }) - wanted : t;
      if (first < end) tasks.push_back({c, first, end});
    }
  const int64_t count = int64_t(tasks.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t k = 0; k < count; ++k) task(tasks[k].column, tasks[k].begin, tasks[k].end);
}

// differences to kLanes sources from j on; returns r, which is 2 beyond the range
template <typename T, int D>
inline void distances(const Points<T>& sources, const T* y, int64_t j, int64_t end, T (*gap)[kLanes<T>], T* r) {
  constexpr int L = kLanes<T>;
  T u[L];
  for (int d = 0; d < D; ++d) {
    const T* const x = sources.x + d * sources.stride + j;
#pragma omp simd
    for (int l = 0; l < L; ++l) {
      gap[d][l] = y[d] - x[l];
      u[l] = d ? u[l] + gap[d][l] * gap[d][l] : gap[d][l] * gap[d][l];
    }
  }
  const int left = int(std::min<int64_t>(L, end - j));
#pragma omp simd
  for (int l = 0; l < L; ++l) r[l] = l < left ? std::sqrt(u[l]) : T(2);
}

// out[q][t] += Σ_j P(|y_t − x_j|) u[q][j] for up to Q right-hand sides
template <typename T, int D, int Q>
void products(const Grid& grid, const Points<T>& sources, const Points<T>& targets, Polynomial<T> p, const T* u,
              int columns, const uint8_t* wanted, T* out, int64_t threads) {
  const int sides = Q == 1 ? 1 : columns;
  constexpr int L = kLanes<T>;
  over_tasks<T, D>(grid, targets, wanted, threads, [&](int64_t column, int64_t begin, int64_t end) {
    over_targets<T, D>(grid, sources, targets, wanted, column, begin, end,
                       [&](int64_t t, const Range* ranges, size_t count) {
      T y[D], sums[Q][L] = {};
      for (int d = 0; d < D; ++d) y[d] = targets.x[d * targets.stride + t];
      for (size_t k = 0; k < count; ++k) for (int64_t j = ranges[k].low, high = ranges[k].high; j < high; j += L) {
        T gap[D][L], r[L], z[L], v[L];
        distances<T, D>(sources, y, j, high, gap, r);
        for (int l = 0; l < L; ++l) z[l] = 2 * r[l] - 1;
        evaluate<T, L>(p.value, p.degree, z, v);
        for (int l = 0; l < L; ++l) v[l] = r[l] < 1 ? v[l] : T(0);
        for (int q = 0; q < sides; ++q) {
          const T* const uq = u + q * sources.stride + j;
          for (int l = 0; l < L; ++l) sums[q][l] += v[l] * uq[l];
        }
      }
      for (int q = 0; q < sides; ++q) {
        out[q * targets.stride + t] += total<T, L>(sums[q]);
      }
    });
  });
}

template <typename T, int D>
void matmul(const Grid& grid, const Points<T>& sources, const Points<T>& targets, Polynomial<T> p, const T* u,
            int64_t columns, const uint8_t* wanted, T* out, int64_t threads) {
  for (int64_t q = 0; q < columns; q += kColumns) {
    const int some = int(std::min<int64_t>(kColumns, columns - q));
    (some == 1 ? products<T, D, 1> : products<T, D, kColumns>)(grid, sources, targets, p, u + q * sources.stride, some,
                                                                wanted, out + q * targets.stride, threads);
  }
}

// with c = Σ_q a[q][t] b[q][j]: out[0][t] += Σ_j c P(r), out[1 + d][t] += Σ_j c P′(r) (y − x)_d / r
template <typename T, int D>
void gradients(const Grid& grid, const Points<T>& sources, const Points<T>& targets, Polynomial<T> p, const T* a,
               const T* b, int64_t columns, double* out, int64_t threads) {
  constexpr int L = kLanes<T>;
  over_tasks<T, D>(grid, targets, nullptr, threads, [&](int64_t column, int64_t begin, int64_t end) {
    over_targets<T, D>(grid, sources, targets, nullptr, column, begin, end,
                       [&](int64_t t, const Range* ranges, size_t count) {
      T y[D], sums[D + 1][L] = {};
      for (int d = 0; d < D; ++d) y[d] = targets.x[d * targets.stride + t];
      for (size_t k = 0; k < count; ++k) for (int64_t j = ranges[k].low, high = ranges[k].high; j < high; j += L) {
        T gap[D][L], r[L], z[L], v[L], s[L], c[L] = {};
        distances<T, D>(sources, y, j, high, gap, r);
        for (int l = 0; l < L; ++l) z[l] = 2 * r[l] - 1;
        evaluate<T, L>(p.value, p.degree, z, v);
        evaluate<T, L>(p.slope, p.degree - 1, z, s);
        for (int64_t q = 0; q < columns; ++q)
          for (int l = 0; l < L; ++l) c[l] += a[q * targets.stride + t] * b[q * sources.stride + j + l];
        for (int l = 0; l < L; ++l) c[l] = r[l] < 1 ? c[l] : T(0);
        for (int l = 0; l < L; ++l) {
          sums[0][l] += c[l] * v[l];
          s[l] = r[l] > 0 ? c[l] * s[l] / r[l] : T(0);
        }
        for (int d = 0; d < D; ++d)
          for (int l = 0; l < L; ++l) sums[d + 1][l] += s[l] * gap[d][l];
      }
      for (int k = 0; k <= D; ++k)
        out[k * targets.stride + t] += double(total<T, L>(sums[k]));
    });
  });
}

}  // namespace

#define APVIZ_ARGUMENTS(T)                                                                                     \
  const int64_t *dims, double side, int64_t source_stride, const T *x, const int64_t *starts,                \
      int64_t target_stride, const T *y, const int64_t *target_starts, int64_t degree, const T *value, const T *slope
#define APVIZ_LOCALS(T)                                    \
  const Grid grid{{dims[0], dims[1]}, side};              \
  const Points<T> sources{source_stride, x, starts};       \
  const Points<T> targets{target_stride, y, target_starts}; \
  const Polynomial<T> p{int(degree), value, slope};
#define APVIZ_EXPORT(T, NAME)                                                                                      \
  extern "C" void near_matmul_##NAME(int64_t d, APVIZ_ARGUMENTS(T), const T* u, int64_t columns,                   \
                                     const uint8_t* wanted, T* out, int64_t threads) {                             \
    APVIZ_LOCALS(T)                                                                                                \
    (d == 1 ? matmul<T, 1> : d == 2 ? matmul<T, 2> : matmul<T, 3>)(grid, sources, targets, p, u, columns, wanted,  \
                                                                   out, threads);                                  \
  }                                                                                                                \
  extern "C" void near_gradients_##NAME(int64_t d, APVIZ_ARGUMENTS(T), const T* a, const T* b, int64_t columns,    \
                                        double* out, int64_t threads) {                                            \
    APVIZ_LOCALS(T)                                                                                                \
    (d == 1 ? gradients<T, 1> : d == 2 ? gradients<T, 2> : gradients<T, 3>)(grid, sources, targets, p, a, b,       \
                                                                            columns, out, threads);                \
  }

APVIZ_EXPORT(float, f32)
APVIZ_EXPORT(double, f64)
