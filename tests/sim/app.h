/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The applications of a simulation: queue pairs on every host, random work
 * between them, completions polled now and then. Everything that is asked for
 * is told to the checkers.
 */
#ifndef UROCE_TESTS_SIM_APP_H
#define UROCE_TESTS_SIM_APP_H

#include <stddef.h>

#include "checkers/atomics.h"
#include "checkers/delivery.h"
#include "checkers/flow.h"
#include "checkers/requests.h"
#include "engine/cq.h"
#include "engine/memory.h"
#include "engine/qp.h"
#include "engine/xrc.h"
#include "sim/arena.h"
#include "sim/world.h"

#define HOST_CQS_MAX 3
#define SHARED_CELLS 4
#define HOST_CELLS (SHARED_CELLS + ENDPOINTS_MAX)
#define WINDOWS_MAX 6
#define SIM_QKEY 0x11111111u /* of all UD QPs */

struct app;

#define GROUPS 2 /* multicast groups of a simulation */

/* How an application learns of completions. */
enum cq_habit {
    CQ_POLLED,
    CQ_EVENTS,    /* polled only after an event */
    CQ_SOLICITED, /* as CQ_EVENTS for solicited ones, with a slow poll for the others */
};

struct app_cq {
    struct cq *cq;
    enum cq_habit habit;
    bool notified;
    uint32_t turns; /* since it was polled */
};

/* Receive requests that several QPs share. */
struct app_srq {
    struct srq *srq; /* NULL: there is none */
    struct receive_queue queue;
    struct arena arena;
    uint32_t len;   /* of each request */
    uint32_t limit; /* whose event is to come; 0: none */
};

/* Places in app_host.srqs. */
enum {
    SRQ_PLAIN,
    SRQ_XRC_FIRST,
    SRQ_XRC_LAST = SRQ_XRC_FIRST + 1,
    HOST_SRQS,
};

struct app_host {
    struct host *host;
    struct pd *pd;
    struct pd *foreign_pd; /* keys of this one are no good for the QPs */
    struct app_cq cqs[HOST_CQS_MAX];
    uint32_t cq_count;
    struct app_srq srqs[HOST_SRQS]; /* SRQ_PLAIN, and those of the XRC domain */
    struct xrcd *xrcd;              /* NULL until an XRC target needs it */
    struct app_cq *xrc_cq;          /* of all its SRQs, so that the order of messages is seen */
    /* memory for atomics */
    struct book cell_book;
    struct region cell_region;
    struct cell cells[HOST_CELLS];
    uint32_t idle_turns;
    /* no receive request is posted till then; 0: all is well */
    uint64_t famine_until_ns;
    uint64_t rnr_naks_before; /* of all hosts, when it began */
};

/* What the peer may reach memory through beside the region itself. */
struct app_window {
    struct mw *mw;                  /* NULL: not made yet */
    const struct message *bound_by; /* NULL: it is not bound, and nobody is about to */
    const struct message *ended_by; /* NULL: nobody is about to end it */
    uint32_t key;
    uint32_t dead_key; /* that is or will be good no more; 0: that was seen to */
    uint32_t access;
    struct piece where;
    uint64_t addr; /* by which its first byte is named */
};

struct endpoint {
    struct app *app;
    struct app_host *home;
    uint32_t index;
    enum service service;
    struct endpoint *peer; /* NULL for UD */
    struct connection *connection;
    struct qp *qp;
    struct qp_attr attr;
    struct qp_init init;
    struct app_cq *send_cq;
    struct app_cq *recv_cq;
    struct app_cq own_cqs[2]; /* with small rings: for as much as can be outstanding, no more */
    struct channel channel;
    struct flow flow;
    struct receive_queue own;
    struct receive_queue *receives; /* own, or a shared one; XRC target: one of several */
    uint32_t member;                /* UD: its bit in message.members */
    uint32_t groups;                /* bit n: it is attached to group n */
    bool mute;                      /* the side of XRC that only receives */
    struct arena arena;             /* of requests */
    struct arena inbox;             /* of receive requests, so that neither starves the other */
    uint32_t receive_len;
    uint32_t receive_depth;
    /* what the peer may write and read */
    struct book target_book;
    struct region target;
    struct app_window windows[WINDOWS_MAX]; /* half of them of type 1, half of type 2 */
    /* what it still has to do */
    uint32_t messages_left;
    uint64_t bytes_left;
    uint32_t weights[WR_OPCODE_COUNT]; /* of each enum wr_opcode */
    uint32_t signal_percent;
    uint32_t unsignalled;    /* since the last signalled one */
    uint32_t released;       /* messages before this one gave their memory back */
    uint32_t comm_est_count; /* events */
    uint32_t last_wqe_count;
    uint32_t error_events; /* bit n: enum engine_event_type n */
    bool cut;              /* this life ended without the error state */
    uint32_t former_qpn;   /* of the QP before this one */
    uint64_t replaced_ns;  /* when that one was destroyed */
    bool draining;         /* in SQD */
    bool drained;          /* the event came */
};

enum connection_state {
    CONNECTION_RUNS,
    CONNECTION_BREAKS, /* one QP is destroyed, the other was not told */
    CONNECTION_CLOSES, /* both QPs are in error, completions are awaited */
    CONNECTION_RESTS,  /* packets of the old life are awaited */
};

struct connection {
    struct endpoint *ends[2];
    enum connection_state state;
    uint64_t rest_until_ns; /* or breaks */
    uint64_t born_ns;
    uint32_t lives;
    const struct refusal *refusal; /* the bad request of this life, or NULL */
    struct endpoint *refused;      /* who posted it */
    struct message *refused_message;
    struct mr *refusal_mr; /* a region made for it */
    struct mw *refusal_mw; /* a window made for it, or NULL */
    uint32_t goes_in;      /* turns until that region, or going, goes away; 0: never */
    struct piece going;
    struct piece gone; /* memory that is not there any more */
};

/* What a wr_id stands for. */
struct work {
    struct endpoint *ep;     /* of a send request, or of a receive request of a QP's own queue */
    struct message *message; /* or NULL */
    struct receive *receive; /* or NULL */
    const struct app_host *home;
};

struct app {
    struct world world;
    struct dice dice;
    struct app_host hosts[HOSTS_MAX];
    struct endpoint *endpoints[ENDPOINTS_MAX];
    uint32_t endpoint_count;
    uint32_t datagram_count; /* UD endpoints */
    struct connection connections[ENDPOINTS_MAX / 2];
    uint32_t connection_count;
    struct work *works;
    uint32_t work_count;
    uint32_t work_capacity;
    uint64_t message_ids;
    struct flow_limits limits;
    uint64_t next_cut_ns;
    uint64_t next_stop_ns;
    uint64_t next_end_ns;
    uint64_t next_famine_ns;
    bool finished;
};

static inline struct app *app_of(const struct host *h)
{
    return (struct app *)(void *)((char *)h->world - offsetof(struct app, world));
}

/* Errors are part of the plan: queue pairs get new lives. */
static inline bool app_expects_errors(const struct app *a)
{
    return a->world.plan.mode == MODE_exhaustion || a->world.plan.mode == MODE_refusal ||
           a->world.plan.mode == MODE_hostile;
}

/* Requests are acknowledged. */
static inline bool endpoint_is_reliable(const struct endpoint *ep)
{
    return channel_is_reliable(&ep->channel);
}

static inline bool app_is_hostile(const struct app *a)
{
    return a->world.plan.mode == MODE_hostile;
}

/* --- app.c --- */

void app_init(struct app *a, const struct plan *plan, struct ladder *ladder);
/* Runs to the end and checks all that is left to check. */
void app_run(struct app *a);
void app_fini(struct app *a);

/* A number for w to be found by in completions. */
uint64_t app_work(struct app *a, const struct work *w);

/* --- trouble.c --- */

/* Once in a while the wire is cut, a process stops, or an application forgets to receive. */
void trouble_turn(struct app *a);
/* The application of home posts no receive requests now. */
bool trouble_starves(const struct app_host *home);

/* Makes a shared receive queue at place; attr: its domain and CQ, or nothing. */
#define SRQ_REQUESTS 12u /* so many are kept posted */
#define SRQ_LOST_MAX 8u  /* so many may be lost with queue pairs that are destroyed */
#define SRQ_LEAST (SRQ_REQUESTS + 2 * SRQ_LOST_MAX) /* both ends of a connection may go */
void app_make_srq(struct app_host *home, struct app *a, uint32_t place, struct srq_attr attr);

/* --- turns.c --- */

void app_turn(struct host *h);
void app_event(struct host *h, const struct engine_event *event);
/* One turn of the application on home. Returns how much it did. */
uint32_t app_work_of(struct app *a, struct app_host *home);

/* --- watch.c --- */

/* Puts the watchers in place. */
const struct world_ops *app_watch(struct app *a, struct engine_config *config);

/* --- endpoint.c --- */

/* mute: XRC, the target. */
struct endpoint *endpoint_new(struct app *a, struct app_host *home, enum service service,
                              bool mute);
void endpoint_free(struct endpoint *ep);
void endpoint_connect(struct endpoint *a, struct endpoint *b);
void endpoint_start_datagrams(struct endpoint *ep);
/* A QP that was left in RTR is made ready to send. */
void endpoint_to_rts(struct endpoint *ep);
void endpoint_modify(struct endpoint *ep, enum qp_state state, uint32_t mask);
/* A QP with the attributes of before and another number. */
void endpoint_new_queue_pair(struct endpoint *ep);

/* --- lives.c --- */

/* Both QPs to the error state; nothing if they are on the way already. */
void connection_close(struct connection *c);
/* Both QPs are reset in the middle of everything. */
void connection_abort(struct connection *c);
/* One QP is destroyed in the middle of everything; the other hears of it later, or never. */
void connection_destroy(struct connection *c);
/* UD: the QP is destroyed in the middle of everything, and another one made. */
void endpoint_replace(struct endpoint *ep);
/* Moves a closing or resting connection on. */
void connection_turn(struct connection *c);

/* --- receiving.c --- */

/* Posts one receive request to the QP's own queue; with a key that is not good if bad. */
bool receiving_post(struct endpoint *ep, bool bad);
/* The QP was reset: its own receive requests are forgotten. */
void receiving_forget(struct endpoint *ep);

void receiving_turn(struct endpoint *ep);
/* The shared queue that the QP takes from, XRC: the first of those; NULL: its own. */
struct app_srq *receiving_srq(const struct endpoint *ep);
/* The event came. */
void receiving_limit_reached(struct app_srq *s);
void receiving_shared_turn(struct app *a, struct app_host *home);
/* Returns true when the sender is known to have asked for a solicited event. */
bool receiving_completed(struct app *a, const struct work *w, const struct completion *wc);

/* --- sending.c --- */

/* Posts a few requests. Returns how many. */
uint32_t sending_turn(struct endpoint *ep);
void sending_completed(struct endpoint *ep, struct message *m, const struct completion *wc);
/* Gives back the memory of requests that are over. */
void sending_release(struct endpoint *ep, bool life_over);

/* A request with everything filled in, and its SGEs; posts it and tells the checkers. */
struct draft {
    struct message *m;
    struct sge sges[PIECES_MAX];
    uint32_t sge_count;
    struct ah ah;
    struct mw_bind bind;
};
void sending_post(struct endpoint *ep, struct draft *d);
const struct endpoint *sending_destination(struct endpoint *ep);
void sending_aim_datagram(struct endpoint *ep, struct draft *d, const struct endpoint *to);
bool sending_must_signal(const struct endpoint *ep);
struct message *sending_message(struct endpoint *ep, enum wr_opcode opcode, uint32_t length);
/* Memory for the message from the arena, filled. False when there is no room. */
bool sending_take_memory(struct endpoint *ep, struct draft *d, uint32_t piece_count);
/* Says what a READ or WRITE will do to memory: its range of the peer's is filled in. */
void sending_claim(struct endpoint *ep, struct message *m);
/* The application writes the message to its memory. */
void sending_write_message(const struct message *m);

/* A request that is flushed at once: the QP is in error. */
void sending_post_late(struct endpoint *ep);

/* Whether a message may be posted that will take count receive requests of q. */
bool sending_has_receive(const struct endpoint *ep, const struct receive_queue *q, uint32_t count);

/* --- groups.c --- */

struct multicast group_id(const struct plan *p, uint32_t index);
uint32_t groups_members_on(const struct app *a, const struct host *h, const struct gid *gid);
/* Attaches a new QP to some groups. */
void groups_join(struct endpoint *ep);
/* The QP is about to be destroyed. */
void groups_leave(struct endpoint *ep);
/* Attaches or detaches it. */
void groups_change(struct endpoint *ep);
/* Posts a datagram for a group. False when it is not the time for it. */
bool groups_post(struct endpoint *ep);

/* --- windows.c --- */

/* Whether there is a window for a BIND_MW, LOCAL_INV or SEND_INV. True for all else. */
bool windows_can(struct endpoint *ep, enum wr_opcode opcode);
/* What the draft binds; it may be a window of type 1 to nothing. */
void windows_bind(struct endpoint *ep, struct draft *d);
/* m ends a window of ep, or of its peer. */
void windows_invalidate(struct endpoint *ep, struct message *m);
void windows_send_invalidate(struct endpoint *ep, struct message *m);
/* Looks at what was bound and ended. */
void windows_turn(struct endpoint *ep);
void windows_end_life(struct endpoint *ep);

/* What a request wants to reach. */
struct entry {
    const struct region *region;
    struct piece what;
    bool anywhere;  /* so much, wherever it is */
    uint32_t right; /* enum access_set */
};

/* A key that opens it. */
struct door {
    uint64_t addr;
    size_t offset; /* in the book */
    uint64_t len;
    uint32_t key;
    const struct app_window *through; /* NULL: the region itself */
};
struct door windows_door(struct endpoint *owner, const struct entry *e);

/* --- regions.c --- */

void regions_turn(struct app *a, struct app_host *home);

/* --- changes.c --- */

/* What applications may change while work is under way. */
void changes_turn(struct app *a, struct app_host *home);
void changes_drained(struct endpoint *ep);

/* --- refusals.c --- */

/* Posts one bad request. Returns false when it is not the time for it. */
bool refusal_turn(struct endpoint *ep);

/* Memory that is to go away does so in time. */
void refusal_memory_turn(struct connection *c);

/* The life of the connection is over: what the bad request should have led to is there. */
void refusal_check(struct connection *c);
void refusal_fini(struct connection *c);
/* Names bad requests that were never posted, in all seeds. Returns how many. */
uint32_t refusals_missing(bool print_all);

#endif
