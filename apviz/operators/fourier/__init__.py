"""Products with K in time almost linear in n: the smooth part of k by Fourier series, the rest by near neighbours."""
