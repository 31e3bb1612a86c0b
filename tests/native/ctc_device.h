// The GPU as a form of CTC for ctc_test.cc: copies a batch there and the results back. Linked with
// ctc_device.cu where there is CUDA, else with ctc_no_device.cc.

#ifndef DS2_TF_TESTS_NATIVE_CTC_DEVICE_H_
#define DS2_TF_TESTS_NATIVE_CTC_DEVICE_H_

#include "ds2_tf/native/ctc.h"

namespace ds2 {
namespace test {

bool HasDevice();

// Computes a batch whose pointers are to host memory. Exits with CUDA's message if that fails.
void RunOnDevice(const CtcBatch& batch);

// Returns how long the device computed in the last RunOnDevice, in milliseconds.
double LastDeviceMs();

}  // namespace test
}  // namespace ds2

#endif  // DS2_TF_TESTS_NATIVE_CTC_DEVICE_H_
