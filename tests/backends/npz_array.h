// SPDX-License-Identifier: Apache-2.0
// Reads the single fp32 array of an uncompressed .npz file of the tests. Not a general reader: it
// reads only a zip file's first member, stored, in NumPy's format 1.0.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace ridge {

inline std::vector<float> read_npz_array(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto u16 = [&](size_t at) {
    return static_cast<uint8_t>(bytes.at(at)) + 256u * static_cast<uint8_t>(bytes.at(at + 1));
  };
  constexpr size_t kZipHeader = 30;  // then the member's name and extra field
  if (bytes.compare(0, 4, "PK\x03\x04") != 0 || u16(8) != 0) {
    throw std::runtime_error(path.string() + " is not a zip file with a stored member");
  }
  const size_t npy = kZipHeader + u16(26) + u16(28);
  if (bytes.compare(npy, 8, std::string("\x93NUMPY\x01\x00", 8)) != 0) {
    throw std::runtime_error(path.string() + " holds no NumPy array of format 1.0");
  }
  const size_t data = npy + 10 + u16(npy + 8);
  const std::string header = bytes.substr(npy + 10, data - npy - 10);
  if (header.find("'<f4'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos) {
    throw std::runtime_error(path.string() + " holds no fp32 array in C order");
  }
  size_t count = 1;
  const size_t shape = header.find('(') + 1;
  for (size_t at = shape; header[at] != ')'; ++at) {
    if (at == shape || header[at - 1] == ' ') count *= std::stoul(header.substr(at));
  }
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.substr(data, count * sizeof(float)).data(),
              count * sizeof(float));
  return values;
}

}  // namespace ridge
