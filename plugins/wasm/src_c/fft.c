/* Fourier transforms of rows of complex numbers, of any size.

   The algorithm is Stockham's: a stage of radix p reads p elements that are a p-th of
   the row apart and writes its results next to each other, so that no reordering is
   needed. During a transform, real and imaginary parts are in separate arrays. Sizes
   with a prime factor above MAX_RADIX use Bluestein's algorithm: 2kt = k² + t² - (k-t)²
   turns the transform into a convolution, which is computed as a product of two
   transforms whose size is a power of two.

   `table` contains the roots of unity e^(-2πi t/n): the real parts, then the imaginary
   parts. */
#include "plugrad.h"

enum { MAX_RADIX = 31 };

typedef struct {
    const void *x, *table, *chirp, *spectrum;
    void *y, *workspace;
    const i32 *factors; /* the radices, and 0 */
    u32 n, size; /* elements of a row and of its transforms */
    bool inverse, few_rows; /* few_rows: a workspace per row, otherwise per thread */
} Transform;

typedef f32 f32x4 __attribute__((vector_size(16), aligned(4)));
typedef f64 f64x2 __attribute__((vector_size(16), aligned(8)));

/* The parameters that all butterflies of a stage share. */
#define STAGE(T)                                                                         \
    typedef struct {                                                                     \
        const T *restrict re, *restrict im, *restrict cos, *restrict sin;                \
        T *restrict to_re, *restrict to_im;                                              \
        u32 p, n, s, apart;                                                              \
    } Stage_##T;
STAGE(f32)
STAGE(f64)

/* Transforms the elements at `from` and writes them to `to`, multiplied by the twiddle
   factors of multiples of `turn`. Odd radices combine elements r and p - r, whose roots
   are conjugate. */
#define BUTTERFLY(NAME, T, V, HOW)                                                       \
    INLINE void NAME##_put(const Stage_##T *z, u32 to, u32 at, V re, V im) {             \
        T c = z->cos[at], s = z->sin[at];                                                \
        *(V *)(z->to_re + to) = at ? re * c - im * s : re;                               \
        *(V *)(z->to_im + to) = at ? re * s + im * c : im;                               \
    }                                                                                    \
    HOW void NAME(const Stage_##T *z, u32 p, u32 from, u32 to, u32 turn) {               \
        V re[MAX_RADIX], im[MAX_RADIX];                                                  \
        for (u32 r = 0; r < p; r++) {                                                    \
            re[r] = *(const V *)(z->re + from + r * z->apart);                           \
            im[r] = *(const V *)(z->im + from + r * z->apart);                           \
        }                                                                                \
        if (p == 2) {                                                                    \
            NAME##_put(z, to, 0, re[0] + re[1], im[0] + im[1]);                          \
            NAME##_put(z, to + z->s, turn, re[0] - re[1], im[0] - im[1]);                \
        } else if (p == 4) {                                                             \
            V a = re[0] + re[2], b = re[0] - re[2], c = re[1] + re[3], d = re[1] - re[3]; \
            V e = im[0] + im[2], f = im[0] - im[2], g = im[1] + im[3], h = im[1] - im[3]; \
            NAME##_put(z, to, 0, a + c, e + g);                                          \
            NAME##_put(z, to + z->s, turn, b + h, f - d);                                \
            NAME##_put(z, to + 2 * z->s, 2 * turn, a - c, e - g);                        \
            NAME##_put(z, to + 3 * z->s, 3 * turn, b - h, f + d);                        \
        } else {                                                                         \
            V sum_re = re[0], sum_im = im[0];                                            \
            for (u32 r = 1; 2 * r < p; r++) {                                            \
                V a = re[r], b = im[r];                                                  \
                re[r] = a + re[p - r], im[r] = b + im[p - r];                            \
                re[p - r] = a - re[p - r], im[p - r] = b - im[p - r];                    \
                sum_re += re[r], sum_im += im[r];                                        \
            }                                                                            \
            NAME##_put(z, to, 0, sum_re, sum_im);                                        \
            for (u32 j = 1; 2 * j < p; j++) {                                            \
                V a = re[0], b = im[0], c = {0}, d = {0};                                \
                for (u32 r = 1, e = j; 2 * r < p; r++) {                                 \
                    T cos = z->cos[e * (z->n / p)], sin = z->sin[e * (z->n / p)];        \
                    a += re[r] * cos, b += im[r] * cos;                                  \
                    c += im[p - r] * sin, d += re[p - r] * sin;                          \
                    e = e + j < p ? e + j : e + j - p;                                   \
                }                                                                        \
                NAME##_put(z, to + j * z->s, j * turn, a - c, b + d);                    \
                NAME##_put(z, to + (p - j) * z->s, (p - j) * turn, a + c, b - d);        \
            }                                                                            \
        }                                                                                \
    }

/* The first stage, if its radix is 4: LANES elements are contiguous in its inputs only.
   */
#define FIRST(T, V, LANES)                                                               \
    INLINE V roots_##T(const T *table, u32 q, u32 times) {                               \
        T t[LANES];                                                                      \
        for (u32 l = 0; l < LANES; l++) t[l] = table[(q + l) * times];                   \
        return *(const V *)t;                                                            \
    }                                                                                    \
    static u32 first_##T(const Stage_##T *z) {                                           \
        u32 q = 0, m = z->apart;                                                         \
        for (; q + LANES <= m; q += LANES) {                                             \
            V re[4], im[4], x[4], y[4];                                                  \
            for (u32 r = 0; r < 4; r++) {                                                \
                re[r] = *(const V *)(z->re + q + r * m);                                 \
                im[r] = *(const V *)(z->im + q + r * m);                                 \
            }                                                                            \
            V a = re[0] + re[2], b = re[0] - re[2], c = re[1] + re[3], d = re[1] - re[3]; \
            V e = im[0] + im[2], f = im[0] - im[2], g = im[1] + im[3], h = im[1] - im[3]; \
            x[0] = a + c, x[1] = b + h, x[2] = a - c, x[3] = b - h;                      \
            y[0] = e + g, y[1] = f - d, y[2] = e - g, y[3] = f + d;                      \
            for (u32 j = 1; j < 4; j++) {                                                \
                V cos = roots_##T(z->cos, q, j), sin = roots_##T(z->sin, q, j);          \
                V t = x[j] * sin + y[j] * cos;                                           \
                x[j] = x[j] * cos - y[j] * sin, y[j] = t;                                \
            }                                                                            \
            for (u32 l = 0; l < LANES; l++)                                              \
                for (u32 j = 0; j < 4; j++) {                                            \
                    z->to_re[4 * (q + l) + j] = x[j][l];                                 \
                    z->to_im[4 * (q + l) + j] = y[j][l];                                 \
                }                                                                        \
        }                                                                                \
        return q;                                                                        \
    }

#define FOURIER(T, V, LANES, FAST)                                                       \
    BUTTERFLY(one_##T, T, T, static __attribute__((noinline)))                           \
    BUTTERFLY(some_##T, T, V, INLINE)                                                    \
    FIRST(T, V, LANES)                                                                   \
    INLINE void stage_##T(const Stage_##T *z, u32 p) {                                   \
        u32 q = p == 4 && z->s == 1 ? first_##T(z) : 0;                                  \
        for (; q < z->n / (p * z->s); q++) {                                             \
            u32 from = q * z->s, to = from * p, k = 0;                                   \
            for (; k + LANES <= z->s; k += LANES) some_##T(z, p, from + k, to + k, from); \
            SMALL for (; k < z->s; k++) one_##T(z, z->p, from + k, to + k, from);        \
        }                                                                                \
    }                                                                                    \
                                                                                         \
    /* v: real and imaginary parts, and a workspace for each. Results: v[0], v[1]. */    \
    static void transform_##T(T *v[4], const Transform *f) {                             \
        u32 n = f->size, s = 1;                                                          \
        for (const i32 *p = f->factors; *p; s *= (u32)*p++) {                            \
            const T *cos = f->table;                                                     \
            Stage_##T z = {v[0], v[1], cos, cos + n, v[2], v[3], (u32)*p, n, s, n / (u32)*p}; \
            switch (*p) {                                                                \
            case 4: stage_##T(&z, 4); break;                                             \
            case FAST: stage_##T(&z, 5); break;                                          \
            default: stage_##T(&z, z.p);                                                 \
            }                                                                            \
            T *re = v[0], *im = v[1];                                                    \
            v[0] = v[2], v[1] = v[3], v[2] = re, v[3] = im;                              \
            poll_cancel();                                                               \
        }                                                                                \
    }                                                                                    \
    INLINE void times_##T(T *re, T *im, u32 i, const T *by) {                            \
        T a = re[i], b = im[i], c = by[2 * i], d = by[2 * i + 1];                        \
        re[i] = a * c - b * d, im[i] = a * d + b * c;                                    \
    }                                                                                    \
    static void rows_##T(u32 row, u32 end, void *ctx) {                                  \
        const Transform *f = ctx;                                                        \
        u32 n = f->n, size = f->size, back = f->inverse;                                 \
        for (; row < end; row++) {                                                       \
            T *workspace = (T *)f->workspace + (u64)(f->few_rows ? row : thread_id()) * 4 * size; \
            T *v[4] = {workspace, workspace + size, workspace + 2 * size, workspace + 3 * size}; \
            const T *x = (const T *)f->x + 2 * row * n;                                  \
            T *y = (T *)f->y + 2 * row * n;                                              \
            INSIDE(workspace, (u64)size * 4 * sizeof(T));                                \
            INSIDE(x, (u64)n * 2 * sizeof(T));                                           \
            INSIDE(y, (u64)n * 2 * sizeof(T));                                           \
            /* Inverse: swap real and imaginary parts, before and after. */              \
            for (u32 i = 0; i < n; i++) v[0][i] = x[2 * i + back], v[1][i] = x[2 * i + !back]; \
            if (f->chirp) {                                                              \
                SMALL for (u32 i = 0; i < n; i++) times_##T(v[0], v[1], i, f->chirp);    \
                memset(v[0] + n, 0, (size - n) * sizeof(T));                             \
                memset(v[1] + n, 0, (size - n) * sizeof(T));                             \
                transform_##T(v, f);                                                     \
                SMALL for (u32 i = 0; i < size; i++) times_##T(v[0], v[1], i, f->spectrum); \
                T *swapped[4] = {v[1], v[0], v[3], v[2]};                                \
                transform_##T(swapped, f);                                               \
                v[0] = swapped[1], v[1] = swapped[0];                                    \
                SMALL for (u32 i = 0; i < n; i++) times_##T(v[0], v[1], i, f->chirp);    \
            } else                                                                       \
                transform_##T(v, f);                                                     \
            T share = back ? 1 / (T)n : 1;                                               \
            for (u32 i = 0; i < n; i++) {                                                \
                y[2 * i + back] = v[0][i] * share;                                       \
                y[2 * i + !back] = v[1][i] * share;                                      \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    EXPORT("fft_" #T)                                                                    \
    void fft_##T(const T *x, T *y, T *workspace, u32 rows, u32 n, u32 size,              \
                 const i32 *factors, const T *table, const T *chirp, const T *spectrum,  \
                 u32 inverse, u32 few_rows) {                                            \
        Transform f = {x, table, chirp, spectrum, y, workspace, factors, n, size, inverse, few_rows}; \
        parallel_for(rows_##T, &f, rows, MAX(1, 4096 / size));                           \
    }
FOURIER(f32, f32x4, 4, 5)
FOURIER(f64, f64x2, 2, -1)
