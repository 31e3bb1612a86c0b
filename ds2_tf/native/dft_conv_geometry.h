// Chooses the tiles of a convolution and computes the tables of its transforms. Internal to the
// library.

#ifndef DS2_TF_NATIVE_DFT_CONV_GEOMETRY_H_
#define DS2_TF_NATIVE_DFT_CONV_GEOMETRY_H_

#include <vector>

#include "ds2_tf/native/dft_conv.h"
#include "ds2_tf/native/dft_conv_plan.h"

namespace ds2 {
namespace dft_conv {

const char* WhyUnsupported(const DftConvShape& shape);

// `tables` owns what the geometry points at.
Geometry MakeGeometry(const DftConvShape& shape, std::vector<float>* tables);

Planes MakePlanes(int64_t time, int64_t frequency, int64_t channels, int64_t stride_time,
                  int64_t stride_frequency, int64_t width);

}  // namespace dft_conv
}  // namespace ds2

#endif  // DS2_TF_NATIVE_DFT_CONV_GEOMETRY_H_
