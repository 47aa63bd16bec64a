/* The recurrence of LSTM and GRU over a sequence, and its gradients. The products of
   the inputs and the weights have been computed beforehand, for all steps at once.

   A step consists of a product of the state and the weights, and one pass over the
   gates. Gates have the shape [steps][batch][gate][n], in PyTorch's order: i f g o for
   LSTM, r z n for GRU.

   Contents: shared functions; LSTM and its gradient; GRU and its gradient. */
#include "gemm.h"
#include "mathematics.h"

typedef struct {
    u32 steps, batch, n;
    bool reverse;
} Sequence;

/* The arrays of a step: inputs, then outputs. */
typedef struct {
    u32 n;
    /* gate terms: `a` comes from the inputs; `sum` plus `bias` comes from h */
    const f32 *a, *sum, *bias;
    const f32 *h, *c, *dy, *dc_more;
    f32 *y, *cells, *da, *dsum, *dh, *dc;
} Step;

INLINE vec load_up_to_lanes(const f32 *p, u32 n) {
    return n == LANES ? VLOAD(p) : vload_partial(p, n);
}
INLINE void store_up_to_lanes(f32 *p, vec v, u32 n) {
    if (n == LANES) STORE(p, v);
    else vstore_partial(p, v, n);
}
/* Runs the statement for each vector of a row: elements j to j + count - 1. */
#define EACH_VECTOR(n, ...)                                                              \
    for (u32 j = 0; j < n; j += LANES) {                                                 \
        u32 count = MIN(LANES, n - j);                                                   \
        __VA_ARGS__                                                                      \
    }
#define GET(p) load_up_to_lanes((p) + j, count)
#define PUT(p, v) store_up_to_lanes((p) + j, v, count)
#define ONE_MINUS(x) SUB(VEC(1), x)

/* Returns the index of the step that is computed in iteration i. */
static u32 step_number(const Sequence *s, u32 i) {
    return s->reverse ? s->steps - 1 - i : i;
}

/* Computes c = a weight, where a is [batch, k] and weight is [k, m]. */
static void multiply(const Sequence *s, const f32 *a, const f32 *weight, f32 *c, u32 k,
                    u32 m) {
    Gemm g = {.m = s->batch, .n = m, .k = k, .batches = 1, .a = a, .a_row = (i32)k,
              .a_column = 1, .b = weight, .b_row = (i32)m, .b_column = 1, .c = c,
              .c_row = (i32)m};
    gemm(&g);
}

static void run_rows(void (*body)(u32, u32, void *), Step *step, u32 batch) {
    parallel_for(body, step, batch, 4096 / step->n + 1);
}

/* --- LSTM ------------------------------------------------------------------------- */

static void lstm_rows(u32 begin, u32 end, void *ctx) {
    const Step *s = ctx;
    for (u32 row = begin, n = s->n; row < end; row++) {
        const f32 *a = s->a + row * 4 * n, *b = s->sum + row * 4 * n, *c = s->c + row * n;
        f32 *y = s->y + row * n, *cells = s->cells + row * n;
        EACH_VECTOR(n, {
            vec i = vec_sigmoid(ADD(GET(a), GET(b)));
            vec f = vec_sigmoid(ADD(GET(a + n), GET(b + n)));
            vec g = vec_tanh(ADD(GET(a + 2 * n), GET(b + 2 * n)));
            vec o = vec_sigmoid(ADD(GET(a + 3 * n), GET(b + 3 * n)));
            vec cell = ADD(MUL(f, GET(c)), MUL(i, g));
            PUT(cells, cell);
            PUT(y, MUL(o, vec_tanh(cell)));
        })
    }
}

/* `weight` is [n, 4 n]; `sum` is workspace for [batch, 4 n]. */
EXPORT("lstm_f32")
void lstm_f32(const f32 *gates, const f32 *h, const f32 *c, const f32 *weight, f32 *sum,
              f32 *y, f32 *cells, u32 steps, u32 batch, u32 n, u32 reverse) {
    Sequence s = {steps, batch, n, reverse};
    u32 size = batch * n;
    INSIDE(gates, (u64)steps * size * 4 * sizeof(f32));
    INSIDE(y, (u64)steps * size * sizeof(f32));
    INSIDE(cells, (u64)steps * size * sizeof(f32));
    for (u32 i = 0; i < steps; i++) {
        u32 t = step_number(&s, i);
        multiply(&s, h, weight, sum, n, 4 * n);
        Step step = {.n = n, .a = gates + t * 4 * size, .sum = sum, .c = c,
                     .y = y + t * size, .cells = cells + t * size};
        run_rows(lstm_rows, &step, batch);
        h = step.y, c = step.cells;
    }
}

/* On entry, dh and dc are the cotangents of the state after the step. They become those
   of the state before the step: dc in this function, dh in the product that follows. */
static void lstm_grad_rows(u32 begin, u32 end, void *ctx) {
    const Step *s = ctx;
    for (u32 row = begin, n = s->n; row < end; row++) {
        const f32 *a = s->a + row * 4 * n, *c = s->c + row * n, *dy = s->dy + row * n;
        const f32 *dc_added = s->dc_more + row * n;
        f32 *dh = s->dh + row * n, *dc = s->dc + row * n, *da = s->da + row * 4 * n;
        EACH_VECTOR(n, {
            vec i = vec_sigmoid(GET(a)), f = vec_sigmoid(GET(a + n)), old = GET(c);
            vec g = vec_tanh(GET(a + 2 * n)), o = vec_sigmoid(GET(a + 3 * n));
            vec t = vec_tanh(ADD(MUL(f, old), MUL(i, g))), d = ADD(GET(dy), GET(dh));
            vec e = MUL(MUL(d, o), ONE_MINUS(MUL(t, t)));
            e = ADD(ADD(GET(dc), GET(dc_added)), e);
            PUT(da, MUL(MUL(e, g), MUL(i, ONE_MINUS(i))));
            PUT(da + n, MUL(MUL(e, old), MUL(f, ONE_MINUS(f))));
            PUT(da + 2 * n, MUL(MUL(e, i), ONE_MINUS(MUL(g, g))));
            PUT(da + 3 * n, MUL(MUL(d, t), MUL(o, ONE_MINUS(o))));
            PUT(dc, MUL(e, f));
        })
    }
}

/* `a` contains the pre-activations of the gates, and `c` the cell state before each
   step; `weight` is [4 n, n]. */
EXPORT("lstm_grad_f32")
void lstm_grad_f32(const f32 *dy, const f32 *dcells, const f32 *a, const f32 *c,
                   const f32 *weight, f32 *da, f32 *dh, f32 *dc, u32 steps, u32 batch,
                   u32 n, u32 reverse) {
    Sequence s = {steps, batch, n, reverse};
    u32 size = batch * n;
    INSIDE(da, (u64)steps * size * 4 * sizeof(f32));
    memset(dh, 0, size * sizeof(f32));
    memset(dc, 0, size * sizeof(f32));
    for (u32 i = steps; i-- > 0;) {
        u32 t = step_number(&s, i);
        Step step = {.n = n, .a = a + t * 4 * size, .c = c + t * size, .dy = dy + t * size,
                     .dc_more = dcells + t * size, .da = da + t * 4 * size, .dh = dh,
                     .dc = dc};
        run_rows(lstm_grad_rows, &step, batch);
        multiply(&s, step.da, weight, dh, 4 * n, n);
    }
}

/* --- GRU -------------------------------------------------------------------------- */

static void gru_rows(u32 begin, u32 end, void *ctx) {
    const Step *s = ctx;
    for (u32 row = begin, n = s->n; row < end; row++) {
        const f32 *a = s->a + row * 3 * n, *b = s->sum + row * 3 * n, *h = s->h + row * n;
        const f32 *bias = s->bias;
        f32 *y = s->y + row * n;
        EACH_VECTOR(n, {
            vec r = ADD(GET(b), GET(bias)), z = ADD(GET(b + n), GET(bias + n));
            vec m = ADD(GET(b + 2 * n), GET(bias + 2 * n));
            r = vec_sigmoid(ADD(GET(a), r)), z = vec_sigmoid(ADD(GET(a + n), z));
            m = vec_tanh(ADD(GET(a + 2 * n), MUL(r, m)));
            PUT(y, ADD(MUL(ONE_MINUS(z), m), MUL(z, GET(h))));
        })
    }
}

/* `weight` is [n, 3 n]; `sum` is workspace for [batch, 3 n]. */
EXPORT("gru_f32")
void gru_f32(const f32 *gates, const f32 *h, const f32 *weight, const f32 *bias, f32 *sum,
             f32 *y, u32 steps, u32 batch, u32 n, u32 reverse) {
    Sequence s = {steps, batch, n, reverse};
    u32 size = batch * n;
    INSIDE(gates, (u64)steps * size * 3 * sizeof(f32));
    INSIDE(y, (u64)steps * size * sizeof(f32));
    for (u32 i = 0; i < steps; i++) {
        u32 t = step_number(&s, i);
        multiply(&s, h, weight, sum, n, 3 * n);
        Step step = {.n = n, .a = gates + t * 3 * size, .sum = sum, .bias = bias, .h = h,
                     .y = y + t * size};
        run_rows(gru_rows, &step, batch);
        h = step.y;
    }
}

/* The cotangent of the state after the step is dh + dc, where dc is the product at the
   end of the previous iteration. dh becomes a part of the cotangent of the state before
   the step. */
static void gru_grad_rows(u32 begin, u32 end, void *ctx) {
    const Step *s = ctx;
    for (u32 row = begin, n = s->n; row < end; row++) {
        const f32 *a = s->a + row * 3 * n, *b = s->sum + row * 3 * n, *h = s->h + row * n;
        const f32 *dy = s->dy + row * n, *dc_added = s->dc + row * n;
        f32 *dh = s->dh + row * n, *da = s->da + row * 3 * n, *db = s->dsum + row * 3 * n;
        EACH_VECTOR(n, {
            vec r = vec_sigmoid(ADD(GET(a), GET(b))), of_state = GET(b + 2 * n);
            vec z = vec_sigmoid(ADD(GET(a + n), GET(b + n)));
            vec m = vec_tanh(ADD(GET(a + 2 * n), MUL(r, of_state)));
            vec d = ADD(GET(dy), ADD(GET(dh), GET(dc_added)));
            vec dm = MUL(MUL(d, ONE_MINUS(z)), ONE_MINUS(MUL(m, m)));
            vec dz = MUL(MUL(d, SUB(GET(h), m)), MUL(z, ONE_MINUS(z)));
            vec dr = MUL(MUL(dm, of_state), MUL(r, ONE_MINUS(r)));
            PUT(da, dr), PUT(da + n, dz), PUT(da + 2 * n, dm);
            PUT(db, dr), PUT(db + n, dz), PUT(db + 2 * n, MUL(dm, r));
            PUT(dh, MUL(d, z));
        })
    }
}

/* `a` and `b` are the gate terms from the inputs and from the state, and `h` contains
   the state before each step; `weight` is [3 n, n], and `part` is workspace for
   [batch, n]. */
EXPORT("gru_grad_f32")
void gru_grad_f32(const f32 *dy, const f32 *a, const f32 *b, const f32 *h,
                  const f32 *weight, f32 *part, f32 *da, f32 *db, f32 *dh, u32 steps,
                  u32 batch, u32 n, u32 reverse) {
    Sequence s = {steps, batch, n, reverse};
    u32 size = batch * n;
    INSIDE(da, (u64)steps * size * 3 * sizeof(f32));
    INSIDE(db, (u64)steps * size * 3 * sizeof(f32));
    memset(dh, 0, size * sizeof(f32));
    memset(part, 0, size * sizeof(f32));
    for (u32 i = steps; i-- > 0;) {
        u32 t = step_number(&s, i);
        Step step = {.n = n, .a = a + t * 3 * size, .sum = b + t * 3 * size,
                     .h = h + t * size, .dy = dy + t * size, .dc = part,
                     .da = da + t * 3 * size, .dsum = db + t * 3 * size, .dh = dh};
        run_rows(gru_grad_rows, &step, batch);
        multiply(&s, step.dsum, weight, part, 3 * n, n);
    }
    for (u32 i = 0; i < size; i++) dh[i] += part[i];
}
