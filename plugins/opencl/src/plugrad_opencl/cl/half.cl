// How to read float32 numbers of the right matrix b. With HALF, b contains bfloat16
// numbers, which are the upper halves of float32 numbers.
#if HALF
typedef ushort B;
VECTOR(H, ushort);
VECTOR(W, uint);
#define READ(p) AS(T, TO(W, *(__global const H *)(p)) << 16)
#define READ1(p) as_float((uint)*(p) << 16)
#define READ4(p) as_float4(convert_uint4(*(__global const ushort4 *)(p)) << 16)
#else
typedef S B;
#define READ(p) (*(__global const T *)(p))
#define READ1(p) (*(p))
#define READ4(p) (*(__global const Four *)(p))
#endif
