// SPDX-License-Identifier: MIT
#include "safetensors.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER = 1 << 20 };

static bool read_header(safetensors *of, fault *why) {
    uint64_t length;
    if (!input_file_read(&of->file, &length, sizeof length, "the length of the header", why)) return false;
    if (length > MOST_HEADER)
        return fail(why,
                    "%s: at byte 0: the header has %" PRIu64
                    " bytes; at most %d can be read: is this a safetensors file?",
                    of->file.path, length, MOST_HEADER);
    if (!input_file_expect(&of->file, length, 1, "bytes of the header", why)) return false;
    char *const text = malloc((size_t)length + 1);
    if (!text) return fail(why, "%s: no memory for a header of %" PRIu64 " bytes", of->file.path, length);
    json_error_t error = {.position = 0};
    const bool read = input_file_read(&of->file, text, (size_t)length, "the header", why);
    if (read) of->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (read && !of->header)
        return fail(why, "%s: at byte %d of the header: %s", of->file.path, error.position, error.text);
    of->begin = of->file.offset;
    return read && (json_is_object(of->header) ||
                    fail(why, "%s: at byte 8: the header is not an object", of->file.path));
}

// Where a tensor begins and ends, from `begin` on. False: its entry does not say, or not within the file.
static bool place_of(const safetensors *of, const json_t *tensor, uint64_t place[2]) {
    const json_t *offsets = json_object_get(tensor, "data_offsets");
    if (json_array_size(offsets) != 2) return false;
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_array_get(offsets, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
        place[i] = (uint64_t)json_integer_value(value);
    }
    return place[0] <= place[1] && place[1] <= of->file.size - of->begin;
}

static bool check_places(const safetensors *of, fault *why) {
    uint64_t end = 0;
    const char *name;
    json_t *tensor;
    json_object_foreach(of->header, name, tensor) {
        if (strcmp(name, "__metadata__") == 0) continue;
        uint64_t place[2];
        if (!place_of(of, tensor, place))
            return fail(why,
                        "%s: tensor '%.60s': data_offsets must be two places within the %" PRIu64
                        " bytes that follow byte %" PRIu64,
                        of->file.path, name, of->file.size - of->begin, of->begin);
        if (place[1] > end) end = place[1];
    }
    return of->begin + end == of->file.size ||
           fail(why, "%s: %" PRIu64 " bytes follow the last tensor, at byte %" PRIu64, of->file.path,
                of->file.size - of->begin - end, of->begin + end);
}

bool safetensors_open(safetensors *of, const char *path, fault *why) {
    *of = (safetensors){.header = NULL};
    if (input_file_open(&of->file, path, why) && read_header(of, why) && check_places(of, why)) return true;
    safetensors_close(of);
    return false;
}

void safetensors_close(safetensors *of) {
    json_decref(of->header);
    input_file_close(&of->file);
    *of = (safetensors){.header = NULL};
}

bool safetensors_has(const safetensors *of, const char *name) {
    return json_object_get(of->header, name) != NULL;
}

static bool has_shape(const json_t *tensor, const tensor_shape *shape) {
    const json_t *sizes = json_object_get(tensor, "shape");
    if (json_array_size(sizes) != (size_t)shape->dimensions) return false;
    for (int i = 0; i < shape->dimensions; i++) {
        const json_t *size = json_array_get(sizes, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) != shape->size[i]) return false;
    }
    return true;
}

static bool refuse_shape(const safetensors *of, const char *name, const tensor_shape *shape, fault *why) {
    char wanted[100];
    size_t end = 0;
    for (int i = 0; i < shape->dimensions; i++)
        end += (size_t)snprintf(wanted + end, sizeof wanted - end, "%s%" PRId64, i > 0 ? ", " : "",
                                shape->size[i]);
    return fail(why, "%s: tensor '%s': its shape must be [%s]", of->file.path, name, wanted);
}

bool safetensors_read(safetensors *of, const char *name, const tensor_shape *shape, float *out, fault *why) {
    const json_t *tensor = json_object_get(of->header, name);
    if (!tensor) return fail(why, "%s: tensor '%s' is missing", of->file.path, name);
    const char *type = json_string_value(json_object_get(tensor, "dtype"));
    if (!type || strcmp(type, "F32") != 0)
        return fail(why, "%s: tensor '%s' has type %.20s; it must be F32", of->file.path, name,
                    type ? type : "none");
    if (!has_shape(tensor, shape)) return refuse_shape(of, name, shape, why);
    uint64_t count = 1, place[2];
    for (int i = 0; i < shape->dimensions; i++) count *= (uint64_t)shape->size[i];
    if (!place_of(of, tensor, place) || place[1] - place[0] != count * sizeof(float))
        return fail(why, "%s: tensor '%s': its %" PRIu64 " values take %zu bytes, not as data_offsets say",
                    of->file.path, name, count, (size_t)count * sizeof(float));
    of->file.offset = of->begin + place[0];
    if (fseeko(of->file.stream, (off_t)of->file.offset, SEEK_SET) != 0)
        return fail(why, "%s: cannot seek to byte %" PRIu64, of->file.path, of->file.offset);
    if (!input_file_read(&of->file, out, (size_t)count * sizeof(float), name, why)) return false;
    for (uint64_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return fail(why, "%s: tensor '%s': value %" PRIu64 " is %f", of->file.path, name, i,
                        (double)out[i]);
    return true;
}
