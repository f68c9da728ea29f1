// SPDX-License-Identifier: MIT
#include "record/html.h"
#include "files/fault.h"
#include <math.h>
#include <stdlib.h>

void html_text(FILE *page, const char *text) {
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        const int length = utf8_length(c);
        if (length == 0 || (*c < 0x20 && *c != '\t' && *c != '\n'))
            fputs("\xef\xbf\xbd", page);
        else if (*c == '&')
            fputs("&amp;", page);
        else if (*c == '<')
            fputs("&lt;", page);
        else if (*c == '>')
            fputs("&gt;", page);
        else if (*c == '"')
            fputs("&quot;", page);
        else
            fwrite(c, 1, (size_t)length, page);
        c += length ? length : 1;
    }
}

void html_base64(FILE *page, const uint8_t *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        const uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)(i + 1 < count ? bytes[i + 1] : 0) << 8 |
                               (uint32_t)(i + 2 < count ? bytes[i + 2] : 0);
        putc(digits[group >> 18], page);
        putc(digits[group >> 12 & 63], page);
        putc(i + 1 < count ? digits[group >> 6 & 63] : '=', page);
        putc(i + 2 < count ? digits[group & 63] : '=', page);
    }
}

bool html_data_uri(FILE *page, const image *picture, fault *why) {
    uint8_t *bytes;
    size_t count;
    if (!image_encode_png(picture, &bytes, &count, why)) return false;
    fputs("data:image/png;base64,", page);
    html_base64(page, bytes, count);
    free(bytes);
    return true;
}

void html_number(FILE *page, double value) {
    const double size = fabs(value);
    if (!isfinite(value))
        fputs("none", page);
    else if (size >= 999.5e6)
        fprintf(page, "%.3gG", value / 1e9);
    else if (size >= 999.5e3)
        fprintf(page, "%.3gM", value / 1e6);
    else if (size >= 9999.5)
        fprintf(page, "%.3gk", value / 1e3);
    else
        fprintf(page, "%.4g", value);
}
