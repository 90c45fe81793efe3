/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An MPI program of which every byte is checked: messages of many sizes and orders, collectives,
 * one-sided operations. Compiled by each MPI's own compiler. Exit status 0: all was right; else the
 * first fault is said and the job aborted.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_BYTES (4u << 20)
#define FLOOD 64
#define FLOOD_BYTES 3000

static int rank;
static int ranks;
static unsigned checks;

static void check(bool right, const char *what, int with)
{
    checks++;
    if (right)
        return;
    fprintf(stderr, "mpi_check: rank %d: %s with %d went wrong\n", rank, what, with);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *allocate(size_t len)
{
    void *memory = calloc(1, len > 0 ? len : 1);

    if (memory == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return memory;
}

static uint8_t pattern(int from, int to, int tag, size_t place)
{
    return (uint8_t)(place * 31 + place / 251 + (size_t)from * 7 + (size_t)to * 13 +
                     (size_t)tag * 101);
}

static void fill(uint8_t *bytes, size_t len, int from, int to, int tag)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(from, to, tag, i);
}

static bool is_filled(const uint8_t *bytes, size_t len, int from, int to, int tag)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern(from, to, tag, i))
            return false;
    return true;
}

/* Each hands to the next, at once: eager, multi-packet and rendezvous sizes, and those beside them.
 */
static void ring_of_all_sizes(void)
{
    const int next = (rank + 1) % ranks;
    const int previous = (rank + ranks - 1) % ranks;
    uint8_t *out = allocate(SIZE_MAX_BYTES + 1);
    uint8_t *in = allocate(SIZE_MAX_BYTES + 1);

    for (int size = 0; size <= (int)SIZE_MAX_BYTES; size = size < 4 ? size + 1 : size * 2) {
        for (int more = -1; more <= 1; more++) {
            const int len = size + more;
            MPI_Status status;
            int got;

            if (len < 0)
                continue;
            fill(out, (size_t)len, rank, next, len);
            MPI_Sendrecv(out, len, MPI_BYTE, next, 1, in, (int)SIZE_MAX_BYTES + 1, MPI_BYTE,
                         previous, 1, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            check(got == len && is_filled(in, (size_t)len, previous, rank, len), "a ring", len);
        }
    }
    free(out);
    free(in);
}

/* Everybody sends many to everybody before anybody receives, and receives them last first. */
static void flood_that_nobody_waits_for(void)
{
    const size_t count = (size_t)ranks * FLOOD;
    MPI_Request *sends = allocate(count * sizeof(*sends));
    MPI_Request *receives = allocate(count * sizeof(*receives));
    uint8_t *out = allocate(count * FLOOD_BYTES);
    uint8_t *in = allocate(count * FLOOD_BYTES);

    for (size_t i = 0; i < count; i++) {
        const int to = (int)(i / FLOOD);
        const int tag = (int)(i % FLOOD);

        fill(out + i * FLOOD_BYTES, FLOOD_BYTES, rank, to, tag);
        MPI_Isend(out + i * FLOOD_BYTES, FLOOD_BYTES, MPI_BYTE, to, tag, MPI_COMM_WORLD, &sends[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = count; i-- > 0;)
        MPI_Irecv(in + i * FLOOD_BYTES, FLOOD_BYTES, MPI_BYTE, (int)(i / FLOOD), (int)(i % FLOOD),
                  MPI_COMM_WORLD, &receives[i]);
    MPI_Waitall((int)count, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall((int)count, sends, MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < count; i++)
        check(
            is_filled(in + i * FLOOD_BYTES, FLOOD_BYTES, (int)(i / FLOOD), rank, (int)(i % FLOOD)),
            "a flood", (int)i);
    free(sends);
    free(receives);
    free(out);
    free(in);
}

static void broadcasts(int len)
{
    uint8_t *bytes = allocate((size_t)len);

    for (int root = 0; root < ranks; root++) {
        memset(bytes, 0xee, (size_t)len);
        if (rank == root)
            fill(bytes, (size_t)len, root, 0, 3);
        MPI_Bcast(bytes, len, MPI_BYTE, root, MPI_COMM_WORLD);
        check(is_filled(bytes, (size_t)len, root, 0, 3), "a broadcast", len);
    }
    free(bytes);
}

static void exchanges(int len)
{
    uint8_t *out = allocate((size_t)len * (size_t)ranks);
    uint8_t *in = allocate((size_t)len * (size_t)ranks);

    for (int to = 0; to < ranks; to++)
        fill(out + (size_t)len * (size_t)to, (size_t)len, rank, to, 4);
    MPI_Alltoall(out, len, MPI_BYTE, in, len, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        check(is_filled(in + (size_t)len * (size_t)from, (size_t)len, from, rank, 4), "an exchange",
              len);
    MPI_Allgather(out + (size_t)len * (size_t)rank, len, MPI_BYTE, in, len, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        check(is_filled(in + (size_t)len * (size_t)from, (size_t)len, from, from, 4), "a gathering",
              len);
    free(out);
    free(in);
}

static void sums(int count)
{
    int64_t *mine = allocate((size_t)count * sizeof(*mine));
    int64_t *all = allocate((size_t)count * sizeof(*all));
    bool right = true;

    for (int i = 0; i < count; i++)
        mine[i] = (int64_t)i * (rank + 1);
    MPI_Allreduce(mine, all, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        right = right && all[i] == (int64_t)i * ranks * (ranks + 1) / 2;
    check(right, "a sum", count);
    free(mine);
    free(all);
}

/* Everybody writes to, reads from and adds to the next one's memory. */
static void one_sided(void)
{
    const int next = (rank + 1) % ranks;
    const int previous = (rank + ranks - 1) % ranks;
    const int len = 1 << 20;
    uint8_t *ours = NULL;
    uint8_t *local = allocate((size_t)len);
    MPI_Win win;

    MPI_Win_allocate(len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&ours, &win);
    memset(ours, 0, (size_t)len);
    fill(local, (size_t)len, rank, next, 5);
    MPI_Win_fence(0, win);
    for (int at = 0, part = 1; at < len; at += part, part = part * 2 + 1) {
        const int bytes = part < len - at ? part : len - at;

        MPI_Put(local + at, bytes, MPI_BYTE, next, at, bytes, MPI_BYTE, win);
    }
    MPI_Win_fence(0, win);
    check(is_filled(ours, (size_t)len, previous, rank, 5), "puts", len);
    memset(local, 0, (size_t)len);
    MPI_Win_fence(0, win);
    MPI_Get(local, len, MPI_BYTE, next, 0, len, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    check(is_filled(local, (size_t)len, rank, next, 5), "a get", len);
    MPI_Win_free(&win);
    free(local);
}

/* Who asks only itself need not see what others ask of it: Open MPI's flush does not. */
static void serve_others(void)
{
    int found;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

/* A counter and a sum that all change at the same time, and a number that each may change in its
 * turn only: of that few, since all spin meanwhile. */
static void atomics(void)
{
    enum { ROUNDS = 200, TURNS = 8 };
    int64_t *ours = NULL;
    MPI_Win win;

    MPI_Win_allocate(4 * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                     (void *)&ours, &win);
    memset(ours, 0, 4 * sizeof(int64_t));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int64_t i = 0; i < ROUNDS; i++) {
        const int64_t one = 1;
        int64_t before = -1;

        MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Accumulate(&i, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_flush(0, win);
        check(before >= i && before < (int64_t)ROUNDS * ranks, "a fetched counter", (int)i);
    }
    for (int64_t i = 0; i < TURNS; i++) {
        const int64_t expected = i * ranks + rank;
        const int64_t wanted = expected + 1;
        int64_t found = -1;

        while (found != expected) {
            MPI_Compare_and_swap(&wanted, &expected, &found, MPI_INT64_T, 0, 2, win);
            MPI_Win_flush(0, win);
            serve_others();
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        check(ours[0] == (int64_t)ROUNDS * ranks, "a counter", ROUNDS);
        check(ours[1] == (int64_t)ROUNDS * (ROUNDS - 1) / 2 * ranks, "an accumulated sum", ROUNDS);
        check(ours[2] == (int64_t)TURNS * ranks, "turns", TURNS);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ring_of_all_sizes();
    flood_that_nobody_waits_for();
    for (int len = 1; len <= 1 << 18; len *= 8) {
        broadcasts(len);
        exchanges(len);
        sums(len);
    }
    one_sided();
    atomics();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("mpi_check: %d ranks, %u checks each and more, all right\n", ranks, checks);
    MPI_Finalize();
    return 0;
}
