// Functions that are more accurate, or more careful, than those built into WGSL.
//
// A WGSL compiler may assume that there are no NaN and no infinities, and may reorder or
// contract arithmetic; built-in functions may be off by many ulp. So NaN is found by its
// bits, and `opq_` hides a value from the optimizer: `p.zero` is a parameter that is 0.
// `source.py` adds a function to each shader that calls it.

fn half_(x: f32) -> f32 { return f32(f16(x)); }

fn opq_(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ p.zero); }

fn nan_() -> f32 { return bitcast<f32>(0x7fc00000u ^ p.zero); }

fn inf_() -> f32 { return bitcast<f32>(0x7f800000u ^ p.zero); }

fn isnan_(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

fn isinf_(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }

fn isfin_(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }

fn neg_(x: f32) -> bool { return (bitcast<u32>(x) & 0x80000000u) != 0u; }

fn iszero_(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0u; }

fn fabs_(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu); }

fn fneg_(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u); }

fn sgn_(x: f32, s: f32) -> f32 { return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(s) & 0x80000000u)); }

fn fmax_(a: f32, b: f32) -> f32 { if (isnan_(a)) { return a; } if (isnan_(b)) { return b; } return select(b, a, a > b); }

fn fmin_(a: f32, b: f32) -> f32 { if (isnan_(a)) { return a; } if (isnan_(b)) { return b; } return select(b, a, a < b); }

fn lt_(a: f32, b: f32) -> bool { return a < b && !isnan_(a) && !isnan_(b); }

fn le_(a: f32, b: f32) -> bool { return a <= b && !isnan_(a) && !isnan_(b); }

fn eq_(a: f32, b: f32) -> bool { return a == b && !isnan_(a) && !isnan_(b); }

fn pow2_(k: i32) -> f32 { return bitcast<f32>(u32(k + 127) << 23u); }

fn em1r_(r: f32) -> f32 { return r + r * r * (0.5 + r * (0.16666667163 + r * (0.041666667908 + r * (0.0083333337680 + r * (0.0013888889225 + r * 0.00019841270114))))); }

fn exp_(x: f32) -> f32 {
  // without branches: a CPU would run both sides of each
  let t = clamp(x, -104.5, 89.5);
  let k = floor(t * 1.44269504089 + 0.5);
  let r = (t - k * 0.693359375) + k * 2.12194440e-4;
  let i = i32(k); let h = i >> 1u;
  let y = (1.0 + em1r_(r)) * pow2_(h) * pow2_(i - h);
  let z = select(select(y, inf_(), x > 88.7228390), 0.0, x < -103.98);
  return select(z, x, isnan_(x));
}

fn expm1_(x: f32) -> f32 {
  if (isnan_(x) || fabs_(x) < 1e-7) { return x; }
  if (x > 88.7228390) { return inf_(); }
  if (x < -18.0) { return -1.0; }
  let k = floor(x * 1.44269504089 + 0.5);
  let r = (x - k * 0.693359375) + k * 2.12194440e-4;
  let s = pow2_(i32(k) - 1);
  return 2.0 * (em1r_(r) * s + (s - 0.5));
}

fn logr_(f: f32, k: f32, c: f32) -> f32 {
  let s = f / (2.0 + f); let z = s * s; let w = z * z;
  let R = z * (0.66666662693 + w * 0.28498786688) + w * (0.40000972152 + w * 0.24279078841);
  let h = 0.5 * f * f;
  return s * (h + R) + (k * 9.0580006145e-6 + c) - h + f + k * 6.9313812256e-1;
}

fn log_(x: f32) -> f32 {
  var u = bitcast<u32>(x);
  if ((u & 0x7fffffffu) == 0u) { return fneg_(inf_()); }
  if ((u & 0x7fffffffu) > 0x7f800000u) { return x; }
  if ((u >> 31u) == 1u) { return nan_(); }
  if (u == 0x7f800000u) { return x; }
  var k = 0;
  if (u < 0x00800000u) { let z = countLeadingZeros(u) - 8u; u = (u << z) + 0u; u = (u & 0x007fffffu) | 0x00800000u; k = -i32(z); }
  u += 0x3f800000u - 0x3f3504f3u;
  k += i32(u >> 23u) - 127;
  u = (u & 0x007fffffu) + 0x3f3504f3u;
  return logr_(bitcast<f32>(u) - 1.0, f32(k), 0.0);
}

fn log1p_(x: f32) -> f32 {
  if (isnan_(x) || fabs_(x) < 3e-8) { return x; }
  if (x == -1.0) { return fneg_(inf_()); }
  if (x < -1.0) { return nan_(); }
  if (isinf_(x)) { return x; }
  if (x > -0.2928 && x < 0.4142) { return logr_(x, 0.0, 0.0); }
  let v = opq_(1.0 + x);
  var u = bitcast<u32>(v) + (0x3f800000u - 0x3f3504f3u);
  let k = i32(u >> 23u) - 127;
  var c = 0.0;
  if (k < 25) { if (k >= 2) { c = 1.0 - opq_(v - x); } else { c = x - opq_(v - 1.0); } c = c / v; }
  u = (u & 0x007fffffu) + 0x3f3504f3u;
  return logr_(bitcast<f32>(u) - 1.0, f32(k), c);
}

fn tanh_(x: f32) -> f32 {
  if (isnan_(x)) { return x; }
  let a = fabs_(x);
  if (a < 2e-4) { return x; }
  var y = 1.0;
  if (a < 9.2) {
    if (a > 0.5493) { y = 1.0 - 2.0 / (expm1_(2.0 * a) + 2.0); }
    else { let t = expm1_(2.0 * a); y = t / (t + 2.0); }
  }
  return sgn_(y, x);
}

fn sigmoid_(x: f32) -> f32 {
  if (isnan_(x)) { return x; }
  let e = exp_(-fabs_(x));
  return select(1.0, e, x < 0.0) / (1.0 + e);
}

fn softplus_(x: f32) -> f32 { if (isnan_(x)) { return x; } return max(x, 0.0) + log1p_(exp_(-fabs_(x))); }

fn mulhi_(a: u32, b: u32) -> u32 {
  let al = a & 0xffffu; let ah = a >> 16u; let bl = b & 0xffffu; let bh = b >> 16u;
  let t = ah * bl + ((al * bl) >> 16u);
  let w = al * bh + (t & 0xffffu);
  return ah * bh + (t >> 16u) + (w >> 16u);
}

fn pi2_(i: u32) -> u32 {
  switch i { case 0u: {return 0x28be60dbu;} case 1u: {return 0x9391054au;} case 2u: {return 0x7f09d5f4u;}
    case 3u: {return 0x7d4d3770u;} case 4u: {return 0x36d8a566u;} case 5u: {return 0x4f10e410u;} default: {return 0u;} }
}

fn trig_(x: f32) -> vec3<f32> {
  // x less a multiple of pi / 2, as a sum of two floats; and the multiple modulo 4
  let u = bitcast<u32>(x) & 0x7fffffffu;
  if (u < 0x3f490fdbu) { return vec3<f32>(x, 0.0, 0.0); }
  let e0 = (u >> 23u) - 126u;
  let m = ((u << 8u) | 0x80000000u);
  let i = e0 >> 5u; let e = e0 & 31u;
  var hi = 0u; if (i > 0u) { hi = pi2_(i - 1u); }
  var mid = pi2_(i); var lo = pi2_(i + 1u); let tmp = pi2_(i + 2u);
  if (e != 0u) { let q = 32u - e; hi = (hi << e) | (mid >> q); mid = (mid << e) | (lo >> q); lo = (lo << e) | (tmp >> q); }
  let p0 = mulhi_(m, lo);
  var pl = m * mid + p0;
  var ph = mulhi_(m, mid) + select(0u, 1u, pl < p0) + m * hi;
  var q = ph >> 30u;
  ph = ph & 0x3fffffffu;
  var s = 0u;
  if ((ph & 0x20000000u) != 0u) { q += 1u; s = 0x80000000u; pl = ~pl + 1u; ph = (0x40000000u - ph) - select(1u, 0u, pl == 0u); }
  var r = 0.0; var rest = 0.0;
  if ((ph | pl) != 0u) {
    var z = 0u;
    if (ph == 0u) { ph = pl; pl = 0u; z = 32u; }
    let c = countLeadingZeros(ph);
    if (c > 0u) { ph = (ph << c) | (pl >> (32u - c)); z += c; }
    let top = f32(ph & 0xffffff00u); let low = f32(ph & 0xffu);
    let both = prod2_(top, 1.57079637051); let scale = pow2_(-30 - i32(z));
    let tail = both.y + (low * 1.57079637051 - top * 4.37113900019e-8);
    let sum = sum2_(both.x, tail); r = sum.x * scale; rest = sum.y * scale;
  }
  s = s ^ (bitcast<u32>(x) & 0x80000000u);
  r = bitcast<f32>(bitcast<u32>(r) ^ s); rest = bitcast<f32>(bitcast<u32>(rest) ^ s);
  if (neg_(x)) { q = 0u - q; }
  return vec3<f32>(r, rest, f32(q & 3u));
}

fn sincos_(x: f32, shift: u32) -> f32 {
  if (!isfin_(x)) { return nan_(); }
  let t = trig_(x); let r = t.x; let z = r * r; let q = u32(t.z) + shift;
  var y = 0.0;
  if ((q & 1u) == 0u) { if (fabs_(r) < 1e-4) { y = r; } else { y = r + (r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 + z * -1.9515295891e-4)) + t.y * (1.0 - 0.5 * z)); } }
  else { y = 1.0 - 0.5 * z - r * t.y + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5)); }
  return select(y, fneg_(y), (q & 2u) != 0u);
}

fn tan_(x: f32) -> f32 {
  // a quotient, with the remainder of the division: drivers may be off by 2.5 ulp
  let s = sincos_(x, 0u); let c = sincos_(x, 1u); let q = opq_(s / c);
  if (!isfin_(q) || iszero_(q)) { return q; }
  let r = prod2_(q, c); return q + opq_(opq_(s - r.x) - r.y) / c;
}

fn atan2_(a: f32, b: f32) -> f32 {
  if (isnan_(a) || isnan_(b)) { return nan_(); }
  var y = fabs_(a); var x = fabs_(b);
  var r = 0.0;
  let swap = y > x;
  if (isinf_(y) && isinf_(x)) { r = 0.78539818525; }
  else {
    let mx = max(x, y); let mn = min(x, y);
    if (mx > 0.0 && !isinf_(mx)) {
      var sc = 1.0; if (mx > 1e30) { sc = 9.5367431640625e-7; } else if (mx < 1e-20) { sc = 1.8446744073709552e19; }
      let n = mn * sc; let d = mx * sc;
      var t = n / d; var base = 0.0; var small = 0.0;
      if (t > 0.4142135679721832) { t = (n - d) / (n + d); base = 0.78539818525; small = -2.1855694e-8; }
      let z = t * t;
      r = base + (small + ((((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1) * z * t + t));
    }
  }
  if (swap) { r = 1.57079637051 - (r + 4.37113883e-8); }
  if (neg_(b)) { r = 3.14159274101 - (r + 8.74227766e-8); }
  return sgn_(r, a);
}

fn sqrt_(x: f32) -> f32 { if (iszero_(x)) { return x; } if (neg_(x)) { return nan_(); } if (!isfin_(x)) { return x; } return sqrt(x); }

fn floor_(x: f32) -> f32 { if (!(fabs_(x) < 8388608.0)) { return x; } return sgn_(abs(floor(x)), x); }

fn fmod_(a: f32, b: f32) -> f32 {
  // |a| mod |b|, exactly, by the bits
  if (!isfin_(a) || isnan_(b) || iszero_(b)) { return nan_(); }
  var x = bitcast<u32>(a) & 0x7fffffffu; let y0 = bitcast<u32>(b) & 0x7fffffffu;
  if (x < y0) { return bitcast<f32>(x); }
  if (x == y0) { return 0.0; }
  var ex = i32(x >> 23u); var ey = i32(y0 >> 23u); var y = y0;
  if (ex == 0) { let z = countLeadingZeros(x) - 8u; ex = 1 - i32(z); x = x << z; } else { x = (x & 0x7fffffu) | 0x800000u; }
  if (ey == 0) { let z = countLeadingZeros(y) - 8u; ey = 1 - i32(z); y = y << z; } else { y = (y & 0x7fffffu) | 0x800000u; }
  while (ex > ey) { if (x >= y) { x -= y; } x = x << 1u; ex -= 1; }
  if (x >= y) { x -= y; }
  if (x == 0u) { return 0.0; }
  let z = countLeadingZeros(x) - 8u;
  x = x << z; ex -= i32(z);
  if (ex > 0) { return bitcast<f32>((x & 0x7fffffu) | (u32(ex) << 23u)); }
  return bitcast<f32>(x >> u32(1 - ex));
}

fn mod_(a: f32, b: f32) -> f32 {
  let r = fmod_(a, b);
  if (isnan_(r)) { return r; }
  if (iszero_(r)) { return sgn_(0.0, b); }
  if (neg_(a) == neg_(b)) { return sgn_(r, b); }
  if (isinf_(b)) { return b; }
  return sgn_(fabs_(b) - r, b);
}

fn fdiv_(a: f32, b: f32) -> f32 {
  if (isnan_(a) || isnan_(b)) { return nan_(); }
  if (!isfin_(a) || iszero_(b)) { if (isinf_(b) || (iszero_(a) && iszero_(b))) { return nan_(); } return bitcast<f32>(0x7f800000u | ((bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u)); }
  if (iszero_(a)) { return bitcast<f32>((bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u); }
  if (isinf_(b)) { return bitcast<f32>((bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u); }
  let r = fmod_(a, b);
  var q = (fabs_(a) - r) / fabs_(b);
  if (q < 8388608.0) { q = floor(q + 0.5); }
  let minus = neg_(a) != neg_(b);
  if (minus && !iszero_(r)) { q = q + 1.0; }
  return select(q, fneg_(q), minus);
}

fn ifdiv_(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; } if (b == -1) { return -a; }
  let q = a / b; return select(q, q - 1, (a % b != 0) && ((a < 0) != (b < 0)));
}

fn imod_(a: i32, b: i32) -> i32 {
  if (b == 0 || b == -1) { return 0; }
  let r = a % b; return select(r, r + b, r != 0 && ((r < 0) != (b < 0)));
}

fn ufdiv_(a: u32, b: u32) -> u32 { if (b == 0u) { return 0u; } return a / b; }

fn umod_(a: u32, b: u32) -> u32 { if (b == 0u) { return 0u; } return a % b; }

fn upow_(a: u32, n: u32) -> u32 { var r = 1u; var x = a; var k = n; while (k > 0u) { if ((k & 1u) == 1u) { r *= x; } x *= x; k = k >> 1u; } return r; }

fn ipow_(a: i32, n: i32) -> i32 {
  if (n < 0) { if (a == 1) { return 1; } if (a == -1) { return select(1, -1, (n & 1) == 1); } return 0; }
  return bitcast<i32>(upow_(bitcast<u32>(a), u32(n)));
}

fn hi_(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }

fn sum2_(a: f32, b: f32) -> vec2<f32> { let s = opq_(a + b); let t = opq_(s - a); return vec2<f32>(s, opq_(a - opq_(s - t)) + opq_(b - t)); }

fn prod2_(a: f32, b: f32) -> vec2<f32> {
  let p = opq_(a * b); let ah = hi_(a); let al = opq_(a - ah); let bh = hi_(b); let bl = opq_(b - bh);
  return vec2<f32>(p, opq_(opq_(opq_(opq_(ah * bh) - p) + opq_(ah * bl)) + opq_(al * bh)) + al * bl);
}

fn powabs_(x: f32, y: f32) -> f32 {
  // x > 0 and finite, y finite: e^(y log x), with the logarithm in two floats
  var u = bitcast<u32>(x); var k = 0;
  if (u < 0x00800000u) { let z = countLeadingZeros(u) - 8u; u = ((u << z) & 0x007fffffu) | 0x00800000u; k = -i32(z); }
  u += 0x3f800000u - 0x3f3504f3u;
  k += i32(u >> 23u) - 127;
  u = (u & 0x007fffffu) + 0x3f3504f3u;
  let m = bitcast<f32>(u); let f = m - 1.0;
  // s = f / (2 + f) in two floats
  let d = sum2_(2.0, f);
  let sh = opq_(f / d.x);
  let t = prod2_(sh, d.x);
  let sl = (opq_(f - t.x) - t.y - sh * d.y) / d.x;
  // log m = 2 s + s^3 (2/3 + 2/5 s^2 + ...): the cube in two floats
  let q = prod2_(sh, sh);
  let z = q.x;
  let tail = z * (0.4 + z * (0.2857142857 + z * (0.2222222222 + z * 0.1818181818)));
  let c2 = sum2_(0.66666668653, tail - 1.9868214e-8);
  let cube = prod2_(q.x, sh);
  let cubel = cube.y + q.y * sh;
  let w = prod2_(cube.x, c2.x);
  let wl = w.y + cube.x * c2.y + cubel * c2.x + 2.0 * sl * z;
  var a = sum2_(2.0 * sh, w.x);
  a.y += wl + 2.0 * sl;
  let kf = f32(k);
  var b = sum2_(kf * 0.693359375, a.x);
  let c = sum2_(b.x, kf * -2.12194440e-4);
  let l0 = sum2_(c.x, c.y + b.y + a.y);
  if (fabs_(y) > 1e12) { let up = neg_(l0.x) != neg_(y); if (iszero_(l0.x)) { return 1.0; } if (fabs_(l0.x) > 1e-9 ) { return select(inf_(), 0.0, up); } }
  let p = prod2_(l0.x, y);
  let pl = p.y + l0.y * y;
  if (p.x > 89.0) { return inf_(); }
  if (p.x < -104.0) { return 0.0; }
  let n = floor(p.x * 1.44269504089 + 0.5);
  let r = opq_(opq_(p.x - n * 0.693359375) + n * 2.12194440e-4) + pl;
  let i = i32(n); let h = i / 2;
  return (1.0 + em1r_(r)) * pow2_(h) * pow2_(i - h);
}

fn pow_(x: f32, y: f32) -> f32 {
  if (iszero_(y) || (x == 1.0 && !isnan_(x))) { return 1.0; }
  if (isnan_(x) || isnan_(y)) { return nan_(); }
  // rounded correctly, as by Square and Reciprocal
  if (y == 1.0) { return x; }
  if (y == 2.0) { return opq_(x * x); }
  if (y == -1.0) { return opq_(1.0 / x); }
  let ay = fabs_(y);
  let whole = ay >= 8388608.0 || floor(ay) == ay;
  let odd = whole && ay < 16777216.0 && (u32(ay) & 1u) == 1u;
  let s = select(0u, 0x80000000u, odd && neg_(x));
  if (isinf_(y)) {
    let ax = fabs_(x);
    if (ax == 1.0) { return 1.0; }
    return select(0.0, inf_(), (ax > 1.0) == !neg_(y));
  }
  if (iszero_(x)) { return bitcast<f32>(select(0u, 0x7f800000u, neg_(y)) | s); }
  if (isinf_(x)) { return bitcast<f32>(select(0x7f800000u, 0u, neg_(y)) | s); }
  if (neg_(x) && !whole) { return nan_(); }
  return bitcast<f32>(bitcast<u32>(powabs_(fabs_(x), y)) | s);
}

fn f2u_(x: f32) -> u32 {
  // truncated, modulo 2^32; NaN and infinities give 0
  let u = bitcast<u32>(x); let e = i32((u >> 23u) & 255u) - 150;
  if (e >= 32 || e <= -24) { return 0u; }
  let m = (u & 0x7fffffu) | 0x800000u;
  var r = 0u;
  if (e >= 0) { r = m << u32(e); } else { r = m >> u32(-e); }
  return select(r, 0u - r, (u >> 31u) == 1u);
}

fn u2f_(x: u32) -> f32 {
  // to nearest, ties to even, whatever the device does
  if (x < 16777216u) { return f32(x); }
  let s = 8u - countLeadingZeros(x);
  var m = x >> s; let rest = x & ((1u << s) - 1u); let half = 1u << (s - 1u);
  if (rest > half || (rest == half && (m & 1u) == 1u)) { m += 1u; }
  return f32(m) * pow2_(i32(s));
}

fn i2f_(x: i32) -> f32 { if (x < 0) { return -u2f_(0u - bitcast<u32>(x)); } return u2f_(u32(x)); }

fn round_(x: f32) -> f32 {
  if (!(fabs_(x) < 8388608.0)) { return x; }
  let a = fabs_(x); var r = floor(a); let d = a - r;
  if (d > 0.5 || (d == 0.5 && (u32(r) & 1u) == 1u)) { r += 1.0; }
  return sgn_(r, x);
}
