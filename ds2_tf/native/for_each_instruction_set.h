// Compiles one file of kernels for each vector instruction set. No include guard: define
// DS2_KERNELS as the path of the file, then include this one.
//
// The file finds DS2_SET (a namespace's name), DS2_INSTRUCTION_SET (its number), DS2_TARGET (an
// attribute for every function that computes) and DS2_LANES (floats in a vector). Attributes take
// the place of compiler flags: one library runs everywhere and chooses at run time.

#if defined(__x86_64__)

#define DS2_SET avx512
#define DS2_INSTRUCTION_SET InstructionSet::kAvx512
#define DS2_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define DS2_LANES 16
#include DS2_KERNELS
#undef DS2_SET
#undef DS2_INSTRUCTION_SET
#undef DS2_TARGET
#undef DS2_LANES

#define DS2_SET avx2
#define DS2_INSTRUCTION_SET InstructionSet::kAvx2
#define DS2_TARGET __attribute__((target("avx2,fma")))
#define DS2_LANES 8
#include DS2_KERNELS
#undef DS2_SET
#undef DS2_INSTRUCTION_SET
#undef DS2_TARGET
#undef DS2_LANES

#endif

#define DS2_SET generic
#define DS2_INSTRUCTION_SET InstructionSet::kGeneric
#define DS2_TARGET
#define DS2_LANES 4
#include DS2_KERNELS
#undef DS2_SET
#undef DS2_INSTRUCTION_SET
#undef DS2_TARGET
#undef DS2_LANES

#undef DS2_KERNELS
