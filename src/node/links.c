/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The links of this process: the UDP link at the bottom with the recording as its
 * tap, and upon it what the settings ask for. So a recording shows what was on the wire: not what
 * faults kept from leaving, but all that came. What links did is told on standard error at the end,
 * unasked: who has faults made wants to know whether there were any.
 */
#include "node/node_private.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "link/fault.h"
#include "link/record.h"
#include "link/udp.h"

#define REPORT_SIZE 4096u

static_assert(NODE_ERROR_SIZE >= UDP_ERROR_LEN, "links write their sentences there");
static_assert(NODE_ERROR_SIZE >= FAULT_ERROR_SIZE + 32, "and the name of the setting goes before");

static struct udp_config udp_config_of(const struct settings *s)
{
    return (struct udp_config){
        .no_gso = !s->gso,
        .no_gro = !s->gro,
        .no_bpf = !s->bpf,
        .no_guests = !s->guests,
        .raw = s->raw,
        .send_sockets = (uint32_t)s->send_sockets,
        .receive_buffer = s->receive_buffer == SETTING_AUTO ? 0 : (uint32_t)s->receive_buffer,
    };
}

/* Wraps the link if faults are asked for. */
static int wrap_in_faults(struct node *n, const struct settings *s, char error[NODE_ERROR_SIZE])
{
    struct fault_plan plan;
    struct fault_config config = {.plan = &plan, .now = node_now};
    char sentence[FAULT_ERROR_SIZE];
    uint32_t drawn = 0;
    int result;

    if (s->fault[0] == '\0')
        return 0;
    result = fault_plan_parse(s->fault, &plan, sentence);
    if (result != 0) {
        snprintf(error, NODE_ERROR_SIZE, "UROCE_FAULT: %s", sentence);
        return result;
    }
    if (!plan.has_seed && getrandom(&drawn, sizeof(drawn), 0) < 0)
        return -errno;
    config.seed = plan.has_seed ? plan.seed : drawn;
    result = fault_link_open(&config, n->udp, &n->link);
    n->fault_seed = config.seed;
    n->faults = result == 0;
    return result;
}

/* A recording that ends is told always: somebody counts on it. */
static void complain(const char *line)
{
    fprintf(stderr, "uroce: %s\n", line);
}

/* Without a recording the program goes on. */
static void record(struct node *n, const struct settings *s)
{
    const struct record_config config = {
        .path = s->record,
        .limit = s->record_limit,
        .files = (uint32_t)s->record_files,
        .pid = getpid(),
        .program = program_invocation_short_name,
        .now = node_now,
        .complain = complain,
    };
    char sentence[RECORD_ERROR_SIZE];

    if (s->record[0] == '\0')
        return;
    if (record_open(&config, &n->record, sentence) != 0) {
        complain(sentence);
        n->record = NULL;
        return;
    }
    n->udp->tap = record_tap(n->record);
}

int links_open(struct node *n, const struct settings *s, uint8_t *slot, char error[NODE_ERROR_SIZE])
{
    const struct udp_config config = udp_config_of(s);
    int result = udp_link_open(&config, &n->udp, slot, error);

    n->faults = false;
    n->record = NULL;
    n->link = NULL;
    if (result != 0)
        return result;
    n->link = n->udp;
    error[0] = '\0';
    result = wrap_in_faults(n, s, error);
    if (result == 0) {
        record(n, s);
        return 0;
    }
    if (error[0] == '\0')
        snprintf(error, NODE_ERROR_SIZE, "cannot start: %s", strerror(-result));
    links_close(n);
    return result;
}

uint64_t links_deadline(const struct node *n)
{
    uint64_t of_link = link_deadline(n->link);
    uint64_t of_record = n->record != NULL ? record_deadline(n->record) : ENGINE_NEVER;

    return of_link < of_record ? of_link : of_record;
}

void links_advance(struct node *n, uint64_t now)
{
    if (n->record != NULL && record_deadline(n->record) <= now)
        record_write(n->record);
}

void links_abandon(struct node *n)
{
    link_abandon(n->link);
    if (n->record != NULL)
        record_abandon(n->record);
    n->link = NULL;
    n->udp = NULL;
    n->record = NULL;
}

void links_close(struct node *n)
{
    link_close(n->link);
    if (n->record != NULL)
        record_close(n->record);
    n->link = NULL;
    n->udp = NULL;
    n->record = NULL;
}

/* One write for all of it, so that the reports of several processes do not mix. */
static void report_faults(const struct node *n)
{
    char text[REPORT_SIZE];
    int len =
        snprintf(text, sizeof(text), "uroce: faults in process %d (%s), seed %llu:\n", (int)n->pid,
                 program_invocation_short_name, (unsigned long long)n->fault_seed);

    fault_link_report(n->link, "uroce:   ", text + len, sizeof(text) - (size_t)len);
    fputs(text, stderr);
}

void links_finish(struct node *n)
{
    if (n->link == NULL)
        return;
    link_finish(n->link);
    if (n->record != NULL)
        record_write(n->record);
    if (n->faults)
        report_faults(n);
}
