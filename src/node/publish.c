/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's side of the file. It is mapped, so that publishing costs no system call and a program
 * that closes all descriptors does no harm; its pages are there before they are mapped, so that a
 * full /dev/shm is an error code and not a signal.
 */
#include "node/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/view.h"
#include "link/own_descriptor.h"
#include "node/node_private.h"
#include "node/stat_file.h"

#define PUBLISH_NS 100000000u
/* Queue pairs shown in one go; the others follow in the next. */
#define PUBLISH_QPS_MAX 1024u
#define CAPACITY_MIN 16u
#define NAME_SIZE 64

struct publisher {
    int fd; /* holds the lock; may be closed or another file by now, if the program closes all */
    dev_t device;
    ino_t inode;
    int folder;
    char name[NAME_SIZE];
    struct stat_head *head; /* the mapping */
    size_t len;
    uint64_t published_ns;
    uint64_t packets; /* counted when it was last published */
    uint64_t datagrams;
    bool changed; /* in another way */

    uint32_t *free_records; /* numbers; room for all */
    uint32_t free_count;
};

static struct stat_qp *records(const struct publisher *p)
{
    return (struct stat_qp *)(p->head + 1);
}

static size_t file_len(uint32_t capacity)
{
    return sizeof(struct stat_head) + capacity * sizeof(struct stat_qp);
}

/* --- the file --- */

static bool fd_is_ours(const struct publisher *p)
{
    struct stat st;

    return fstat(p->fd, &st) == 0 && st.st_dev == p->device && st.st_ino == p->inode;
}

/* Maps len bytes of the file, which exist after it. 0 or a negative errno. */
static int map(struct publisher *p, size_t len)
{
    struct rlimit limit;
    void *memory;
    int error;

    /* Beyond its limit the kernel would send SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < len)
        return -EFBIG;
    error = posix_fallocate(p->fd, 0, (off_t)len);
    if (error != 0)
        return -error;
    memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    if (p->head != NULL)
        munmap(p->head, p->len);
    p->head = memory;
    p->len = len;
    return 0;
}

/* Room for as many records; what there is stays. 0 or a negative errno, and nothing changed. */
static int grow(struct publisher *p, uint32_t capacity)
{
    uint32_t before = p->head != NULL ? p->head->qp_capacity : 0;
    uint32_t *list;
    int error;

    if (capacity > STAT_QPS_MAX || (p->head != NULL && !fd_is_ours(p)))
        return -ENOSPC;
    list = calloc(capacity, sizeof(*list));
    if (list == NULL)
        return -ENOMEM;
    error = map(p, file_len(capacity));
    if (error != 0) {
        free(list);
        return error;
    }
    if (p->free_count > 0)
        memcpy(list, p->free_records, p->free_count * sizeof(*list));
    free(p->free_records);
    p->free_records = list;
    /* The lowest is taken first. */
    for (uint32_t i = capacity; i > before; i--)
        p->free_records[p->free_count++] = i - 1;
    p->head->qp_capacity = capacity;
    return 0;
}

static int folder_make(void)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/%s%u", STAT_FOLDER, STAT_FOLDER_PREFIX, (unsigned)geteuid());
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -errno;
    return stat_folder_open(geteuid());
}

/* Makes the file under a name that readers do not look at, and locks it. */
static int file_make(struct publisher *p, const char *name)
{
    struct stat st;

    unlinkat(p->folder, name, 0);
    p->fd = own_descriptor(
        openat(p->folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (p->fd < 0)
        return -errno;
    if (flock(p->fd, LOCK_EX | LOCK_NB) != 0 || fstat(p->fd, &st) != 0)
        return -errno;
    p->device = st.st_dev;
    p->inode = st.st_ino;
    return grow(p, CAPACITY_MIN);
}

static void fill_head(struct stat_head *h, const struct node *n)
{
    *h = (struct stat_head){
        .magic = STAT_MAGIC,
        .version = STAT_VERSION,
        .layout = stat_layout(),
        .pid = (uint32_t)n->pid,
        .uid = geteuid(),
        .network = stat_network(),
        .qp_capacity = h->qp_capacity,
        .started_ns = node_now(),
    };
    snprintf(h->command, sizeof(h->command), "%s", program_invocation_short_name);
}

static void close_all(struct publisher *p)
{
    if (p->head != NULL)
        munmap(p->head, p->len);
    if (p->fd >= 0 && (p->head == NULL || fd_is_ours(p)))
        close(p->fd);
    free(p->free_records);
    free(p);
}

/* 0 or a negative errno. */
static int start(struct publisher *p, const struct node *n)
{
    char unfinished[NAME_SIZE + 8];
    int error;

    p->folder = folder_make();
    if (p->folder < 0)
        return p->folder;
    snprintf(p->name, sizeof(p->name), "%d.%llx", (int)n->pid, (unsigned long long)node_now());
    snprintf(unfinished, sizeof(unfinished), ".%s", p->name);
    error = file_make(p, unfinished);
    if (error == 0) {
        fill_head(p->head, n);
        if (renameat(p->folder, unfinished, p->folder, p->name) != 0)
            error = -errno;
    }
    if (error != 0)
        unlinkat(p->folder, unfinished, 0);
    close(p->folder);
    return error;
}

void publish_open(struct node *n)
{
    struct publisher *p;
    int error = -ENOMEM;

    n->publisher = NULL;
    if (!settings_get()->stat)
        return;
    stat_sweep(geteuid());
    p = calloc(1, sizeof(*p));
    if (p != NULL) {
        p->fd = -1;
        p->changed = true;
        error = start(p, n);
        if (error != 0)
            close_all(p);
    }
    if (error == 0)
        n->publisher = p;
    else
        log_info("not shown to uroce stat: %s", strerror(-error));
}

void publish_close(struct node *n)
{
    struct publisher *p = n->publisher;
    int folder;

    if (p == NULL)
        return;
    n->publisher = NULL;
    folder = stat_folder_open(geteuid());
    if (folder >= 0) {
        unlinkat(folder, p->name, 0);
        close(folder);
    }
    close_all(p);
}

void publish_abandon(struct node *n)
{
    if (n->publisher != NULL)
        close_all(n->publisher);
    n->publisher = NULL;
}

/* --- what is in it --- */

uint32_t node_port_tag(struct node *n, const char *device, const char *netdev)
{
    struct publisher *p = n->publisher;
    struct stat_head *h;
    uint32_t i = 0;

    if (p == NULL)
        return 0;
    h = p->head;
    while (i < h->port_count && strcmp(h->ports[i].device, device) != 0)
        i++;
    if (i == STAT_PORTS_MAX)
        return STAT_PORTS_MAX - 1;
    if (i == h->port_count) {
        snprintf(h->ports[i].device, sizeof(h->ports[i].device), "%s", device);
        snprintf(h->ports[i].netdev, sizeof(h->ports[i].netdev), "%s", netdev);
        atomic_thread_fence(memory_order_release);
        h->port_count++;
    }
    return i;
}

/* The QP's record, one of its own from the first time on; NULL when there is no room. */
static struct stat_qp *record_of(struct publisher *p, struct qp *qp)
{
    uint32_t number = qp_published(qp);

    if (number == 0) {
        if (p->free_count == 0 && grow(p, 2 * p->head->qp_capacity) != 0)
            return NULL;
        number = p->free_records[--p->free_count] + 1;
        qp_set_published(qp, number);
    }
    return &records(p)[number - 1];
}

static void show(struct publisher *p, struct qp *qp)
{
    struct stat_qp *record = record_of(p, qp);
    struct qp_view v;

    if (record == NULL)
        return;
    qp_view(qp, &v);
    *record = (struct stat_qp){
        .used = 1,
        .port = v.port_tag < p->head->port_count ? v.port_tag : 0,
        .qpn = v.qpn,
        .dest_qpn = v.dest_qpn,
        .service = (uint32_t)v.service,
        .state = (uint32_t)v.state,
        .sq_psn = v.sq_psn.value,
        .una_psn = v.una.value,
        .epsn = v.epsn.value,
        .send_queued = v.send_queued,
        .src = v.src,
        .dst = v.dst,
        .counters = v.counters,
    };
}

/* Before and after a change that readers must see whole. */
static void begin_writing(struct stat_head *h)
{
    uint32_t s = atomic_load_explicit(&h->sequence, memory_order_relaxed);

    atomic_store_explicit(&h->sequence, s + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static void end_writing(struct stat_head *h)
{
    uint32_t s = atomic_load_explicit(&h->sequence, memory_order_relaxed);

    atomic_store_explicit(&h->sequence, s + 1, memory_order_release);
}

void node_port_downed(struct node *n, uint32_t port_tag, uint64_t count)
{
    struct publisher *p = n->publisher;

    if (p == NULL || port_tag >= p->head->port_count)
        return;
    begin_writing(p->head);
    p->head->ports[port_tag].downed = count;
    end_writing(p->head);
}

/* What counts as it went with a queue pair goes on to count for its port. */
void publish_qp_gone(struct node *n, struct qp *qp)
{
    struct publisher *p = n->publisher;
    struct stat_totals total = {0}, gone = {0};
    uint32_t number = qp_published(qp);
    struct stat_port *port;
    struct qp_view v;

    if (p == NULL || p->head->port_count == 0)
        return;
    qp_view(qp, &v);
    port = &p->head->ports[v.port_tag < p->head->port_count ? v.port_tag : 0];
    memcpy(&total.engine, &port->gone, sizeof(port->gone));
    memcpy(&gone.engine, &v.counters, sizeof(v.counters));
    stat_totals_add(&total, &gone);
    begin_writing(p->head);
    memcpy(&port->gone, &total.engine, sizeof(port->gone));
    if (number != 0)
        records(p)[number - 1].used = 0;
    end_writing(p->head);
    if (number != 0)
        p->free_records[p->free_count++] = number - 1;
    p->changed = true;
}

static bool moved(const struct node *n, const struct publisher *p)
{
    return p->changed || engine_touched(n->engine) || engine_packets(n->engine) != p->packets ||
           n->link->counters.rcv_datagrams != p->datagrams;
}

uint64_t publish_deadline(const struct node *n)
{
    const struct publisher *p = n->publisher;

    return p != NULL && moved(n, p) ? p->published_ns + PUBLISH_NS : ENGINE_NEVER;
}

void publish_advance(struct node *n, uint64_t now)
{
    struct publisher *p = n->publisher;
    struct stat_head *h;
    struct qp *qp;

    if (p == NULL || now < p->published_ns + PUBLISH_NS || !moved(n, p))
        return;
    begin_writing(p->head);
    for (uint32_t i = 0; i < PUBLISH_QPS_MAX && (qp = engine_touched_next(n->engine)) != NULL; i++)
        show(p, qp);
    h = p->head; /* there may be a new mapping */
    h->engine = *engine_counters(n->engine);
    h->link = n->link->counters;
    h->node = n->counters;
    h->node.pokes = atomic_load_explicit(&n->pokes, memory_order_relaxed);
    h->published_ns = now;
    end_writing(h);
    p->packets = engine_packets(n->engine);
    p->datagrams = h->link.rcv_datagrams;
    p->published_ns = now;
    p->changed = false;
}
