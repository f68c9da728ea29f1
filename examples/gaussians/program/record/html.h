// SPDX-License-Identifier: MIT
// Parts of an HTML page that is also well-formed XML. Write errors stay in the stream.
#pragma once

#include "images/image.h"
#include <stdio.h>

C_LINKAGE_BEGIN

// Escapes text for content and quoted attributes. Bytes that are not UTF-8 or not allowed in XML become
// U+FFFD.
void html_text(FILE *page, const char *text);
// Writes the picture as a PNG in a data URI.
bool html_data_uri(FILE *page, const image *picture, fault *why);
void html_base64(FILE *page, const uint8_t *bytes, size_t count);
// Writes at most four digits, with k, M or G: "310k", "27.31", "0.04121". "none" if not finite.
void html_number(FILE *page, double value);

C_LINKAGE_END
