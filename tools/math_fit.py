#!/usr/bin/env python3
"""Fit the polynomials of the CPU math functions and print backends/llvm/math_coefficients.h.

    pip install mpmath; tools/math_fit.py > backends/llvm/math_coefficients.h

Every fit is a truncated Chebyshev series in 60 digits (mpmath.chebyfit), turned into powers, lowest
first. It is within a few percent of the best polynomial; the coefficient that decides the last bit
near zero is exact or in two parts, so no search over roundings was needed.
"""
import struct
from mpmath import mp, mpf, chebyfit, erf, exp, log, log1p, expm1, sin, cos, sinh, cosh, tanh, sqrt, pi

mp.dps = 60
LN2, HALF_PI = log(2), pi / 2


def f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def fit(f, low, high, degree):
    return [c.real for c in reversed(chebyfit(f, [low, high], degree + 1))]


def number(x, single):
    return f"{float(f32(x)):.9g}" if single else f"{float(x):.17g}"


def wrap(words, indent="    "):
    lines, line = [], indent
    for w in words:
        if len(line) + len(w) + 2 > 100:
            lines.append(line.rstrip())
            line = indent
        line += w + ", "
    return "\n".join(lines + [line.rstrip(", ")])


def array(name, comment, values, single):
    print(f"/* {comment} */")
    print(f"static const double {name}[{len(values)}] = {{\n{wrap([number(v, single) for v in values])}}};")


def parts(x, bits):
    """x as a sum: each part but the last has its own number of bits."""
    out = []
    for b in bits:
        e = mp.floor(log(abs(x), 2)) + 1
        part = mp.nint(x * mpf(2) ** (b - e)) * mpf(2) ** (e - b)
        out.append(part)
        x -= part
    return out


def table(name, comment, function, edges, degree):
    """function(x) / x near the middle of 16 intervals: hi + lo + c1 d + c2 d^2 + ..."""
    middle = [f32((a + b) / 2) for a, b in zip(edges, edges[1:])]
    rows = [fit(lambda d, m=m: function(m + d) / (m + d), a - m, b - m, degree)
            for m, a, b in zip(middle, edges, edges[1:])]
    high = [f32(r[0]) for r in rows]
    columns = [[r[k] for r in rows] for k in range(degree, 0, -1)]
    columns += [[r[0] - h for r, h in zip(rows, high)], high]
    print(f"/* {comment} */")
    print(f"static const double {name}_MIDDLE[16] = {{\n{wrap([number(m, True) for m in middle])}}};")
    body = ",\n".join("    {\n" + wrap([number(v, True) for v in c], " " * 8) + "}" for c in columns)
    print(f"static const double {name}[{len(columns)}][16] = {{\n{body}}};")


def near_zero(f, at_zero):
    return lambda t: f(t) if abs(t) > mpf(10) ** -25 else at_zero


ROOT = sqrt(mpf(2))
LOG_LOW, LOG_HIGH = 1 / ROOT - 1, ROOT - 1
HALF = mpf("0.505")
QUARTER = (pi / 4 * mpf("1.02")) ** 2
THIRD = (LN2 * HALF) ** 2

print("""/* math_coefficients.h: polynomials of the math functions, lowest power first.
 * Layer: llvm.  May include: nothing.
 *
 * Printed by tools/math_fit.py; change that instead. Arrays named _F32 hold numbers that are exact
 * in f32, _WIDE those of forms that compute an f32 function in f64, _F64 those of f64 functions. */
/* clang-format off */
#ifndef JITC_LLVM_MATH_COEFFICIENTS_H
#define JITC_LLVM_MATH_COEFFICIENTS_H
""")
array("EXP_F32", "(e^t - 1) / t", [mpf(1)] + fit(near_zero(lambda t: (expm1(t) - t) / t**2, mpf(1) / 2), -LN2 * HALF, LN2 * HALF, 5), True)
array("EXP2_F32", "(2^t - 1) / t", fit(near_zero(lambda t: expm1(t * LN2) / t, LN2), -HALF, HALF, 6), True)
L10 = log(mpf(10))
array("LN2_F32", "log(2) in parts of 10, 24 bits: a power of two times the first is exact", parts(LN2, [10, 24]), True)
array("LN2_EXP_F32", "log(2) in parts of 16, 24 bits", parts(LN2, [16, 24]), True)
array("LOG10_2_LOG_F32", "log10(2) in parts of 10, 24 bits", parts(LN2 / L10, [10, 24]), True)
array("LOG10_E_F32", "log10(e) in two parts", parts(1 / L10, [24, 24]), True)
array("LN2_F64", "log(2) in parts of 42, 53 bits", parts(LN2, [42, 53]), False)
array("LOG_F32", "(log(1 + t) - t + t^2 / 2) / t^3", fit(near_zero(lambda t: (log1p(t) - t + t * t / 2) / t**3, mpf(1) / 3), LOG_LOW, LOG_HIGH, 8), True)
array("SIN_F32", "(sin(r) / r - 1) / r^2 in t = r^2", fit(near_zero(lambda t: (sin(sqrt(t)) / sqrt(t) - 1) / t, -mpf(1) / 6), mpf(0), QUARTER, 3), True)
array("COS_F32", "(cos(r) - 1 + r^2 / 2) / r^4 in t = r^2", fit(near_zero(lambda t: (cos(sqrt(t)) - 1 + t / 2) / t**2, mpf(1) / 24), mpf(0), QUARTER, 3), True)
array("HALF_PI_F32", "pi / 2 in parts of 11, 11, 24 and 24 bits", parts(HALF_PI, [11, 11, 24, 24]), True)
table("ERF_F32", "erf(x) / x in 16 intervals of 1/4: powers 6 ... 1 of the distance to the middle, then the constant's low and high part",
      erf, [mpf(k) / 4 + (mpf(10) ** -30 if k == 0 else 0) for k in range(17)], 6)
array("EXPM1_WIDE", "(e^t - 1) / t", fit(near_zero(lambda t: expm1(t) / t, mpf(1)), -LN2 * HALF, LN2 * HALF, 7), False)
array("SINH_WIDE", "sinh(r) / r in t = r^2", fit(near_zero(lambda t: sinh(sqrt(t)) / sqrt(t), mpf(1)), mpf(0), THIRD, 3), False)
array("COSH_WIDE", "cosh(r) in t = r^2", fit(lambda t: cosh(sqrt(t)), mpf(0), THIRD, 4), False)
array("LOG1P_WIDE", "log(1 + t) / t", fit(near_zero(lambda t: log1p(t) / t, mpf(1)), LOG_LOW, LOG_HIGH, 10), False)
array("LOG2_POW", "log2(1 + t) / t, for pow, which multiplies the error by its exponent", fit(near_zero(lambda t: log1p(t) / t / LN2, 1 / LN2), LOG_LOW, LOG_HIGH, 13), False)
array("EXP2_POW", "2^t", fit(lambda t: exp(t * LN2), -HALF, HALF, 6), False)
array("EXP_F64", "(e^t - 1) / t", [mpf(1)] + fit(near_zero(lambda t: (expm1(t) - t) / t**2, mpf(1) / 2), -LN2 * HALF, LN2 * HALF, 10), False)
print("#endif")
