// SPDX-License-Identifier: MIT
// Device memory for tests, filled from and read back into a std::vector.
#pragma once

#include <device.h>
#include <vector>

// `count` values of the device. Waits for all work.
template <typename T>
std::vector<T> downloaded(const T *from, size_t count) {
    std::vector<T> values(count);
    device_download(values.data(), from, count * sizeof(T));
    return values;
}

template <typename T>
class device_vector {
  public:
    explicit device_vector(size_t size)
        : memory(static_cast<T *>(device_allocate(size * sizeof(T)))), size(size) {}
    explicit device_vector(const std::vector<T> &values) : device_vector(values.size()) {
        device_upload(memory, values.data(), size * sizeof(T));
    }
    ~device_vector() { device_free(memory); }
    device_vector(const device_vector &) = delete;
    device_vector &operator=(const device_vector &) = delete;

    T *data() const { return memory; }
    void fill(T value) const {
        const std::vector<T> values(size, value);
        device_upload(memory, values.data(), size * sizeof(T));
    }
    std::vector<T> read() const { return downloaded(memory, size); }

  private:
    T *memory;
    size_t size;
};
