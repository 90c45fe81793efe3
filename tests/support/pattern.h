/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of a message, from its number alone: any part of any message can be
 * made or checked without having kept it.
 */
#ifndef UROCE_TESTS_PATTERN_H
#define UROCE_TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Writes bytes offset .. offset + len - 1 of message id to out. */
void pattern_fill(uint64_t id, uint64_t offset, uint8_t *out, size_t len);

/* How many of the len bytes, from the first on, are those of message id from offset on. */
size_t pattern_matches(uint64_t id, uint64_t offset, const uint8_t *bytes, size_t len);

#endif
