/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slots of a group: leased lowest first, and added, some at a time, when
 * all have an owner. Sockets are only ever added at the end, by one process at a
 * time, so their order in the kernel's group stays that of the slots.
 */
#include "link/group.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "link/group_private.h"
#include "link/refusal.h"

#define GROW_BYTE SLOT_COUNT

static int lock_byte(const struct group *g, short type, uint32_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return fcntl(g->memory, F_SETLK, &lock) ? -errno : 0;
}

bool group_slot_held(const struct group *g, uint8_t slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

    return fcntl(g->memory, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool has(uint32_t families, enum family f)
{
    return families >> f & 1;
}

static int add_slot(struct group *g, uint32_t slot)
{
    struct slot_sockets s = {.fd = {-1, -1}};
    int err = 0;

    for (enum family f = 0; f < FAMILY_COUNT && !err; f++) {
        if (has(g->shared->by_slot, f)) {
            s.fd[f] = slot_socket_make(f);
            err = s.fd[f] < 0 ? s.fd[f] : 0;
        }
    }
    if (!err)
        err = parking_put(&g->parking, slot, &s);
    slot_sockets_close(&s);
    return err;
}

int group_add_slots(struct group *g, uint32_t slot)
{
    uint32_t next = parking_count(&g->parking);
    uint32_t end = (slot / SLOTS_AT_ONCE + 1) * SLOTS_AT_ONCE + 1;
    int err = 0;

    if (end > SLOT_LAST + 1)
        end = SLOT_LAST + 1;
    while (next < end && !err) {
        err = add_slot(g, next);
        if (!err)
            next++;
    }
    return next > slot ? 0 : err;
}

static int grow(struct group *g, uint32_t slot)
{
    uint64_t deadline_ms = group_now_ms() + JOIN_TIMEOUT_MS;
    int err;

    while ((err = lock_byte(g, F_WRLCK, GROW_BYTE)) != 0) {
        if ((err != -EAGAIN && err != -EACCES) || group_now_ms() > deadline_ms)
            return err;
        usleep(JOIN_PAUSE_US);
    }
    err = group_add_slots(g, slot);
    lock_byte(g, F_UNLCK, GROW_BYTE);
    return err;
}

static int take_parked(struct group *g, uint32_t slot, struct slot_sockets *s)
{
    int err = parking_take(&g->parking, slot, s);

    if (err == -ENOENT) {
        err = grow(g, slot);
        if (!err)
            err = parking_take(&g->parking, slot, s);
    }
    return err;
}

/* Sockets that only this process has, of the families whose sockets are not parked. */
static int make_own(struct group *g, struct slot_sockets *s)
{
    for (enum family f = 0; f < FAMILY_COUNT; f++) {
        if (!has(g->shared->families & ~g->shared->by_slot, f))
            continue;
        s->fd[f] = g->own.fd[f] >= 0 ? g->own.fd[f] : slot_socket_make(f);
        g->own.fd[f] = -1;
        if (s->fd[f] < 0)
            return s->fd[f];
    }
    return 0;
}

/* own: with the sockets that are not parked; a guest is handed what comes to them. */
static int take_slot(struct group *g, uint32_t slot, struct slot_sockets *s, bool own)
{
    int err = 0;

    *s = (struct slot_sockets){{-1, -1}};
    if (g->shared->by_slot)
        err = take_parked(g, slot, s);
    if (!err && own)
        err = make_own(g, s);
    if (err)
        slot_sockets_close(s);
    return err;
}

/* Whether a slot that nobody holds is kept for a guest other than this one. */
static bool is_kept(struct shared_slot *r, uint64_t guest)
{
    uint64_t owner = atomic_load(&r->guest);
    uint64_t since_ms = atomic_load(&r->orphaned_ms);

    if (!owner || owner == guest)
        return false;
    if (!since_ms) {
        since_ms = group_now_ms();
        atomic_store(&r->orphaned_ms, since_ms);
    }
    return group_now_ms() - since_ms < ORPHAN_MS;
}

/* Returns 0, -EBUSY, or another negative errno with a sentence. */
static int lease_slot(struct group *g, uint32_t slot, uint64_t guest, char *error)
{
    struct shared_slot *r = &g->shared->slots[slot];
    int err = g->held[slot] ? -EBUSY : lock_byte(g, F_WRLCK, slot);

    if (err == -EAGAIN || err == -EACCES || err == -EBUSY)
        return -EBUSY;
    if (err)
        return refuse(error, err, "lease of slot %u: %s", slot, strerror(-err));
    if (is_kept(r, guest)) {
        lock_byte(g, F_UNLCK, slot);
        return -EBUSY;
    }
    g->held[slot] = true;
    atomic_store(&r->guest, guest);
    atomic_store(&r->orphaned_ms, 0);
    return 0;
}

void group_release(struct group *g, uint8_t slot)
{
    struct shared_slot *r = &g->shared->slots[slot];

    atomic_store(&r->guest, 0);
    atomic_store(&r->inbox, 0);
    g->held[slot] = false;
    lock_byte(g, F_UNLCK, slot);
}

/* The n-th slot to try for one who asks for any; while a group settles, lower ones are asked for.
 */
static uint32_t slot_in_turn(const struct group *g, uint32_t n)
{
    bool settling = group_now_ms() < atomic_load(&g->shared->settling_until_ms);

    return settling && n <= SLOTS_AT_ONCE ? SLOTS_AT_ONCE + SLOT_FIRST - n : n;
}

int group_lease(struct group *g, const struct lease *wanted, uint8_t *slot, struct slot_sockets *s,
                char *error)
{
    uint32_t i = wanted->slot;
    int err = -EBUSY;

    if (i) {
        err = lease_slot(g, i, wanted->guest, error);
        if (err == -EBUSY)
            return refuse(error, err, "slot %u is another process's now", i);
    }
    for (uint32_t n = SLOT_FIRST; n <= SLOT_LAST && err == -EBUSY; n++) {
        i = slot_in_turn(g, n);
        err = lease_slot(g, i, wanted->guest, error);
    }
    if (err == -EBUSY)
        return refuse(error, -EAGAIN, "no slot is free: %u processes run", SLOT_LAST);
    if (err)
        return err;
    err = take_slot(g, i, s, !wanted->guest);
    if (!err) {
        *slot = (uint8_t)i;
        return 0;
    }
    group_release(g, (uint8_t)i);
    if (err == -ETOOMANYREFS)
        return refuse(error, -EAGAIN,
                      "no slot is free: %u processes run, and the limit of open files (ulimit "
                      "-n) of user %u does not allow more",
                      i - 1, g->uid);
    return refuse(error, err, "sockets of slot %u: %s", i, strerror(-err));
}

int group_take_qp1(struct group *g, struct slot_sockets *s)
{
    *s = (struct slot_sockets){{-1, -1}};
    return g->shared->by_slot ? parking_take(&g->parking, SLOT_QP1, s) : 0;
}
