// The beginning of every program: types, and helpers for vectors.
// CPU: a work item computes a block, in vectors of WIDTH elements; there are no barriers.
// GPU: a work item computes one element or several; WIDTH is 1.
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#if CPU
#pragma OPENCL FP_CONTRACT ON
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#else
// A region consists of the functions of its kernels. GPU drivers contract across functions,
// so without OFF the results of a region would differ from those of its kernels.
#pragma OPENCL FP_CONTRACT OFF
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#endif

#if WIDTH > 1
#define VECTOR(N, T) typedef T N __attribute__((ext_vector_type(WIDTH), aligned(sizeof(T))))
#define AS(N, x) __builtin_astype(x, N)
#define TO(N, x) __builtin_convertvector(x, N)
#define TRUTH(m) (-TO(Y, m))  // masks are 0 or -1
#define FIRST(x) ((x)[0])
#define EVERY(m) all(m)
#define LANE(x, k) ((x)[k])
#else
#define VECTOR(N, T) typedef T N
#define AS(N, x) __builtin_astype(x, N)
#define TO(N, x) ((N)(x))
#define TRUTH(m) ((Y)((m) ? 1 : 0))
#define FIRST(x) (x)
#define EVERY(m) (m)
#define LANE(x, k) (x)
#endif
// Integers wrap. A compiler assumes that signed scalars do not overflow, so scalars are
// computed in U, an unsigned type of at least 32 bits. Vectors of signed integers wrap.
#if WIDTH > 1
#define MODULAR(x) (x)
#else
#define MODULAR(x) ((U)(x))
#endif
#define WHERE(m, a, b) ((m) ? (T)(a) : (T)(b))
#define GROUPED __attribute__((reqd_work_group_size(GROUP, 1, 1)))
