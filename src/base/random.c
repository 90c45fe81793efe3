/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SipHash-2-4 of a counter. The message is always one 64-bit word, so that
 * there is one data block and the closing block that holds the length 8.
 */
#include "base/random.h"

#include "base/bytes.h"

#define LENGTH_BLOCK (UINT64_C(8) << 56)

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 = rotate_left(s->v2, 32);
}

static void sip_absorb(struct sip *s, uint64_t block)
{
    s->v3 ^= block;
    sip_round(s);
    sip_round(s);
    s->v0 ^= block;
}

uint64_t random_hash(const uint64_t key[2], uint64_t word)
{
    /* The initial state is the text "somepseudorandomlygeneratedbytes". */
    struct sip s = {
        .v0 = key[0] ^ UINT64_C(0x736f6d6570736575),
        .v1 = key[1] ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key[0] ^ UINT64_C(0x6c7967656e657261),
        .v3 = key[1] ^ UINT64_C(0x7465646279746573),
    };

    sip_absorb(&s, word);
    sip_absorb(&s, LENGTH_BLOCK);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

void random_init(struct random *r, const uint8_t *seed)
{
    *r = (struct random){.key = {load_le64(seed), load_le64(seed + 8)}};
}

uint64_t random_u64(struct random *r)
{
    return random_hash(r->key, r->counter++);
}

uint64_t random_below(struct random *r, uint64_t bound)
{
    /* The first 2^64 modulo bound values would make some results likelier: draw again. */
    uint64_t uneven = -bound % bound;
    uint64_t value = random_u64(r);

    while (value < uneven)
        value = random_u64(r);
    return value % bound;
}
