// Which vector instructions the processor has.

#ifndef DS2_TF_NATIVE_INSTRUCTION_SET_H_
#define DS2_TF_NATIVE_INSTRUCTION_SET_H_

namespace ds2 {

// Each set includes those before it.
enum class InstructionSet {
  kGeneric = 0,
  kAvx2 = 1,        // with FMA
  kAvx512 = 2,      // F, BW, DQ, VL
  kAvx512Bf16 = 3,  // VDPBF16PS
  kAmxBf16 = 4,     // tiles; Linux grants them to a process that asks
};

// Returns the best set that processor and operating system have.
InstructionSet BestInstructionSet();

}  // namespace ds2

#endif  // DS2_TF_NATIVE_INSTRUCTION_SET_H_
