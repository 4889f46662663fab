// Functions of u, the squared distance or the product of features, named by `form` in apviz.kernels: value, slope, and
// derivative in the shape parameter.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

// exp(x) for x <= 0. It has no branches, so that any compiler vectorises the loop around it; std::exp would be called
// entry by entry. Taylor's polynomial on |f| <= log(2)/2, where the next term is about the rounding error.
inline double exponential(double x) {
  x = x < -708.0 ? -708.0 : x;
  const double round = 6755399441055744.0;  // 1.5 · 2^52, as in the float version below
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
  uint64_t exponent, bits;  // unsigned, so that shifting bits out is defined
  std::memcpy(&exponent, &shifted, 8);
  std::memcpy(&bits, &p, 8);
  bits += exponent << 52;
  std::memcpy(&p, &bits, 8);
  return p;
}

// Cephes' expf, also without branches; x <= 0.
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
  uint32_t exponent, bits;
  std::memcpy(&exponent, &shifted, 4);
  std::memcpy(&bits, &p, 4);
  bits += exponent << 23;
  std::memcpy(&p, &bits, 4);
  return p;
}

// log(1 + u), also without branches; u >= 0. With 1 + u = 2^exponent · (1 + f), |f| <= √2 − 1: the series of
// log((1 + t) / (1 − t)) for t = f / (2 + f), up to the term that is about the rounding error.
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
  const T f = exponent == 0 ? u : scaled - T(1);  // below √2 use u itself, because 1 + u would round it
  const T t = f / (T(2) + f), square = t * t;
  T p = T(1) / T(2 * terms - 1);
  for (int k = 2 * terms - 3; k > 0; k -= 2) p = p * square + T(1) / T(k);
  return T(exponent) * T(0.69314718055994531) + T(2) * t * p;
}

// (1 + u)^power; u >= 0, power <= 0.
template <typename T> inline T power_of(T u, T power) { return exponential(power * log_one_plus(u)); }

// Formulas may use u; r = √u; e = exp(−r); shape. The compiler drops those that a formula does not use.
#define APVIZ_FUNCTION(function, formula)                                \
  template <typename T> static inline T function(T u, T shape) {         \
    [[maybe_unused]] const T r = std::sqrt(u);                           \
    [[maybe_unused]] const T e = exponential(-r);                        \
    [[maybe_unused]] const T unused = shape;                             \
    return formula;                                                      \
  }
#define APVIZ_FORM(name, value_of_u, slope_of_u, slope_in_shape_of_u) \
  struct name {                                                       \
    APVIZ_FUNCTION(value, value_of_u)                                 \
    APVIZ_FUNCTION(slope, slope_of_u)                                 \
    APVIZ_FUNCTION(slope_in_shape, slope_in_shape_of_u)               \
  };

APVIZ_FORM(matern12, e, r > T(0) ? e / (T(-2) * r) : T(0), T(0))
APVIZ_FORM(matern32, (T(1) + r) * e, T(-0.5) * e, T(0))
APVIZ_FORM(matern52, (T(1) + r + u * T(1.0 / 3.0)) * e, (T(1) + r) * e * T(-1.0 / 6.0), T(0))
APVIZ_FORM(rbf, exponential(-u), -exponential(-u), T(0))
APVIZ_FORM(rational_quadratic, power_of(u, -shape), -shape / (T(1) + u) * power_of(u, -shape),
           -log_one_plus(u) * power_of(u, -shape))
APVIZ_FORM(spherical, r < T(1) ? T(1) - r * (T(1.5) - T(0.5) * u) : T(0),
           r > T(0) && r < T(1) ? T(0.75) * (u - T(1)) / r : T(0), T(0))
APVIZ_FORM(inner_product, u, T(1), T(0))
APVIZ_FORM(equal, u == T(0) ? T(1) : T(0), T(0), T(0))

template <int degree, typename T> inline T whole_power(T base) {
  T out = T(1);
#pragma GCC unroll 64
  for (int k = 0; k < degree; ++k) out *= base;
  return out;
}

template <int degree> struct power {
  template <typename T> static inline T value(T u, T) { return whole_power<degree>(u); }
  template <typename T> static inline T slope(T u, T) { return T(degree) * whole_power<degree - 1>(u); }
  template <typename T> static inline T slope_in_shape(T, T) { return T(0); }
};

// (1 − r)₊^(j + q) (1 + c₁r + c₂r² + c₃r³) (Rasmussen & Williams, equation 4.21).
template <int q, int j> struct piecewise {
  static constexpr double c1 = q == 0 ? 0.0 : j + q;
  static constexpr double c2 = q == 2 ? (j * j + 4 * j + 3) / 3.0 : q == 3 ? (6 * j * j + 36 * j + 45) / 15.0 : 0.0;
  static constexpr double c3 = q == 3 ? (j * j * j + 9 * j * j + 23 * j + 15) / 15.0 : 0.0;
  static constexpr double at_zero = q == 0 ? 0.0 : c2 - (j + q) * c1 + (j + q) * (j + q - 1) / 2.0;

  template <typename T> static inline T left(T r) { return r < T(1) ? T(1) - r : T(0); }
  template <typename T> static inline T value(T u, T) {
    const T r = std::sqrt(u);
    return whole_power<j + q>(left(r)) * (T(1) + r * (T(c1) + r * (T(c2) + r * T(c3))));
  }
  template <typename T> static inline T slope(T u, T) {
    const T r = std::sqrt(u), l = left(r);
    const T bracket = l * (T(c1) + r * (T(2 * c2) + r * T(3 * c3))) -
                      T(j + q) * (T(1) + r * (T(c1) + r * (T(c2) + r * T(c3))));
    const T inside = l > T(0) ? whole_power<j + q - 1>(l) : T(0);  // 0⁰ is 1 outside of the support
    return r > T(0) ? inside * bracket / (T(2) * r) : T(at_zero);
  }
  template <typename T> static inline T slope_in_shape(T, T) { return T(0); }
};

}  // namespace
