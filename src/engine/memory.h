/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and memory regions (IBA 10.6). A key is checked on every
 * packet: existence, domain, rights and bounds, with no arithmetic that wraps.
 */
#ifndef UROCE_ENGINE_MEMORY_H
#define UROCE_ENGINE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct engine;

/* Rights. The numbers are those of the verbs interface; verbs/ asserts it. */
enum access_set {
    ACCESS_LOCAL_WRITE = 1 << 0,
    ACCESS_REMOTE_WRITE = 1 << 1,
    ACCESS_REMOTE_READ = 1 << 2,
    ACCESS_REMOTE_ATOMIC = 1 << 3,
    ACCESS_MW_BIND = 1 << 4,
    ACCESS_ZERO_BASED = 1 << 5,
    ACCESS_FLUSH_GLOBAL = 1 << 8,     /* IBA 1.5, annex A19 */
    ACCESS_FLUSH_PERSISTENT = 1 << 9, /* of a QP; no memory here is persistent */
};

struct pd {
    struct engine *engine;
    uint32_t use_count; /* objects that refer to it */
};

struct mr {
    struct pd *pd;
    uint8_t *base; /* first byte in this process; borrowed till mr_free */
    uint64_t iova; /* address by which work requests and peers name the first byte */
    uint64_t len;
    uint32_t access; /* enum access_set */
    uint32_t key;    /* L_Key and R_Key: one number, the rights differ; 0: invalidated by a peer */
};

/* Returns 0 with *out owned by the caller; -ENOMEM at the limit. */
int pd_new(struct engine *e, struct pd **out);

/* Returns 0, or -EBUSY while something refers to it. */
int pd_free(struct pd *pd);

struct mr_attr {
    void *base;
    uint64_t len;
    uint64_t iova;
    uint32_t access;
};

/*
 * Registers memory. Keys are unpredictable and a key is not given out again
 * soon. Returns 0; -EINVAL for remote write or atomic without local write, for
 * unknown rights or a range that wraps; -ENOMEM at the limit. The caller
 * vouches for the memory itself.
 */
int mr_new(struct pd *pd, const struct mr_attr *attr, struct mr **out);
int mr_free(struct mr *mr);

/*
 * Changes pd (when not NULL), range and rights (when not NULL); the key changes too, and one
 * that was invalidated has a key again. Errors as mr_new.
 */
int mr_change(struct mr *mr, struct pd *pd, const struct mr_attr *attr);

/* Changes pd (when not NULL) and rights; range and key stay, so that who knows the key goes on.
 * -EINVAL as mr_new. */
int mr_set_access(struct mr *mr, struct pd *pd, uint32_t access);

/* What is asked of a key. */
struct mr_query {
    const struct pd *pd;
    uint64_t va;
    uint64_t len;
    uint32_t key;
    uint32_t access; /* all of these (F34: a subset of the region's) */
};

enum mr_verdict {
    MR_OK,
    MR_NO_KEY,
    MR_WRONG_PD,
    MR_NO_ACCESS,
    MR_OUT_OF_BOUNDS,
};

/*
 * On MR_OK *out is the first byte in this process, for len bytes. len 0 is the
 * caller's case: no key is looked at for it (IBA 9.7.4.1.5, F21).
 */
enum mr_verdict mr_resolve(struct engine *e, const struct mr_query *q, uint8_t **out);

/* As mr_resolve, but no address is looked at: of a whole region only key and right count. */
enum mr_verdict mr_has_right(struct engine *e, const struct mr_query *q);

/*
 * SEND with invalidate (IBA 9.4.1.1.3): the key stops being valid, the region
 * object stays until mr_free. Refused, as mr_resolve would, for an unknown key,
 * another domain, or a region without any remote right.
 */
enum mr_verdict mr_invalidate(struct engine *e, const struct pd *pd, uint32_t key);

#endif
