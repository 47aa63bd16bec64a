/* Reductions of [outer, n, inner] to [outer, parts, inner]: each part reduces `chunk`
   of the n rows. Python repeats the call until there is one part.

   Contents: folds (sum, prod, max, min; a mean is a sum with a divisor); argmax and
   argmin.

   A fold accumulates into a line of LINE results, in vector loops; if rows are short, a
   line contains as many rows as fit. Float32 is summed in float32 over at most ROWS
   rows; these sums are added in float64. */
#include "loops.h"

#if SMALL_CODE
enum { LINE = 128, WIDTH = 32, ROWS = 32, GRAIN = 65536, FOUR_ROWS = 0,
      PREFETCH_BYTES = 0 };
#else /* long lines: with short ones, a row would end before its prefetch arrives */
enum { LINE = 1024, WIDTH = 32, ROWS = 32, GRAIN = 65536, FOUR_ROWS = 1,
      PREFETCH_BYTES = REGISTER == 16 ? 0 : 1536 };
#endif

/* Prefetches PREFETCH_BYTES ahead: the hardware prefetcher stops at page boundaries. On
   Zen 4, which has AVX-512, prefetching takes a tenth longer. */
INLINE void prefetch(const void *at, u32 bytes) {
    for (u32 i = 0; PREFETCH_BYTES && i < bytes; i += 64)
        __builtin_prefetch((const char *)at + PREFETCH_BYTES + i);
}

typedef struct {
    const void *x;
    void *y;
    u32 n, inner, chunk, parts, columns;
    f64 divisor;
} Fold;

typedef struct {
    u32 rows, wide, width, step, m, from, to;
} Part;

/* Finds the rows and columns of an item. An item is up to LINE columns of one part. */
static Part find_part(const Fold *f, u32 item) {
    u32 column = item % f->columns * LINE, part = item / f->columns, inner = f->inner;
    u32 first = part % f->parts * f->chunk, rows = MIN(f->chunk, f->n - first);
    u32 m = MIN(inner - column, LINE);
    u32 wide = f->columns > 1 ? 1 : MIN(LINE / inner, rows);
    u32 from = (part / f->parts * f->n + first) * inner + column;
    u32 step = f->columns > 1 ? inner : wide * inner;
    return (Part){rows, wide, wide * m, step, m, from, part * inner + column};
}

static void run_fold(void (*piece)(u32, u32, void *), Fold f, u32 outer, u32 size) {
    f.parts = CEIL_DIV(f.n, f.chunk), f.columns = CEIL_DIV(f.inner, LINE);
    INSIDE(f.x, (u64)outer * f.n * f.inner * size);
    u32 work = MIN(f.chunk, f.n) * MIN(f.inner, LINE);
    parallel_for(piece, &f, outer * f.parts * f.columns, MAX(1, GRAIN / work));
}

/* P is the type of the sums in a line, and A the type of the total. Short rows are
   folded four at a time; longer rows are folded into WIDTH results, which stay in
   registers. On native targets, the loop begins with four lines, because a single line
   left over at the end would go through memory. */
#define EACH(n) WIDE for (u32 j = 0; j < n; j++)
#define LINE_AT(NAME, i) __builtin_convertvector(at[i], NAME##_line)
#define FOLD(NAME, T, P, A, STEP)                                                        \
    static void NAME##_short(const Fold *f, u32 row, u32 end) {                          \
        u32 n = f->n, i;                                                                 \
        const T *x = (const T *)f->x + row * n;                                          \
        T *y = f->y;                                                                     \
        INSIDE(x, (u64)(end - row) * n * sizeof(T));                                     \
        INSIDE(y + row, (u64)(end - row) * sizeof(T));                                   \
        for (; row < end; row += 4, x += 4 * n) {                                        \
            u32 b = row + 1 < end ? n : 0, c = row + 2 < end ? 2 * n : 0;                \
            u32 d = row + 3 < end ? 3 * n : 0;                                           \
            A p = x[0], q = x[b], r = x[c], s = x[d];                                    \
            SMALL for (i = 1; i < n; i++) {                                              \
                p = STEP(p, x[i]), q = STEP(q, x[b + i]);                                \
                r = STEP(r, x[c + i]), s = STEP(s, x[d + i]);                            \
            }                                                                            \
            if (d) y[row + 3] = (T)END_##T(s);                                           \
            if (c) y[row + 2] = (T)END_##T(r);                                           \
            if (b) y[row + 1] = (T)END_##T(q);                                           \
            y[row] = (T)END_##T(p);                                                      \
        }                                                                                \
    }                                                                                    \
    typedef P NAME##_line __attribute__((ext_vector_type(WIDTH)));                       \
    typedef T NAME##_from __attribute__((ext_vector_type(WIDTH), aligned(sizeof(T))));   \
    static A NAME##_row(const T *x, u32 n) {                                             \
        A all = x[0];                                                                    \
        u32 done = 0;                                                                    \
        while (n - done >= WIDTH) {                                                      \
            const NAME##_from *at = (const NAME##_from *)(x + done);                     \
            u32 i = MIN((n - done) / WIDTH, ROWS);                                       \
            NAME##_line line = LINE_AT(NAME, 0);                                         \
            done += i-- * WIDTH, at++;                                                   \
            if (FOUR_ROWS && i >= 3) {                                                   \
                prefetch(at, 4 * sizeof *at);                                            \
                NAME##_line b = STEP(LINE_AT(NAME, 1), LINE_AT(NAME, 2));                \
                line = STEP(STEP(line, LINE_AT(NAME, 0)), b);                            \
                i -= 3, at += 3;                                                         \
            }                                                                            \
            for (; FOUR_ROWS && i >= 4; i -= 4, at += 4) {                               \
                prefetch(at, 4 * sizeof *at);                                            \
                NAME##_line a = STEP(LINE_AT(NAME, 0), LINE_AT(NAME, 1));                \
                NAME##_line b = STEP(LINE_AT(NAME, 2), LINE_AT(NAME, 3));                \
                line = STEP(line, STEP(a, b));                                           \
            }                                                                            \
            _Pragma("clang loop unroll(disable)") /* Cranelift has 16 registers */       \
            for (; i; i--, at++) line = STEP(line, LINE_AT(NAME, 0));                    \
            __auto_type a = STEP(line.lo, line.hi);                                      \
            __auto_type b = STEP(a.lo, a.hi);                                            \
            __auto_type c = STEP(b.lo, b.hi);                                            \
            __auto_type d = STEP(c.lo, c.hi);                                            \
            P last = STEP(d.lo, d.hi);                                                   \
            all = done <= WIDTH * ROWS ? last : STEP(all, last);                         \
        }                                                                                \
        SMALL for (u32 i = MAX(1, done); i < n; i++) all = STEP(all, x[i]);              \
        return all;                                                                      \
    }                                                                                    \
    static void NAME##_few(const Fold *f, const T *x, T *y, Part p) {                    \
        u32 at = 0, step = p.step, rows = p.rows;                                        \
        for (; at + WIDTH <= p.m; at += WIDTH) {                                         \
            P line[WIDTH];                                                               \
            const T *from = x + at;                                                      \
            EACH(WIDTH) line[j] = from[j];                                               \
            for (u32 i = 1; from += step, i < rows; i++)                                 \
                EACH(WIDTH) line[j] = STEP(line[j], from[j]);                            \
            EACH(WIDTH) y[at + j] = (T)END_##T(line[j]);                                 \
        }                                                                                \
        for (; at < p.m; at++) {                                                         \
            P all = x[at];                                                               \
            for (u32 i = 1; i < rows; i++) all = STEP(all, x[at + i * step]);            \
            y[at] = (T)END_##T(all);                                                     \
        }                                                                                \
    }                                                                                    \
    static void NAME##_piece(u32 item, u32 end, void *ctx) {                             \
        const Fold *f = ctx;                                                             \
        if (f->inner == 1 && f->n <= ROWS) {                                             \
            NAME##_short(f, item, end);                                                  \
            return;                                                                      \
        }                                                                                \
        if (FOUR_ROWS && f->inner == 1 && f->parts == 1) {                               \
            const T *x = (const T *)f->x + item * f->n;                                  \
            for (T *y = f->y; item < end; item++, x += f->n) {                           \
                A all = NAME##_row(x, f->n);                                             \
                y[item] = (T)END_##T(all);                                               \
            }                                                                            \
            return;                                                                      \
        }                                                                                \
        for (; item < end; item++) {                                                     \
            Part p = find_part(f, item);                                                 \
            const T *x = (const T *)f->x + p.from;                                       \
            T *y = (T *)f->y + p.to;                                                     \
            INSIDE(x, ((u64)(p.rows - 1) * f->inner + p.m) * sizeof(T));                 \
            INSIDE(y, p.m * sizeof(T));                                                  \
            if (f->inner == 1) {                                                         \
                A all = NAME##_row(x, p.rows);                                           \
                *y = (T)END_##T(all);                                                    \
                continue;                                                                \
            }                                                                            \
            if (FOUR_ROWS && p.wide == 1 && p.rows <= 8) {                                  \
                NAME##_few(f, x, y, p);                                                  \
                continue;                                                                \
            }                                                                            \
            A all[LINE];                                                                 \
            P line[LINE];                                                                \
            u32 n = p.width, step = p.step;                                              \
            EACH(n) all[j] = x[j];                                                       \
            x += step;                                                                   \
            for (u32 lines = p.rows / p.wide - 1, some; lines; lines -= some) {          \
                some = MIN(lines, ROWS);                                                 \
                EACH(n) line[j] = x[j];                                                  \
                x += step;                                                               \
                u32 i = some - 1;                                                        \
                for (; i >= 4; i -= 4, x += 4 * step)                                    \
                    EACH(n) {                                                            \
                        P a = STEP(line[j], x[j]);                                       \
                        a = STEP(a, x[j + step]);                                        \
                        a = STEP(a, x[j + 2 * step]);                                    \
                        line[j] = STEP(a, x[j + 3 * step]);                              \
                    }                                                                    \
                for (; i; i--, x += step) EACH(n) line[j] = STEP(line[j], x[j]);         \
                EACH(n) all[j] = STEP(all[j], line[j]);                                  \
            }                                                                            \
            u32 rest = p.rows % p.wide * p.m;                                            \
            SMALL for (u32 j = 0; j < rest; j++) all[j] = STEP(all[j], x[j]);            \
            for (u32 half; (half = p.wide / 2); p.wide -= half) {                        \
                const A *other = all + (p.wide - half) * p.m;                            \
                for (u32 j = 0; j < half * p.m; j++) all[j] = STEP(all[j], other[j]);    \
            }                                                                            \
            SMALL for (u32 j = 0; j < p.m; j++) y[j] = (T)END_##T(all[j]);               \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const T *x, T *y, u32 outer, u32 n, u32 inner, u32 chunk,    \
                            f64 divisor) {                                               \
        run_fold(NAME##_piece, (Fold){x, y, n, inner, chunk, 0, 0, divisor}, outer, sizeof(T)); \
    }

#if SMALL_CODE /* folds without lines: a fifth of the code size */
#define FOLD_SMALL(NAME, T, A, STEP)                                                     \
    static void NAME##_piece(u32 item, u32 end, void *ctx) {                             \
        const Fold *f = ctx;                                                             \
        for (; item < end; item++) {                                                     \
            Part p = find_part(f, item);                                                 \
            const T *x = (const T *)f->x + p.from;                                       \
            T *y = (T *)f->y + p.to;                                                     \
            INSIDE(x, ((u64)(p.rows - 1) * f->inner + p.m) * sizeof(T));                 \
            INSIDE(y, p.m * sizeof(T));                                                  \
            A all = x[0];                                                                \
            SMALL for (u32 j = 0; j < p.m; j++) y[j] = x[j];                             \
            if (f->inner == 1) {                                                         \
                SMALL for (u32 i = 1; i < p.rows; i++) all = STEP(all, x[i]);            \
                y[0] = (T)all;                                                           \
                continue;                                                                \
            }                                                                            \
            for (u32 i = 1; x += f->inner, i < p.rows; i++)                              \
                SMALL for (u32 j = 0; j < p.m; j++) y[j] = (T)STEP((A)y[j], x[j]);       \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const T *x, T *y, u32 outer, u32 n, u32 inner, u32 chunk,    \
                            f64 divisor) {                                               \
        run_fold(NAME##_piece, (Fold){x, y, n, inner, chunk, 0, 0, divisor}, outer, sizeof(T)); \
    }
#else
#define FOLD_SMALL(NAME, T, A, STEP) FOLD(NAME, T, A, A, STEP)
#endif

#define END_f32(a) (a) / f->divisor
#define END_f64(a) (a) / f->divisor
#define END_i32(a) (a)
#define END_i64(a) (a)
#define END_u8(a) (a)

#define PLUS(p, q) ((p) + (q))
#define TIMES(p, q) ((p) * (q))
/* NaN propagates. */
#define LARGER(p, q) ((((q) > (p)) | ((q) != (q))) ? (q) : (p))
#define SMALLER(p, q) ((((q) < (p)) | ((q) != (q))) ? (q) : (p))

FOLD(sum_f32, f32, f32, f64, PLUS)
FOLD(sum_f64, f64, f64, f64, PLUS)
FOLD(sum_i32, i32, u32, u32, PLUS)
FOLD_SMALL(sum_i64, i64, u64, PLUS)
FOLD(prod_f32, f32, f64, f64, TIMES)
FOLD_SMALL(prod_f64, f64, f64, TIMES)
FOLD_SMALL(prod_i32, i32, u32, TIMES)
FOLD_SMALL(prod_i64, i64, u64, TIMES)
FOLD(max_of_f32, f32, f32, f32, LARGER)
FOLD(min_of_f32, f32, f32, f32, SMALLER)
FOLD_SMALL(max_of_f64, f64, f64, LARGER)
FOLD_SMALL(min_of_f64, f64, f64, SMALLER)
FOLD(max_of_i32, i32, i32, i32, LARGER)
FOLD(min_of_i32, i32, i32, i32, SMALLER)
FOLD_SMALL(max_of_i64, i64, i64, LARGER)
FOLD_SMALL(min_of_i64, i64, i64, SMALLER)
FOLD(max_of_b8, u8, u8, u8, LARGER)
FOLD(min_of_b8, u8, u8, u8, SMALLER)

/* --- argmax and argmin ------------------------------------------------------------ */

/* Returns whether q is better than p, an earlier element; NaN is never better. */
#define MORE(q, p) (!((q) <= (p)) & ((q) == (q)))
#define LESS(q, p) (!((q) >= (p)) & ((q) == (q)))

#if SMALL_CODE
enum { BLOCK_ELEMENTS = 16, POLL_BLOCKS = 1024 };
#else
enum { BLOCK_ELEMENTS = 4096, POLL_BLOCKS = 1024 };
#endif

/* LOOK returns whether one of BLOCK_ELEMENTS elements is better than `best`, which is
   not NaN; AT_ONCE always returns true, so that all elements are compared. */
#if SMALL_CODE
#define LOOK(NAME, T, SPLAT, IS)                                                         \
    INLINE bool NAME(const T *x, T best) {                                               \
        v128_t all = SPLAT(best), found = IS(LOAD(x), all);                              \
        for (u32 j = 4; j < BLOCK_ELEMENTS; j += 4)                                      \
            found = wasm_v128_or(found, IS(LOAD(x + j), all));                           \
        return wasm_v128_any_true(found);                                                \
    }
LOOK(look_argmax_f32, f32, wasm_f32x4_splat, wasm_f32x4_gt)
LOOK(look_argmin_f32, f32, wasm_f32x4_splat, wasm_f32x4_lt)
LOOK(look_argmax_i32, i32, wasm_i32x4_splat, wasm_i32x4_gt)
LOOK(look_argmin_i32, i32, wasm_i32x4_splat, wasm_i32x4_lt)
#define AT_ONCE(x, best) true
#endif

#if SMALL_CODE
#define ARG_ROW(NAME, T, BEATS, LOOK)                                                   \
    static i32 NAME##_row(const T *x, u32 n) {                                           \
        T best = x[0];                                                                   \
        u32 at = 0;                                                                      \
        for (u32 i = 0; i < n;) {                                                        \
            u32 end = MIN(n, i + BLOCK_ELEMENTS);                                        \
            if (best != best || end < i + BLOCK_ELEMENTS || LOOK(x + i, best)) {         \
                SMALL for (; i < end; i++)                                               \
                    if (BEATS(x[i], best)) best = x[i], at = i;                          \
            }                                                                            \
            i = end;                                                                     \
            if (i % (POLL_BLOCKS * BLOCK_ELEMENTS) == 0) poll_cancel();                  \
        }                                                                                \
        return (i32)at;                                                                  \
    }
#else
/* Finds the best element, and then its index in the first block that contains it. */
#define ARG_ROW(NAME, T, BEATS, ORDER)                                                   \
    static T NAME##_best(const T *x, u32 n, T best) {                                    \
        T line[WIDTH];                                                                   \
        u32 i = 0;                                                                       \
        EACH(WIDTH) line[j] = best;                                                      \
        for (; i + 2 * WIDTH <= n; i += 2 * WIDTH)                                       \
            EACH(WIDTH) {                                                                \
                T a = x[i + j], b = x[i + WIDTH + j];                                    \
                a = a ORDER line[j] ? a : line[j];                                       \
                line[j] = b ORDER a ? b : a;                                             \
            }                                                                            \
        for (u32 half = WIDTH / 2; half; half /= 2)                                      \
            for (u32 j = 0; j < half; j++)                                               \
                line[j] = line[j + half] ORDER line[j] ? line[j + half] : line[j];       \
        best = line[0];                                                                  \
        for (; i < n; i++) best = x[i] ORDER best ? x[i] : best;                         \
        return best;                                                                     \
    }                                                                                    \
    static u32 NAME##_find(const T *x, u32 n, T best) {                                  \
        u32 i = 0;                                                                       \
        for (; i + WIDTH <= n; i += WIDTH) {                                             \
            u32 seen = 0;                                                                \
            EACH(WIDTH) seen |= x[i + j] == best;                                        \
            if (seen) break;                                                             \
        }                                                                                \
        while (x[i] != best) i++;                                                        \
        return i;                                                                        \
    }                                                                                    \
    static i32 NAME##_row(const T *x, u32 n) {                                           \
        u32 at = 0;                                                                      \
        if (n < 2 * WIDTH) {                                                             \
            for (u32 i = 1; i < n; i++)                                                  \
                if (BEATS(x[i], x[at])) at = i;                                          \
            return (i32)at;                                                              \
        }                                                                                \
        while (at < n && x[at] != x[at]) at++;                                           \
        if (at == n) return 0; /* all are NaN */                                         \
        T best = x[at];                                                                  \
        u32 from = at, m = 1;                                                            \
        for (u32 i = at, count; i < n; i += count) {                                     \
            count = MIN(n - i, BLOCK_ELEMENTS);                                          \
            T found = NAME##_best(x + i, count, best);                                   \
            if (found ORDER best) best = found, from = i, m = count;                     \
        }                                                                                \
        return (i32)(from + NAME##_find(x + from, m, best));                             \
    }
#endif

#define ARG(NAME, T, BEATS, LOOK, HOW)                                                   \
    ARG_ROW(NAME, T, BEATS, LOOK)                                                        \
    static void NAME##_piece(u32 item, u32 end, void *ctx) {                             \
        const Fold *f = ctx;                                                             \
        for (; item < end; item++) {                                                     \
            T best[LINE];                                                                \
            Part p = find_part(f, item);                                                 \
            const T *x = (const T *)f->x + p.from;                                       \
            i32 *y = (i32 *)f->y + p.to;                                                 \
            INSIDE(x, ((u64)(f->n - 1) * f->inner + p.m) * sizeof(T));                   \
            INSIDE(y, p.m * sizeof(i32));                                                \
            if (f->inner == 1) {                                                         \
                *y = NAME##_row(x, f->n);                                                \
                continue;                                                                \
            }                                                                            \
            SMALL for (u32 j = 0; j < p.m; j++) best[j] = x[j], y[j] = 0;                \
            for (u32 i = 1; i < f->n; i++) {                                             \
                x += f->inner;                                                           \
                HOW for (u32 j = 0; j < p.m; j++) {                                      \
                    bool better = BEATS(x[j], best[j]);                                  \
                    best[j] = better ? x[j] : best[j];                                   \
                    y[j] = better ? (i32)i : y[j];                                       \
                }                                                                        \
                if (i % POLL_BLOCKS == 0) poll_cancel();                                 \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const T *x, i32 *y, u32 outer, u32 n, u32 inner) {           \
        run_fold(NAME##_piece, (Fold){x, y, n, inner, n, 0, 0, 0}, outer, sizeof(T));    \
    }
#define ARGS(T, MAX, MIN, HOW)                                                           \
    ARG(argmax_##T, T, MORE, MAX, HOW)                                                   \
    ARG(argmin_##T, T, LESS, MIN, HOW)
#if SMALL_CODE
ARGS(f32, look_argmax_f32, look_argmin_f32, )
ARGS(i32, look_argmax_i32, look_argmin_i32, )
ARGS(f64, AT_ONCE, AT_ONCE, SMALL)
ARGS(i64, AT_ONCE, AT_ONCE, SMALL)
#else
ARGS(f32, >, <, )
ARGS(i32, >, <, )
ARGS(f64, >, <, )
ARGS(i64, >, <, )
#endif
