/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages' bytes: word n of message id is a hash of both. */
#include "support/pattern.h"

#include <string.h>

#include "support/dice.h"

static uint64_t word_at(uint64_t id, uint64_t index)
{
    return dice_mix(dice_mix(id) + index * 0x9e3779b97f4a7c15ull);
}

void pattern_fill(uint64_t id, uint64_t offset, uint8_t *out, size_t len)
{
    while (len > 0) {
        uint64_t word = word_at(id, offset / 8);
        size_t skip = offset % 8;
        size_t take = 8 - skip < len ? 8 - skip : len;

        memcpy(out, (uint8_t *)&word + skip, take);
        out += take;
        offset += take;
        len -= take;
    }
}

size_t pattern_matches(uint64_t id, uint64_t offset, const uint8_t *bytes, size_t len)
{
    size_t done = 0;

    while (done < len) {
        uint64_t word = word_at(id, (offset + done) / 8);
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
