/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process shows of its devices, queue pairs and counters to who watches it: a file in
 * memory, /dev/shm/uroce-UID/PID.START, written by the process alone and read by anybody who may.
 * The owner holds a lock (flock) on it for as long as it lives, so that a file without one is known
 * to be left behind.
 *
 *   +------+---------+---------+-- ...
 *   | head | qp 0    | qp 1    |       qp_capacity of them
 *   +------+---------+---------+-- ...
 *
 * sequence is odd while the owner writes; what was read is whole when it was even and the same
 * before and after.
 */
#ifndef UROCE_NODE_STAT_FILE_H
#define UROCE_NODE_STAT_FILE_H

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/counters.h"
#include "link/link.h"
#include "node/device.h"
#include "node/node.h"

#define STAT_FOLDER "/dev/shm"
#define STAT_FOLDER_PREFIX "uroce-" /* the user's number follows */
#define STAT_MAGIC "urocest"
#define STAT_VERSION 1u
#define STAT_PORTS_MAX 16u   /* those beyond are counted with the last */
#define STAT_QPS_MAX 65536u  /* as many as a process can have */
#define STAT_FILES_MAX 4096u /* looked at in one folder */

/* One device in use; a device has one port. */
struct stat_port {
    char device[DEVICE_NAME_MAX];
    char netdev[IF_NAMESIZE];
    struct qp_counters gone; /* of queue pairs that were destroyed */
    uint64_t downed;         /* how often the process saw it go down */
};

struct stat_qp {
    uint32_t used; /* 0: all else is stale */
    uint32_t port; /* index in ports */
    uint32_t qpn;
    uint32_t dest_qpn;
    uint32_t service; /* enum service */
    uint32_t state;   /* enum qp_state */
    uint32_t sq_psn;
    uint32_t una_psn;
    uint32_t epsn;
    uint32_t send_queued;
    struct gid src;
    struct gid dst;
    struct qp_counters counters;
};

struct stat_head {
    char magic[8];
    uint32_t version;
    uint32_t layout; /* stat_layout() of the writer: names and sizes of all that follows */
    uint32_t pid;
    uint32_t uid;
    uint64_t network; /* stat_network() of the writer */
    _Atomic uint32_t sequence;
    uint32_t qp_capacity;
    uint32_t port_count;
    uint64_t started_ns;   /* CLOCK_MONOTONIC */
    uint64_t published_ns; /* the same */
    char command[16];
    struct stat_port ports[STAT_PORTS_MAX];
    struct engine_counters engine;
    struct link_counters link;
    struct node_counters node;
};

/* A number that differs when the layout does: of another build, a file cannot be read. */
uint32_t stat_layout(void);

/* The network namespace of this process, by its inode; 0 when it cannot be told. */
uint64_t stat_network(void);

/* --- reading --- */

struct stat_snapshot {
    struct stat_head head;
    struct stat_qp *qps; /* head.qp_capacity of them, all in range; whether used or not */
};

/*
 * Reads one file whole. Returns 0; -ESTALE when its process is gone; else a negative errno and in
 * *why what is wrong with it, in static storage. Nothing in a file, and nothing that is done to it
 * meanwhile, does harm.
 */
int stat_read(int folder, const char *name, uid_t owner, struct stat_snapshot *out,
              const char **why);
void stat_snapshot_fini(struct stat_snapshot *s);

/* snapshot is NULL when the file at path cannot be read, for the reason why. Both are borrowed. */
typedef void (*stat_fn)(void *context, const struct stat_snapshot *snapshot, const char *path,
                        const char *why);

/*
 * Calls fn for each process of the user (of all users: everybody) that publishes. Files that
 * processes left behind are removed.
 */
void stat_each(uid_t user, bool everybody, stat_fn fn, void *context);

/* Removes what processes of the user left behind. */
void stat_sweep(uid_t user);

/* Opens the folder of a user's files. It must be that user's, and nobody else may write there. The
 * descriptor or a negative errno. */
int stat_folder_open(uid_t user);

/* --- totals --- */

/*
 * What a port has counted: its queue pairs, those that are gone too. What belongs to none (frames
 * that nobody could read) is told of a process's first port.
 */
struct stat_totals {
    struct engine_counters engine;
    struct link_counters link;
    uint64_t
        downed; /* told to each process that uses the port: not added up, the most that one saw */
};
void stat_totals(const struct stat_snapshot *s, uint32_t port, struct stat_totals *out);
void stat_totals_add(struct stat_totals *to, const struct stat_totals *more);

/* Who knows a counter by this name. */
enum stat_group {
    STAT_GROUP_PORT, /* the InfiniBand port counters: ports/1/counters */
    STAT_GROUP_HW,   /* adapters' and rxe's: ports/1/hw_counters */
};

struct stat_name {
    const char *name;
    enum stat_group group;
};

/* The name of that index; false past the last. */
bool stat_name_at(uint32_t index, struct stat_name *out);
uint64_t stat_value(uint32_t index, const struct stat_totals *totals);

#endif
