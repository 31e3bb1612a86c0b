#include "ds2_tf/native/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace ds2 {
namespace {

#if defined(__x86_64__)

bool HasAmxBf16() {
#if defined(__linux__)
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kTilesAndBf16 = (1u << 24) | (1u << 22);
  if ((edx & kTilesAndBf16) != kTilesAndBf16) return false;
  // Tile data enlarge a thread's saved state eightfold, so Linux wants to be asked first; without
  // its permission the first tile instruction kills the process.
  constexpr long kArchRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kArchRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool HasAvx512Bf16() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & (1u << 5));
}

InstructionSet Detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return InstructionSet::kGeneric;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return InstructionSet::kAvx2;
  }
  if (!HasAvx512Bf16()) return InstructionSet::kAvx512;
  return HasAmxBf16() ? InstructionSet::kAmxBf16 : InstructionSet::kAvx512Bf16;
}

#else

InstructionSet Detect() { return InstructionSet::kGeneric; }

#endif

}  // namespace

InstructionSet BestInstructionSet() {
  static const InstructionSet best = Detect();
  return best;
}

}  // namespace ds2
