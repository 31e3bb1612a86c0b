// The convolution's vector code for one instruction set. No include guard.

#include "ds2_tf/native/vector_inl.h"

#include "ds2_tf/native/dft_conv_fft_inl.h"

#include "ds2_tf/native/dft_conv_blocks_inl.h"

#include "ds2_tf/native/dft_conv_products_inl.h"

namespace ds2 {
namespace DS2_SET {
namespace {

constexpr dft_conv::Functions kFunctions = {kLanes,     LoadTensor,    StoreTensor,    LoadKernel,
                                            StoreKernel, MultiplyPoint, AccumulatePoint};

}  // namespace
}  // namespace DS2_SET
}  // namespace ds2
