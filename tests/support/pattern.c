/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages' bytes: word n of message id is a hash of both. */
#include "support/pattern.h"

#include <string.h>

#include "support/dice.h"

static uint64_t word_of(uint64_t seed, uint64_t index)
{
    return dice_mix(seed + index * 0x9e3779b97f4a7c15ull);
}

/* Up to the next word of the message, or len bytes. */
static size_t fill_within_word(uint64_t seed, uint64_t offset, uint8_t *out, size_t len)
{
    uint64_t word = word_of(seed, offset / 8);
    size_t skip = offset % 8;
    size_t take = 8 - skip < len ? 8 - skip : len;

    memcpy(out, (uint8_t *)&word + skip, take);
    return take;
}

void pattern_fill(uint64_t id, uint64_t offset, uint8_t *out, size_t len)
{
    uint64_t seed = dice_mix(id);
    size_t done = offset % 8 ? fill_within_word(seed, offset, out, len) : 0;
    uint64_t index = (offset + done) / 8;
    size_t words = (len - done) / 8;

    for (size_t i = 0; i < words; i++) {
        uint64_t word = word_of(seed, index + i);

        memcpy(out + done + 8 * i, &word, 8);
    }
    done += 8 * words;
    if (done < len)
        fill_within_word(seed, offset + done, out + done, len - done);
}

size_t pattern_matches(uint64_t id, uint64_t offset, const uint8_t *bytes, size_t len)
{
    uint64_t seed = dice_mix(id);
    size_t done = 0;

    while (done < len) {
        uint64_t word = word_of(seed, (offset + done) / 8);
        size_t skip = (offset + done) % 8;
        size_t take = 8 - skip < len - done ? 8 - skip : len - done;

        if (memcmp(bytes + done, (uint8_t *)&word + skip, take) != 0) {
            while (bytes[done] == ((uint8_t *)&word)[(offset + done) % 8])
                done++;
            return done;
        }
        done += take;
    }
    return len;
}
