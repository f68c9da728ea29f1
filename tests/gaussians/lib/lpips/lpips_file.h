// SPDX-License-Identifier: MIT
// The weights of lpips_case.h as a file of tensors.
#ifndef TESTS_LPIPS_FILE_H
#define TESTS_LPIPS_FILE_H

#include "files.h"
#include "lpips_case.h"

struct tensor {
    std::string name;
    std::vector<int> shape;
    std::vector<float> values;
};

inline std::string safetensors_bytes(const std::string &header, const std::string &data) {
    return Bytes().put(uint64_t(header.size())).put(header).put(data).text;
}

inline std::string safetensors_of(const std::vector<tensor> &tensors, const char *type = "F32") {
    std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", data;
    for (const tensor &t : tensors) {
        std::string shape;
        for (const int size : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
        const size_t begin = data.size();
        data.append(reinterpret_cast<const char *>(t.values.data()), t.values.size() * sizeof(float));
        header += ",\"" + t.name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + shape +
                  "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
    }
    return safetensors_bytes(header + "}  ", data);
}

inline std::vector<tensor> lpips_tensors(gs_lpips_network network) {
    const gs_lpips_architecture *const of = gs_lpips_architecture_of(network);
    const std::vector<float> weights = invented_weights(network);
    auto at = weights.begin();
    std::vector<tensor> out;
    const auto append = [&](const std::string &name, const std::vector<int> &shape) {
        ptrdiff_t count = 1;
        for (const int size : shape) count *= size;
        out.push_back({name, shape, {at, at + count}});
        at += count;
    };
    for (int i = 0; i < of->convolutions; i++) {
        const gs_lpips_convolution &c = of->convolution[i];
        const std::string name = "features." + std::to_string(c.index);
        append(name + ".weight", {c.outputs, c.inputs, c.size, c.size});
        append(name + ".bias", {c.outputs});
    }
    for (int i = 0; i < of->convolutions; i++)
        if (const int level = of->convolution[i].level)
            append("lin" + std::to_string(level - 1) + ".model.1.weight",
                   {1, of->convolution[i].outputs, 1, 1});
    return out;
}

#endif
