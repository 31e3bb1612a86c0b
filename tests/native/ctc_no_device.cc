#include "tests/native/ctc_device.h"

namespace ds2 {
namespace test {

bool HasDevice() { return false; }
void RunOnDevice(const CtcBatch&) {}
double LastDeviceMs() { return 0.0; }

}  // namespace test
}  // namespace ds2
