/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, memory regions and memory windows (IBA 10.6). A key is
 * checked on every packet: existence, domain, rights and bounds, with no
 * arithmetic that wraps.
 */
#ifndef UROCE_ENGINE_MEMORY_H
#define UROCE_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct engine;
struct qp;

/* Rights. The numbers are those of the verbs interface; verbs/ asserts it. */
enum access_set {
    ACCESS_LOCAL_WRITE = 1 << 0,
    ACCESS_REMOTE_WRITE = 1 << 1,
    ACCESS_REMOTE_READ = 1 << 2,
    ACCESS_REMOTE_ATOMIC = 1 << 3,
    ACCESS_MW_BIND = 1 << 4,
    ACCESS_ZERO_BASED = 1 << 5,
    ACCESS_ON_DEMAND = 1 << 6,    /* changes nothing here: who asks for it wants to be told it */
    ACCESS_FLUSH_GLOBAL = 1 << 8, /* IBA 1.5, annex A19 */
    ACCESS_FLUSH_PERSISTENT = 1 << 9, /* of a QP; no memory here is persistent */
};

struct pd {
    struct engine *engine;
    uint32_t use_count;   /* objects that refer to it */
    uint32_t extra_count; /* who holds it beside the first */
};

struct mw;

struct mr {
    struct pd *pd;
    uint8_t *base; /* first byte in this process; borrowed till mr_free */
    uint64_t iova; /* address by which work requests and peers name the first byte */
    uint64_t len;
    uint32_t access;       /* enum access_set */
    uint32_t key;          /* L_Key and R_Key: one number, the rights differ */
    uint32_t window_count; /* windows that are bound to it */
    bool is_null;          /* reads as zeros, swallows what is written */
    struct mw *window;     /* whose view it is; NULL: a region of its own */
    void *context;         /* the application's side of it */
};

enum mw_type {
    MW_TYPE_1 = 1,
    MW_TYPE_2 = 2, /* 2B */
};

struct mw {
    struct mr view;    /* what its key opens */
    struct mr *region; /* NULL: not bound */
    struct qp *qp;     /* type 2, bound: whose peer may use it; NULL when that QP is gone */
    struct list qp_link;
    enum mw_type type;
};

/* Returns 0 with *out owned by the caller; -ENOMEM at the limit. */
int pd_new(struct engine *e, struct pd **out);

/* One more who will call pd_free. */
void pd_hold(struct pd *pd);

/* Returns 0, or -EBUSY while something refers to it. The last who holds it frees it. */
int pd_free(struct pd *pd);

/* The same for who does not care what refers to it as long as others hold it. */
int pd_let_go(struct pd *pd);

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

/* A region without memory, of all addresses, for local use (MR_NOTHING). -ENOMEM. */
int mr_new_null(struct pd *pd, struct mr **out);

/* Returns 0, or -EBUSY while a window is bound to it. */
int mr_free(struct mr *mr);

/*
 * Changes pd (when not NULL), range and rights (when not NULL); the key changes too. Errors as
 * mr_new, and -EBUSY while a window is bound to it. A change that is refused changes nothing.
 */
int mr_change(struct mr *mr, struct pd *pd, const struct mr_attr *attr);

/* Changes pd (when not NULL) and rights; range and key stay, so that who knows the key goes on.
 * Errors as mr_change. */
int mr_set_access(struct mr *mr, struct pd *pd, uint32_t access);

/* The region of that key, or NULL. */
struct mr *mr_find(const struct engine *e, uint32_t key);

/* A window that is not bound. Its key's variant changes with each bind, the rest of it stays.
 * Returns 0; -EINVAL for an unknown type; -ENOMEM at the limit. */
int mw_new(struct pd *pd, enum mw_type type, struct mw **out);
void mw_free(struct mw *mw);

/* Names, not pointers: what they name may be gone when the bind is carried out. */
struct mw_bind {
    uint32_t window_key; /* any variant */
    uint32_t region_key;
    uint32_t key;  /* what the window's key is from then on: any variant */
    uint64_t addr; /* in the region */
    uint64_t len;  /* 0: type 1 is unbound */
    uint32_t access;
};

/*
 * Carries a bind out for a request on qp (IBA 10.6.7.2). 0, or -EINVAL when
 * domains differ, the region lacks MW_BIND, local write for rights that
 * change it, or the range; when it is zero-based; or when type 2 is bound already.
 */
int mw_bind(struct qp *qp, const struct mw_bind *bind);

/* The QP goes away: nobody may use the windows that were bound to it. */
void mw_leave_qp(struct qp *qp);

/* What is asked of a key. */
struct mr_query {
    const struct pd *pd;
    const struct qp *qp; /* whose peer asks; NULL: this process itself */
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
    MR_WINDOW,   /* the key of a window, where only regions are good */
    MR_WRONG_QP, /* the window is of another QP's peer */
    MR_NOTHING,  /* good, and no memory is behind it: reads as zeros, writes are dropped */
};

/*
 * On MR_OK *out is the first byte in this process, for len bytes. len 0 is the
 * caller's case: no key is looked at for it (IBA 9.7.4.1.5, F21).
 */
enum mr_verdict mr_resolve(struct engine *e, const struct mr_query *q, uint8_t **out);

/* As mr_resolve, but no address is looked at: of a whole region only key and right count. */
enum mr_verdict mr_has_right(struct engine *e, const struct mr_query *q);

/*
 * Ends the binding of the window of type 2 that the key names; the window
 * stays, to be bound again. Refused for an unknown key or one that is not
 * bound, another domain, a region, and a window of type 1 (IBA 10.6.5).
 */
enum mr_verdict mw_invalidate(struct engine *e, const struct pd *pd, uint32_t key);

/* The same verdict for the peer of qp, whose own windows alone it may end (SEND with invalidate,
 * IBA 9.4.1); pd is the one in which its message lands. */
enum mr_verdict mw_may_invalidate(const struct qp *qp, const struct pd *pd, uint32_t key);

#endif
