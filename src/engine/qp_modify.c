/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of a queue pair and what may be changed on the way between them
 * (IBA 10.3.1 and the table of 11.2). Two lists hold the rules: what each
 * transition requires and allows, and what values each attribute may have. All
 * is judged before anything is applied. What a transition does to the work in
 * flight is done by the parts that own it.
 */
#include <errno.h>
#include <string.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/memory.h"
#include "engine/qp_private.h"

#define PORT_NUMBER 1u     /* a device has one port */
#define PKEY_INDEX_MAX 0u  /* and one P_Key */
#define TIMER_CODE_MAX 31u /* five bits: IBA 9.7.5.2, 11.2 */
#define RETRY_COUNT_MAX 7u /* three bits: IBA 11.2 */
#define QPN_MAX 0xffffffu
#define FLOW_LABEL_MAX 0xfffffu
#define PATH_MIGRATED 0u /* the only migration state without alternate paths */
#define QP_ACCESS_ALL                                                                              \
    (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC |        \
     ACCESS_MW_BIND | ACCESS_ZERO_BASED | ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT)

/* --- attributes --- */

/*
 * Every attribute that a modify may name. legal is an expression over
 * a (struct qp_attr) and c (struct engine_config).
 */
/* clang-format off */
/*    name            field            legal values                              in words */
#define ATTRIBUTES(A)                                                                              \
    A(ACCESS,         access,          (a->access & ~(uint32_t)QP_ACCESS_ALL) == 0, "access rights") \
    A(PKEY_INDEX,     pkey_index,      a->pkey_index <= PKEY_INDEX_MAX,          "P_Key index")    \
    A(PORT,           port,            a->port == PORT_NUMBER,                   "port number")    \
    A(QKEY,           qkey,            true,                                     "Q_Key")          \
    A(AV,             path,            path_legal(&a->path),                     "address vector") \
    A(PMTU,           pmtu,            pmtu_legal(a->pmtu),                      "path MTU")       \
    A(TIMEOUT,        timeout,         a->timeout <= TIMER_CODE_MAX,             "timeout")        \
    A(RETRY_COUNT,    retry_count,     a->retry_count <= RETRY_COUNT_MAX,        "retry count")    \
    A(RNR_RETRY,      rnr_retry,       a->rnr_retry <= RETRY_COUNT_MAX,          "RNR retry count") \
    A(RQ_PSN,         rq_psn,          psn_legal(a->rq_psn),                     "receive PSN")    \
    A(RD_ATOMIC,      rd_atomic,       a->rd_atomic <= c->rd_atomic_max,                           \
      "number of outstanding READs and atomics")                                                   \
    A(MIN_RNR_TIMER,  min_rnr_timer,   a->min_rnr_timer <= TIMER_CODE_MAX,       "RNR timer code") \
    A(SQ_PSN,         sq_psn,          psn_legal(a->sq_psn),                     "send PSN")       \
    A(DEST_RD_ATOMIC, dest_rd_atomic,  a->dest_rd_atomic <= c->rd_atomic_max,                      \
      "number of incoming READs and atomics")                                                      \
    A(DEST_QPN,       dest_qpn,        a->dest_qpn <= QPN_MAX,                   "destination QPN") \
    A(SQD_NOTIFY,     sqd_notify,      true,                                     "drain notification") \
    A(PATH_MIG_STATE, path_mig_state,  a->path_mig_state == PATH_MIGRATED,       "path migration state") \
    A(CUR_STATE,      cur_state,       true,                                     "current state")  \
    A(STATE,          state,           true,                                     "state")
/* clang-format on */

static bool pmtu_legal(uint32_t pmtu)
{
    return pmtu >= PMTU_MIN && pmtu <= PMTU_MAX && (pmtu & (pmtu - 1)) == 0;
}

static bool psn_legal(struct psn psn)
{
    return psn_equal(psn, psn_add(psn, 0)); /* as psn_make makes it */
}

/* No address: all zeros, or IPv4's all zeros. */
static bool gid_is_unspecified(const struct gid *g)
{
    static const struct gid none;
    static const uint8_t none_ipv4[4];

    return gid_equal(g, &none) ||
           (gid_is_ipv4(g) && memcmp(&g->bytes[12], none_ipv4, sizeof(none_ipv4)) == 0);
}

static bool path_legal(const struct path *p)
{
    return gid_is_ipv4(&p->src) == gid_is_ipv4(&p->dst) && !gid_is_unspecified(&p->src) &&
           !gid_is_unspecified(&p->dst) && !gid_is_multicast(&p->src) &&
           !gid_is_multicast(&p->dst) && p->flow_label <= FLOW_LABEL_MAX;
}

static bool attribute_legal(enum qp_attr_set name, const struct qp_attr *a,
                            const struct engine_config *c)
{
    switch (name) {
#define LEGAL(name, field, legal, text)                                                            \
    case QP_ATTR_##name:                                                                           \
        return legal;
        ATTRIBUTES(LEGAL)
#undef LEGAL
    case QP_ATTR_ALT_PATH: /* no automatic path migration */
    case QP_ATTR_CAP:      /* queues keep their size */
        return false;
    }
    return false;
}

static void apply_attribute(enum qp_attr_set name, struct qp_attr *dst, const struct qp_attr *src)
{
    switch (name) {
#define APPLY(name, field, legal, text)                                                            \
    case QP_ATTR_##name:                                                                           \
        dst->field = src->field;                                                                   \
        break;
        ATTRIBUTES(APPLY)
#undef APPLY
    case QP_ATTR_ALT_PATH:
    case QP_ATTR_CAP:
        break;
    }
}

enum complaint {
    COMPLAINT_MISSING,
    COMPLAINT_NOT_ALLOWED,
    COMPLAINT_OUT_OF_RANGE,
    COMPLAINT_COUNT,
};

/* A sentence for each attribute and complaint, made when this is compiled. */
static const char *complaint_text(enum qp_attr_set name, enum complaint complaint)
{
#define TEXTS(text)                                                                                \
    {                                                                                              \
        [COMPLAINT_MISSING] = text " is required by this transition and missing",                  \
        [COMPLAINT_NOT_ALLOWED] = text " must not be changed in this transition",                  \
        [COMPLAINT_OUT_OF_RANGE] = text " is out of range",                                        \
    }
    static const struct {
        enum qp_attr_set name;
        const char *texts[COMPLAINT_COUNT];
    } rows[] = {
#define ROW(name, field, legal, text) {QP_ATTR_##name, TEXTS(text)},
        ATTRIBUTES(ROW)
#undef ROW
#undef TEXTS
    };

    if (name == QP_ATTR_ALT_PATH)
        return "alternate paths are not supported";
    if (name == QP_ATTR_CAP)
        return "queues cannot be resized";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].name == name)
            return rows[i].texts[complaint];
    }
    return "attribute is unknown";
}

/* The first attribute of a set that is not empty. */
static enum qp_attr_set first_of(uint32_t set)
{
    return (enum qp_attr_set)(set & -set);
}

/* --- transitions --- */

struct attribute_sets {
    bool allowed;
    uint32_t required; /* enum qp_attr_set, without STATE */
    uint32_t optional;
};

struct transition {
    struct attribute_sets rc;
    struct attribute_sets uc;
    struct attribute_sets ud;
    struct attribute_sets ini; /* XRC initiator: RC without its receive side */
    struct attribute_sets tgt; /* XRC target: RC without its send side */
};

/* Names of the table, short enough that a transition is a line or two. */
enum {
    AV = QP_ATTR_AV,
    ACCESS = QP_ATTR_ACCESS,
    ALT = QP_ATTR_ALT_PATH,
    CUR = QP_ATTR_CUR_STATE,
    DEST = QP_ATTR_DEST_QPN,
    DEST_READS = QP_ATTR_DEST_RD_ATOMIC,
    MIG = QP_ATTR_PATH_MIG_STATE,
    NOTIFY = QP_ATTR_SQD_NOTIFY,
    PKEY = QP_ATTR_PKEY_INDEX,
    PMTU = QP_ATTR_PMTU,
    PORT = QP_ATTR_PORT,
    QKEY = QP_ATTR_QKEY,
    READS = QP_ATTR_RD_ATOMIC,
    RETRY = QP_ATTR_RETRY_COUNT | QP_ATTR_RNR_RETRY,
    RNR_TIMER = QP_ATTR_MIN_RNR_TIMER,
    RQ_PSN = QP_ATTR_RQ_PSN,
    SQ_PSN = QP_ATTR_SQ_PSN,
    TIMEOUT = QP_ATTR_TIMEOUT,
};

/* clang-format off */
#define SETS(required, optional) {true, (required), (optional)}
#define ANYTIME                                                                                    \
    {.rc = SETS(0, 0), .uc = SETS(0, 0), .ud = SETS(0, 0), .ini = SETS(0, 0), .tgt = SETS(0, 0)}

/* [from][to]; what is not here is not allowed. */
static const struct transition transitions[QP_STATE_COUNT][QP_STATE_COUNT] = {
    [QP_RESET] = {
        [QP_RESET] = ANYTIME,
        [QP_ERR] = ANYTIME,
        [QP_INIT] = {
            /*         required                                    optional */
            .rc = SETS(PKEY | PORT | ACCESS,                       0),
            .uc = SETS(PKEY | PORT | ACCESS,                       0),
            .ud = SETS(PKEY | PORT | QKEY,                         0),
            .ini = SETS(PKEY | PORT | ACCESS,                      0),
            .tgt = SETS(PKEY | PORT | ACCESS,                      0),
        },
    },
    [QP_INIT] = {
        [QP_RESET] = ANYTIME,
        [QP_ERR] = ANYTIME,
        [QP_INIT] = {
            .rc = SETS(0,                                          PKEY | PORT | ACCESS),
            .uc = SETS(0,                                          PKEY | PORT | ACCESS),
            .ud = SETS(0,                                          PKEY | PORT | QKEY),
            .ini = SETS(0,                                         PKEY | PORT | ACCESS),
            .tgt = SETS(0,                                         PKEY | PORT | ACCESS),
        },
        [QP_RTR] = {
            .rc = SETS(AV | PMTU | DEST | RQ_PSN | DEST_READS | RNR_TIMER, ALT | ACCESS | PKEY),
            .uc = SETS(AV | PMTU | DEST | RQ_PSN,                  ALT | ACCESS | PKEY),
            .ud = SETS(0,                                          PKEY | QKEY),
            .ini = SETS(AV | PMTU | DEST | RQ_PSN,                 ALT | ACCESS | PKEY),
            .tgt = SETS(AV | PMTU | DEST | RQ_PSN | DEST_READS | RNR_TIMER, ALT | ACCESS | PKEY),
        },
    },
    [QP_RTR] = {
        [QP_RESET] = ANYTIME,
        [QP_ERR] = ANYTIME,
        [QP_RTS] = {
            .rc = SETS(SQ_PSN | TIMEOUT | RETRY | READS,           CUR | ALT | ACCESS | RNR_TIMER | MIG),
            .uc = SETS(SQ_PSN,                                     CUR | ALT | ACCESS | MIG),
            .ud = SETS(SQ_PSN,                                     CUR | QKEY),
            .ini = SETS(SQ_PSN | TIMEOUT | RETRY | READS,          CUR | ALT | ACCESS | MIG),
            .tgt = SETS(SQ_PSN | TIMEOUT,                          CUR | ALT | ACCESS | RNR_TIMER | MIG),
        },
    },
    [QP_RTS] = {
        [QP_RESET] = ANYTIME,
        [QP_ERR] = ANYTIME,
        [QP_RTS] = {
            .rc = SETS(0,                                          CUR | ALT | ACCESS | RNR_TIMER | MIG),
            .uc = SETS(0,                                          CUR | ALT | ACCESS | MIG),
            .ud = SETS(0,                                          CUR | QKEY),
            .ini = SETS(0,                                         CUR | ALT | ACCESS | MIG),
            .tgt = SETS(0,                                         CUR | ALT | ACCESS | RNR_TIMER | MIG),
        },
        [QP_SQD] = {
            .rc = SETS(0,                                          NOTIFY),
            .uc = SETS(0,                                          NOTIFY),
            .ud = SETS(0,                                          NOTIFY),
            .ini = SETS(0,                                         NOTIFY),
            .tgt = SETS(0,                                         NOTIFY),
        },
    },
    [QP_SQD] = {
        [QP_RESET] = ANYTIME,
        [QP_ERR] = ANYTIME,
        [QP_RTS] = {
            .rc = SETS(0,                                          CUR | ALT | ACCESS | RNR_TIMER | MIG),
            .uc = SETS(0,                                          CUR | ALT | ACCESS | MIG),
            .ud = SETS(0,                                          CUR | QKEY),
            .ini = SETS(0,                                         CUR | ALT | ACCESS | MIG),
            .tgt = SETS(0,                                         CUR | ALT | ACCESS | RNR_TIMER | MIG),
        },
        [QP_SQD] = {
            .rc = SETS(0, PORT | AV | TIMEOUT | RETRY | READS | DEST_READS | ALT | ACCESS | PKEY |
                          RNR_TIMER | MIG),
            .uc = SETS(0,                                          AV | ALT | ACCESS | PKEY | MIG),
            .ud = SETS(0,                                          PKEY | QKEY),
            .ini = SETS(0, PORT | AV | TIMEOUT | RETRY | READS | ALT | ACCESS | PKEY | MIG),
            .tgt = SETS(0, PORT | AV | TIMEOUT | DEST_READS | ALT | ACCESS | PKEY | RNR_TIMER | MIG),
        },
    },
    [QP_SQE] = { /* RC and XRC have no such state: its errors lead to QP_ERR */
        [QP_RESET] = ANYTIME,
        [QP_ERR] = ANYTIME,
        [QP_RTS] = {
            .uc = SETS(0,                                          CUR | ACCESS),
            .ud = SETS(0,                                          CUR | QKEY),
        },
    },
    [QP_ERR] = {
        [QP_RESET] = ANYTIME,
        [QP_ERR] = ANYTIME,
    },
};
/* clang-format on */

static const struct attribute_sets *sets_for(const struct qp *qp, enum qp_state to)
{
    static const struct attribute_sets nothing;
    const struct transition *t = &transitions[qp->state][to];

    switch (qp->service) {
    case SERVICE_RC:
        return &t->rc;
    case SERVICE_UC:
        return &t->uc;
    case SERVICE_UD:
        return &t->ud;
    case SERVICE_XRC:
        return qp_is_target(qp) ? &t->tgt : &t->ini;
    case SERVICE_RD:
    case SERVICE_CNP:
        break;
    }
    return &nothing; /* qp_new makes none of these */
}

/* --- judging: each check returns NULL or what is wrong --- */

struct change {
    const struct qp_attr *attr;
    uint32_t mask; /* enum qp_attr_set */
    enum qp_state to;
};

static const char *check_states(const struct qp *qp, const struct change *ch)
{
    if ((unsigned)ch->to >= QP_STATE_COUNT)
        return "state does not exist";
    if ((ch->mask & QP_ATTR_CUR_STATE) != 0 && ch->attr->cur_state != qp->state)
        return "the queue pair is not in the state that is given as the current one";
    if (!sets_for(qp, ch->to)->allowed)
        return "there is no transition from the present state to this one";
    return NULL;
}

/* IBA 11.2: all that is required, nothing that is not named for the transition. */
static const char *check_attributes(const struct qp *qp, const struct change *ch)
{
    const struct attribute_sets *sets = sets_for(qp, ch->to);
    uint32_t missing = sets->required & ~ch->mask;
    uint32_t extra = ch->mask & ~(sets->required | sets->optional | QP_ATTR_STATE);

    if (missing != 0)
        return complaint_text(first_of(missing), COMPLAINT_MISSING);
    if (extra != 0)
        return complaint_text(first_of(extra), COMPLAINT_NOT_ALLOWED);
    return NULL;
}

static const char *check_values(const struct qp *qp, const struct change *ch)
{
    for (uint32_t left = ch->mask; left != 0; left &= left - 1) {
        enum qp_attr_set name = first_of(left);

        if (!attribute_legal(name, ch->attr, &qp->engine->config))
            return complaint_text(name, COMPLAINT_OUT_OF_RANGE);
    }
    return NULL;
}

bool qp_is_draining(const struct qp *qp)
{
    return qp->state == QP_SQD && qp->requester.sq.head != qp->requester.sq.started;
}

/* IBA 10.3.1, SQD: attributes change only after what was started is done. */
static const char *check_drained(const struct qp *qp, const struct change *ch)
{
    if (ch->to == QP_SQD && qp_is_draining(qp))
        return "the send queue is not drained yet";
    return NULL;
}

static const char *judge(const struct qp *qp, const struct change *ch)
{
    const char *wrong = check_states(qp, ch);

    if (wrong == NULL)
        wrong = check_attributes(qp, ch);
    if (wrong == NULL)
        wrong = check_values(qp, ch);
    if (wrong == NULL)
        wrong = check_drained(qp, ch);
    return wrong;
}

/* --- carrying out --- */

/* What may fail for want of memory, before the state changes. Attributes are applied already. */
static int prepare(struct qp *qp, const struct change *ch)
{
    int error = 0;

    if ((ch->mask & QP_ATTR_DEST_RD_ATOMIC) != 0)
        error = responder_set_reads(qp, qp->attr.dest_rd_atomic);
    if (error == 0 && (ch->mask & QP_ATTR_AV) != 0)
        error = qp_connect(qp);
    return error;
}

static void enter_state(struct qp *qp, enum qp_state to)
{
    enum qp_state from = qp->state;

    switch (to) {
    case QP_RESET:
        qp_reset(qp);
        qp->attr = (struct qp_attr){.pmtu = qp->pmtu_created};
        break;
    case QP_ERR:
        farewell_say(qp);
        qp_enter_error(qp);
        break;
    case QP_RTR:
        responder_reset(qp, qp->attr.rq_psn);
        break;
    case QP_RTS:
        if (from == QP_RTR)
            requester_reset(qp, qp->attr.sq_psn);
        break;
    case QP_INIT:
    case QP_SQD:
    case QP_SQE:
        break;
    }
    qp->state = to;
    if (to == QP_SQD && from != QP_SQD)
        qp_drain(qp);
    if (to == QP_RTS && from != QP_RTS)
        qp_make_ready(qp);
}

int qp_modify(struct qp *qp, const struct qp_attr *attr, uint32_t mask, const char **why)
{
    const struct change ch = {
        .attr = attr,
        .mask = mask,
        .to = (mask & QP_ATTR_STATE) != 0 ? attr->state : qp->state,
    };
    const struct qp_attr before = qp->attr;
    const char *wrong = judge(qp, &ch);
    int error;

    if (wrong != NULL) {
        if (why != NULL)
            *why = wrong;
        return -EINVAL;
    }
    for (uint32_t left = mask; left != 0; left &= left - 1)
        apply_attribute(first_of(left), &qp->attr, attr);
    error = prepare(qp, &ch);
    if (error != 0) {
        qp->attr = before;
        if (why != NULL)
            *why = "no memory";
        return error;
    }
    enter_state(qp, ch.to);
    qp_touch(qp);
    return 0;
}

/* True from the state on in which the receive (send) side has a PSN of its own. */
static bool receives(enum qp_state state)
{
    return state == QP_RTR || state == QP_RTS || state == QP_SQD || state == QP_SQE;
}

static bool sends(enum qp_state state)
{
    return receives(state) && state != QP_RTR;
}

void qp_query(const struct qp *qp, struct qp_attr *attr, struct qp_cap *cap)
{
    *attr = qp->attr;
    attr->state = qp->state;
    attr->cur_state = qp->state;
    if (receives(qp->state))
        attr->rq_psn = qp->responder.epsn;
    if (sends(qp->state))
        attr->sq_psn = qp->requester.psn_next;
    *cap = qp->cap;
}
